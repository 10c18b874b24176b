"""What a provider's response headers say of its limits, before it says 429. Pure, with the clock handed in.

1. Every vendor's set is read by its form: `x-ratelimit-WHAT-SCOPE`, `anthropic-ratelimit-SCOPE-WHAT`,
   `ratelimitbysize-WHAT`, `ratelimit-WHAT`, and a plan's percentages `x-FAMILY-WINDOW-used-percent`.
2. A value that cannot be read is no value, and never an error.
3. The headers tell how things stood when the request began: what was taken since is counted by the pool.

Never here: a mark, a choice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Limit", "Projection", "emptied", "projection", "read_limits", "reset_at"]

#: A reset further away is an error of somebody's clock.
FARTHEST_S: Final = 31 * 24 * 3600.0
_EPOCH: Final = 1e9
_EPOCH_MS: Final = 1e12
_FULL: Final = 100.0
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|us|µs|ns|m|s))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)", re.ASCII)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
#: `x-ratelimit-remaining-tokens`, with what it counts behind; also Mistral's older names, and the plain draft.
_BEHIND: Final = re.compile(r"(?:x-)?(ratelimit(?:bysize)?)-(limit|remaining|reset)(?:-(.+))?")
#: `anthropic-ratelimit-input-tokens-remaining`, with what it counts in the middle.
_BETWEEN: Final = re.compile(r"anthropic-(ratelimit)-(.+)-(limit|remaining|reset|utilization)")
#: `x-codex-primary-used-percent`.
_PLAN: Final = re.compile(r"x-(.+-(?:primary|secondary))-(used-percent|reset-at)")


@dataclass(frozen=True, slots=True)
class Limit:
    """One bucket. None: not told.

    - `scope`: what it counts, as the vendor calls it (`requests`, `input-tokens`, `codex-primary`).
    - `reset_at`: when it is full again, or begins to be.
    """

    scope: str
    limit: float | None = None
    remaining: float | None = None
    used_percent: float | None = None
    reset_at: float | None = None

    def empty(self, now: float) -> bool:
        """Whether nothing is left, and it is known until when."""
        gone = self.remaining == 0 or (self.used_percent is not None and self.used_percent >= _FULL)
        return gone and self.reset_at is not None and self.reset_at > now


@dataclass(frozen=True, slots=True)
class Projection:
    """What a pool needs of a member's limits.

    - `requests`: so many are left until `until`. None: not told.
    """

    until: float
    requests: int | None = None


def reset_at(value: str, now: float) -> float | None:
    """Read a reset: seconds, an epoch in seconds or milliseconds, a date of RFC 3339, or a duration such as `6m0s`."""
    value = value.strip()
    if _NUMBER.fullmatch(value):
        number = float(value)
        at = number / 1000 if number > _EPOCH_MS else number if number > _EPOCH else now + number
    elif _DURATION.fullmatch(value):
        at = now + sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    else:
        from datetime import UTC, datetime

        try:
            date = datetime.fromisoformat(value)
        except ValueError:
            return None
        at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return at if isfinite(at) and at - now <= FARTHEST_S else None


def read_limits(headers: Iterable[tuple[str, str]], now: float) -> tuple[Limit, ...]:
    """Read all buckets that response headers tell of.

    - `headers`: names in any case.
    """
    found: dict[str, dict[str, float]] = {}
    for name, value in headers:
        told = _told(name.lower())
        if told is None:
            continue
        scope, what = told
        # One vendor writes two windows into one header, with a comma.
        parts = value.split(",") if what != "reset" or value.count(",") else [value]
        for at, part in enumerate(parts):
            number = reset_at(part, now) if what == "reset" else _number(part)
            if number is not None and name.lower().endswith("-utilization"):
                number *= _FULL
            if number is not None:
                bucket = found.setdefault(scope if at == 0 else f"{scope}.{at}", {})
                bucket[what] = number
    return tuple(
        Limit(scope, one.get("limit"), one.get("remaining"), one.get("used"), one.get("reset"))
        for scope, one in found.items()
    )


def _told(name: str) -> tuple[str, str] | None:
    """Say what a header counts, and which fact of it it is."""
    if "ratelimit" in name:
        behind = _BEHIND.fullmatch(name)
        if behind:
            family = "" if behind[1] == "ratelimit" else "size."
            return family + (behind[3] or "requests"), behind[2]
        between = _BETWEEN.fullmatch(name)
        if between:
            return between[2], "used" if between[3] == "utilization" else between[3]
    plan = _PLAN.fullmatch(name) if name.endswith(("-used-percent", "-reset-at")) else None
    return (plan[1], "used" if plan[2] == "used-percent" else "reset") if plan else None


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def emptied(limits: Sequence[Limit], now: float) -> float | None:
    """Say when the last of the buckets that are empty is full again. None: none is empty, or nobody knows."""
    return max((one.reset_at for one in limits if one.empty(now) and one.reset_at is not None), default=None)


def projection(limits: Sequence[Limit], now: float) -> Projection | None:
    """Say what a pool should know. None: nothing that matters before the next answer."""
    until = emptied(limits, now)
    if until is not None:
        return Projection(until, 0)
    counted = [
        one
        for one in limits
        if one.scope.startswith("requests") and one.remaining is not None and one.reset_at and one.reset_at > now
    ]
    if not counted:
        return None
    scarce = min(counted, key=lambda one: one.remaining or 0)
    return Projection(scarce.reset_at or now, int(scarce.remaining or 0))
