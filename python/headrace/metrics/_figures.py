"""The counters of requests. `Metrics.settled` is all that a request costs here."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from headrace.metrics._exposition import Family, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.attempts import AttemptRecord
    from headrace.catalogue import Prices
    from headrace.metrics._exposition import Labels
    from headrace.requests import RuntimeMap, Settlement
    from headrace.routes import Hop

__all__ = ["OTHER", "Metrics"]

#: The label of every model that has none of its own.
OTHER: Final = "other"
#: Pairs of provider and model with figures of their own: more than a configuration names, and with some ten lines each
#: a page of half a megabyte. Beyond it, and for names that a client made up, there is `OTHER`.
MODELS_MOST: Final = 500
#: Codes of refusals. This package has some thirty; a plug-in may have its own, and has no business with more.
CODES_MOST: Final = 64
#: Seconds. From a cached prefix on a near machine to a reasoning model that thinks.
FIRST: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: Seconds. A long answer streams for minutes.
WHOLE: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: Seconds. The gateway's own share; more than the last means that the machine is too small.
DECIDE: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
_Key: TypeAlias = tuple[str, str, str, str]
_TOKENS: Final = ("input", "output", "cached_input", "cache_write", "reasoning")


class Way(Protocol):
    """What is told of a request's way: `routes.RouteAttempts` has it."""

    client: str
    hops: tuple[Hop, ...]
    runtime: RuntimeMap

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """Of every attempt."""


class _Cell:
    """What went to one model for the clients of one protocol, and came of it. A request looks up one and no more."""

    __slots__ = (
        "answered",
        "cost",
        "first",
        "ok",
        "received",
        "sent",
        "to_client",
        "tokens",
        "unpriced",
        "untold",
        "whole",
    )

    def __init__(self, first: Histogram, whole: Histogram) -> None:
        self.first, self.whole = first, whole
        #: Good answers; and those at the first attempt.
        self.ok = self.answered = 0
        self.sent = self.received = self.to_client = 0
        #: In the order of `_TOKENS`.
        self.tokens = [0, 0, 0, 0, 0]
        self.cost = 0.0
        #: Answers whose price is not known, and others whose usage was not told.
        self.unpriced = self.untold = 0


class _Share:
    """What one gateway key has used."""

    __slots__ = ("cost", "given", "made", "requests")

    def __init__(self) -> None:
        self.requests = self.given = self.made = 0
        self.cost = 0.0


