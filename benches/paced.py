"""The asynchronous library at live pace: what one event a wake-up costs, beside the usual way from a thread to a loop.

The anchor is a thread that hands each event to asyncio by `call_soon_threadsafe`, where a future wakes the stream's
coroutine; it reads no socket and decodes nothing. Ours does both. Same number of streams, same pace, one loop.
"""

from __future__ import annotations

import asyncio
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Coroutine

from benches.gateway import EVENTS, tools, upstream
from benches.measure import Row
from headrace import Message, ModelRequest, Runtime, TextDelta

STREAMS = 8
PACE_MS = 16
MUST = 0.6

CONFIG = """
[[providers]]
id = "bench"
kind = "openai_compatible"
base_url = "http://127.0.0.1:{port}/v1"
"""


def run(rounds: int) -> list[Row]:
    """One row: ours as a share of the anchor."""
    ours, anchor = [], []
    with tempfile.TemporaryDirectory() as folder, upstream(tools(), "--pace-ms", str(PACE_MS)) as port:
        config = pathlib.Path(folder) / "headrace.toml"
        config.write_text(CONFIG.format(port=port))
        for _ in range(rounds):
            anchor.append(_cpu_per_event(_threads()))
            ours.append(_cpu_per_event(_library(config)))
    figure = statistics.median(a / b for a, b in zip(ours, anchor, strict=True))
    note = f"{statistics.median(ours):.0f} against {statistics.median(anchor):.0f} µs CPU per event"
    return [Row("library, asynchronous, paced", "call_soon_threadsafe", figure, MUST, "at most", note)]


def _cpu_per_event(work: Coroutine[None, None, int]) -> float:
    began = time.process_time()
    events = asyncio.run(work)
    spent = time.process_time() - began
    if events != STREAMS * EVENTS:
        raise AssertionError(f"{events} events came of {STREAMS * EVENTS}")
    return spent / events * 1e6


async def _library(config: pathlib.Path) -> int:
    request = ModelRequest("bench/bench-paced", (Message.user("How does the water run?"),))

    async def one(runtime: Runtime) -> int:
        count = 0
        async with runtime.stream(request) as stream:
            async for event in stream:
                count += isinstance(event, TextDelta)
        return count

    async with Runtime(config) as runtime:
        return sum(await asyncio.gather(*(one(runtime) for _ in range(STREAMS))))


async def _threads() -> int:
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[None] | None] = [None] * STREAMS
    there = [0] * STREAMS
    done = threading.Event()

    def wake(number: int) -> None:
        there[number] += 1
        future, waiting[number] = waiting[number], None
        if future is not None and not future.done():
            future.set_result(None)

    def produce(number: int) -> None:
        due = time.monotonic()
        for _ in range(EVENTS):
            due += PACE_MS / 1000
            if done.wait(max(0.0, due - time.monotonic())):
                return
            loop.call_soon_threadsafe(wake, number)

    async def one(number: int) -> int:
        count = 0
        while count < EVENTS:
            if there[number] == 0:
                future = waiting[number] = loop.create_future()
                await future
            count += there[number]
            there[number] = 0
        return count

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(STREAMS)]
    for producer in producers:
        producer.start()
    try:
        return sum(await asyncio.gather(*map(one, range(STREAMS))))
    finally:
        done.set()
        for producer in producers:
            producer.join()
