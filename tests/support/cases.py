"""Bodies that providers gave, or could give, each of one protocol: what the pairs of protocols are tested with."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

from headrace import Decoder, Encoder
from tests.conftest import ROOT
from tests.support.clients import Outcome, direct
from tests.support.recordings import load, with_event_names
from tests.support.replay import PROVIDERS

FIXTURES = ROOT / "tests" / "fixtures" / "streams"
CONTENT_TYPES = {
    ".sse": "text/event-stream",
    ".jsonl": "text/event-stream",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".eventstream": "application/vnd.amazon.eventstream",
}


@dataclass(frozen=True)
class Case:
    """A body that a provider of this protocol gives."""

    file: str
    protocol: str
    source: str
    body: bytes
    dialect: str | None = None
    """The provider where its protocol alone does not say who it is."""

    @property
    def provider(self) -> str:
        return self.dialect or self.protocol

    @property
    def name(self) -> str:
        return f"{self.source}/{self.file}"

    @property
    def content_type(self) -> str:
        return CONTENT_TYPES[pathlib.PurePath(self.file).suffix]

    @property
    def is_stream(self) -> bool:
        return self.content_type != "application/json"

    def ends(self) -> Iterator[int]:
        """Where events end, but for the last."""
        mark = b"\n" if self.content_type == "application/x-ndjson" else b"\n\n"
        end = 0
        while True:
            if self.content_type.endswith("amazon.eventstream"):
                end += int.from_bytes(self.body[end : end + 4])
            else:
                end = (self.body.find(mark, end) + len(mark)) or len(self.body)
            if not len(mark) <= end < len(self.body):
                return
            yield end

    @functools.cached_property
    def halves(self) -> tuple[bytes, bytes] | None:
        """For a stream that fails when every client has got something of it: that much, and the rest."""
        for end in self.ends() if self.is_stream and "error" in self.direct else ():
            decoder = Decoder(self.protocol)
            events = decoder.feed(self.body[:end])
            # Of all, these clients are told of an answer's beginning last.
            told = (
                Encoder(last, model="m", response_id="msg_1", created=0, family=self.protocol).feed(events)
                for last in ("anthropic_messages", "google_gemini")
            )
            if all(told) and not decoder.is_done:
                return self.body[:end], self.body[end:]
        return None

    @functools.cached_property
    def direct(self) -> Outcome:
        return direct(self.protocol, self.body, headers=[("content-type", self.content_type)])


def fixtures() -> list[Case]:
    found = []
    for protocol in PROVIDERS:
        if not (FIXTURES / protocol).is_dir():  # a dialect's stand with its protocol's
            continue
        for group in ("ok", "bad"):
            for path in sorted((FIXTURES / protocol / group).iterdir()):
                if path.suffix in CONTENT_TYPES and not path.name.endswith((".expected.jsonl", ".messages.jsonl")):
                    file = path.relative_to(FIXTURES).as_posix()
                    found.append(Case(file, protocol, "fixtures", path.read_bytes()))
    return found


def recordings(shared: pathlib.Path) -> list[Case]:
    found = []
    for one in load(shared):
        folder = one.file.partition("/")[0]
        dialect = folder if folder in PROVIDERS else None
        found.append(Case(one.file, one.protocol, "recordings", with_event_names(one), dialect))
    return found
