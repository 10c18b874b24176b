"""The ledger of a gateway: what is written when, and what happens while the store is away."""

from __future__ import annotations

import asyncio
import errno
import json
import pathlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.causes import Cause
from headrace.credentials import Status
from headrace.node import SCHEMA, Node
from headrace.node._journal import Journal
from headrace.node._ledger import rows_of
from headrace.node._tables import ATTEMPT_COLUMNS, REQUEST_COLUMNS
from headrace.requests import Refusal
from headrace.store import Schema, SchemaTooNew, Store, open_store
from tests.support.ledger import attempt, settled

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


def run(body: Any, limit: float = 25) -> None:
    async def whole() -> None:
        async with asyncio.timeout(limit):
            await body()

    asyncio.run(whole())


async def rows(store: Store, sql: str = "SELECT request_id FROM node_requests ORDER BY request_id") -> list[Any]:
    async with store.transaction() as tx:
        return [row[0] if len(row) == 1 else row for row in await tx.fetch(sql)]


async def until(true: Any) -> None:
    while not true():  # noqa: ASYNC110 - what it waits for are facts, which have no event
        await asyncio.sleep(0.005)


def test_a_settled_request_is_one_row_and_each_attempt_one() -> None:
    async def body() -> None:
        node = Node("memory:", journals=None, clock=time.time)
        await node.start()
        failed = attempt(
            1, credential="first", cause=Cause.RATE_LIMIT, kind="rate_limit", status=429, marked=Status.COOLING
        )
        told = settled(
            7,
            key="team",
            asked="smart\0" + "x" * 600,
            price=(1.0, 2.0),
            attempts=(failed, attempt(2, credential="second")),
            input_tokens=1000,
            output_tokens=500,
            cached_input_tokens=None,
            events=9,
            total_s=0.5,
        )
        node.settled(told)
        await until(lambda: node.committed == 1)
        store: Any = node._store  # noqa: SLF001 - a store in memory has no other door
        request = dict(zip(REQUEST_COLUMNS, (await rows(store, "SELECT * FROM node_requests"))[0], strict=True))
        assert request["id"] == f"{node.id}-7"
        assert (request["gateway_key"], request["provider"], request["model"]) == ("team", "acme", "m")
        assert (request["input_tokens"], request["output_tokens"]) == (1000, 500)
        # Unknown is not 0.
        assert request["cached_input_tokens"] is None
        assert request["cost_usd"] == pytest.approx(0.002)
        assert len(request["asked"]) == 512
        assert "\0" not in request["asked"]
        first, second = (
            dict(zip(ATTEMPT_COLUMNS, row, strict=True))
            for row in await rows(store, "SELECT * FROM node_attempts ORDER BY attempt")
        )
        assert (first["credential"], first["cause"], first["status"], first["marked"]) == (
            "first",
            "rate_limit",
            429,
            "cooling",
        )
        assert (first["events"], first["usage_known"], first["cost_usd"]) == (0, 0, None)
        assert (second["credential"], second["cause"], second["events"], second["usage_known"]) == (
            "second",
            None,
            9,
            1,
        )
        await node.stop()

    run(body)


