"""What is known of a model beforehand: a dated file of this package, and what the configuration says instead.

1. Unknown is unknown: a model that neither names has no facts, and no price is guessed.
2. The file's rows go by kind of provider and name, the first that fits; a vendor that resells a model has prices of its
   own.

Never here: what a provider said at run time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from headrace.selectors import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config import ModelTable

__all__ = ["UNKNOWN", "Facts", "ModelFacts", "Prices", "as_of"]

_PER: Final = 1_000_000
#: Models whose facts were looked up; beyond it they are looked up again.
KEPT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens. None: unknown."""

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(
        self,
        *,
        input_tokens: int | None,
        output_tokens: int | None,
        cached_input_tokens: int | None = None,
        cache_write_tokens: int | None = None,
    ) -> float | None:
        """Say what a response cost in US dollars, by its totals (input counts what was cached, too).

        None: a price or a total that it takes is unknown. A cached token without a price of its own costs as any other.
        """
        if self.input is None or self.output is None or input_tokens is None or output_tokens is None:
            return None
        read, written = cached_input_tokens or 0, cache_write_tokens or 0
        plain = max(input_tokens - read - written, 0)
        total = plain * self.input + output_tokens * self.output
        total += read * (self.input if self.cached_input is None else self.cached_input)
        total += written * (self.input if self.cache_write is None else self.cache_write)
        return total / _PER


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of one model. None: unknown.

    - `context_window`, `max_output`: tokens.
    - `input`, `output`: modalities (`text`, `image`, `audio`, `video`, `file`, `embedding`).
    """

    context_window: int | None = None
    max_output: int | None = None
    input: tuple[str, ...] | None = None
    output: tuple[str, ...] | None = None
    prices: Prices | None = None

    @property
    def blind(self) -> bool:
        """Whether it is known to take no images."""
        return self.input is not None and "image" not in self.input


UNKNOWN: Final = ModelFacts()


class Facts:
    """The facts of one configuration.

    - `said`: what it says of models, by `provider_id/model`; each fact stands before the file's.
    """

    __slots__ = ("_found", "_said")

    def __init__(self, said: Mapping[str, ModelTable] | None = None) -> None:
        self._said = said or {}
        self._found: dict[tuple[str, str], ModelFacts] = {}

    def of(self, kind: str, provider: str, model: str) -> ModelFacts:
        """Give what is known of a model of a provider row."""
        found = self._found.get((provider, model))
        if found is None:
            found = _merged(_known(kind, model), self._said.get(f"{provider}/{model}"))
            if len(self._found) < KEPT:
                self._found[provider, model] = found
        return found


def _merged(known: ModelFacts, said: ModelTable | None) -> ModelFacts:
    if said is None:
        return known
    prices = known.prices or Prices()
    told = {one.name: getattr(said, f"price_{one.name}") for one in fields(Prices)}
    prices = replace(prices, **{name: value for name, value in told.items() if value is not None})
    plain = {name: getattr(said, name) for name in ("context_window", "max_output", "input", "output")}
    return replace(
        known,
        prices=None if prices == Prices() else prices,
        **{name: value for name, value in plain.items() if value is not None},
    )


def _known(kind: str, model: str) -> ModelFacts:
    for pattern, facts in _rows().get(kind, ()):
        if pattern.fits(model):
            return facts
    return UNKNOWN


@functools.cache
def _file() -> dict[str, Any]:
    import orjson

    read: dict[str, Any] = orjson.loads(files("headrace.catalogue").joinpath("models.json").read_bytes())
    return read


@functools.cache
def _rows() -> dict[str, list[tuple[Pattern, ModelFacts]]]:
    rows: dict[str, list[tuple[Pattern, ModelFacts]]] = {}
    for row in _file()["models"]:
        facts = ModelFacts(
            context_window=row.get("context_window"),
            max_output=row.get("max_output"),
            input=tuple(row["input"]),
            output=tuple(row["output"]),
            prices=Prices(**row["usd_per_million"]) if "usd_per_million" in row else None,
        )
        for kind in row["kinds"]:
            rows.setdefault(kind, []).append((Pattern.of(row["name"]), facts))
    return rows


def as_of() -> str:
    """Give the month of the file's facts, as `YYYY-MM`."""
    return str(_file()["as_of"])
