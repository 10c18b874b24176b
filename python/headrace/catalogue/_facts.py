"""What is known of a model beforehand: a dated file of this package, and what the configuration says instead.

1. Unknown is unknown: a model that neither names has no facts, and no price is guessed.
2. The file's rows go by kind of provider and name, an exact one before a pattern; a vendor that resells a model has
   prices of its own.
3. The file has a price where two collections of prices that are kept by others (the packages litellm 1.110 and
   genai-prices 0.2.3, looked at in the month of `as_of`) had the same one for that name. Where they differ, where one
   alone knows it, and where it changes with the hour (DeepSeek's), the price is unknown.

Never here: what a provider said at run time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.selectors import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config import ModelTable

__all__ = ["PRICED", "UNKNOWN", "Facts", "ModelFacts", "Prices", "as_of"]

_Rows: TypeAlias = "tuple[dict[str, ModelFacts], list[tuple[Pattern, ModelFacts]]]"

_PER: Final = 1_000_000
_NONE: Final[_Rows] = ({}, [])
#: What is paid for.
PRICED: Final = ("input", "output", "cached_input", "cache_write")
#: Models whose facts were looked up; beyond it they are looked up again.
KEPT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars for a million tokens. None: unknown.

    - `above`: what a request costs whose input has more tokens than this, all of it. None: the same.
    """

    input: float | None = None
    output: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None
    above: tuple[int, Prices] | None = None

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
        if self.above is not None and input_tokens > self.above[0]:
            return self.above[1].cost(
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cached_input_tokens=cached_input_tokens,
                cache_write_tokens=cache_write_tokens,
            )
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
    told = {name: getattr(said, f"price_{name}") for name in PRICED}
    told = {name: value for name, value in told.items() if value is not None}
    if told:
        # Who says what it costs says it of long requests, too.
        prices = replace(prices, above=None, **told)
    plain = {name: getattr(said, name) for name in ("context_window", "max_output", "input", "output")}
    return replace(
        known,
        prices=None if prices == Prices() else prices,
        **{name: value for name, value in plain.items() if value is not None},
    )


def _known(kind: str, model: str) -> ModelFacts:
    exact, patterns = _rows().get(kind, _NONE)
    facts = exact.get(model)
    if facts is not None:
        return facts
    return next((facts for pattern, facts in patterns if pattern.fits(model)), UNKNOWN)


@functools.cache
def _file() -> dict[str, Any]:
    import orjson

    read: dict[str, Any] = orjson.loads(files("headrace.catalogue").joinpath("models.json").read_bytes())
    return read


@functools.cache
def _rows() -> dict[str, _Rows]:
    """Give the rows of each kind: those of one name each, and patterns in the file's order."""
    rows: dict[str, _Rows] = {}
    for row in _file()["models"]:
        facts = ModelFacts(
            context_window=row.get("context_window"),
            max_output=row.get("max_output"),
            input=tuple(row["input"]) if "input" in row else None,
            output=tuple(row["output"]),
            prices=_priced(row),
        )
        for kind in row["kinds"]:
            exact, patterns = rows.setdefault(kind, ({}, []))
            for name in row["names"]:
                if "*" in name:
                    patterns.append((Pattern.of(name), facts))
                else:
                    exact[name] = facts
    return rows


def _priced(row: dict[str, Any]) -> Prices | None:
    if "usd_per_million" not in row:
        return None
    above = row.get("usd_per_million_above")
    if above is None:
        return Prices(**row["usd_per_million"])
    tokens = above["tokens"]
    long = Prices(**{name: value for name, value in above.items() if name != "tokens"})
    return Prices(**row["usd_per_million"], above=(tokens, long))


def as_of() -> str:
    """Give the month of the file's facts, as `YYYY-MM`."""
    return str(_file()["as_of"])
