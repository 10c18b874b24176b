"""The ledger of a gateway: what is written when, and what happens while the store is away."""

from __future__ import annotations

import asyncio
import errno
import json
import pathlib
import time
import types
from typing import TYPE_CHECKING, Any

import pytest

from headrace.causes import Cause
from headrace.credentials import Status
from headrace.node import SCHEMA, Node
from headrace.node._journal import Journal
from headrace.node._ledger import rows_of
from headrace.node._node import FLUSH_S
from headrace.node._retention import prune
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


def test_a_request_that_was_answered_at_once_is_one_row(tmp_path: pathlib.Path, postgres: Postgres) -> None:
    """Its only attempt is told by the request's row; whoever asks for attempts finds it beside the others."""

    async def body(url: str) -> None:
        node = Node(url, journals=None, clock=time.time)
        await node.start()
        facts = {"input_tokens": 3, "output_tokens": 0, "events": 5, "bytes_sent": 10, "bytes_received": 20}
        times = {"decide_s": 0.25, "total_s": 1.25}
        told = settled(1, attempts=(attempt(1, credential="c1", began=50.0),), price=(1.0, 1.0), **facts, **times)
        node.settled(told)
        failed = attempt(1, kind="timeout", cause=Cause.INTERRUPTED, status=None)
        node.settled(settled(2, attempts=(failed, attempt(2, credential="c2")), **facts))
        # Another model's attempt is never taken for the request's own.
        node.settled(settled(3, attempts=(attempt(1, model="other"),)))
        node.settled(settled(4, error=types.SimpleNamespace(kind="aborted"), finish=None))
        await until(lambda: node.committed == 4)
        await node.stop()
        store = await open_store(url)
        assert len(await rows(store)) == 4
        kept = await rows(store, "SELECT request, attempt FROM node_attempts ORDER BY request, attempt")
        assert kept == [(f"{node.id}-2", 1), (f"{node.id}-2", 2), (f"{node.id}-3", 1), (f"{node.id}-4", 1)]
        every = "SELECT request, attempt, credential FROM node_every_attempt ORDER BY request, attempt"
        assert await rows(store, every) == [
            (f"{node.id}-1", 1, "c1"),
            (f"{node.id}-2", 1, "first"),
            (f"{node.id}-2", 2, "c2"),
            (f"{node.id}-3", 1, "first"),
            (f"{node.id}-4", 1, "first"),
        ]
        folded = dict(
            zip(
                ATTEMPT_COLUMNS,
                (await rows(store, f"SELECT * FROM node_every_attempt WHERE request = '{node.id}-1'"))[0],  # noqa: S608
                strict=True,
            )
        )
        assert folded == {
            **dict.fromkeys(("cause", "kind", "marked")),
            "request": f"{node.id}-1",
            "attempt": 1,
            "provider": "acme",
            "model": "m",
            "credential": "c1",
            "status": 200,
            "bytes_sent": 10,
            "bytes_received": 20,
            "events": 5,
            "began": 50.0,
            "ended": 51.0,
            "usage_known": 1,
            "cost_usd": pytest.approx(3e-6),
        }
        await store.close()

    run(lambda: body(f"sqlite:{tmp_path}/store.db"))
    run(lambda: body(postgres.database()))


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


