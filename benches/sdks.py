"""The library over loopback beside the vendors' SDKs and two frameworks that read many vendors.

Each subject reads the same upstream by its own HTTP client, in a process of its own (`benches.sdk_subjects`), and the
whole CPU of that process counts. Nothing was asked of these rows: 1 is the peer's own cost.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benches import streams
from benches.environment import ROOT, environment
from benches.gateway import tools, upstream
from benches.measure import Row, ratio

#: Subject -> its label and the streams that it reads.
PEERS = {
    "openai": ("openai 3.57.0", ("openai_chat_text", "openai_chat_tools")),
    "anthropic": ("anthropic 2.14.0", ("anthropic_messages",)),
    "litellm": ("LiteLLM 1.108.7", ("openai_chat_text", "openai_chat_tools", "anthropic_messages")),
    "pydantic-ai": ("pydantic-ai 2.68.0", ("openai_chat_text", "openai_chat_tools", "anthropic_messages")),
}


def run(rounds: int) -> list[Row]:
    """One row a peer and stream."""
    theirs, names = environment("bench-peers"), sorted({name for _, reads in PEERS.values() for name in reads})
    took: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            pathlib.Path(folder, f"{name}.sse").write_bytes(streams.stream(name).body)
        with upstream(tools(), "--streams", folder) as port:
            for _ in range(rounds):
                for name in names:
                    took.setdefault(("headrace", name), []).append(
                        _measured(pathlib.Path(sys.executable), "headrace", name, port)
                    )
                    for peer, (_, reads) in PEERS.items():
                        if name in reads:
                            took.setdefault((peer, name), []).append(_measured(theirs, peer, name, port))
    return [_row(peer, name, took) for name in names for peer, (_, reads) in PEERS.items() if name in reads]


def _row(peer: str, name: str, took: dict[tuple[str, str], list[float]]) -> Row:
    ours, theirs = took["headrace", name], took[peer, name]
    return Row(
        work=f"library beside others, burst, {name}",
        anchor=PEERS[peer][0],
        figure=ratio(theirs, ours),
        must=1.0,
        sense="at least",
        note=f"{statistics.median(ours) * 1e6:.2f} against {statistics.median(theirs) * 1e6:.2f} µs CPU per event",
    )


def _measured(python: pathlib.Path, subject: str, name: str, port: int) -> float:
    """CPU seconds per event, once what the subject read is what the stream says."""
    command = [str(python), "-m", "benches.sdk_subjects", subject, name, str(port)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    result: dict[str, Any] = json.loads(done.stdout)
    stream = streams.stream(name)
    said = [stream.text, stream.reasoning, [list(call) for call in stream.calls]]
    if result["answer"] != said:
        raise AssertionError(f"{subject} reads {name} wrongly: no time is taken of a wrong answer")
    return float(result["seconds"]) / len(stream.events)
