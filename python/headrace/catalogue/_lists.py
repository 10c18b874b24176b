"""The list of models that a client gets: what is configured, what is known beforehand, what providers list.

Never here: a socket, a choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from headrace.catalogue._facts import PRICED, UNKNOWN, ModelFacts, Prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Shape", "merged", "written", "written_one"]

Shape: TypeAlias = Literal["openai", "anthropic", "google", "ollama"]
"""Whose list it looks like."""

_PLAIN: Final = ("context_window", "max_output", "input", "output")


def merged(first: ModelFacts, then: ModelFacts) -> ModelFacts:
    """Give `first`, and what it does not know by `then`."""
    facts = {name: getattr(first, name) or getattr(then, name) for name in _PLAIN}
    return replace(UNKNOWN, **facts, prices=first.prices or then.prices)


def written(known: Mapping[str, tuple[str, ModelFacts]], shape: Shape) -> bytes:
    """Write a list in the shape of a vendor's.

    - `known`: name to the provider's row and what is known of the model.
    """
    import orjson

    if shape == "google":
        return orjson.dumps({"models": [_google(name, facts) for name, (_, facts) in known.items()]})
    if shape == "ollama":
        return orjson.dumps({"models": [_ollama(name, owner) for name, (owner, _) in known.items()]})
    if shape == "openai":
        data = [_openai(name, owner, facts) for name, (owner, facts) in known.items()]
        return orjson.dumps({"object": "list", "data": data})
    ids = list(known)
    return orjson.dumps(
        {
            "data": [_anthropic(name, facts) for name, (_, facts) in known.items()],
            "has_more": False,
            "first_id": ids[0] if ids else None,
            "last_id": ids[-1] if ids else None,
        }
    )


def written_one(name: str, owner: str, facts: ModelFacts, shape: Shape) -> bytes:
    """Write one model as a vendor's answer to a question for it.

    - `owner`: the provider's row.
    """
    import orjson

    if shape == "google":
        return orjson.dumps(_google(name, facts))
    if shape == "ollama":
        return orjson.dumps(_ollama(name, owner))
    return orjson.dumps(_openai(name, owner, facts) if shape == "openai" else _anthropic(name, facts))


def _ollama(name: str, owner: str) -> dict[str, Any]:
    # No file lies here: no size, and no digest of one. When it was made is not known, as in the others' lists.
    details = {"format": "", "family": owner, "families": None, "parameter_size": "", "quantization_level": ""}
    made = "1970-01-01T00:00:00Z"
    return {"name": name, "model": name, "modified_at": made, "size": 0, "digest": "", "details": details}


def _openai(name: str, owner: str, facts: ModelFacts) -> dict[str, Any]:
    # When a model was made is not known here; the epoch is how Anthropic's own list says so.
    row: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": owner}
    told = {
        "context_window": facts.context_window,
        "max_output_tokens": facts.max_output,
        "input_modalities": facts.input,
        "output_modalities": facts.output,
        "usd_per_million_tokens": _prices(facts.prices),
    }
    return row | _present(told.items())


def _anthropic(name: str, facts: ModelFacts) -> dict[str, Any]:
    row = {
        "type": "model",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "id": name,
        "display_name": name,
    }
    return row | _present([("max_input_tokens", facts.context_window), ("max_tokens", facts.max_output)])


def _google(name: str, facts: ModelFacts) -> dict[str, Any]:
    row = {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
    return row | _present([("inputTokenLimit", facts.context_window), ("outputTokenLimit", facts.max_output)])


def _prices(prices: Prices | None) -> dict[str, Any] | None:
    if prices is None:
        return None
    told = _present((name, getattr(prices, name)) for name in PRICED)
    if prices.above is not None:
        tokens, above = prices.above
        told["above"] = {"input_tokens": tokens, **(_prices(above) or {})}
    return told


def _present(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}
