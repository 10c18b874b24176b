"""The library over loopback: `for event in stream` of a burst, beside another library with a native core.

arcships-aimux is the fastest peer that was found; it too owns its transport. Both read the same upstream, and the
whole CPU of the process counts, threads included.
"""

from __future__ import annotations

import pathlib
import statistics
import tempfile
from typing import Any

import aimux

from benches import streams
from benches.gateway import tools, upstream
from benches.measure import Row, in_turns, ratio
from headrace.messages import Message, ModelRequest
from headrace.runtime import SyncRuntime

MUST = 5.0
#: The peer has no Responses model for another base URL.
PEERS = {
    "openai_chat_text": aimux.openai,
    "openai_chat_tools": aimux.openai,
    "anthropic_messages": aimux.anthropic,
}

CONFIG = """
[[providers]]
id = "{id}"
kind = "openai_compatible"
base_url = "http://127.0.0.1:{port}/replay/{name}/v1"
protocol = "{protocol}"
"""


def run(rounds: int) -> list[Row]:
    """One row a stream."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        for name in PEERS:
            (here / f"{name}.sse").write_bytes(streams.stream(name).body)
        with upstream(tools(), "--streams", folder) as port:
            config = here / "headrace.toml"
            tables = (
                CONFIG.format(id=name.replace("_", "-"), port=port, name=name, protocol=streams.stream(name).protocol)
                for name in PEERS
            )
            config.write_text("".join(tables))
            with SyncRuntime(config) as runtime:
                return [_row(runtime, name, port, rounds) for name in PEERS]


def _row(runtime: SyncRuntime, name: str, port: int, rounds: int) -> Row:
    stream = streams.stream(name)
    request = ModelRequest(f"{name.replace('_', '-')}/bench", (Message.user("How does the water run?"),))
    model = PEERS[name]("sk-bench", "bench", f"http://127.0.0.1:{port}/replay/{name}/v1")
    expected = (stream.text, stream.reasoning, stream.calls)
    for who, got in (("headrace", _ours(runtime, request)), ("aimux", _theirs(model))):
        if got != expected:
            raise AssertionError(f"{who} reads {name} wrongly: no time is taken of a wrong answer")

    def headrace_burst() -> None:
        with runtime.stream(request) as events:
            for event in events:
                event.type  # noqa: B018 - reading it is the work

    def aimux_burst() -> None:
        for part in aimux.stream_text(model, "How does the water run?"):
            next(iter(part))

    took = in_turns({"anchor": aimux_burst, "headrace": headrace_burst}, rounds)
    per_event = {who: statistics.median(t) / len(stream.events) * 1e6 for who, t in took.items()}
    return Row(
        work=f"library over loopback, burst, {name}",
        anchor="arcships-aimux",
        figure=ratio(took["anchor"], took["headrace"]),
        must=MUST,
        sense="at least",
        note=f"{per_event['headrace']:.2f} against {per_event['anchor']:.2f} µs CPU per event",
    )


def _ours(runtime: SyncRuntime, request: ModelRequest) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    with runtime.stream(request) as events:
        result = events.result()
    return result.text, result.reasoning, tuple((intent.tool_name, intent.input) for intent in result.intents)


def _theirs(model: Any) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    text, reasoning, calls = [], [], []
    for part in aimux.stream_text(model, "How does the water run?"):
        for kind, value in part.items():
            if kind == "TextDelta":
                text.append(value["delta"])
            elif kind == "ReasoningDelta":
                reasoning.append(value["delta"])
            elif kind == "ToolCall":
                call = value.get("tool_call", value)
                calls.append((call["tool_name"], call.get("input", call.get("args"))))
    return "".join(text), "".join(reasoning), tuple(calls)
