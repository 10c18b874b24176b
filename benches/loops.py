"""The anchor of the decoder benches: what somebody writes by hand with orjson in an afternoon.

Frames on the blank line, parses every event whole, makes one `(kind, index, payload)` tuple per event and
joins tool arguments. It handles no error, no other framing, no vendor's departure: it is what Headrace must
beat while doing all of that.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from benches import bedrock

Emit = Callable[[tuple[str, int, Any]], None]
Calls = dict[int, tuple[str, list[str]]]


def frames(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The JSON of each event, over any split of the bytes."""
    held = b""
    for piece in pieces:
        held = held + piece if held else piece
        start = 0
        while (end := held.find(b"\n\n", start)) >= 0:
            data = held.find(b"data: ", start, end)
            if data >= 0 and held[data + 6 : data + 7] != b"[":
                yield held[data + 6 : end]
            start = end + 2
        held = held[start:]


def _chat(event: dict[str, Any], emit: Emit, calls: Calls) -> None:
    for choice in event["choices"]:
        delta = choice["delta"]
        if text := delta.get("content"):
            emit(("text", 0, text))
        for call in delta.get("tool_calls") or ():
            index, function = call["index"], call["function"]
            if "id" in call:
                calls[index] = (function["name"], [])
            if piece := function["arguments"]:
                calls[index][1].append(piece)
                emit(("delta", index, piece))
        if reason := choice["finish_reason"]:
            for index, (name, pieces) in calls.items():
                emit(("intent", index, (name, orjson.loads("".join(pieces)))))
            emit(("finished", 0, reason))
    if usage := event.get("usage"):
        emit(("usage", 0, usage))


def _messages(event: dict[str, Any], emit: Emit, calls: Calls) -> None:
    kind = event["type"]
    if kind == "content_block_delta":
        delta, index = event["delta"], event["index"]
        what = delta["type"]
        if what == "text_delta":
            emit(("text", index, delta["text"]))
        elif what == "thinking_delta":
            emit(("reasoning", index, delta["thinking"]))
        elif what == "input_json_delta":
            calls[index][1].append(delta["partial_json"])
            emit(("delta", index, delta["partial_json"]))
    elif kind == "content_block_start":
        if event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = (event["content_block"]["name"], [])
    elif kind == "content_block_stop":
        if call := calls.get(event["index"]):
            emit(("intent", event["index"], (call[0], orjson.loads("".join(call[1])))))
    elif kind == "message_delta":
        emit(("finished", 0, event["delta"]["stop_reason"]))
        emit(("usage", 0, event["usage"]))


def _responses(event: dict[str, Any], emit: Emit, calls: Calls) -> None:
    kind = event["type"]
    if kind == "response.output_text.delta":
        emit(("text", event["output_index"], event["delta"]))
    elif kind == "response.function_call_arguments.delta":
        calls[event["output_index"]][1].append(event["delta"])
        emit(("delta", event["output_index"], event["delta"]))
    elif kind == "response.output_item.added":
        if event["item"]["type"] == "function_call":
            calls[event["output_index"]] = (event["item"]["name"], [])
    elif kind == "response.function_call_arguments.done":
        name, pieces = calls[event["output_index"]]
        emit(("intent", event["output_index"], (name, orjson.loads("".join(pieces)))))
    elif kind == "response.completed":
        emit(("usage", 0, event["response"]["usage"]))


_NORMALISE = {"openai_chat": _chat, "anthropic_messages": _messages, "openai_responses": _responses}


def decode(protocol: str, pieces: Iterable[bytes]) -> list[tuple[str, int, Any]]:
    """All events of a stream, as the hand-written loop sees them."""
    events: list[tuple[str, int, Any]] = []
    calls: Calls = {}
    emit, loads = events.append, orjson.loads
    if protocol == "bedrock_converse":
        for name, payload in bedrock.frames(pieces):
            bedrock.event(name, loads(payload), emit, calls)
        return events
    if protocol == "bedrock_invoke":
        for _, payload in bedrock.frames(pieces):
            _messages(loads(base64.b64decode(loads(payload)["bytes"])), emit, calls)
        return events
    normalise = _NORMALISE[protocol]
    for frame in frames(pieces):
        normalise(loads(frame), emit, calls)
    return events


def gathered(events: Iterable[tuple[str, int, Any]]) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    """Text, reasoning and calls of such events, for the check before the time."""
    text, reasoning, calls = [], [], []
    for kind, _, payload in events:
        if kind == "text":
            text.append(payload)
        elif kind == "reasoning":
            reasoning.append(payload)
        elif kind == "intent":
            calls.append(payload)
    return "".join(text), "".join(reasoning), tuple(calls)