class Held:
    """A store whose writes wait until they may go on, and are counted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.written: list[list[str]] = []
        self.running = 0
        self.may = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def write(self, *statements: Any) -> None:
        assert self.running == 0
        self.running += 1
        self.written.append([row[3] for row in statements[0][1]])
        try:
            await self.may.wait()
            await self.store.write(*statements)
        finally:
            self.running -= 1


async def held_node(url: str, **options: Any) -> tuple[Node, Held]:
    held = Held(await open_store(url))

    async def opened(_: str) -> Any:
        return held

    node = Node(url, clock=time.time, opener=opened, **options)
    await node.start()
    return node, held


def test_what_is_settled_during_a_commit_waits_for_others_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that follows the one before at once would hold a row or two, and cost as much as one of many."""
    # Longer than any commit takes on a busy machine.
    window = 0.4
    monkeypatch.setattr("headrace.node._node.FLUSH_S", window)

    async def body() -> None:
        node, held = await held_node(f"sqlite:{tmp_path}/store.db", journals=None)
        node.settled(settled(1))
        await until(lambda: held.running)
        for n in (2, 3):
            node.settled(settled(n))
        held.may.set()
        await until(lambda: node.committed == 1)
        node.settled(settled(4))
        await until(lambda: node.committed == 4)
        assert held.written == [["req_1"], ["req_2", "req_3", "req_4"]]
        # What has waited for long enough while a commit took its time goes at once, in the order in which it came.
        held.may.clear()
        node.settled(settled(5))
        await until(lambda: held.running)
        for n in (6, 7, 8):
            node.settled(settled(n))
        await asyncio.sleep(window * 1.5)
        assert len(held.written) == 3
        began = time.monotonic()
        held.may.set()
        await until(lambda: len(held.written) == 4)
        assert held.written[3] == ["req_6", "req_7", "req_8"]
        assert time.monotonic() - began < window
        await node.stop()

    run(body)


def test_what_has_waited_at_the_edge_is_written_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.node._node.FLUSH_S", 30.0)

    async def body() -> None:
        node, held = await held_node(f"sqlite:{tmp_path}/store.db", journals=None)
        held.may.set()
        node.hasten()
        for n in (1, 2):
            node.settled(settled(n))
        node.hasten()
        await until(lambda: node.committed == 2)
        held.may.clear()
        node.settled(settled(3))
        node.hasten()
        await until(lambda: held.running)
        node.settled(settled(4))
        node.settled(settled(5))
        node.hasten()
        held.may.set()
        await until(lambda: node.committed == 5)
        assert held.written == [["req_1", "req_2"], ["req_3"], ["req_4", "req_5"]]
        await node.stop()

    run(body)


