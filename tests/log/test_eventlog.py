"""One contract for the log over every store: order, compare and swap, keys, fencing, erasure, files."""

# ruff: noqa: S608 - the tests tamper with tables by statements of their own

import asyncio
import contextlib
import itertools

import pytest

from headrace.log import payloads as p
from headrace.log.artifacts import ARTIFACT_LIMIT, ArtifactError
from headrace.log.eventlog import (
    BATCH_LIMIT,
    PAYLOAD_LIMIT,
    ConflictError,
    EventLog,
    FencedError,
    KeyReusedError,
    UnknownRunError,
)
from headrace.log.jsonl import JsonlError, export_run, import_run, parse
from headrace.log.records import LogError, TamperedError
from headrace.log.schema import SCHEMA
from headrace.store import Schema, StoreUnavailable, open_store
from tests.support import runs

TICKS = itertools.count(1_700_000_000)


@contextlib.asynccontextmanager
async def opened(url):
    """A log of that store, with a clock of its own."""
    store = await open_store(url)
    try:
        yield await EventLog.over(store, clock=lambda: float(next(TICKS)))
    finally:
        await store.close()


async def written(log, payloads=None, run_id=runs.RUN):
    """A run's writer, after these."""
    writer = await log.create(run_id)
    for payload in runs.whole() if payloads is None else payloads:
        await writer.append(payload)
    return writer


def holds(scenario):
    """Run a scenario, which takes a function for stores' URLs, in an event loop."""

    def test(store_url):
        asyncio.run(scenario(store_url))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


@holds
async def test_events_come_back_in_order_gapless_and_verified(store_url):
    async with opened(store_url()) as log:
        writer = await written(log)
        records = await log.read(runs.RUN)
        assert [record.value() for record in records] == runs.whole()
        assert [record.seq for record in records] == list(range(1, writer.head + 1))
        verdict = await log.verify(runs.RUN)
        assert (verdict.ok, verdict.events) == (True, writer.head)
        assert [run.run_id for run in await log.runs()] == [runs.RUN]


@holds
async def test_a_run_begins_with_its_first_events_or_not_at_all(store_url):
    async with opened(store_url()) as log:
        await log.create("r0", *runs.begin())
        await log.artifacts.put("r0", b"kept")
        many = [*runs.begin(), *[p.UserMessage(text=f"{n}") for n in range(BATCH_LIMIT + 5)]]
        writer = await log.create("r1", *many, like="r0")
        assert [record.value() for record in await log.read("r1")] == many
        assert await log.artifacts.of_run("r1") == await log.artifacts.of_run("r0")
        with pytest.raises(ConflictError):
            await log.create("r1", *runs.begin())
        await writer.append(p.UserMessage(text="on"))
        assert (await log.verify("r1")).events == len(many) + 1


