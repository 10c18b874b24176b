"""Whether and when a database may have been written to, by its `-wal` file alone."""

import asyncio
import os
import time

import pytest

from headrace.store import _written
from headrace.store._written import COARSE_NS, PAUSE_S, WriteLog, Written


@pytest.fixture
def wal(tmp_path):
    path = tmp_path / "store.db-wal"
    path.write_bytes(b"frames")
    return path


def aged(path, seconds):
    at = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(at, at))


def test_a_log_that_stays_as_it_is_says_so_and_any_change_shows(wal):
    log = WriteLog(wal)
    aged(wal, 60)
    assert [log.may_have_changed() for _ in range(3)] == [True, False, False]
    aged(wal, 30)
    assert [log.may_have_changed() for _ in range(2)] == [True, False]
    wal.write_bytes(b"frames and more")
    aged(wal, 30)
    assert [log.may_have_changed() for _ in range(2)] == [True, False]
    wal.unlink()
    wal.write_bytes(b"frames and more")
    aged(wal, 30)
    assert log.may_have_changed()


def test_a_change_of_this_very_moment_is_looked_at_until_no_later_one_can_hide_behind_its_time(wal):
    log = WriteLog(wal)
    aged(wal, 0)
    assert [log.may_have_changed() for _ in range(3)] == [True, True, True]
    aged(wal, 2 * COARSE_NS / 1e9)
    assert [log.may_have_changed() for _ in range(2)] == [True, False]
    # Its time has not changed, but the last call that said so came while it was too late to tell.
    aged(wal, -0.01)
    assert [log.may_have_changed() for _ in range(2)] == [True, True]


def test_without_a_log_nothing_is_ruled_out(tmp_path):
    log = WriteLog(tmp_path / "store.db-wal")
    assert [log.may_have_changed() for _ in range(2)] == [True, True]


class Heard:
    """Counts, and lets a test wait for the next."""

    def __init__(self):
        self.count = 0
        self._more = asyncio.Event()

    def __call__(self):
        self.count += 1
        self._more.set()

    async def next(self):
        await asyncio.wait_for(self._more.wait(), 10)
        self._more.clear()


def test_the_kernel_tells_of_a_write_and_of_many_close_together_once(wal):
    async def run():
        heard = Heard()
        written = Written(asyncio.get_running_loop(), wal, heard)
        with wal.open("ab", buffering=0) as other:
            began = time.monotonic()
            for _ in range(50):
                other.write(b"frame")
            await heard.next()
            other.write(b"frame")
            await heard.next()
        assert (heard.count, time.monotonic() - began >= PAUSE_S) == (2, True)
        written.close()
        wal.write_bytes(b"nobody listens")
        await asyncio.sleep(0)
        assert heard.count == 2

    asyncio.run(run())


def test_a_file_that_takes_its_place_is_watched_in_turn(wal):
    async def run():
        heard = Heard()
        written = Written(asyncio.get_running_loop(), wal, heard)
        other = wal.with_name("other")
        other.write_bytes(b"frames")
        other.rename(wal)
        await heard.next()
        wal.write_bytes(b"more frames")
        await heard.next()
        # Without a file there is nothing to watch, and nothing can be ruled out either.
        wal.unlink()
        for _ in range(3):
            await heard.next()
        assert heard.count >= 5
        written.close()

    asyncio.run(run())


def test_without_the_kernel_s_help_a_timer_looks(wal, monkeypatch):
    def refuse(_path):
        raise OSError("no watches are left")

    async def run():
        aged(wal, 60)
        heard = Heard()
        written = Written(asyncio.get_running_loop(), wal, heard)
        await heard.next()
        assert heard.count == 1
        wal.write_bytes(b"frames and more")
        await heard.next()
        assert heard.count >= 2
        written.close()

    monkeypatch.setattr(_written, "FileWatchRef", refuse)
    asyncio.run(run())
