"""The text that Prometheus reads, in its own format and in OpenMetrics.

1. A counter's name ends with `_total` in both; in OpenMetrics its family's name does not.
2. Every text of a label is escaped, wherever it comes from.

Never here: what a figure means.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Family", "Histogram", "Labels", "content_type", "page"]

Labels: TypeAlias = "tuple[tuple[str, str], ...]"

_PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
_OPEN: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Histogram:
    """How often a value came to be within each bound, and the values' sum.

    - `bounds`: upper ones, rising; a last one of infinity is added.
    """

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum: float = 0.0

    def observe(self, value: float) -> None:
        """Take a value in."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[float, int]]:
        """Give every bound with how many values were not above it."""
        seen, out = 0, []
        for bound, count in zip((*self._bounds, inf), self._counts, strict=True):
            seen += count
            out.append((bound, seen))
        return out


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name.

    - `name`: without `_total`.
    - `help`: one line.
    - `samples`: labels with a number each, or with a histogram.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[tuple[Labels, float | Histogram]]


def content_type(accept: str | None) -> str:
    """Give the format of a page for who accepts these: OpenMetrics where it is named, else Prometheus' own."""
    wanted = [one.split(";")[0].strip().lower() for one in (accept or "").split(",")]
    return _OPEN if "application/openmetrics-text" in wanted else _PLAIN


def page(families: Iterable[Family], form: str) -> bytes:
    """Write a page. Families without a sample are left out.

    - `form`: as `content_type` gives it.
    """
    is_open = form == _OPEN
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        total = "_total" if family.kind == "counter" else ""
        named = family.name if is_open else family.name + total
        lines += (f"# HELP {named} {family.help}", f"# TYPE {named} {family.kind}")
        for labels, value in family.samples:
            if isinstance(value, Histogram):
                buckets = value.buckets()
                lines += (
                    f"{family.name}_bucket{_shown((*labels, ('le', _number(float(bound)))))} {count}"
                    for bound, count in buckets
                )
                lines.append(f"{family.name}_count{_shown(labels)} {buckets[-1][1]}")
                lines.append(f"{family.name}_sum{_shown(labels)} {_number(value.sum)}")
            else:
                lines.append(f"{family.name}{total}{_shown(labels)} {_number(value)}")
    if is_open:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode()


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels) + "}"


def _number(value: float) -> str:
    return "+Inf" if value == inf else repr(value)