def test_a_stop_writes_what_is_left_after_what_is_being_written(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:{tmp_path}/store.db"

    async def body() -> None:
        node, held = await held_node(url, journals=tmp_path)
        node.settled(settled(1))
        await until(lambda: held.running)
        node.settled(settled(2))
        await asyncio.sleep(FLUSH_S * 2)
        stopping = asyncio.create_task(node.stop())
        await asyncio.sleep(0)
        # The last answers end while the gateway stops.
        node.settled(settled(3))
        held.may.set()
        await stopping
        assert held.written == [["req_1"], ["req_2", "req_3"]]
        store = await open_store(url)
        assert await rows(store) == ["req_1", "req_2", "req_3"]
        await store.close()

    run(body)
    assert not list(tmp_path.glob("journal-*"))


def test_a_commit_that_is_called_off_gives_its_rows_to_the_journal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.node._node.STOP_S", 0.1)

    async def body() -> None:
        node, held = await held_node(f"sqlite:{tmp_path}/store.db", journals=tmp_path)
        for n in (1, 2):
            node.settled(settled(n))
        await until(lambda: held.running)
        node.settled(settled(3))
        await node.stop()

    run(body)
    (journal,) = tmp_path.glob("journal-*")
    told = [json.loads(line)[0][3] for line in journal.read_text().splitlines()]
    assert told == ["req_1", "req_2", "req_3"]


def test_a_ledger_keeps_its_days_and_no_more(
    tmp_path: pathlib.Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older requests go with their attempts, a few at a time; nobody's settlement waits for all of it."""
    monkeypatch.setattr("headrace.node._retention.DELETE_AT_ONCE", 10)
    monkeypatch.setattr("headrace.node._node.CLEAN_S", 0.05)
    now = 1_000_000_000.0
    day = 86_400.0

    async def body(url: str) -> None:
        node = Node(url, journals=None, clock=lambda: now)
        await node.start()
        for n in range(60):
            told = settled(n, attempts=(attempt(1, kind="timeout"), attempt(2)) if n % 2 else ())
            told.at = now - 8 * day if n < 35 else now - 6 * day
            node.settled(told)
        await until(lambda: node.committed == 60)
        await asyncio.sleep(0.2)
        store = await open_store(url)
        # Without a limit, nothing goes.
        assert len(await rows(store)) == 60
        kept = Node(url, journals=None, clock=lambda: now, ledger_days=7)
        other = Node(url, journals=None, clock=lambda: now, ledger_days=7)
        await kept.start()
        await other.start()
        while len(await rows(store)) > 25:  # noqa: ASYNC110 - rows in a store have no event
            await asyncio.sleep(0.01)
        left = await rows(store, "SELECT id FROM node_requests ORDER BY at, id")
        assert sorted(left) == sorted(f"{node.id}-{n}" for n in range(35, 60))
        attempts = set(await rows(store, "SELECT request FROM node_attempts"))
        assert attempts == {f"{node.id}-{n}" for n in range(35, 60) if n % 2}
        for one in (node, kept, other):
            await one.stop()
        assert await prune(store, now - 7 * day) == 0
        assert await prune(store, now) == 25
        assert await rows(store, "SELECT count(*) FROM node_attempts") == [0]
        await store.close()

    run(lambda: body(f"sqlite:{tmp_path}/store.db"))
    run(lambda: body(postgres.database()))


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
        assert len(await rows(store, "SELECT * FROM node_every_attempt")) == 2
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


def test_rows_of_a_commit_that_does_not_end_count_until_the_store_has_them(tmp_path: pathlib.Path) -> None:
    async def body() -> None:
        node, held = await held_node(f"sqlite:{tmp_path}/store.db", journals=None, journal_limit=5)
        for n in range(3):
            node.settled(settled(n))
        await until(lambda: held.running)
        for n in range(3, 5):
            assert node.admit(None, None) is None
            node.settled(settled(n))
        assert node.waiting == 5
        refused = node.admit(None, None)
        assert isinstance(refused, Refusal)
        assert refused.code == "store_unavailable"
        held.may.set()
        await until(lambda: node.committed == 5)
        await until(lambda: node.waiting == 0)
        assert node.admit(None, None) is None
        await node.stop()

    run(body)


def test_a_node_serves_without_its_store_for_a_stated_time() -> None:
    away = Away("memory:")
    now, wall = [1000.0], [5e9]

    async def body() -> None:
        node = Node(
            "memory:",
            journals=None,
            clock=lambda: wall[0],
            steady=lambda: now[0],
            away_limit=60,
            opener=away.open,
        )
        await node.start()
        now[0] += 60
        # Somebody sets the clock: of how long the store was away it says nothing.
        for wall[0] in (6e9, 1e9):
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
    url, journals = f"sqlite:{tmp_path}/store.db", tmp_path / "journals"
    monkeypatch.setattr("headrace.node._node.STOP_S", 0.2)

    async def body() -> None:
        node = Node(url, journals=journals, clock=time.time)
        blocker = await open_store(url)
        await node.start()
        async with blocker.transaction() as tx:
            # Another process that writes, and does not come to its end.
            await tx.execute("DELETE FROM node_requests")
            for n in range(5):
                node.settled(settled(n))
            # By then a commit waits for it, and what is put away in order waits for the commit.
            await asyncio.sleep(0.25)
            began = time.monotonic()
            stopping = asyncio.create_task(node.stop())
            # Whoever stops us kills us soon: the rows are safe before the store lets go of anything.
            await until(lambda: sum(len(one.read_bytes().splitlines()) for one in journals.glob("journal-*")) == 5)
            assert time.monotonic() - began < 5
        await stopping
        await blocker.close()
        again = Node(url, journals=journals, clock=time.time)
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
