"""The codec in Rust, without Python objects, per family: beside the hand-written orjson loop in the same run."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import tempfile

from benches import loops, streams
from benches.decoder import READ
from benches.gateway import tools
from benches.measure import Row, process_cpu, ratio

MUST = 5.0
MUST_PER_BYTE = 2.0
"""What a family may cost of the Chat family, for each byte."""


def run(rounds: int) -> list[Row]:
    """Each stream at one event a read and at 16 KiB reads."""
    program = tools() / "bench-codec"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in streams.NAMES:
            body = pathlib.Path(folder) / f"{name}.sse"
            body.write_bytes(streams.stream(name).body)
            rows += [_row(name, program, body, read, rounds) for read in (0, READ)]
        for name in (*streams.FURTHER, "bedrock_converse", "bedrock_invoke"):
            path = pathlib.Path(folder) / f"{name}.body"
            path.write_bytes(streams.stream(name).body)
            rows.append(_further(name, program, path, pathlib.Path(folder) / "openai_chat_text.sse", rounds))
    return rows


def _decoded(name: str, program: pathlib.Path, body: pathlib.Path, read: int) -> float:
    """Nanoseconds of one decoding, once it was seen to be right."""
    stream = streams.stream(name)
    done = subprocess.run([program, stream.protocol, body, str(read)], check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    said = (result["text_bytes"], result["intents"], result["finished"], result["frames"])
    if said != (len(stream.text.encode()), len(stream.calls), True, len(stream.events)):
        raise AssertionError(f"the codec decodes {name} wrongly: {done.stdout}")
    return float(result["ns_per_event"]) * len(stream.events)


def _further(name: str, program: pathlib.Path, body: pathlib.Path, chat: pathlib.Path, rounds: int) -> Row:
    """A family's cost for each byte beside Chat's, at 16 KiB reads."""
    own = [_decoded(name, program, body, READ) / body.stat().st_size for _ in range(rounds)]
    anchor = [_decoded("openai_chat_text", program, chat, READ) / chat.stat().st_size for _ in range(rounds)]
    per_byte, of_chat = statistics.median(own), statistics.median(anchor)
    return Row(
        work=f"codec in Rust, {name}, for each byte",
        anchor="the Chat family",
        figure=ratio(own, anchor),
        must=MUST_PER_BYTE,
        sense="at most",
        note=f"{per_byte:.2f} against {of_chat:.2f} ns per byte",
    )


def _row(name: str, program: pathlib.Path, body: pathlib.Path, read: int, rounds: int) -> Row:
    stream = streams.stream(name)
    data = stream.body
    pieces = [data[i : i + read] for i in range(0, len(data), read)] if read else list(stream.events)
    ours: list[float] = []
    loop: list[float] = []
    for _ in range(rounds):
        ours.append(_decoded(name, program, body, read) * 1e-9)
        loop.append(process_cpu(lambda: loops.decode(stream.protocol, pieces)))
    per_event = statistics.median(ours) / len(stream.events) * 1e9
    anchor = statistics.median(loop) / len(stream.events) * 1e9
    return Row(
        work=f"codec in Rust, {name}, {'16 KiB reads' if read else 'one event a read'}",
        anchor="orjson loop",
        figure=ratio(loop, ours),
        must=MUST,
        sense="at least",
        note=f"{per_event:.0f} against {anchor:.0f} ns per event",
    )
