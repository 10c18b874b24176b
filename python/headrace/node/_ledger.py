"""The row of a request, made where it is settled, and those of its attempts, unless the only one answered.

1. A row is plain values: it is written to the store, or to the journal, as it is.
2. Unknown is None and never 0: usage that nobody told, a price that nobody knows.
3. Texts from outside are cut to a bound, and hold no NUL.

Never here: writing.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from headrace.node._tables import REQUEST_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.catalogue import Prices
    from headrace.causes import Cause
    from headrace.credentials import Status
    from headrace.requests import RuntimeMap, Settlement
    from headrace.store import Value

__all__ = ["Rows", "Settled", "rows_of"]

#: Characters of a text from outside that are kept.
TEXT_LIMIT: Final = 512
#: Of a request's body, for an estimate.
BYTES_PER_TOKEN: Final = 4


class Attempt(Protocol):
    """What a row needs to know of one attempt: `attempts.AttemptRecord` has it."""

    @property
    def attempt(self) -> int:
        """From 1."""

    @property
    def provider(self) -> str:
        """The provider row's id."""

    @property
    def model(self) -> str:
        """The upstream's own name."""

    @property
    def credential(self) -> str | None:
        """Its id, where the provider takes one."""

    @property
    def cause(self) -> Cause | None:
        """Why it failed; None where it answered."""

    @property
    def kind(self) -> str | None:
        """The error's kind."""

    @property
    def status(self) -> int | None:
        """Of the provider's answer."""

    @property
    def marked(self) -> Status | None:
        """What its credential became."""

    @property
    def bytes_sent(self) -> int:
        """To the provider."""

    @property
    def bytes_received(self) -> int:
        """From the provider."""

    @property
    def began(self) -> float:
        """In Unix time."""

    @property
    def ended(self) -> float:
        """In Unix time."""


@dataclass(slots=True)
class Settled:
    """A request that came to its end. Not frozen: one is made for every request, and that costs three times as much.

    - `number`: its number at this node.
    - `at`: when it was whole, in Unix time.
    - `asked`: the name that the client asked for.
    - `attempts`: every attempt, the last one too.
    - `prices`: the model's, where they are known.
    - `route`: why another model was asked than the one before, for each step.
    """

    number: int
    at: float
    request_id: str | None
    key: str | None
    asked: str | None
    client_protocol: str
    runtime: RuntimeMap
    attempts: Sequence[Attempt]
    settlement: Settlement
    prices: Prices | None = None
    route: str | None = None

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output: as told, else by an estimate from what passed; 0 where the provider gave nothing.

        A client that leaves before the usage is told has used what it has seen.
        """
        end = self.settlement
        if end.input_tokens is not None or end.output_tokens is not None:
            return end.input_tokens or 0, end.output_tokens or 0
        return (end.bytes_sent // BYTES_PER_TOKEN, end.events) if end.events else (0, 0)

    @property
    def spent(self) -> float:
        """What is counted on a budget, in US dollars: the cost, else what the estimated tokens cost."""
        if self.prices is None:
            return 0.0
        cost = self.cost
        if cost is None:
            given, made = self.tokens
            cost = self.prices.cost(input_tokens=given, output_tokens=made)
        return cost or 0.0

    @property
    def cost(self) -> float | None:
        """What it cost in US dollars, by an estimate. None: its usage or its price is not known."""
        end = self.settlement
        if self.prices is None:
            return None
        return self.prices.cost(
            input_tokens=end.input_tokens,
            output_tokens=end.output_tokens,
            cached_input_tokens=end.cached_input_tokens,
            cache_write_tokens=end.cache_write_tokens,
        )


Rows: TypeAlias = tuple[tuple["Value", ...], tuple[tuple["Value", ...], ...]]
"""A request's row and its attempts' rows."""


#: Of a settlement, whose names are the columns'.
_COUNTED: Final = attrgetter(*REQUEST_COLUMNS[REQUEST_COLUMNS.index("attempts") : REQUEST_COLUMNS.index("cost_usd")])


def rows_of(node: str, told: Settled) -> Rows:
    """Make a settled request's rows."""
    end = told.settlement
    runtime = told.runtime
    cost = told.cost
    name = f"{node}-{told.number}"
    error = end.error
    asked, model, response, upstream = told.asked, runtime.model, end.response_id, end.request_id
    # Mostly all of them are clean: that is asked once.
    all_of_them = f"{told.request_id}{asked}{model}{response}{upstream}"
    if len(all_of_them) <= TEXT_LIMIT and all_of_them.isprintable():
        request_id = told.request_id
    else:
        request_id, asked, response, upstream = map(_text, (told.request_id, asked, response, upstream))
        model = _text(model) or ""
    records = told.attempts
    only = records[0] if len(records) == 1 and error is None else None
    if only is not None and (only.kind is not None or (only.model, only.provider) != (runtime.model, runtime.provider)):
        only = None
    request: tuple[Value, ...] = (
        name,
        node,
        told.at,
        request_id,
        told.key,
        asked,
        runtime.provider,
        model,
        told.client_protocol,
        runtime.protocol,
        end.status,
        end.finish,
        None if error is None else error.kind,
        *_COUNTED(end),
        cost,
        response,
        upstream,
        runtime.capability,
        None if told.route is None else _text(told.route),
        None if only is None else only.credential,
        None if only is None else only.began,
    )
    return request, () if only is not None else _attempts(name, told, cost)


def _attempts(name: str, told: Settled, cost: float | None) -> tuple[tuple[Value, ...], ...]:
    end = told.settlement
    last = len(told.attempts) - 1
    return tuple(
        (
            name,
            one.attempt,
            one.provider,
            _text(one.model),
            one.credential,
            None if one.cause is None else one.cause.value,
            one.kind,
            one.status,
            None if one.marked is None else one.marked.value,
            one.bytes_sent,
            one.bytes_received,
            end.events if at == last else 0,
            one.began,
            one.ended,
            int(at == last and end.input_tokens is not None),
            cost if at == last else None,
        )
        for at, one in enumerate(told.attempts)
    )


def _text(text: str | None) -> str | None:
    if text is None or (len(text) <= TEXT_LIMIT and "\0" not in text and text.isprintable()):
        return text
    # A lone surrogate, as a JSON escape can make, is no text for a store.
    clean = text[:TEXT_LIMIT].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode()
