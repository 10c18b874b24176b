"""A circuit breaker for each model of each provider: who fails again and again is left alone for a while. Pure.

    closed ──`failures` in a row──▶ open ──its time has come──▶ one probe ──answers──▶ closed
                                      ▲                            │
                                      └────────── fails ───────────┘   open for twice as long, up to `OPEN_MOST_S`

1. What counts is the provider's own failure (overload, a broken connection, an endpoint that is not there), and never a
   limit of one credential or a mistake of one client.
2. While it is open a route goes past it. Where there is no other way the request is tried all the same, unless the row
   says `fail_fast`.
3. The clock and the randomness are arguments.

Never here: a credential's state, a choice of who is asked instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COUNTED", "OPEN_MOST_S", "Breaker", "BreakerPolicy", "Breakers"]

#: However often the probe fails: a provider that is back is noticed within five minutes.
OPEN_MOST_S: Final = 300.0
#: Models that are watched. Clients name them, so there must be an end.
WATCHED: Final = 4096
COUNTED: Final = frozenset({Cause.OVERLOADED, Cause.INTERRUPTED, Cause.ENDPOINT})


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a breaker opens.

    - `failures`: attempts that failed in a row; 0 for never.
    - `open_s`: seconds that it stays open the first time.
    - `fail_fast`: refuse at once where no other way is left.
    """

    failures: int = 5
    open_s: float = 10.0
    fail_fast: bool = False


class Breaker:
    """The state for one model of one provider."""

    __slots__ = ("_failures", "_opened", "_policy", "_probing", "until")

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._opened = 0
        self._probing = False
        #: While it is open, when a probe is due. None: it is closed.
        self.until: float | None = None

    def admits(self, now: float) -> bool:
        """Whether a request may pass. Once its time has come, one may: the probe."""
        if self.until is None:
            return True
        if now < self.until:
            return False
        # The others wait for what becomes of this one, or for as long as it may take.
        self.until = now + self._policy.open_s
        self._probing = True
        return True

    def failed(self, now: float, random: Callable[[], float]) -> None:
        """Take note of a failure that counts."""
        self._failures += 1
        if self._failures < self._policy.failures:
            return
        # What had begun before it opened says nothing new.
        if self.until is not None and not self._probing:
            return
        self._probing = False
        # Nodes that opened together must not probe together.
        wait = min(self._policy.open_s * 2.0 ** min(self._opened, 16), OPEN_MOST_S) * (0.75 + 0.25 * random())
        self.until = now + wait
        self._opened += 1

    def succeeded(self) -> None:
        """Take note of an answer."""
        self._failures = self._opened = 0
        self._probing = False
        self.until = None


class Breakers:
    """All breakers of a gateway. They outlive a reload of its configuration."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Breaker] = {}

    def admits(self, provider: str, model: str, now: float) -> bool:
        """Whether a request to this model may pass."""
        one = self._made.get((provider, model))
        return one is None or one.admits(now)

    def until(self, provider: str, model: str) -> float | None:
        """When the next probe of an open one is due."""
        one = self._made.get((provider, model))
        return one.until if one is not None else None

    def failed(
        self, provider: str, model: str, policy: BreakerPolicy, *, now: float, random: Callable[[], float]
    ) -> None:
        """Take note of a failure that counts."""
        if not policy.failures:
            return
        one = self._made.get((provider, model))
        if one is None:
            if len(self._made) >= WATCHED:
                return
            one = self._made[provider, model] = Breaker(policy)
        one.failed(now, random)

    def succeeded(self, provider: str, model: str) -> None:
        """Take note of an answer."""
        if self._made:
            self._made.pop((provider, model), None)

    def open(self) -> list[tuple[str, str]]:
        """Give the provider and the model of each that is open."""
        return [pair for pair, one in self._made.items() if one.until is not None]
