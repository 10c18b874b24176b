"""The corpus as data: one TOML file is one case.

1. A case is checked when it is read: an unknown key or feature, frames that are not the bytes, a digest that is not the
   file's are errors that name the file.
2. The list of digests is the corpus's version: results name it.

What a case means for a verdict must not be added here: `judge` has it.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import tomllib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from headrace.codes import ErrorKind, FinishReason, Protocol
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DIGESTS", "FAMILIES", "FEATURES", "Case", "CorpusError", "default_corpus", "digest_list", "load"]

DIGESTS = "DIGESTS"
"""The file that has a line for each case, as `sha256sum` writes and checks it."""

FAMILIES: dict[str, Protocol] = {
    **{protocol: protocol for protocol in get_args(Protocol)},
    "mistral_chat": "openai_chat",
}
"""Folder of the corpus -> the protocol that its bytes are read as."""

FEATURES = {
    "text": "text, whatever its letters",
    "framing": "line ends, comments, checksums, ends without a blank line",
    "robustness": "what nobody knows, or what is missing without harm",
    "reasoning": "readable reasoning apart from the text",
    "continuation": "opaque state that has to go back with the next turn",
    "call": "a call with its arguments",
    "parallel_calls": "several calls",
    "empty_arguments": "a call that takes no arguments",
    "custom_call": "a call whose input is text",
    "hosted_tool": "what the provider ran itself is no call",
    "annotations": "citations",
    "media": "pictures in the answer",
    "refusal": "the model declines",
    "finish": "why the answer ended",
    "usage": "counts of tokens",
    "whole": "an answer in one body",
    "websocket": "events as messages of a WebSocket",
    "cut": "an answer without its end is an error",
    "cut_call": "an answer cut at or after a call is an error: nothing is to be carried out",
    "truncated_call": "the token limit inside a call: the limit is told, and no call",
    "malformed_call": "a call that is no JSON object is an error, not a call",
    "stream_error": "an error in a stream that began well",
    "status_error": "an error by the status",
}
"""Feature -> what it is, in the order of the tables."""

KEYS = {
    "about", "feature", "basis", "family", "protocol", "status", "headers", "body", "body_base64", "frames",
    "transport", "messages", "unasked", "expect",
}  # fmt: skip
EXPECTED = {
    "text", "reasoning", "refusal", "calls", "usage", "finish", "raw", "error", "continuations", "annotations", "media",
}  # fmt: skip
COUNTS = {"input", "output", "cached", "reasoning"}


class CorpusError(HeadraceError):
    """The corpus cannot be read: the message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    - `id`: the family, a slash, the file's name without its ending.
    - `pieces`: the body in one piece, or the messages of a WebSocket.
    - `basis`: who decides what is right: `spec`, `vendor`, or `house` where neither does.
    - `unasked`: why the adapters of other libraries do not ask for it; empty where they do.
    - `expect`: what must come of it, by the keys of `conformance/README.md`.
    """

    id: str
    about: str
    feature: str
    basis: Literal["spec", "vendor", "house"]
    family: str
    protocol: Protocol
    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[bytes, ...]
    is_websocket: bool
    unasked: str
    expect: dict[str, Any]

    @property
    def is_stream(self) -> bool:
        """Whether the caller asked for a stream: a failure by its status answers such a request too."""
        return self.status != 200 or dict(self.headers).get("content-type") != "application/json"  # noqa: PLR2004


def default_corpus() -> Path:
    """Return the repository's corpus, where this package is run from its repository.

    Raises `CorpusError` where it is installed from a wheel, which holds no corpus.
    """
    folder = Path(__file__).resolve().parents[3] / "conformance"
    if not (folder / "cases").is_dir():
        raise CorpusError(
            "no corpus beside the package: an installed headrace holds none. Take the folder `conformance` of the "
            "repository, and name it with --corpus"
        )
    return folder


def load(folder: Path, families: Iterable[str] = ()) -> list[Case]:
    """Read the cases below `folder`, by name; only those of `families` where some are named.

    Raises `CorpusError`.
    """
    wanted = set(families)
    if unknown := wanted - set(FAMILIES):
        raise CorpusError(f"no such family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    listed = (folder / DIGESTS).read_text(encoding="utf-8") if (folder / DIGESTS).is_file() else ""
    if listed != digest_list(folder):
        raise CorpusError(f"{folder / DIGESTS}: does not name the cases that are there with their digests")
    found = [_read(path) for path in _files(folder) if not wanted or path.parent.name in wanted]
    if not found:
        raise CorpusError(f"{folder}: no cases in {folder / 'cases'}")
    return found


def digest_list(folder: Path) -> str:
    """Return what `DIGESTS` should hold."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  cases/{_id(path)}.toml" for path in _files(folder)]
    return "".join(line + "\n" for line in lines)


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "cases").glob("*/*.toml"))


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _read(path: Path) -> Case:
    try:
        row = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: {error}") from error
    if fault := next(_faults(path, row), None):
        raise CorpusError(f"{path}: {fault}")
    messages = row.get("messages")
    pieces = tuple(text.encode() for text in messages) if messages else (_body(row),)
    return Case(
        id=_id(path),
        about=row["about"],
        feature=row["feature"],
        basis=row["basis"],
        family=row["family"],
        protocol=row["protocol"],
        status=row.get("status", 200),
        headers=tuple(row.get("headers", {}).items()),
        pieces=pieces,
        is_websocket=row.get("transport") == "websocket",
        unasked=row.get("unasked", "the adapters read HTTP" if messages else ""),
        expect=row["expect"],
    )


