"""Bytes to Python events, in process: `headrace.Decoder` beside the hand-written orjson loop."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import headrace
from benches import loops, streams
from benches.measure import Row, in_turns, ratio

READ = 16 << 10


def run(rounds: int) -> list[Row]:
    """Each stream at one event a read and at 16 KiB reads."""
    rows = []
    for name in streams.NAMES:
        stream = streams.stream(name)
        body = stream.body
        splits = {
            "one event a read": (list(stream.events), 5.0),
            "16 KiB reads": ([body[i : i + READ] for i in range(0, len(body), READ)], 6.0),
        }
        for split, (pieces, must) in splits.items():
            rows.append(_row(stream, split, pieces, must, rounds))
    return rows


def _row(stream: streams.Stream, split: str, pieces: list[bytes], must: float, rounds: int) -> Row:
    expected = (stream.text, stream.reasoning, stream.calls)
    for who, got in (
        ("orjson loop", loops.gathered(loops.decode(stream.protocol, pieces))),
        ("headrace", _gathered(stream, pieces)),
    ):
        if got != expected:
            raise AssertionError(f"{who} decodes {stream.name} wrongly at {split}: no time is taken of a wrong answer")
    took = in_turns(
        {
            "anchor": lambda: loops.decode(stream.protocol, pieces),
            "headrace": lambda: _touch(stream.protocol, pieces),
        },
        rounds,
    )
    per_event = {who: statistics.median(t) / len(stream.events) * 1e6 for who, t in took.items()}
    return Row(
        work=f"decoder, {stream.name}, {split}",
        anchor="orjson loop",
        figure=ratio(took["anchor"], took["headrace"]),
        must=must,
        sense="at least",
        note=f"{per_event['headrace']:.2f} against {per_event['anchor']:.2f} µs CPU per event",
    )


def _touch(protocol: str, pieces: Sequence[bytes]) -> None:
    """Decode as a user would: every event is taken and its type read."""
    decoder = headrace.Decoder(protocol)
    feed = decoder.feed
    for piece in pieces:
        for event in feed(piece):
            event.type  # noqa: B018 - reading it is the work
    decoder.finish("eof")


def _gathered(stream: streams.Stream, pieces: Sequence[bytes]) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    decoder = headrace.Decoder(stream.protocol)
    text, reasoning, calls = [], [], []
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish("eof")
    for event in events:
        match event:
            case headrace.TextDelta(piece):
                text.append(piece)
            case headrace.ReasoningDelta(piece):
                reasoning.append(piece)
            case headrace.ToolIntentProposed():
                calls.append((event.tool_name, event.input))
            case headrace.ProviderErrorEvent():
                raise AssertionError(f"{stream.name} ends in {event!r}")
    return "".join(text), "".join(reasoning), tuple(calls)
