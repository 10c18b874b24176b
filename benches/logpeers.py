"""The event log beside two others that keep one: the same run of 2,000 events into a fresh SQLite file each.

`benches.log_subjects` does the work, a process a subject, all in WAL mode with `synchronous=FULL`. The peers are the
group `bench-log`.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benches.environment import environment
from benches.log import turn
from benches.measure import Row, ratio
from headrace.log import payloads as p

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVENTS = 2000
PEERS = ("eventsourcing", "openai-agents")
FIGURES = {
    "append_cpu": ("CPU of one durable append", "µs CPU"),
    "append_wall": ("wall time of one durable append", "µs"),
    "read_cpu": ("CPU to read and rebuild, an event", "µs CPU"),
}


def run(rounds: int) -> list[Row]:
    """Three figures beside each peer."""
    pythons = {"headrace": pathlib.Path(sys.executable), **dict.fromkeys(PEERS, environment("bench-log"))}
    took: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        events = folder / "events.json"
        events.write_text(json.dumps(a_run()))
        for number in range(rounds):
            for subject, python in pythons.items():
                took[subject].append(measured(python, subject, events, folder / f"{subject}{number}.db"))
    return [_row(key, peer, took) for key in FIGURES for peer in PEERS]


def _row(key: str, peer: str, took: dict[str, list[dict[str, float]]]) -> Row:
    what, unit = FIGURES[key]
    ours, theirs = ([one[key] for one in took[name]] for name in ("headrace", peer))
    return Row(
        work=f"event log beside others: {what}",
        anchor=peer,
        figure=ratio(ours, theirs),
        must=1.0,
        sense="at most",
        note=f"{statistics.median(ours) * 1e6:,.1f} against {statistics.median(theirs) * 1e6:,.1f} {unit}",
    )


def a_run() -> list[tuple[str, dict[str, object]]]:
    """The events with their bodies as plain JSON data."""
    payloads: list[p.Payload] = [p.RunStarted(goal="bench", model="acme/m", cwd="/"), p.UserMessage(text="bench")]
    while len(payloads) < EVENTS:
        payloads += turn(len(payloads))
    return [(payload.type, json.loads(payload.to_json())) for payload in payloads[:EVENTS]]


def measured(python: pathlib.Path, subject: str, events: pathlib.Path, path: pathlib.Path) -> dict[str, float]:
    """Measure one subject in a process of its own."""
    command = [str(python), "-m", "benches.log_subjects", subject, str(events), str(path)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
