"""Our own engine: the decoder, in process, and what its events come to in the words of the corpus.

How an answer is judged must not be added here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.translate import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.conform.corpus import Case
    from headrace.events import ModelEvent

__all__ = ["outcome_of", "read"]


def read(case: Case, pieces: Sequence[bytes] | None = None) -> list[ModelEvent]:
    """Decode a case, in these pieces of its body instead of its own ones, and return the events."""
    decoder = Decoder(
        case.protocol,
        status=case.status,
        headers=case.headers,
        transport="websocket" if case.is_websocket else None,
    )
    events = [event for piece in pieces or case.pieces for event in decoder.feed(piece)]
    return events + decoder.finish("eof")


def outcome_of(events: Iterable[ModelEvent]) -> dict[str, Any]:
    """What the events come to. Raises `ValueError` unless exactly one terminal event ends them."""
    said: dict[str, list[dict[str, Any]]] = {}
    rows = [event.to_dict() for event in events]
    for row in rows:
        said.setdefault(row["type"], []).append(row)
    ends = [row for row in rows if row["type"] in ("model.finished", "provider.error")]
    if len(ends) != 1 or rows[-1] is not ends[0]:
        raise ValueError(f"{len(ends)} terminal events, the last of all is {rows[-1]['type'] if rows else 'none'}")

    def joined(kind: str) -> str:
        return "".join(row["text"] for row in said.get(kind, ()))

    usage = said.get("model.usage", [{}])[-1]
    counts = {
        "input": usage.get("input_tokens"),
        "output": usage.get("output_tokens"),
        "cached": usage.get("cached_input_tokens"),
        "reasoning": usage.get("reasoning_tokens"),
    }
    (end,) = ends
    intents = said.get("tool_intent.proposed", [])
    failed = end["type"] == "provider.error"
    return {
        "text": joined("model.text_delta"),
        "refusal": joined("model.refusal_delta"),
        "reasoning": joined("model.reasoning_delta"),
        # An intent before a provider.error is void.
        "calls": [] if failed else [_call(row) for row in sorted(intents, key=lambda row: row["call"])],
        "usage": counts if usage else None,
        "continuations": [row["data"] for row in said.get("model.continuation", ())],
        "annotations": [row["url"] for row in said.get("model.annotation", ()) if "url" in row],
        "media": [row["mime"] for row in said.get("model.media", ())],
        "finish": end.get("reason"),
        "error": {"kind": end["kind"], "retryable": end["retryable"]} if failed else None,
    }


def _call(row: dict[str, Any]) -> dict[str, Any]:
    given = "input" if row["kind"] == "custom" else "arguments"
    return {"id": row.get("provider_call_id"), "name": row["tool_name"], given: row["input"]}
