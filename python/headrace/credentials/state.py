"""The state of a credential, as a value.

    ready ──rate limit, overload, interruption──▶ cooling ──its time has come──▶ ready
      ├──quota──▶ exhausted ──its time has come, or it may be looked at again──▶ ready
      └──refused──▶ dead ──a person changes the configuration──▶ ready

`until` is what was told, None where nothing was; `recheck` is when the member may be tried again all the same. It is
bounded: a wait may be told wrongly, and one that is far is mostly of a limit that a person can lift meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

__all__ = ["READY", "UNKNOWN_EXHAUSTION_S", "Mark", "Status", "worst"]

#: A quota whose end nobody told is looked at again after this long: somebody may have paid.
UNKNOWN_EXHAUSTION_S: Final = 900.0
#: However far the wait that was told: one request in a quarter of an hour is what a wrong one costs at most.
COOLING_MOST_S: Final = 900.0
#: The same for a quota. Days are usual there, and topping up is too.
EXHAUSTION_MOST_S: Final = 3600.0
#: A time beyond is not told to anybody: it is an error of somebody's clock.
FARTHEST_S: Final = 31 * 24 * 3600.0


class Status(StrEnum):
    """Whether a credential may be used."""

    READY = "ready"
    COOLING = "cooling"
    EXHAUSTED = "exhausted"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Mark:
    """A state, why, and until when.

    - `reason`: the error's kind.
    - `failures`: how many in a row led here; the next backoff grows with it.
    """

    status: Status
    reason: str = ""
    until: float | None = None
    recheck: float = inf
    failures: int = 0

    def at(self, now: float) -> Status:
        """Give the state at an instant."""
        return Status.READY if self.status is Status.READY or now >= self.recheck else self.status

    @classmethod
    def cooling(cls, reason: str, until: float, now: float, *, failures: int = 1) -> Mark:
        """Not before `until`."""
        until = min(until, now + FARTHEST_S)
        return cls(Status.COOLING, reason, until, min(until, now + COOLING_MOST_S), failures)

    @classmethod
    def exhausted(cls, reason: str, until: float | None, now: float, *, failures: int = 1) -> Mark:
        """Nothing left: until an instant, or nobody knows."""
        if until is None:
            return cls(Status.EXHAUSTED, reason, None, now + UNKNOWN_EXHAUSTION_S, failures)
        until = min(until, now + FARTHEST_S)
        return cls(Status.EXHAUSTED, reason, until, min(until, now + EXHAUSTION_MOST_S), failures)

    @classmethod
    def dead(cls, reason: str) -> Mark:
        """Needs a person."""
        return cls(Status.DEAD, reason)


READY: Final = Mark(Status.READY, recheck=0.0)

_ORDER: Final = (Status.READY, Status.COOLING, Status.EXHAUSTED, Status.DEAD)


def worst(marks: tuple[Mark, ...], now: float) -> Mark:
    """Of several marks on one credential, give the one that keeps it away longest."""
    return max(marks, key=lambda mark: (_ORDER.index(mark.at(now)), mark.recheck), default=READY)
