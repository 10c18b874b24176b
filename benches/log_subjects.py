"""One subject of the comparison of logs, in a process of its own: `python -m benches.log_subjects SUBJECT EVENTS FILE`.

EVENTS is a JSON file, a list of `[type, body]`; FILE the SQLite file that does not exist yet. Each event is appended by
itself and is durable when the append returns; then all are read back in order and the run is rebuilt from them. What
was read must be what was appended, or no time is given. Prints the times as JSON.

The peers stand in an environment of their own, without headrace: each subject imports only what is its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import pathlib
import sqlite3
import statistics
import sys
import time
from collections import Counter
from typing import Any, Protocol

LEAST_S = 0.3
#: What `PRAGMA synchronous` says where every commit waits for an fsync.
FULL = 2

Event = tuple[str, dict[str, Any]]


class Subject(Protocol):
    """What is measured of each. `take` makes of an event what `append` is given; its time is not counted."""

    async def open(self, path: pathlib.Path) -> None: ...  # noqa: D102
    def take(self, kind: str, body: dict[str, Any]) -> Any: ...  # noqa: D102
    async def append(self, item: Any) -> None: ...  # noqa: D102
    async def rebuild(self) -> Any: ...  # noqa: D102
    def answer(self, rebuilt: Any) -> tuple[list[Event], int]:
        """Give the events that were read, and how many requests the rebuilt state counts."""

    async def close(self) -> None: ...  # noqa: D102


class Told:
    """A small state for the peers, which bring none: their history, and what a listing of runs would show."""

    def __init__(self) -> None:
        self.history: list[Event] = []
        self.counts: Counter[str] = Counter()
        self.tokens = 0

    def take_in(self, kind: str, body: dict[str, Any]) -> None:
        """Fold one event."""
        self.history.append((kind, body))
        self.counts[kind] += 1
        self.tokens += body.get("output_tokens", 0)

    @property
    def steps(self) -> int:
        """How often the model was asked."""
        return self.counts["model.requested"]


class Ours:
    """The event log: digest, chain, epoch and head of each event are written, and checked when it is read."""

    async def open(self, path: pathlib.Path) -> None:
        """Begin a run."""
        from headrace.log.eventlog import EventLog
        from headrace.store import open_store

        self.log = await EventLog.over(await open_store(f"sqlite:{path}?synchronous=full"))
        self.writer = await self.log.create("bench")

    def take(self, kind: str, body: dict[str, Any]) -> Any:
        """Make the payload."""
        from headrace.log import payloads

        return payloads.decode(kind, body)

    async def append(self, item: Any) -> None:
        """Append one."""
        await self.writer.append(item)

    async def rebuild(self) -> Any:
        """Read, verify and fold."""
        from headrace.log.state import fold

        records = await self.log.read("bench")
        return records, fold(records)

    def answer(self, rebuilt: Any) -> tuple[list[Event], int]:
        """Parse what was read."""
        records, state = rebuilt
        return [(record.type, json.loads(record.payload)) for record in records], state.steps

    async def close(self) -> None:
        """Close the store."""
        await self.log.store.close()


class Eventsourcing:
    """An aggregate whose events are ours, saved after each: no digest and no chain; a version guards each event."""

    async def open(self, path: pathlib.Path) -> None:
        """Begin an aggregate."""
        from eventsourcing.application import Application
        from eventsourcing.domain import Aggregate, event

        class Run(Aggregate):
            def __init__(self) -> None:
                self.told = Told()

            @event("Told")
            def tell(self, kind: str, body: dict[str, Any]) -> None:
                self.told.take_in(kind, body)

        # An event is found again by its class's name in the module.
        Run.__qualname__ = "Run"
        globals()["Run"] = Run
        self.app: Any = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})
        self.run: Any = Run()
        self.app.save(self.run)

    def take(self, kind: str, body: dict[str, Any]) -> Any:
        """Take both as they are."""
        return kind, body

    async def append(self, item: Any) -> None:
        """Trigger one event and save it."""
        self.run.tell(*item)
        self.app.save(self.run)

    async def rebuild(self) -> Any:
        """Have the repository read the aggregate's events and apply them."""
        return self.app.repository.get(self.run.id).told

    def answer(self, rebuilt: Any) -> tuple[list[Event], int]:
        """Give its history."""
        return rebuilt.history, rebuilt.steps

    async def close(self) -> None:
        """Close the application."""
        self.app.close()


class OpenAIAgents:
    """The session of an agent framework, an item an event: no digest, no chain, no guard against a second writer."""

    async def open(self, path: pathlib.Path) -> None:
        """Begin a session."""
        from agents import SQLiteSession

        self.session: Any = SQLiteSession("bench", path)

    def take(self, kind: str, body: dict[str, Any]) -> Any:
        """Make the item."""
        return {"type": kind, **body}

    async def append(self, item: Any) -> None:
        """Add one item."""
        await self.session.add_items([item])

    async def rebuild(self) -> Any:
        """Read all items and fold them."""
        told = Told()
        for item in await self.session.get_items():
            told.take_in(item.pop("type"), item)
        return told

    def answer(self, rebuilt: Any) -> tuple[list[Event], int]:
        """Give its history."""
        return rebuilt.history, rebuilt.steps

    async def close(self) -> None:
        """Close the session."""
        self.session.close()


SUBJECTS: dict[str, type[Subject]] = {"headrace": Ours, "eventsourcing": Eventsourcing, "openai-agents": OpenAIAgents}


async def measured(subject: Subject, events: list[Event], path: pathlib.Path) -> dict[str, float]:
    """Seconds of wall and CPU of one append (wall: the median), and CPU of reading and rebuilding, an event."""
    await subject.open(path)
    items = [subject.take(kind, body) for kind, body in events]
    walls = []
    gc.collect()
    cpu = time.process_time()
    for item in items:
        start = time.perf_counter()
        await subject.append(item)
        walls.append(time.perf_counter() - start)
    append_cpu = (time.process_time() - cpu) / len(items)
    said, steps = subject.answer(await subject.rebuild())
    asked = sum(kind == "model.requested" for kind, _ in events)
    if said != events or steps != asked:
        raise AssertionError("what was read is not what was appended: no time is taken of a wrong answer")
    durable(path)
    calls = 0
    cpu = time.process_time()
    while (spent := time.process_time() - cpu) < LEAST_S:
        await subject.rebuild()
        calls += 1
    await subject.close()
    return {
        "append_cpu": append_cpu,
        "append_wall": statistics.median(walls),
        "read_cpu": spent / calls / len(items),
    }


def durable(path: pathlib.Path) -> None:
    """Raise unless the file is in WAL mode and a connection that sets nothing waits for an fsync at each commit."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    if found != ["wal", FULL]:
        raise AssertionError(f"journal and synchronous are {found}: the appends are not comparable")


def main() -> None:
    """Measure one subject."""
    name, events, path = sys.argv[1:]
    loaded = [(kind, body) for kind, body in json.loads(pathlib.Path(events).read_bytes())]
    print(json.dumps(asyncio.run(measured(SUBJECTS[name](), loaded, pathlib.Path(path)))))


if __name__ == "__main__":
    main()
