"""AWS event streams for tests: messages out of headers and payloads."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any


def message(headers: dict[str, str], payload: bytes) -> bytes:
    """One message; every header is text."""
    packed = b"".join(
        struct.pack(">B", len(name)) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(packed) + len(payload) + 16, len(packed))
    before = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return before + struct.pack(">I", zlib.crc32(before))


def event(name: str, payload: Any) -> bytes:
    """An event of this name; a payload that is bytes goes as it is."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return message(headers, body)


def chunk(payload: Any) -> bytes:
    """A chunk of `InvokeModelWithResponseStream`."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
    return event("chunk", {"bytes": base64.b64encode(body).decode(), "p": "abcdefgh"[: len(body) % 8]})


def exception(name: str, payload: Any) -> bytes:
    """An exception after a 200."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return message(headers, json.dumps(payload).encode())


def error(code: str, said: str) -> bytes:
    """An error without a model of its own."""
    return message({":message-type": "error", ":error-code": code, ":error-message": said}, b"")
