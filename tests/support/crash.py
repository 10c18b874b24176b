"""Runs that die: each in a forked child that kills itself at the n-th point that it reaches.

    python -m tests.support.crash STORE UPSTREAM FOLDER        then on standard input, one answer a line:
    run NAME N       lead the run NAME and die at point N; 0: to the end. Answers with the points that were reached
    resume NAME      take it up again and lead it to its end. Answers with what became of it

Points are: before and after every append, every fsync of the embedded store, the spawn of the tool's process and the
rename of the file that it leaves. A child that dies has told, byte by byte in a file, which events it was told are
durable. The server forks before anything native has run, so that a child costs milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
from typing import Any

import apsw

from headrace.log import payloads as p
from headrace.log.eventlog import EventLog, RunLog
from headrace.log.records import Record
from headrace.log.state import fold
from headrace.loop import resume, start
from headrace.runtime import Runtime
from headrace.store import open_store
from tests.support import harness


class Points:
    """Counts what is reached, and dies where it is told to."""

    def __init__(self, folder: pathlib.Path, deadly: int) -> None:
        self.deadly = deadly
        self.count = 0
        self.is_armed = False
        self.names = os.open(folder / "points", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.told = os.open(folder / "told", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def reach(self, name: str) -> None:
        """Be at a point."""
        if not self.is_armed:
            return
        self.count += 1
        os.write(self.names, f"{name}\n".encode())
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def seen(self, event: Any) -> None:
        """Be told that an event is durable."""
        if isinstance(event, Record):
            os.write(self.told, f"{event.seq} {event.chain.hex()}\n".encode())


class Spawning(harness.Tools):
    """The tool, with a process of its own and a file that is put in place by a rename."""

    async def write(self, line: str) -> None:
        self.before("before spawn")
        script = 'echo "$1" >> "$2"'
        process = await asyncio.create_subprocess_exec("sh", "-c", script, "sh", line, str(self.file))
        self.before("after spawn")
        await process.wait()
        made = self.file.with_suffix(".new")
        made.write_text(line)
        self.before("before rename")
        made.replace(self.file.with_suffix(".last"))
        self.before("after rename")


def watch_appends(points: Points) -> None:
    """Have every append pass two points."""
    write = RunLog._write  # noqa: SLF001 - the test stands where the disk is

    async def watched(self: RunLog, records: list[Record]) -> None:
        points.reach(f"before append {records[0].type}")
        await write(self, records)
        points.reach(f"after append {records[0].type}")

    RunLog._write = watched  # type: ignore[method-assign]  # noqa: SLF001
    create = EventLog.create

    async def created(self: EventLog, *arguments: Any, **options: Any) -> RunLog:
        points.reach("before append run.started")
        made = await create(self, *arguments, **options)
        points.reach("after append run.started")
        return made

    EventLog.create = created  # type: ignore[method-assign]


def watch_fsyncs(points: Points) -> None:
    """Have every fsync of the embedded store pass two points."""

    class File(apsw.VFSFile):
        def xSync(self, flags: int) -> None:  # noqa: N802 - its name there
            points.reach("before fsync")
            super().xSync(flags)
            points.reach("after fsync")

    class Watched(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("watched", "unix", makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> File:  # noqa: N802 - its name there
            return File("unix", name, flags)

    points.vfs = Watched()  # type: ignore[attr-defined]


async def lead(store_url: str, upstream: str, folder: pathlib.Path, name: str, points: Points) -> None:
    """Lead a run from its start."""
    watch_fsyncs(points)
    store = await open_store(store_url)
    log = await EventLog.over(store)
    watch_appends(points)
    points.is_armed = True
    tools = Spawning(folder, before=points.reach)
    async with Runtime(harness.config(f"{upstream}/{name}")) as models:
        opened = await start(log, p.RunStarted(goal="note it", model="acme/m", cwd=str(folder)), run_id=name)
        for record in opened.records:
            points.seen(record)
        await opened.run(models=models, tools=tools, seen=points.seen).go()
    points.is_armed = False
    await store.close()


async def take_up(store_url: str, upstream: str, folder: pathlib.Path, name: str) -> dict[str, Any]:
    """Take a run up, and say what became of it."""
    store = await open_store(store_url)
    log = await EventLog.over(store)

    async def deny(_: p.PermissionRequested) -> p.PermissionAnswer:
        return p.PermissionAnswer(decision="deny", reason="not again")

    tools = Spawning(folder)
    try:
        if name not in [run.run_id for run in await log.runs(limit=1000)]:
            return {"status": "none", "lines": tools.lines, "chains": {}}
        records = await log.read(name)
        state = fold(records)
        if state.status != "finished" and records:
            async with Runtime(harness.config(f"{upstream}/{name}")) as models:
                opened = await resume(log, name)
                state = await opened.run(models=models, tools=tools, ask=deny).go()
        records = await log.read(name)
        observed = [record.value().intent_id for record in records if record.type == "tool.observed"]  # type: ignore[union-attr]
        return {
            "status": state.status if records else "none",
            "lines": tools.lines,
            "chains": {str(record.seq): record.chain.hex() for record in records},
            "intents": [one.intent_id for one in state.intents.values() if one.stage != "void"],
            "observed": observed,
            "codes": [one.code for one in state.intents.values()],
            "ok": (await log.verify(name)).ok,
        }
    finally:
        await store.close()


def forked(work: Any) -> int:
    """Do it in a child, and give how the child ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child says all that it died of
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def main(store_url: str, upstream: str, root: str) -> None:
    """Serve."""
    for line in sys.stdin:
        act, name, *rest = line.split()
        folder = pathlib.Path(root) / name
        folder.mkdir(exist_ok=True)
        answer = folder / "answer"
        if act == "run":
            ended = forked(lambda: asyncio.run(lead(store_url, upstream, folder, name, Points(folder, int(rest[0])))))  # noqa: B023 - called at once
            names = (folder / "points").read_text().splitlines()
            print(json.dumps({"ended": ended, "points": names}), flush=True)  # noqa: T201 - its answer
        else:
            ended = forked(
                lambda: answer.write_text(json.dumps(asyncio.run(take_up(store_url, upstream, folder, name))))  # noqa: B023
            )
            print(answer.read_text() if ended == 0 else json.dumps({"ended": ended}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
