"""Bedrock's two families for the benches: their streams, and the loop that somebody writes by hand for them.

The loop reads lengths and headers with `struct`, checks both checksums with `zlib`, and parses payloads with orjson.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

Emit = Callable[[tuple[str, int, Any]], None]
Calls = dict[int, tuple[str, list[str]]]

_PRELUDE = struct.Struct(">III")
_LENGTH = struct.Struct(">H")
_NUMBER = struct.Struct(">I")


def message(name: str, value: Any) -> bytes:
    """One event as a message with the three headers that the service sends."""
    headers = b""
    for key, text in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + _LENGTH.pack(len(text)) + text.encode()
    payload = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    before = lengths + _NUMBER.pack(zlib.crc32(lengths)) + headers + payload
    return before + _NUMBER.pack(zlib.crc32(before))


def converse(
    thoughts: list[str], tokens: list[str], pieces: list[str], ident: Callable[[int], str]
) -> tuple[bytes, ...]:
    """ConverseStream: reasoning, text, one call. `ident` makes the padding that the service adds to every event."""

    def event(name: str, **value: Any) -> bytes:
        return message(name, {**value, "p": ident(len(ident(3)) + len(value) % 9)})

    def delta(index: int, what: dict[str, Any]) -> bytes:
        return event("contentBlockDelta", contentBlockIndex=index, delta=what)

    use = {"toolUse": {"toolUseId": "tooluse_" + ident(22), "name": "write_file"}}
    usage = {"inputTokens": 40, "outputTokens": 2000, "totalTokens": 2040}
    return (
        event("messageStart", role="assistant"),
        *(delta(0, {"reasoningContent": {"text": one}}) for one in thoughts),
        delta(0, {"reasoningContent": {"signature": ident(300)}}),
        event("contentBlockStop", contentBlockIndex=0),
        *(delta(1, {"text": one}) for one in tokens),
        event("contentBlockStop", contentBlockIndex=1),
        event("contentBlockStart", contentBlockIndex=2, start=use),
        *(delta(2, {"toolUse": {"input": one}}) for one in pieces),
        event("contentBlockStop", contentBlockIndex=2),
        event("messageStop", stopReason="tool_use"),
        event("metadata", usage=usage, metrics={"latencyMs": 900}),
    )


def invoke(events: Iterable[dict[str, Any]]) -> tuple[bytes, ...]:
    """InvokeModelWithResponseStream: another format's events in chunks of base64."""
    texts = (json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() for event in events)
    return tuple(message("chunk", {"bytes": base64.b64encode(text).decode()}) for text in texts)


def frames(pieces: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Name and payload of each event, over any split of the bytes."""
    held = b""
    for piece in pieces:
        held = held + piece if held else piece
        at = 0
        while len(held) - at >= _PRELUDE.size:
            total, length, checksum = _PRELUDE.unpack_from(held, at)
            if len(held) - at < total:
                break
            end = at + total - _NUMBER.size
            if (
                zlib.crc32(held[at : at + 8]) != checksum
                or zlib.crc32(held[at:end]) != _NUMBER.unpack_from(held, end)[0]
            ):
                raise ValueError("a checksum is wrong")
            payload = at + _PRELUDE.size + length
            yield _name(held[at + _PRELUDE.size : payload]), held[payload:end]
            at += total
        held = held[at:]


def _name(headers: bytes) -> str:
    at = 0
    while at < len(headers):
        value = at + 1 + headers[at] + 1 + _LENGTH.size
        (length,) = _LENGTH.unpack_from(headers, value - _LENGTH.size)
        if headers[at + 1 : at + 1 + headers[at]] == b":event-type":
            return headers[value : value + length].decode()
        at = value + length
    return ""


def event(name: str, value: dict[str, Any], emit: Emit, calls: Calls) -> None:
    """One event of Converse, as the hand-written loop takes it."""
    if name == "contentBlockDelta":
        delta, index = value["delta"], value["contentBlockIndex"]
        if "text" in delta:
            emit(("text", index, delta["text"]))
        elif "toolUse" in delta:
            calls[index][1].append(delta["toolUse"]["input"])
            emit(("delta", index, delta["toolUse"]["input"]))
        elif "text" in delta["reasoningContent"]:
            emit(("reasoning", index, delta["reasoningContent"]["text"]))
    elif name == "contentBlockStart":
        calls[value["contentBlockIndex"]] = (value["start"]["toolUse"]["name"], [])
    elif name == "contentBlockStop":
        if call := calls.get(value["contentBlockIndex"]):
            emit(("intent", value["contentBlockIndex"], (call[0], orjson.loads("".join(call[1])))))
    elif name == "messageStop":
        emit(("finished", 0, value["stopReason"]))
    elif name == "metadata":
        emit(("usage", 0, value["usage"]))