class Metrics:
    """What became of the requests of one gateway since its start."""

    def __init__(self) -> None:
        #: By the client's protocol, provider, model and capability. A model without a name here is in a cell of others.
        self._cells: dict[_Key, _Cell] = {}
        #: By the key's id. Keys are the configuration's.
        self._keys: dict[str, _Share] = {}
        self._failed: Counter[tuple[str, str, str, str]] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._marks: Counter[tuple[str, str]] = Counter()
        self._hops: Counter[tuple[str, str, str]] = Counter()
        self._named: frozenset[tuple[str, str]] = frozenset()
        self._first: dict[str, Histogram] = {}
        self._whole: dict[str, Histogram] = {}
        self._decide = Histogram(DECIDE)

    def name(self, models: Iterable[tuple[str, str]]) -> None:
        """Take the pairs of provider and model whose names may stand in labels, those first that matter most."""
        named = dict.fromkeys((key[1], key[2]) for key in self._cells)
        for pair in models:
            if len(named) >= MODELS_MOST:
                break
            named[pair] = None
        self._named = frozenset(named)

    def label(self, provider: str, model: str) -> tuple[str, str]:
        """Give the labels of a model."""
        pair = (provider, model)
        return pair if pair in self._named else (provider, OTHER)

    def refused(self, client: str | None, code: str) -> None:
        """Take note of a request that was answered without a provider."""
        key = (client or "", code)
        if key not in self._refused and len(self._refused) >= CODES_MOST:
            key = (client or "", OTHER)
        self._refused[key] += 1

    def settled(
        self, way: Way, end: Settlement, prices: Prices | None, *, key: str | None = None, is_free: bool = False
    ) -> None:
        """Take note of a request that came to its end.

        - `prices`: the model's, where they are known.
        - `key`: the gateway key's id.
        - `is_free`: no provider takes money for it.
        """
        runtime, error = way.runtime, end.error
        of = (way.client, runtime.provider, runtime.model, runtime.capability)
        cell = self._cells.get(of) or self._cell(of)
        if error is not None:
            self._failed[of[0], of[3], of[1], error.kind] += 1
            self._attempted(way)
        else:
            cell.ok += 1
            if end.attempts == 1:
                cell.answered += 1
            else:
                self._attempted(way)
            if end.first_byte_s is not None:
                cell.first.observe(end.first_byte_s)
                cell.whole.observe(end.total_s)
        if way.hops:
            for hop in way.hops:
                self._hops[_provider(hop.came_from), _provider(hop.went_to), hop.reason] += 1
        cell.sent += end.bytes_sent
        cell.received += end.bytes_received
        cell.to_client += end.bytes_to_client
        self._decide.observe(end.decide_s)
        cost = _charge(cell, end, prices) if not is_free and (error is None or end.events) else 0.0
        if key is not None:
            share = self._keys.get(key)
            if share is None:
                share = self._keys[key] = _Share()
            share.requests += 1
            share.given += end.input_tokens or 0
            share.made += end.output_tokens or 0
            share.cost += cost

    def _cell(self, key: _Key) -> _Cell:
        client, provider, model, capability = key
        key = (client, provider, self.label(provider, model)[1], capability)
        cell = self._cells.get(key)
        if cell is None:
            first = self._first.setdefault(provider, Histogram(FIRST))
            cell = self._cells[key] = _Cell(first, self._whole.setdefault(provider, Histogram(WHOLE)))
        return cell

    def _attempted(self, way: Way) -> None:
        for one in way.records:
            cause = one.cause.value if one.cause is not None else "answered" if one.kind is None else one.kind
            self._attempts[one.provider, cause] += 1
            if one.marked is not None:
                self._marks[one.provider, one.marked.value] += 1

    def families(self) -> list[Family]:
        """Give all of it."""
        requests, attempts = self._failed.copy(), self._attempts.copy()
        models: dict[tuple[str, str], list[_Cell]] = {}
        for (client, provider, model, capability), cell in self._cells.items():
            if cell.ok:
                requests[client, capability, provider, "ok"] += cell.ok
            if cell.answered:
                attempts[provider, "answered"] += cell.answered
            models.setdefault((provider, model), []).append(cell)
        named = [((("provider", provider), ("model", model)), cells) for (provider, model), cells in models.items()]
        return [
            Family(
                "headrace_requests",
                "counter",
                "Requests that went to a provider and ended: ok, or the kind of error that the client was told.",
                _counted(("client", "capability", "provider", "outcome"), requests),
            ),
            Family(
                "headrace_refused",
                "counter",
                "Requests that the gateway answered itself, without a provider, by its code.",
                _counted(("client", "code"), self._refused),
            ),
            Family(
                "headrace_attempts",
                "counter",
                "Attempts at providers: answered, aborted (the client left, or a hedge lost), or why they failed.",
                _counted(("provider", "cause"), attempts),
            ),
            Family(
                "headrace_credential_marks",
                "counter",
                "Marks that failed attempts left on credentials.",
                _counted(("provider", "state"), self._marks),
            ),
            Family(
                "headrace_fallbacks",
                "counter",
                "Steps from one model to another, and why.",
                _counted(("from", "to", "reason"), self._hops),
            ),
            Family(
                "headrace_first_byte_seconds",
                "histogram",
                "From the decision to the first byte of a good answer for the client.",
                _by_provider(self._first),
            ),
            Family(
                "headrace_answer_seconds",
                "histogram",
                "From the whole request to the end of a good answer.",
                _by_provider(self._whole),
            ),
            Family(
                "headrace_decide_seconds",
                "histogram",
                "From the whole request to the decision whom to ask.",
                [((), self._decide)],
            ),
            Family(
                "headrace_bytes",
                "counter",
                "Bytes of bodies to and from providers, and of answers to clients.",
                _each(named, ("to_provider", "from_provider", "to_client"), "direction", _bytes),
            ),
            Family(
                "headrace_tokens",
                "counter",
                "Tokens as providers told them; input counts cached ones, output counts reasoning.",
                _each(named, _TOKENS, "kind", lambda one: one.tokens),
            ),
            Family(
                "headrace_cost_usd",
                "counter",
                "What answers cost in US dollars, by the prices of the catalogue, where price and usage are known.",
                [(labels, sum(one.cost for one in cells)) for labels, cells in named],
            ),
            Family(
                "headrace_cost_unknown",
                "counter",
                "Answers that headrace_cost_usd leaves out: their model's price is not known, or their usage is not.",
                _each(named, ("price", "usage"), "missing", lambda one: (one.unpriced, one.untold)),
            ),
            Family(
                "headrace_key_requests",
                "counter",
                "Requests of each gateway key that went to a provider and ended.",
                [((("key", key),), share.requests) for key, share in self._keys.items()],
            ),
            Family(
                "headrace_key_tokens",
                "counter",
                "Tokens of each gateway key, as providers told them.",
                [
                    ((("key", key), ("kind", kind)), value)
                    for key, share in self._keys.items()
                    for kind, value in (("input", share.given), ("output", share.made))
                ],
            ),
            Family(
                "headrace_key_cost_usd",
                "counter",
                "What answers for each gateway key cost, where it is known.",
                [((("key", key),), share.cost) for key, share in self._keys.items()],
            ),
        ]


