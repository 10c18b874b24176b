"""The fixtures' streams give in Python the events that their `.expected.jsonl` names, byte for byte.

The Rust tests take every cut of them; here it is the binding that is held to them.
"""

import pathlib

import pytest

from headrace import Decoder

STREAMS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "streams"


@pytest.mark.parametrize("family", sorted(path.name for path in STREAMS.iterdir()))
def test_a_fixture_gives_its_events(family):
    expected = sorted((STREAMS / family).rglob("*.expected.jsonl"))
    assert len(expected) >= 20
    for path in expected:
        (stream,) = (p for p in path.parent.glob(path.name.split(".")[0] + ".*") if p != path)
        messages = stream.name.endswith(".messages.jsonl")
        body = stream.read_bytes()
        decoder = Decoder(
            family, transport="websocket" if messages else None, think_tags=stream.name.startswith("think-tags")
        )
        pieces = [line for line in body.split(b"\n") if line] if messages else [body]
        events = [event for piece in pieces for event in decoder.feed(piece)]
        events += decoder.finish("eof")
        assert b"".join(event.to_json() + b"\n" for event in events) == path.read_bytes(), stream