@holds
async def test_an_append_is_all_or_nothing(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        await writer.append(p.UserMessage(text="a"), key="k")
        with pytest.raises(KeyReusedError):
            await writer.append(p.UserMessage(text="b"), p.UserMessage(text="c"), key="k")
        assert writer.head == (await log.info(runs.RUN)).head == 3
        assert len(await log.read(runs.RUN)) == 3
        await writer.append(p.UserMessage(text="d"), p.UserMessage(text="e"), key="k2")
        assert [record.key for record in (await log.read(runs.RUN))[3:]] == ["k2", "k2#1"]


@holds
async def test_the_same_append_twice_adds_nothing(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        first = await writer.append(p.UserMessage(text="a"), p.UserMessage(text="b"), key="k")
        assert await writer.append(p.UserMessage(text="a"), p.UserMessage(text="b"), key="k") == first
        later = await log.open(runs.RUN)
        assert await later.append(p.UserMessage(text="a"), p.UserMessage(text="b"), key="k") == first
        assert (await log.info(runs.RUN)).head == 4
        with pytest.raises(KeyReusedError):
            await later.append(p.UserMessage(text="other"), key="k")
        unnamed = await later.append(p.UserMessage(text="c"))
        assert await later.append(p.UserMessage(text="c"), key=unnamed[0].key) == unnamed
        with pytest.raises(KeyReusedError):
            await later.append(p.UserMessage(text="other"), key=unnamed[0].key)
        assert (await log.info(runs.RUN)).head == 5


@holds
async def test_of_two_writers_the_earlier_is_fenced(store_url):
    async with opened(store_url()) as log:
        first = await written(log, runs.begin())
        second = await log.open(runs.RUN)
        with pytest.raises(FencedError, match="epoch 1 was fenced by epoch 2"):
            await first.append(p.UserMessage(text="stale"))
        await second.append(p.UserMessage(text="fresh"))
        with pytest.raises(FencedError):
            await first.append(p.UserMessage(text="stale"))
        assert (await log.read(runs.RUN))[-1].value() == p.UserMessage(text="fresh")


@holds
async def test_two_writers_of_one_epoch_do_not_overwrite(store_url):
    async with opened(store_url()) as log:
        first = await written(log, runs.begin())
        twin = await log.open(runs.RUN)
        other = await log.open(runs.RUN)
        other.epoch = twin.epoch = first.epoch = (await log.info(runs.RUN)).epoch
        await twin.append(p.UserMessage(text="a"))
        with pytest.raises(ConflictError, match="its head is event 3, not 2"):
            await other.append(p.UserMessage(text="b"))


@holds
async def test_many_writers_at_once_leave_one_gapless_chain(store_url):
    async with opened(store_url()) as log:
        await written(log, runs.begin())
        writers = [await log.open(runs.RUN) for _ in range(5)]

        async def write(writer):
            with contextlib.suppress(FencedError):
                for number in range(4):
                    await writer.append(p.UserMessage(text=f"{writer.epoch}.{number}"))

        await asyncio.gather(*map(write, writers))
        said = [record.value().text for record in (await log.read(runs.RUN))[2:]]
        assert said == [f"{writers[-1].epoch}.{number}" for number in range(4)]


@holds
async def test_a_cancelled_append_is_found_or_is_not_there_and_never_half(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        for number in range(12):
            task = asyncio.ensure_future(writer.append(p.UserMessage(text=f"{number}"), p.RunPaused(reason="asked")))
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await writer.append(p.UserMessage(text=f"after {number}"), key=f"after{number}")
        verdict = await log.verify(runs.RUN)
        assert verdict.ok
        assert verdict.events == writer.head
        types = [record.type for record in await log.read(runs.RUN)]
        assert types.count("run.paused") == types.count("user.message") - 1 - 12


@holds
async def test_an_append_whose_answer_is_lost_is_looked_up_and_stands_once(store_url):
    """Whether it was written before the store went away, or was not."""
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        at_once = log.store.at_once
        for was_written in (True, False):
            lost = []

            async def losing(*statements, lost=lost, was_written=was_written):
                if not lost:
                    lost.append(await at_once(*statements) if was_written else None)
                    raise StoreUnavailable("the connection is gone")
                return await at_once(*statements)

            log.store.at_once = losing
            await writer.append(p.UserMessage(text=f"{was_written}"))
            assert lost == [True if was_written else None]
        del log.store.at_once

        async def away(*_):
            raise StoreUnavailable("still gone")

        log.store.at_once = away
        with pytest.raises(StoreUnavailable):
            await writer.append(p.UserMessage(text="never"))
        del log.store.at_once
        await writer.append(p.UserMessage(text="after"))
        said = [record.value().text for record in (await log.read(runs.RUN))[2:]]
        assert said == ["True", "False", "after"]


@holds
async def test_a_log_of_an_earlier_release_is_brought_up_to_date(store_url):
    """Its rows stay what they were, and its keys still name what they named."""
    store = await open_store(store_url())
    await store.migrate(Schema("log", SCHEMA.migrations[:4]))
    log = EventLog(store, clock=lambda: float(next(TICKS)))
    writer = await written(log)
    await writer.append(p.RunResumed(), key="k")
    before = await log.read(runs.RUN)
    await EventLog.over(store)
    assert await log.read(runs.RUN) == before
    assert await writer.append(p.RunResumed(), key="k") == before[-1:]
    with pytest.raises(KeyReusedError):
        await writer.append(p.UserMessage(text="other"), key="k")
    await store.close()


@holds
async def test_an_erased_payload_is_gone_and_the_chain_still_verifies(store_url):
    async with opened(store_url()) as log:
        writer = await written(log)
        ref = await log.artifacts.put(runs.RUN, b"private " * 100)
        assert await log.erase(runs.RUN, [2, 7]) == 2
        verdict = await log.verify(runs.RUN)
        assert (verdict.ok, verdict.erased) == (True, (2, 7))
        assert await log.artifacts.get(ref.digest) == b"private " * 100
        assert await log.erase(runs.RUN) == writer.head - 2
        assert (await log.verify(runs.RUN)).erased == tuple(range(1, writer.head + 1))
        with pytest.raises(ArtifactError):
            await log.artifacts.get(ref.digest)
        assert [record.payload for record in await log.read(runs.RUN)] == [None] * writer.head


@holds
async def test_an_erased_events_artifact_goes_unless_another_event_has_it(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        lone, both = [await log.artifacts.put(runs.RUN, text * 50) for text in (b"lone", b"both")]
        loose = await log.artifacts.put(runs.RUN, b"not referred to yet")
        await writer.append(p.UserMessage(text="a", attachments=(lone, both)))
        await writer.append(p.UserMessage(text="b", attachments=(both,)))
        assert await log.erase(runs.RUN, [3]) == 1
        assert await log.artifacts.missing([lone.digest, both.digest, loose.digest]) == {lone.digest}


@holds
async def test_a_file_is_the_same_bytes_from_every_store_and_reads_back(store_url):
    async with opened(store_url()) as log, opened(store_url()) as other, opened("memory:") as third:
        writer = await written(log)
        await log.artifacts.put(runs.RUN, b"x" * 5000)
        await log.artifacts.put(runs.RUN, bytes(range(256)))
        await log.erase(runs.RUN, [2])
        lines = await export_run(log, runs.RUN)
        for target in (other, third):
            assert await import_run(target, lines) == runs.RUN
            assert await export_run(target, runs.RUN) == lines
        assert [record.seq for record in parse(lines)[0]] == list(range(1, writer.head + 1))
        with pytest.raises(ConflictError):
            await import_run(other, lines)
        assert len(await export_run(log, runs.RUN, with_artifacts=False)) == len(lines) - 2


@holds
async def test_verify_names_the_first_row_that_was_tampered_with(store_url):
    async with opened(store_url()) as log:
        await written(log)
        store = log.store
        where = "WHERE run_id = 'r1' AND seq"
        columns = "id, at_ms, epoch, type, version, idem, salt, digest, chain, payload"
        origin = f"FROM log_events {where} = 4"
        again = columns.replace("idem", "'again'")
        acts = {
            5: [f"UPDATE log_events SET at_ms = at_ms + 1 {where} = 5"],
            6: [f"DELETE FROM log_events {where} = 6"],
            7: [
                f"UPDATE log_events SET seq = -7 {where} = 7",
                f"UPDATE log_events SET seq = 7 {where} = 8",
                f"UPDATE log_events SET seq = 8 {where} = -7",
            ],
            9: [f"DELETE FROM log_events {where} >= 9"],
            15: [f"INSERT INTO log_events (run_id, seq, {columns}) SELECT run_id, 99, {again} {origin}"],
        }
        for seq, statements in acts.items():
            async with store.transaction() as tx:
                kept = await tx.fetch(f"SELECT seq, {columns} FROM log_events WHERE run_id = 'r1'")
            async with store.transaction() as tx:
                for statement in statements:
                    await tx.execute(statement)
            verdict = await log.verify(runs.RUN)
            wanted = seq if seq != 15 else len(kept) + 1
            assert verdict.bad_seq == wanted, (seq, verdict)
            async with store.transaction() as tx:
                await tx.execute("DELETE FROM log_events WHERE run_id = 'r1'")
                marks = ", ".join("?" * 11)
                await tx.execute_many(f"INSERT INTO log_events (run_id, seq, {columns}) VALUES ('r1', {marks})", kept)
            assert (await log.verify(runs.RUN)).ok


@holds
async def test_a_row_that_somebody_adds_with_a_chain_that_fits_stands_behind_the_head(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        [forged] = writer.envelopes([p.UserMessage(text="nobody said this")])
        async with log.store.transaction() as tx:
            await tx.execute(
                "INSERT INTO log_events "
                "(run_id, seq, id, at_ms, epoch, type, version, idem, salt, digest, chain, payload) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *forged,
            )
        verdict = await log.verify(runs.RUN)
        assert (verdict.bad_seq, verdict.why) == (3, "stands behind the head, which is event 2")


@holds
async def test_a_tampered_file_keeps_nothing_and_names_the_event(store_url):
    async with opened(store_url()) as log, opened(store_url()) as other:
        writer = await written(log)
        lines = await export_run(log, runs.RUN)
        for at in range(1, writer.head + 1):
            cases = {
                at: [*lines[:at], *lines[at + 1 :]],
                at + 1: [*lines[: at + 1], lines[at], *lines[at + 1 :]],
            }
            for wanted, changed in cases.items():
                with pytest.raises(TamperedError) as caught:
                    await import_run(other, changed)
                assert caught.value.seq == wanted
        with pytest.raises(TamperedError) as caught:
            await import_run(other, lines[:-1])
        assert caught.value.seq == writer.head + 1
        for broken, words in (
            ([b"{}\n", *lines[1:]], "line 1: an export begins"),
            ([*lines[:3], b"no\n", *lines[3:]], "line 4: is not JSON"),
            ([*lines[:3], b"[]\n", *lines[3:]], "line 4: is no JSON object"),
            ([*lines[:3], b'{"seq":3}\n', *lines[3:]], "line 4: the field 'at_ms' is missing"),
            ([*lines[:-1], b'{"artifact":"00","data":"eHg="}\n', lines[-1]], "is not what it was"),
            ([*lines, lines[-1]], "behind the end"),
        ):
            with pytest.raises(JsonlError, match=words):
                await import_run(other, broken)
        assert await other.runs() == []


@holds
async def test_an_artifact_is_kept_once_compressed_and_checked(store_url):
    async with opened(store_url()) as log:
        await written(log, runs.begin())
        await written(log, runs.begin(), "r2")
        text = b"the same line again and again\n" * 1000
        ref = await log.artifacts.put("r1", text, media="text/plain")
        assert await log.artifacts.put("r2", text) == p.ArtifactRef(digest=ref.digest, size=len(text))
        assert await log.artifacts.get(ref.digest) == text
        async with log.store.transaction() as tx:
            rows = await tx.fetch("SELECT data FROM log_artifacts")
        assert [len(row[0]) < len(text) // 10 for row in rows] == [True]
        await log.erase("r1")
        assert await log.artifacts.get(ref.digest) == text
        async with log.store.transaction() as tx:
            await tx.execute("UPDATE log_artifacts SET data = ?", bytes(rows[0][0])[:-9])
        with pytest.raises(ArtifactError, match="damaged"):
            await log.artifacts.get(ref.digest)
        with pytest.raises(ArtifactError, match="no run"):
            await log.artifacts.put("nobody", b"x")
        with pytest.raises(ArtifactError, match="at most"):
            await log.artifacts.put("r1", bytes(ARTIFACT_LIMIT + 1))


@holds
async def test_what_is_too_large_or_not_there_is_refused(store_url):
    async with opened(store_url()) as log:
        writer = await written(log, runs.begin())
        with pytest.raises(LogError, match="1 to 1000 events"):
            await writer.append()
        with pytest.raises(LogError, match="1 to 1000 events"):
            await writer.append(*[p.UserMessage(text="")] * (BATCH_LIMIT + 1))
        with pytest.raises(LogError, match="has 8388"):
            await writer.append(p.UserMessage(text="x" * PAYLOAD_LIMIT))
        for act in (log.read("none"), log.open("none"), log.verify("none"), log.info("none")):
            with pytest.raises(UnknownRunError):
                await act
        with pytest.raises(ConflictError):
            await log.create(runs.RUN)
        assert writer.head == 2
