"""Whether a database may have been written to, by its `-wal` file alone."""

import os
import time

import pytest

from headrace.store._sqlite import COARSE_NS, WriteLog


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
