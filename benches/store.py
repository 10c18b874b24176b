"""What control costs with a store: decision and settlement of one request, with ledger, states, limits and metrics on.

The gateway's own policy, with a key that has limits and a pool of three, on an event loop; requests come in bursts, as
an edge hands them over. CPU of all threads is counted, SQLite's writer with them, and that of the same loop without
requests is taken off. The answer is checked first: every settled request is one row, and none is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benches.measure import Row
from headrace.config import parse
from headrace.gateway import Gateway
from headrace.metrics import Figures
from headrace.node import Node
from headrace.registry import Registry
from headrace.requests import Plan
from headrace.startup import check_selectors
from headrace.store import open_store

REQUESTS = 4000
MEMBERS = 3
#: Requests that come at once, and seconds between two bursts: what a busy gateway sees, and a quiet one.
BUSY = (100, 0.02)
QUIET = (10, 0.01)
CONFIG = """
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "https://acme.example/v1"
[providers.pool]
strategy = "round_robin"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
[[providers.credentials]]
id = "two"
secret = "env:TWO"
[[providers.credentials]]
id = "three"
secret = "env:THREE"
[catalogue."acme/m"]
price_input = 1.0
price_output = 2.0
[[keys]]
id = "team"
secret = "env:TEAM"
requests_per_minute = 10_000_000
tokens_per_minute = 10_000_000_000
budget_usd = 1_000_000
"""
ENVIRON = {"ONE": "sk-1", "TWO": "sk-2", "THREE": "sk-3", "TEAM": "sk-team"}


class Recipe:
    """Stands for a native recipe."""

    protocol = "openai_chat"


class Asked:
    """A request as the native handle shows it."""

    id = "req_bench"
    method = "POST"
    path = "/v1/chat/completions"
    protocol = "openai_chat"
    operation = "generate"
    model = "acme/m"
    stream = True
    include_usage = True
    body_size = 400
    tool_names = ()
    has_images = False
    state_refs = ()
    prompt_cache_key = None
    previous_response_id = None
    session = None
    peer = "127.0.0.1:1"

    def header(self, name: str) -> str | None:
        """One header."""
        return "Bearer sk-team" if name == "authorization" else None

    def headers(self) -> list[tuple[str, str]]:
        """Those that it has."""
        return [("authorization", "Bearer sk-team")]

    def headers_named(self, names: Any, prefix: str | None = None) -> list[tuple[str, str]]:
        """Those that are asked for."""
        return [one for one in self.headers() if one[0] in names or (prefix and one[0].startswith(prefix))]

    def body_for(self, *_: object, **__: object) -> Recipe:
        """No body is made here."""
        return Recipe()


class Ended:
    """A settlement as the native handle shows it."""

    attempts = 1
    status = 200
    finish = "stop"
    error = None
    model = "m"
    response_id = "r"
    request_id = "up"
    headers = ()
    input_tokens = 900
    output_tokens = 300
    cached_input_tokens = None
    cache_write_tokens = None
    reasoning_tokens = None
    intents = 0
    events = 310
    bytes_sent = 4000
    bytes_received = 60_000
    bytes_to_client = 60_000
    decide_s = 0.0001
    first_byte_s = 0.4
    total_s = 3.0
    losses = ()
    lane = None

    def __init__(self, token: int) -> None:
        self.token = token


async def _one(gateway: Gateway) -> None:
    plan = gateway.decide(Asked())
    if asyncio.iscoroutine(plan):
        plan = await plan
    if not isinstance(plan, Plan):
        raise TypeError(f"no plan: {plan}")
    gateway.settle(Ended(plan.token))


async def _paced(gateway: Gateway | None, pace: tuple[int, float]) -> None:
    at_once, pause = pace
    for _ in range(REQUESTS // at_once):
        if gateway is not None:
            for _ in range(at_once):
                await _one(gateway)
        await asyncio.sleep(pause)


async def _started(url: str) -> tuple[Node, Gateway]:
    registry = Registry(tuple)
    config = parse(
        CONFIG, name="bench.toml", folder=pathlib.Path(), environ=ENVIRON, checks=(registry.check, check_selectors)
    )
    node = Node(url, journals=None, clock=time.time)
    salt = b"s" * 16
    gateway = Gateway(
        config,
        registry=registry,
        clock=time.time,
        random=lambda: 0.5,
        salt=salt,
        books=node,
        figures=Figures(salt=salt),
    )
    await node.start()
    await _one(gateway)
    await asyncio.sleep(0.1)
    return node, gateway


async def _all_committed(node: Node) -> None:
    while node.committed < REQUESTS + 1:  # noqa: ASYNC110 - a count has no event
        await asyncio.sleep(0.001)


async def _round(url: str, pace: tuple[int, float]) -> float:
    """Microseconds of CPU for each request."""
    node, gateway = await _started(url)
    start = time.process_time()
    await _paced(None, pace)
    idle = time.process_time() - start
    start = time.process_time()
    await _paced(gateway, pace)
    await _all_committed(node)
    spent = time.process_time() - start - idle
    await node.stop()
    store = await open_store(url)
    async with store.transaction() as tx:
        found = await tx.fetch("SELECT count(*) FROM node_requests WHERE cost_usd IS NOT NULL")
        attempts = await tx.fetch("SELECT credential, count(*) FROM node_every_attempt GROUP BY credential")
    await store.close()
    if found != [(REQUESTS + 1,)] or sum(count for _, count in attempts) != REQUESTS + 1 or len(attempts) != MEMBERS:
        raise AssertionError(f"the ledger is not what was settled: {found}, {attempts}")
    return spent / REQUESTS * 1e6


@contextlib.contextmanager
def _counted() -> Iterator[list[int]]:
    """Count what goes to PostgreSQL and back: each of these is one round trip, once a statement is prepared."""
    import asyncpg

    trips = [0]
    kept = {name: getattr(asyncpg.Connection, name) for name in ("execute", "fetch", "executemany")}

    def counting(method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            trips[0] += 1
            return method(*args, **options)

        return call

    for name, method in kept.items():
        setattr(asyncpg.Connection, name, counting(method))
    try:
        yield trips
    finally:
        for name, method in kept.items():
            setattr(asyncpg.Connection, name, method)


async def _trips(url: str, pace: tuple[int, float]) -> tuple[float, float]:
    """Round trips for each 1,000 requests, and requests a second."""
    node, gateway = await _started(url)
    with _counted() as trips:
        began = time.perf_counter()
        await _paced(gateway, pace)
        await _all_committed(node)
        took = time.perf_counter() - began
    await node.stop()
    return trips[0] / REQUESTS * 1000, REQUESTS / took


def _cpu(pace: tuple[int, float], rounds: int) -> list[float]:
    took = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            took.append(asyncio.run(_round(f"sqlite:{folder}/store.db", pace)))
    return took


def run(rounds: int) -> list[Row]:
    """Microseconds of CPU with SQLite, and round trips to PostgreSQL where it is installed."""
    took, quiet = _cpu(BUSY, rounds), statistics.median(_cpu(QUIET, 1))
    note = f"5,000 requests a second, {min(took):.1f} to {max(took):.1f}; at 1,000 a second {quiet:.0f}"
    work = "decide and settle, SQLite, limits on (µs CPU)"
    rows = [Row(work, "none: an absolute figure", statistics.median(took), 60.0, "at most", note)]
    from tests.support.postgres import running

    with running() as server:
        if server is not None:
            told = []
            for pace in ((10, 0.1), QUIET, BUSY):
                trips, rate = asyncio.run(_trips(server.database(), pace))
                told.append((trips, f"{trips:.0f} at {rate:,.0f} requests a second"))
            work = "round trips to PostgreSQL for 1,000 requests"
            note = "; ".join(words for _, words in told)
            rows.append(Row(work, "none: an absolute figure", told[1][0], 500.0, "at most", note))
    return rows
