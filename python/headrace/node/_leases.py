"""Limits of keys, shared by leased blocks.

1. The store has one counter for each key, kind and span; a node takes a block of it and gives from that. The store
   sees a request every so often and not every request.
2. A request is counted before it is let in, tokens and money after; so the last requests of a span may pass their limit
   by what they themselves cost, and no more are let in until that is made up for.
3. What a node has leased counts as spent whatever becomes of the node. A clean stop gives money back.
4. The clock is an argument.

Never here: the store's transactions, who holds a key.
"""

from __future__ import annotations

from calendar import timegm
from dataclasses import dataclass
from enum import Enum
from time import gmtime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.keys import KeyLimits

__all__ = ["LEASE", "MICRO", "Lease", "LeaseKind", "Leases", "span_of"]

Span: TypeAlias = Literal["minute", "day", "month", "total"]

#: Of a span's limit, the share that is leased at once.
BLOCKS: Final = 20
#: Smaller blocks are not renewed before they are used up: what a node holds and does not need, another one lacks.
EARLY: Final = 5
#: A block is renewed in the background once less than this share of it is left.
RENEW_AT: Final = 0.5
MICRO: Final = 1_000_000
_FAR: Final = 4e12
_MINUTE: Final = 60

#: Adds to a counter what was overdrawn and a block, as far as the limit has room, and says how much of the block.
LEASE: Final = """INSERT INTO node_leases (name, span, spent, granted, ends) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name, span) DO UPDATE SET
    spent = node_leases.spent + ? + CASE
        WHEN node_leases.spent + ? + ? <= ? THEN ?
        WHEN node_leases.spent + ? < ? THEN ? - node_leases.spent - ?
        ELSE 0 END,
    granted = CASE
        WHEN node_leases.spent + ? + ? <= ? THEN ?
        WHEN node_leases.spent + ? < ? THEN ? - node_leases.spent - ?
        ELSE 0 END
RETURNING granted"""


class LeaseKind(Enum):
    """What is counted."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    MONEY = "money"


def span_of(period: Span, now: float) -> tuple[int, float]:
    """Give a span's number and when it ends."""
    if period == "minute":
        span = int(now // _MINUTE)
        return span, (span + 1.0) * _MINUTE
    if period == "day":
        span = int(now // 86400)
        return span, (span + 1.0) * 86400
    if period == "month":
        year, month = gmtime(now)[:2]
        after = (year + 1, 1) if month == 12 else (year, month + 1)  # noqa: PLR2004 - December
        return year * 12 + month, float(timegm((*after, 1, 0, 0, 0)))
    return 0, _FAR


@dataclass(slots=True)
class Lease:
    """What this node holds of one limit.

    - `left`: of the block; below 0 it was overdrawn.
    - `empty`: the store had nothing more for this span.
    - `block`: how much is leased at once.
    - `low`: with less than this left it is time to renew, but where the store had nothing more.
    - `turned`: when the span was begun.
    """

    key: str
    kind: LeaseKind
    limit: int
    period: Span
    span: int = -1
    ends: float = 0.0
    left: int = 0
    empty: bool = False
    block: int = 1
    low: int = 0
    turned: float = 0.0

    def __post_init__(self) -> None:
        self.block = max(self.limit // BLOCKS, 1)
        self.low = int(self.block * RENEW_AT) if self.block >= EARLY else 0

    @property
    def name(self) -> str:
        """The counter's name in the store."""
        return f"{self.key}/{self.kind.value}"

    def turn(self, now: float) -> None:
        """Begin a new span if the old one is over, or has not begun: a clock may be set back."""
        if now >= self.ends or (now < self.turned and span_of(self.period, now)[0] != self.span):
            self.span, self.ends = span_of(self.period, now)
            self.turned = now
            self.left = 0
            self.empty = False

    def arguments(self) -> tuple[int | str | float, ...]:
        """Give the arguments of `LEASE`."""
        debt, block, limit = max(-self.left, 0), self.block, self.limit
        first = max(min(block, limit - debt), 0)
        grant = (debt, block, limit, block, debt, limit, limit, debt)
        return (self.name, self.span, debt + first, first, self.ends, debt, *grant, *grant)

    def granted(self, amount: int, *, span: int, debt: int) -> None:
        """Take a block in."""
        if span == self.span:
            self.left += debt + amount
            self.empty = amount == 0

    def unknown(self) -> None:
        """Go on without the store: with rates as if nobody else were there, with money by what is left of the block."""
        if self.kind is not LeaseKind.MONEY and self.left <= 0 and not self.empty:
            self.left += self.limit
            self.empty = True


class Leases:
    """All leases of one node."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[KeyLimits, tuple[Lease, ...]]] = {}

    def of(self, key: str, limits: KeyLimits) -> tuple[Lease, ...]:
        """Give a key's leases. Where its limits have changed they begin anew."""
        known = self._by_key.get(key)
        if known is None or (known[0] is not limits and known[0] != limits):
            known = self._by_key[key] = (limits, tuple(_leases(key, limits)))
        return known[1]

    def all(self) -> list[Lease]:
        """Give every lease."""
        return [lease for _, leases in self._by_key.values() for lease in leases]


def _leases(key: str, limits: KeyLimits) -> Iterator[Lease]:
    if limits.tokens_per_minute is not None:
        yield Lease(key, LeaseKind.TOKENS, limits.tokens_per_minute, "minute")
    if limits.budget_usd is not None:
        yield Lease(key, LeaseKind.MONEY, int(limits.budget_usd * MICRO), limits.budget_period)
    if limits.requests_per_minute is not None:
        yield Lease(key, LeaseKind.REQUESTS, limits.requests_per_minute, "minute")
