"""Replays a run in a process that can touch nothing, and writes what it came to.

    python -m tests.support.pure FILE [EFFECT]           the run that the file holds
    python -m tests.support.pure FILE EFFECT RUN         a run of the store whose URL the file holds

Clock and randomness are traps. `EFFECT` names something that it then does on purpose: the filter has to end it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import random
import secrets
import socket
import subprocess
import sys
import time
import uuid

import orjson

from headrace.log.eventlog import EventLog
from headrace.log.jsonl import parse
from headrace.log.records import Record
from headrace.loop import replay_trace
from headrace.store import open_store
from tests.support import seccomp


class TrappedError(BaseException):
    """A replay looked at the clock, or wanted randomness."""


def trap(*_: object, **__: object) -> object:
    """Take the place of a clock."""
    raise TrappedError


EFFECTS = {
    "socket": socket.socket,
    "exec": lambda: subprocess.run(["true"], check=False),
    "write": lambda: os.open("made", os.O_WRONLY | os.O_CREAT),
    "rename": lambda: os.rename("a", "b"),  # noqa: PTH104 - the system call itself
    "random": lambda: os.getrandom(8),
}


def read(path: pathlib.Path) -> list[Record]:
    """Read a file."""
    return parse(path.read_bytes().splitlines(keepends=True))[0]


async def fetched(url: str, run_id: str) -> list[Record]:
    """Read a store."""
    store = await open_store(url)
    try:
        return await (await EventLog.over(store)).read(run_id)
    finally:
        await store.close()


def main(path: str, effect: str = "", run_id: str = "") -> None:
    """Read first; then shut the door; then replay."""
    file = pathlib.Path(path)
    records = asyncio.run(fetched(file.read_text(), run_id)) if run_id else read(file)
    replay_trace(records)  # whatever is imported late is imported now
    for module, names in (
        (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "localtime", "gmtime", "strftime")),
        (os, ("urandom",)),
        (random, ("random", "getrandbits", "randrange", "choice")),
        (secrets, ("token_bytes", "token_hex")),
        (uuid, ("uuid1", "uuid4")),
    ):
        for name in names:
            setattr(module, name, trap)
    seccomp.deny()
    if effect:
        EFFECTS[effect]()
    replayed = replay_trace(records)
    told = {
        "state": orjson.loads(replayed.state.to_json()),
        "steps": [dataclasses.asdict(step) for step in replayed.trace.steps],
        "intents": {name: dataclasses.asdict(one) for name, one in replayed.trace.intents.items()},
        "projections": replayed.projections,
        "differing": replayed.differing,
    }
    sys.stdout.buffer.write(orjson.dumps(told, option=orjson.OPT_SORT_KEYS))


if __name__ == "__main__":
    main(*sys.argv[1:])
