"""What the event log costs: reading a hundred thousand events, and appending one, per store.

Reading: verify (digest and chain of each) and fold to the run's state, beside the least that anybody must do for it:
two SHA-256 and one `orjson.loads` an event. Appending: one event a time, each durable when it returns, beside a write
and an fsync of the same bytes to a file on the same disk. Each checks its answer first: the fold's numbers, the chain.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pathlib
import statistics
import tempfile
import time

import orjson

from benches.measure import Row, in_turns
from headrace.log import payloads as p
from headrace.log.eventlog import EventLog
from headrace.log.records import Record, checked, genesis, make
from headrace.log.state import fold
from headrace.store import open_store

EVENTS = 100_000
MUST_S = 0.5
APPENDS = 300


def run(rounds: int) -> list[Row]:
    """Measure both."""
    return [reading(rounds), *appending(rounds)]


def turn(number: int) -> list[p.Payload]:
    """The events of one turn with one tool call, about as long as they are in a run."""
    name, intent, ran = f"t{number}", f"t{number}.0", f"t{number}.0/1"
    entry = p.LedgerEntry(first=1, last=2, status="included", why="said", tokens=9)
    text = "Some text of a model that says a few words about what it is about to do. " * 3
    return [
        p.ContextProjected(turn_id=name, upto=2, ledger=(entry,), request="0" * 64, messages=2, tokens=9),
        p.ModelRequested(turn_id=name, model="acme/m", request="0" * 64, tools=("bash",)),
        p.ModelStarted(turn_id=name, model="m"),
        p.ModelSpoke(turn_id=name, text=text),
        p.ToolIntent(turn_id=name, intent_id=intent, tool_name="bash", raw_input_text='{"command": "true"}'),
        p.ModelUsed(turn_id=name, input_tokens=100, output_tokens=10),
        p.ModelEnded(turn_id=name, reason="tool_intents"),
        p.ToolValidated(intent_id=intent, ok=True, phase="schema", normalised="{}", intent_digest="d"),
        p.PermissionDecided(intent_id=intent, decision="allow", by="policy", rule="bench"),
        p.ExecutionStarted(intent_id=intent, execution_id=ran, tool_name="bash", executor="process", cwd="/"),
        p.ExecutionFinished(intent_id=intent, execution_id=ran, outcome="ok", exit_code=0),
        p.ToolObserved(intent_id=intent, phase="observe", code="ok", text="output " * 40, execution_id=ran),
    ]


def a_run() -> list[Record]:
    """A hundred thousand events of one run."""
    payloads: list[p.Payload] = [p.RunStarted(goal="bench", model="acme/m", cwd="/"), p.UserMessage(text="bench")]
    while len(payloads) < EVENTS:
        payloads += turn(len(payloads))
    chain, records = genesis("bench"), []
    for seq, payload in enumerate(payloads[:EVENTS], 1):
        at_ms = 1_700_000_000_000 + seq
        made = make(payload, run_id="bench", seq=seq, before=chain, at_ms=at_ms, epoch=1, randomness=bytes(26))
        chain = made.chain
        records.append(made)
    return records


def reading(rounds: int) -> Row:
    """Verify and fold."""
    records = a_run()
    head = (EVENTS, records[-1].chain)

    def read() -> None:
        state = fold(checked(records, "bench", head=head))
        if state.head != EVENTS or state.steps != sum(record.type == "model.requested" for record in records):
            raise AssertionError("the fold says something else than the events")

    def least() -> None:
        before = b""
        for record in records:
            payload = record.payload or b""
            digest = hashlib.sha256(payload).digest()
            before = hashlib.sha256(before + digest).digest()
            orjson.loads(payload)

    took = in_turns({"read": read, "least": least}, rounds)
    seconds, floor = statistics.median(took["read"]), statistics.median(took["least"])
    return Row(
        work="event log: 100,000 events verified and folded",
        anchor=f"{MUST_S:g} s",
        figure=seconds / MUST_S,
        must=1.0,
        sense="at most",
        note=f"{seconds:.2f} s; two SHA-256 and one orjson.loads an event: {floor:.2f} s",
    )


def appending(rounds: int) -> list[Row]:
    """Append one event at a time to each store, beside a bare write with fsync."""
    from tests.support.postgres import running

    with tempfile.TemporaryDirectory() as name, running(is_durable=True) as server:
        folder = pathlib.Path(name)
        stores = {"memory": "memory:", "SQLite, full": f"sqlite:{folder}/full.db"}
        stores["SQLite, normal"] = f"sqlite:{folder}/normal.db?synchronous=normal"
        if server is not None:
            stores["PostgreSQL, over loopback"] = server.database()
        took: dict[str, list[list[float]]] = {label: [] for label in stores}
        bare: list[float] = []
        for number in range(rounds):
            bare.append(statistics.median(written(folder / f"bare{number}")))
            for label, url in stores.items():
                took[label].append(asyncio.run(appended(url, f"run{number}")))
    rows = []
    for label, times in took.items():
        middle = statistics.median(statistics.median(one) for one in times)
        slow = statistics.median(statistics.quantiles(one, n=100)[98] for one in times)
        anchor = statistics.median(bare)
        note = f"{1 / middle:,.0f}/s, {middle * 1e6:,.0f} µs, p99 {slow * 1e6:,.0f} µs; bare {anchor * 1e6:,.0f} µs"
        rows.append(
            Row(
                work=f"event log: one durable append, {label}",
                anchor="write and fsync of the same bytes",
                figure=middle / anchor,
                must=4.0,
                sense="at most",
                note=note,
            )
        )
    return rows


async def appended(url: str, run_id: str) -> list[float]:
    """Seconds of each append of a run."""
    store = await open_store(url)
    try:
        log = await EventLog.over(store)
        writer = await log.create(run_id)
        times = []
        for number in range(APPENDS):
            start = time.perf_counter()
            await writer.append(p.UserMessage(text=f"message {number}", kind="reply"))
            times.append(time.perf_counter() - start)
        if not (await log.verify(run_id)).ok or writer.head != APPENDS:
            raise AssertionError("what was appended does not verify")
        return times
    finally:
        await store.close()


def written(path: pathlib.Path) -> list[float]:
    """Seconds of each bare write with its fsync."""
    line = b"x" * 400
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(APPENDS):
            start = time.perf_counter()
            file.write(line)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return times