def _charge(cell: _Cell, end: Settlement, prices: Prices | None) -> float:
    """Count tokens and cost. Gives the cost; 0 where it is not known, which is counted, too."""
    given, made = end.input_tokens, end.output_tokens
    cached, written, thought = end.cached_input_tokens, end.cache_write_tokens, end.reasoning_tokens
    tokens = cell.tokens
    if given is not None:
        tokens[0] += given
    if made is not None:
        tokens[1] += made
    if cached is not None:
        tokens[2] += cached
    if written is not None:
        tokens[3] += written
    if thought is not None:
        tokens[4] += thought
    if prices is None or prices.input is None or prices.output is None:
        cell.unpriced += 1
        return 0.0
    cost = prices.cost(input_tokens=given, output_tokens=made, cached_input_tokens=cached, cache_write_tokens=written)
    if cost is None:
        cell.untold += 1
        return 0.0
    cell.cost += cost
    return cost


def _bytes(one: _Cell) -> Sequence[float]:
    return one.sent, one.received, one.to_client


def _provider(name: str) -> str:
    return name.partition("/")[0]


def _counted(names: Sequence[str], counts: Mapping[Any, int]) -> list[tuple[Labels, float | Histogram]]:
    return [(tuple(zip(names, key, strict=True)), count) for key, count in counts.items()]


def _by_provider(histograms: dict[str, Histogram]) -> list[tuple[Labels, float | Histogram]]:
    return [((("provider", provider),), one) for provider, one in histograms.items()]


def _each(
    named: Sequence[tuple[Labels, Sequence[_Cell]]],
    words: Sequence[str],
    label: str,
    values: Callable[[_Cell], Sequence[float]],
) -> list[tuple[Labels, float | Histogram]]:
    """Give several figures of every model, each with a word of its own."""
    return [
        ((*labels, (label, word)), sum(column))
        for labels, cells in named
        for word, column in zip(words, zip(*map(values, cells), strict=True), strict=True)
    ]