def test_rows_are_committed_in_groups_within_a_moment(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:{tmp_path}/store.db"

    async def body() -> None:
        node = Node(url, journals=None, clock=time.time)
        await node.start()
        other = await open_store(url)
        took = []
        for turn in range(20):
            began = time.perf_counter()
            for n in range(50):
                node.settled(settled(turn * 50 + n))
            await until(lambda turn=turn: node.committed == (turn + 1) * 50)
            took.append(time.perf_counter() - began)
        assert len(await rows(other)) == 1000
        # A busy machine is no finding: half of the groups show what the node's own part is.
        assert sorted(took)[10] < 0.02 + 0.03
        await other.close()
        await node.stop()

    run(body)


def test_a_row_that_is_written_twice_is_there_once(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:{tmp_path}/store.db"

    async def body() -> None:
        node = Node(url, journals=None, clock=time.time)
        await node.start()
        for _ in range(3):
            node.settled(settled(1))
        node.settled(settled(2))
        await until(lambda: node.committed == 4)
        await node.stop()
        store = await open_store(url)
        assert await rows(store) == ["req_1", "req_2"]
        assert len(await rows(store, "SELECT * FROM node_attempts")) == 2
        await store.close()

    run(body)


def test_a_store_that_goes_away_and_comes_back_misses_nothing(postgres: Postgres, tmp_path: pathlib.Path) -> None:
    url = postgres.database()

    async def body() -> None:
        node = Node(url, journals=tmp_path, clock=time.time)
        await node.start()
        node.settled(settled(1))
        await until(lambda: node.committed == 1)
        await asyncio.to_thread(postgres.stop)
        try:
            for n in range(2, 102):
                node.settled(settled(n))
                assert node.admit(None, None) is None
            await until(lambda: node.is_away and node.waiting == 100)
            journal = tmp_path / f"journal-{node.id}.jsonl"
            # What is in the file would outlive the node.
            await until(lambda: journal.exists() and journal.read_bytes().count(b"\n") == 100)
        finally:
            await asyncio.to_thread(postgres.start)
        await until(lambda: not node.is_away and node.waiting == 0)
        assert not journal.exists()
        node.settled(settled(102))
        await until(lambda: node.committed == 102)
        store = await open_store(url)
        assert len(await rows(store)) == 102
        assert len(set(await rows(store))) == 102
        await store.close()
        await node.stop()

    run(body)


def test_a_node_starts_without_its_store_and_finds_it_later(postgres: Postgres, tmp_path: pathlib.Path) -> None:
    url = postgres.database()

    async def body() -> None:
        await asyncio.to_thread(postgres.stop)
        try:
            node = Node(url, journals=tmp_path, clock=time.time)
            await node.start()
            assert node.is_away
            node.settled(settled(1))
            await until(lambda: node.waiting == 1)
        finally:
            await asyncio.to_thread(postgres.start)
        await until(lambda: node.committed == 1)
        await node.stop()

    run(body)


class Away:
    """A store that is not there yet, or is."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.there = False

    async def open(self, url: str) -> Store:
        return await open_store(url if self.there else "postgresql://127.0.0.1:1/none")


def test_a_full_journal_refuses_new_requests_and_keeps_what_it_has(tmp_path: pathlib.Path) -> None:
    away = Away(f"sqlite:{tmp_path}/store.db")

    async def body() -> None:
        node = Node(away.url, journals=tmp_path / "journals", clock=time.time, journal_limit=10, opener=away.open)
        await node.start()
        for n in range(10):
            assert node.admit(None, None) is None
            node.settled(settled(n))
        refused = node.admit(None, None)
        assert isinstance(refused, Refusal)
        assert (refused.status, refused.code) == (503, "store_unavailable")
        assert "journal" in refused.message
        # What was under way when it filled is kept all the same.
        node.settled(settled(10))
        away.there = True
        await until(lambda: not node.is_away)
        assert node.admit(None, None) is None
        assert node.committed == 11
        await node.stop()

    run(body)


def test_a_node_serves_without_its_store_for_a_stated_time() -> None:
    away = Away("memory:")
    now = [1000.0]

    async def body() -> None:
        node = Node("memory:", journals=None, clock=lambda: now[0], away_limit=60, opener=away.open)
        await node.start()
        now[0] += 60
        assert node.admit(None, None) is None
        now[0] += 1
        refused = node.admit(None, None)
        assert isinstance(refused, Refusal)
        assert "more than 60 s" in refused.message
        away.there = True
        await until(lambda: not node.is_away)
        assert node.admit(None, None) is None
        await node.stop()

    run(body)


def test_the_journal_of_a_node_that_is_gone_is_written_by_the_next(tmp_path: pathlib.Path) -> None:
    away = Away(f"sqlite:{tmp_path}/store.db")
    journals = tmp_path / "journals"

    async def body() -> None:
        gone = Node(away.url, journals=journals, clock=time.time, opener=away.open)
        await gone.start()
        for n in range(5):
            gone.settled(settled(n))
        await gone.stop()
        (left,) = journals.iterdir()
        assert left.stat().st_mode & 0o777 == 0o600
        # As a crash in the middle of a line would leave it.
        left.write_bytes(left.read_bytes() + json.dumps([["torn"]]).encode()[:-3])
        alive = Node(away.url, journals=journals, clock=time.time, opener=away.open)
        await alive.start()
        alive.settled(settled(6))
        await until(lambda: alive.waiting == 6)
        third = Node(away.url, journals=journals, clock=time.time, opener=away.open)
        away.there = True
        # The second one lives: its journal is its own.
        await third.start()
        assert third.waiting == 0
        await until(lambda: alive.committed == 6 and not alive.is_away)
        await third.stop()
        await alive.stop()
        assert list(journals.iterdir()) == []
        store = await open_store(away.url)
        assert len(await rows(store)) == 6
        await store.close()

    run(body)


def test_a_row_that_the_store_cannot_hold_does_not_stop_the_others(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.database()

    async def body() -> None:
        node = Node(url, journals=None, clock=time.time)
        await node.start()
        node.settled(settled(1))
        # No number of tokens is that great, and no column holds it.
        node.settled(settled(2, input_tokens=2**70))
        node.settled(settled(3))
        await until(lambda: node.committed == 2)
        assert not node.is_away
        await node.stop()
        store = await open_store(url)
        assert await rows(store) == ["req_1", "req_3"]
        await store.close()

    run(body)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "-2, which is lost" in told[0]


def test_a_stop_keeps_what_the_store_does_not_take_any_more(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path}/store.db"
    monkeypatch.setattr("headrace.node._node.STOP_S", 0.2)

    async def body() -> None:
        node = Node(url, journals=tmp_path / "journals", clock=time.time)
        await node.start()
        blocker = await open_store(url)
        async with blocker.transaction() as tx:
            # Another process that writes, and does not come to its end.
            await tx.execute("DELETE FROM node_requests")
            for n in range(5):
                node.settled(settled(n))
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(node.stop())
            await asyncio.sleep(0.4)
        await stopping
        await blocker.close()
        again = Node(url, journals=tmp_path / "journals", clock=time.time)
        await again.start()
        await until(lambda: not again.is_away and again.waiting == 0)
        await again.stop()
        store = await open_store(url)
        assert await rows(store) == [f"req_{n}" for n in range(5)]
        await store.close()

    run(body)


def test_a_full_disk_loses_nothing_and_keeps_no_node_away(tmp_path: pathlib.Path) -> None:
    away = Away(f"sqlite:{tmp_path}/store.db")
    journals = tmp_path / "journals"
    journals.mkdir()

    async def body() -> None:
        node = Node(away.url, journals=journals, clock=time.time, opener=away.open)
        # The kernel's own full disk.
        (journals / f"journal-{node.id}.jsonl").symlink_to("/dev/full")
        await node.start()
        for n in range(5):
            node.settled(settled(n))
            await asyncio.sleep(0.03)
        assert node.waiting == 5
        away.there = True
        await until(lambda: not node.is_away)
        assert (node.committed, node.waiting) == (5, 0)
        await node.stop()

    run(body)


def test_what_the_disk_did_not_take_is_written_with_the_next_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, "me")
    journal.add([rows_of("me", settled(1))])
    with monkeypatch.context() as full:

        def fsync(_: int) -> None:
            raise OSError(errno.ENOSPC, "no space")

        full.setattr("os.fsync", fsync)
        with pytest.raises(OSError, match="no space"):
            journal.add([rows_of("me", settled(2))])
    (path,) = tmp_path.iterdir()
    assert path.read_bytes().count(b"\n") == 1
    journal.add([rows_of("me", settled(3))])
    journal.close()
    other = Journal(tmp_path, "other")
    assert (other.adopt(), [request[0] for request, _ in other.first(9)]) == (3, ["me-1", "me-2", "me-3"])
    other.close()


def test_a_journal_of_another_version_stops_nobody(tmp_path: pathlib.Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    request, attempts = rows_of("old", settled(1))
    lines: list[Any] = [
        # Before the last two columns were there, after others came, and what is no row at all.
        [request[:-2], attempts],
        [["old-2", *request[1:], "new"], [[*one, "new"] for one in attempts]],
        [["old-3"], []],
        [[{"a": 1}], []],
        [{}, []],
        [1, 2],
        7,
    ]
    (journals / "journal-old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    async def body() -> None:
        node = Node(f"sqlite:{tmp_path}/store.db", journals=journals, clock=time.time)
        await node.start()
        await until(lambda: not node.is_away and node.waiting == 0)
        await node.stop()
        store = await open_store(f"sqlite:{tmp_path}/store.db")
        assert await rows(store, "SELECT id FROM node_requests ORDER BY id") == ["old-1", "old-2"]
        await store.close()
        assert list(journals.iterdir()) == []

    run(body)


def test_a_newer_store_stops_the_start(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:{tmp_path}/store.db"

    async def body() -> None:
        store = await open_store(url)
        await store.migrate(Schema("node", (*SCHEMA.migrations, "CREATE TABLE node_later (id BIGINT)")))
        await store.close()
        node = Node(url, journals=None, clock=time.time)
        with pytest.raises(SchemaTooNew):
            await node.start()

    run(body)
