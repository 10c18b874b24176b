"""Limits by leased blocks: what nodes may give away together, whatever each of them does."""

from __future__ import annotations

import asyncio
import calendar
import pathlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from headrace.keys import KeyLimits
from headrace.node import Node
from headrace.node._leases import span_of
from headrace.requests import Refusal
from headrace.store import open_store
from tests.support.ledger import settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Postgres

NOON = float(calendar.timegm((2026, 11, 30, 12, 0, 0)))


class Clock:
    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def admitted(node: Node, limits: KeyLimits, key: str = "team") -> Refusal | None:
    answer = node.admit(key, limits)
    return await answer if asyncio.iscoroutine(answer) else answer  # type: ignore[return-value]


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[[], str]:
    if request.param == "sqlite":
        return lambda: f"sqlite:{tmp_path}/store.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.database


def run(body: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await body()

    asyncio.run(whole())


@pytest.mark.parametrize("limit", [1, 3, 40, 1000])
def test_nodes_together_let_in_what_the_limit_says(new_url: Callable[[], str], limit: int) -> None:
    limits, clock, url = KeyLimits(requests_per_minute=limit), Clock(), new_url()

    async def body() -> None:
        nodes = [Node(url, journals=None, clock=clock) for _ in range(3)]
        for node in nodes:
            await node.start()
        let_in = 0
        for turn in range(limit + 200):
            answers = [await admitted(node, limits) for node in nodes]
            let_in += answers.count(None)
            if turn > 3 and None not in answers:
                break
        # Never more; and less only by what other nodes still hold of their last blocks.
        assert let_in == limit
        refused = await admitted(nodes[0], limits)
        assert refused is not None
        assert (refused.status, refused.code, refused.retry_at) == (429, "rate_limit_exceeded", NOON + 60)
        assert re.fullmatch(r"this key has used its \d+ \w+ of this minute", refused.message)
        # The next minute is another span.
        clock.now += 60
        assert await admitted(nodes[1], limits) is None
        for node in nodes:
            await node.stop()

    run(body)


def test_a_crash_counts_its_block_as_spent(new_url: Callable[[], str]) -> None:
    limits, clock, url = KeyLimits(requests_per_minute=100), Clock(), new_url()

    async def body() -> None:
        crashed = Node(url, journals=None, clock=clock)
        await crashed.start()
        assert await admitted(crashed, limits) is None
        # Nothing of it is stopped in order: it held a block of five, and has used one.
        node = Node(url, journals=None, clock=clock)
        await node.start()
        let_in = 0
        while await admitted(node, limits) is None:
            let_in += 1
        assert let_in == 95
        await node.stop()
        await crashed.stop()

    run(body)


def test_tokens_count_once_they_are_known(new_url: Callable[[], str]) -> None:
    limits, clock, url = KeyLimits(tokens_per_minute=1000), Clock(), new_url()

    async def body() -> None:
        nodes = [Node(url, journals=None, clock=clock) for _ in range(2)]
        for node in nodes:
            await node.start()
        used = 0
        for _ in range(50):
            for node in nodes:
                if await admitted(node, limits) is None:
                    node.settled(settled(key="team", input_tokens=60, output_tokens=40), limits)
                    used += 100
                    await asyncio.sleep(0)
        # By the last request of each node the limit may be passed, and no more are let in.
        assert 1000 <= used <= 1000 + 2 * 100
        refused = await admitted(nodes[0], limits)
        assert refused is not None
        assert "1000 tokens of this minute" in refused.message
        for node in nodes:
            await node.stop()

    run(body)


def test_a_budget_is_spent_by_prices_and_what_was_held_comes_back(new_url: Callable[[], str]) -> None:
    limits, clock, url = KeyLimits(budget_usd=1.0, budget_period="day"), Clock(), new_url()

    async def body() -> None:
        spent = 0.0
        # Nodes come and go: what they had leased and not spent is given back.
        for _ in range(30):
            node = Node(url, journals=None, clock=clock)
            await node.start()
            if await admitted(node, limits) is None:
                told = settled(key="team", input_tokens=10_000, output_tokens=10_000, price=(1.0, 3.0))
                assert told.cost == pytest.approx(0.04)
                node.settled(told, limits)
                spent += 0.04
            await node.stop()
        assert spent == pytest.approx(1.0)
        node = Node(url, journals=None, clock=clock)
        await node.start()
        refused = await admitted(node, limits)
        assert refused is not None
        assert (refused.status, refused.code, refused.should_retry) == (429, "insufficient_quota", False)
        assert refused.message == "this key has spent its budget of $1.00 for today"
        assert refused.retry_at == calendar.timegm((2026, 12, 1, 0, 0, 0))
        assert await admitted(node, KeyLimits(budget_usd=1.0, budget_period="day"), key="another") is None
        clock.now += 86400
        assert await admitted(node, limits) is None
        await node.stop()

    run(body)


def test_a_clock_that_was_wrong_for_a_moment_locks_no_key_out() -> None:
    limits, clock = KeyLimits(requests_per_minute=1), Clock()

    async def body() -> None:
        node = Node("memory:", journals=None, clock=clock)
        await node.start()
        clock.now += 86_400
        assert await admitted(node, limits) is None
        assert await admitted(node, limits) is not None
        clock.now -= 86_400
        assert await admitted(node, limits) is None
        refused = await admitted(node, limits)
        assert refused is not None
        assert refused.retry_at == NOON + 60
        # A moment back within the minute begins nothing anew.
        clock.now += 30
        assert await admitted(node, limits) is not None
        clock.now -= 20
        assert await admitted(node, limits) is not None
        await node.stop()

    run(body)


def test_a_lease_that_the_store_refuses_is_not_asked_for_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    limits = KeyLimits(tokens_per_minute=100)

    async def body() -> None:
        node = Node("memory:", journals=None, clock=Clock())
        await node.start()
        assert await admitted(node, limits) is None
        # What no store can count.
        node.settled(settled(1, key="team", input_tokens=2**70, output_tokens=0), limits)
        refused = await admitted(node, limits)
        assert refused is not None
        assert (refused.status, refused.retry_at) == (429, NOON + 60)
        await node.stop()

    run(body)
    assert [one.message for one in caplog.records if "refuses to lease" in one.message] != []
    assert [one.message for one in caplog.records if "a task of the node failed" in one.message] == []


def test_a_limit_that_was_raised_holds_at_once() -> None:
    clock = Clock()

    async def body() -> None:
        node = Node("memory:", journals=None, clock=clock)
        await node.start()
        assert await admitted(node, KeyLimits(requests_per_minute=1)) is None
        assert await admitted(node, KeyLimits(requests_per_minute=1)) is not None
        assert await admitted(node, KeyLimits(requests_per_minute=2)) is None
        assert await admitted(node, KeyLimits(requests_per_minute=2)) is not None
        await node.stop()

    run(body)


def test_few_requests_ask_the_store() -> None:
    limits, clock = KeyLimits(requests_per_minute=100_000), Clock()

    async def body() -> None:
        node = Node("memory:", journals=None, clock=clock)
        await node.start()
        waited = 0
        for _ in range(20_000):
            answer = node.admit("team", limits)
            if asyncio.iscoroutine(answer):
                waited += 1
                answer = await answer
            assert answer is None
            await asyncio.sleep(0)
        # The first of all; later blocks come before the last one is used up, if the store is as quick as here.
        assert waited <= 3
        await node.stop()
        store = await open_store("memory:")
        await store.close()

    run(body)


@pytest.mark.parametrize(
    ("period", "at", "ends"),
    [
        ("minute", (2026, 11, 30, 12, 0, 59), (2026, 11, 30, 12, 1, 0)),
        ("day", (2026, 11, 30, 23, 59, 59), (2026, 12, 1, 0, 0, 0)),
        ("month", (2026, 11, 30, 23, 59, 59), (2026, 12, 1, 0, 0, 0)),
        ("month", (2026, 12, 31, 23, 59, 59), (2027, 1, 1, 0, 0, 0)),
        ("month", (2028, 2, 29, 0, 0, 0), (2028, 3, 1, 0, 0, 0)),
    ],
)
def test_spans_end_where_calendars_do(period: Any, at: tuple[int, ...], ends: tuple[int, ...]) -> None:
    now, end = float(calendar.timegm((*at, 0, 0, 0))), float(calendar.timegm((*ends, 0, 0, 0)))
    span, told = span_of(period, now)
    assert told == end
    assert span_of(period, end)[0] == span + 1
    assert span_of(period, end - 0.001)[0] == span