def _body(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["body_base64"]) if "body_base64" in row else cast("str", row["body"]).encode()


def _faults(path: Path, row: dict[str, Any]) -> Iterator[str]:
    for key in set(row) - KEYS:
        yield f"unknown key {key}"
    for key in sorted({"about", "feature", "basis", "family", "protocol", "expect"} - set(row)):
        yield f"no {key}"
    if row["family"] != path.parent.name or FAMILIES.get(row["family"]) != row["protocol"]:
        yield "family is not the folder's name, or protocol not the family's"
    if row["feature"] not in FEATURES:
        yield f"no such feature: {row['feature']}"
    if row["basis"] not in ("spec", "vendor", "house"):
        yield f"no such basis: {row['basis']}"
    if sum(key in row for key in ("body", "body_base64", "messages")) != 1:
        yield "one of body, body_base64 and messages"
    if "frames" in row and not _are_the_bytes(row["frames"], _body(row)):
        yield "body_base64 is not what frames say"
    yield from _expectation_faults(row["expect"])


def _expectation_faults(expect: dict[str, Any]) -> Iterator[str]:
    for key in set(expect) - EXPECTED:
        yield f"unknown key expect.{key}"
    if ("finish" in expect) == ("error" in expect):
        yield "expect needs one of finish and error"
    if "finish" in expect and expect["finish"] not in get_args(FinishReason):
        yield f"no such finish: {expect['finish']}"
    if "error" in expect and (expect["error"]["kind"] not in get_args(ErrorKind) or "calls" in expect):
        yield "no such kind of error, or calls beside an error"
    if set(expect.get("usage", ())) - COUNTS:
        yield "unknown count in expect.usage"
    for call in expect.get("calls", ()):
        if set(call) - {"id"} not in ({"name", "arguments"}, {"name", "input"}):
            yield "a call has a name, and arguments or input"


def _are_the_bytes(frames: list[dict[str, str]], body: bytes) -> bool:
    """Whether the body is these messages of an event stream, cut short or with one bit turned at most."""
    whole = b"".join(_message(frame) for frame in frames)
    if whole.startswith(body):
        return True
    turned = [at for at, (mine, theirs) in enumerate(zip(whole, body, strict=False)) if mine != theirs]
    return len(whole) == len(body) and len(turned) == 1


def _message(frame: dict[str, str]) -> bytes:
    payload = frame.get("payload", "").encode()
    if "inner" in frame:
        payload = b'{"bytes":"' + base64.b64encode(frame["inner"].encode()) + b'"}'
    kind = next(name for name in ("event", "exception", "error") if name in frame)
    if kind == "error":
        headers = {":message-type": kind, ":error-code": frame[kind], ":error-message": frame["message"]}
    else:
        headers = {f":{kind}-type": frame[kind], ":content-type": "application/json", ":message-type": kind}
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(packed) + len(payload) + 16, len(packed))
    before = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return before + struct.pack(">I", zlib.crc32(before))
