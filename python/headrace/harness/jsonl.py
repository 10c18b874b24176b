"""A run as JSON lines on standard output, and nothing else there (H2).

    {"line": "run", "run_id": ...}                    once, first
    {"line": "delta", "event": {...}}                 a model's start and texts as they come, without known secrets
    {"line": "event", "seq": ..., "type": ..., ...}   a record, durable
    {"line": "note", "message": ...}
    {"line": "question", "data": {...}}               what `headrace approve` would have to be answered
    {"line": "error", "message": ..., "exit": ...}    the command ends with it
    {"line": "end", "status": ..., "exit": ...}       once, last

Nobody is asked: a question pauses the run, and `headrace approve` answers it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import orjson

from headrace.harness.view import Live
from headrace.log import payloads as p
from headrace.log.records import Record
from headrace.loop import AskLater
from headrace.tools.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.events import ModelEvent
    from headrace.harness.host import Place
    from headrace.log.artifacts import Artifacts
    from headrace.log.state import State

__all__ = ["JsonView", "write_line"]


def write_line(line: dict[str, Any]) -> None:
    """Write one line, at once."""
    sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    sys.stdout.buffer.flush()


class JsonView:
    """Writes lines."""

    def __init__(self) -> None:
        self._live = Live(Redactor())

    def begun(self, run_id: str, place: Place, state: State) -> None:
        """Say which run it is."""
        self._live = Live(place.redactor)
        write_line(
            {
                "line": "run",
                "run_id": run_id,
                "model": state.model,
                "workspace": place.root,
                "mode": place.mode,
                "tier": place.executor.tier,
                "events": state.head,
            }
        )

    def seen(self, what: Record | ModelEvent) -> None:
        """Write a record, or a delta."""
        if isinstance(what, Record):
            if what.type == p.ModelFailed.type:
                self._show(self._live.end())  # it was called off, and no event has said so
            value = what.value()
            told = {"seq": what.seq, "at_ms": what.at_ms, "type": what.type, "version": what.version}
            write_line({"line": "event", **told, "data": None if value is None else value.to_dict()})
            return
        # The rest of a model's events is recorded, and comes as records. Arguments of a call come whole, and redacted.
        self._show(self._live.take(what))
        if what.type == "model.started":
            write_line({"line": "delta", "event": what.to_dict()})

    @staticmethod
    def _show(deltas: Iterator[tuple[Any, str]]) -> None:
        for event, text in deltas:
            write_line({"line": "delta", "event": {**event.to_dict(), "text": text}})

    async def card(self, facts: list[p.Payload], observed: p.ToolObserved, artifacts: Artifacts) -> None:
        """Add nothing: the records have said it."""

    async def ask(self, question: p.PermissionRequested, artifacts: Artifacts) -> p.PermissionAnswer:  # noqa: ARG002
        """Ask nobody."""
        raise AskLater(question.summary)

    async def show_question(self, question: p.PermissionRequested, artifacts: Artifacts) -> None:  # noqa: ARG002
        """Write what is asked for."""
        write_line({"line": "question", "data": question.to_dict()})

    async def listen(self) -> str | None:
        """Hear nobody."""
        return None

    async def overhear(self) -> str | None:
        """Hear nobody."""
        return None

    def note(self, words: str) -> None:
        """Write a note."""
        write_line({"line": "note", "message": words})

    def failed(self, words: str, code: int) -> None:
        """Write an error."""
        write_line({"line": "error", "message": words, "exit": code})

    def ended(self, run_id: str, state: State, text: str, code: int) -> None:
        """Write what it came to."""
        write_line(
            {
                "line": "end",
                "run_id": run_id,
                "status": state.status,
                "reason": state.reason,
                "text": text,
                "steps": state.steps,
                "tokens": state.tokens,
                "cost_micros": state.money_micros,
                "used_ms": state.used_ms,
                "events": state.head,
                "exit": code,
            }
        )
