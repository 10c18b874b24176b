"""What turning a provider's bytes into events costs: the measuring behind `headrace bench`.

1. The answer first: a body whose events are not the same however its bytes are cut has no cost.
2. CPU time, not wall time: neighbours on a machine stretch the one several times over and the other by a few per cent.
3. A figure is the least of several rounds: whatever disturbs a round only adds to it.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import orjson

from headrace.translate import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.codes import Protocol
    from headrace.events import ModelEvent

__all__ = ["Cost", "cost_of", "payloads_of"]

BLOCK: Final = 16 * 1024
"""Bytes of one read from a socket that always has more."""

MOST_SINGLY: Final = 1 << 20
"""Bytes of a body that is also read byte by byte: a call each, so a second for the longest."""

ROUNDS: Final = 5
"""Rounds of each figure, the least of which counts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one body costs. Times are microseconds of CPU for each event, each event's type looked at."""

    events: int
    bytes: int
    event_reads_us: float
    """One read for each event, as from a live model."""
    block_reads_us: float
    """Reads of 16 KiB, as from a socket that always has more."""
    json_us: float | None
    """Parsing the payloads with orjson, already framed, and nothing else; None where the body is not text."""


def cost_of(body: bytes, protocol: Protocol, *, seconds: float = 0.5) -> Cost:
    """Measure what reading `body` costs.

    - `seconds`: CPU time spent on each figure, about.

    Raises `ValueError` where the body has no event, is read differently in pieces, or has no end.
    """
    events = _read(protocol, [body])
    blocks = [body[at : at + BLOCK] for at in range(0, len(body), BLOCK)]
    cuts = sorted({0, len(body), *(event.offset for event in events)})
    singly = [body[start:end] for start, end in pairwise(cuts)]
    _check(protocol, body, events, [blocks, singly])
    payloads = payloads_of(body)

    def each(pieces: Sequence[bytes]) -> float:
        return _least(lambda: _look(protocol, pieces), seconds) / len(events) * 1e6

    alone = None if payloads is None else _least(lambda: _parse(payloads), seconds) / len(events) * 1e6
    return Cost(len(events), len(body), each(singly), each(blocks), alone)


def payloads_of(body: bytes) -> list[bytes] | None:
    """Give the JSON of each event of an event stream, of lines, or of one body; None where the framing is binary."""
    lines = body.split(b"\n")
    datas = [line[5:].strip() for line in lines if line.startswith(b"data:")]
    found = [line for line in datas or (line.strip() for line in lines) if line.startswith((b"{", b"["))]
    payloads = [line for line in found if line != b"[DONE]"]
    try:
        _parse(payloads)
    except orjson.JSONDecodeError:
        try:
            payloads = [body]
            _parse(payloads)
        except orjson.JSONDecodeError:
            return None
    return payloads or None


def _check(protocol: Protocol, body: bytes, events: list[ModelEvent], splits: list[list[bytes]]) -> None:
    said = [event.to_json() for event in events]
    if len(body) <= MOST_SINGLY:
        splits = [*splits, [bytes([byte]) for byte in body]]
    if any([event.to_json() for event in _read(protocol, pieces)] != said for pieces in splits):
        raise ValueError("read in pieces, other events come of it: please report this body")
    if events[-1].type not in {"model.finished", "provider.error"}:
        raise ValueError(f"no terminal event ends it: {events[-1].type}")
    if len(events) == 1 and events[0].type == "provider.error":
        raise ValueError(f"it says nothing but an error: {events[0].kind}; is the protocol right?")


def _read(protocol: Protocol, pieces: Iterable[bytes]) -> list[ModelEvent]:
    decoder = Decoder(protocol)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.finish("eof")]


def _look(protocol: Protocol, pieces: Sequence[bytes]) -> None:
    decoder = Decoder(protocol)
    feed = decoder.feed
    for piece in pieces:
        for event in feed(piece):
            event.type  # noqa: B018 - reading it is the work
    for event in decoder.finish("eof"):
        event.type  # noqa: B018


def _parse(payloads: Sequence[bytes]) -> None:
    loads = orjson.loads
    for payload in payloads:
        loads(payload)


def _least(run: Callable[[], None], seconds: float) -> float:
    """CPU seconds of one call: the least mean of `ROUNDS` rounds that take `seconds` together."""
    run()
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        calls, start = 0, time.process_time()
        while (spent := time.process_time() - start) < seconds / ROUNDS or not calls:
            run()
            calls += 1
        best = min(best, spent / calls)
    return best
