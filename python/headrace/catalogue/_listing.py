"""What providers list of their models: how their answers are read, and how long one serves.

1. A listing is fetched when a client asks for the models, and serves for `FRESH_S`; an older one serves on while it is
   fetched anew, and for as long as that fails.
2. Every vendor's shape is read for the same few facts. What is not said is unknown.
3. No redirect is followed with a credential, and no more than `BODY_MOST` bytes are read.

Never here: a choice, a client's request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.catalogue._facts import ModelFacts, Prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.requests import Headers, Secret

__all__ = ["FRESH_S", "Listed", "Listings", "ask", "read_listing"]

#: Providers add a model every few weeks.
FRESH_S: Final = 600.0
#: After a failure it is asked for again no sooner.
RETRY_S: Final = 60.0
#: A listing of a thousand models with all their facts.
BODY_MOST: Final = 4 * 1024 * 1024
MODELS_MOST: Final = 5000
NAME_MOST: Final = 256
TIMEOUT_S: Final = 5.0
_OK: Final = 200
_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class Listed:
    """One model as its provider lists it."""

    id: str
    facts: ModelFacts


@dataclass(frozen=True, slots=True)
class _Kept:
    models: tuple[Listed, ...]
    until: float


class Listings:
    """What each provider row listed last."""

    __slots__ = ("_kept", "version")

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        #: Changes with every change of a list.
        self.version: int = 0

    def of(self, provider: str) -> tuple[Listed, ...]:
        """Give what a row listed last; nothing before it did."""
        kept = self._kept.get(provider)
        return kept.models if kept is not None else ()

    def is_due(self, provider: str, now: float) -> bool:
        """Whether it is time to ask."""
        kept = self._kept.get(provider)
        return kept is None or now >= kept.until

    def is_known(self, provider: str) -> bool:
        """Whether it was ever asked."""
        return provider in self._kept

    def took(self, provider: str, models: tuple[Listed, ...] | None, now: float) -> None:
        """Take note of a listing, or (None) that there was none: then the last one serves on."""
        if models is None:
            self._kept[provider] = _Kept(self.of(provider), now + RETRY_S)
            return
        if models != self.of(provider):
            self.version += 1
        self._kept[provider] = _Kept(models, now + FRESH_S)


def ask(url: str, headers: Headers, proxy: Secret | None = None) -> tuple[Listed, ...] | None:
    """Fetch and read a provider's list of models. None: there is none, or it cannot be read. Takes 5 s at most."""
    import httpx

    raw = bytearray()
    by = proxy.reveal() if proxy is not None else None
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False, proxy=by) as client,
            client.stream("GET", url, headers=list(headers)) as answer,
        ):
            if answer.status_code != _OK:
                return None
            for piece in answer.iter_bytes():
                raw += piece
                if len(raw) > BODY_MOST:
                    return None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return read_listing(bytes(raw))


def read_listing(body: bytes) -> tuple[Listed, ...] | None:
    """Read a list of models in any vendor's shape. None: it is none."""
    import orjson

    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    rows = told
    if isinstance(told, dict):
        rows = next((told[name] for name in ("data", "models") if isinstance(told.get(name), list)), None)
    if not isinstance(rows, list):
        return None
    models: dict[str, Listed] = {}
    for row in rows[:MODELS_MOST]:
        name = _name(row)
        if name is not None:
            models.setdefault(name, Listed(name, _facts(row)))
    return tuple(models.values())


def _name(row: Any) -> str | None:
    if not isinstance(row, dict):
        return None
    name = next((row[key] for key in ("id", "name", "model") if isinstance(row.get(key), str)), None)
    if name is None:
        return None
    name = name.removeprefix("models/")
    return name if 0 < len(name) <= NAME_MOST and name.isprintable() else None


def _facts(row: Mapping[str, Any]) -> ModelFacts:
    shape = row.get("architecture")
    shape = shape if isinstance(shape, dict) else row
    return ModelFacts(
        context_window=_count(row, "context_window", "context_length", "max_input_tokens", "inputTokenLimit"),
        max_output=_count(row, "max_output_tokens", "max_tokens", "max_completion_tokens", "outputTokenLimit"),
        input=_words(shape, "input_modalities"),
        output=_words(shape, "output_modalities"),
        prices=_prices(row.get("pricing")),
    )


def _count(row: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _words(row: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = row.get(name)
    if not isinstance(value, list) or not value:
        return None
    return tuple(one for one in value if isinstance(one, str)) or None


def _prices(told: Any) -> Prices | None:
    """Read prices told as text, in dollars for one token."""
    if not isinstance(told, dict):
        return None
    found: dict[str, float] = {}
    names = {
        "prompt": "input",
        "completion": "output",
        "input_cache_read": "cached_input",
        "input_cache_write": "cache_write",
    }
    for theirs, ours in names.items():
        try:
            value = float(told[theirs])
        except (KeyError, TypeError, ValueError):
            continue
        # One vendor says -1 where it depends.
        if 0 <= value < 1:
            found[ours] = value * _MILLION
    if not found:
        return None
    return Prices(
        input=found.get("input"),
        output=found.get("output"),
        cached_input=found.get("cached_input"),
        cache_write=found.get("cache_write"),
    )
