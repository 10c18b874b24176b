"""A run read back: every event in its lane, and for each intent who did what about it (R4).

    goal  projection  decision  intent  permission  execution  observation  verification

1. Pure, like the fold: the same events give the same trace.
2. A link is a seq: whoever wants to know more reads that event.

Drawing must not be added here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from headrace.log import payloads as p

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.log.records import Record

__all__ = ["LANES", "IntentTrace", "Lane", "Trace", "TraceStep", "trace"]

Lane: TypeAlias = Literal[
    "goal", "projection", "decision", "intent", "permission", "execution", "observation", "verification"
]
LANES: Final[tuple[Lane, ...]] = (
    "goal",
    "projection",
    "decision",
    "intent",
    "permission",
    "execution",
    "observation",
    "verification",
)

_BY_PREFIX: Final[Mapping[str, Lane]] = {
    "run.": "goal",
    "user.": "goal",
    "budget.": "goal",
    "context.": "projection",
    "model.": "decision",
    "provider.": "decision",
    "tool_intent.": "intent",
    "tool.validated": "intent",
    "hook.": "permission",
    "permission.": "permission",
    "tool.execution.": "execution",
    "tool.observed": "observation",
    "verification.": "verification",
    "log.": "verification",
}


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One event. `data` is its payload as plain JSON data; None once erased."""

    seq: int
    at_ms: int
    epoch: int
    lane: Lane
    type: str
    turn_id: str
    intent_id: str
    data: Mapping[str, Any] | None


@dataclass(slots=True)
class IntentTrace:
    """Who proposed, translated, recorded, approved, executed, observed and fed back one intent. 0: that never happened.

    - `goal`: seq of the last thing that the user said before it; `projection`, `request`: of its turn.
    - `proposed_by`: provider, model and request id, as known; `translated_by`: the wire that it was read from.
    - `recorded`: seq of the intent; `decision`: of the end of its response, with which it counts.
    - `approved_by`: who and which rule; `executed_by`: executor and sandbox.
    - `fed_back`: seq of the first request whose context had the observation.
    """

    intent_id: str
    tool_name: str
    goal: int = 0
    projection: int = 0
    request: int = 0
    proposed_by: tuple[str, ...] = ()
    translated_by: str = ""
    recorded: int = 0
    decision: int = 0
    is_void: bool = False
    validated: int = 0
    approved: int = 0
    approved_by: str = ""
    started: int = 0
    executed_by: str = ""
    finished: int = 0
    in_doubt: int = 0
    observed: int = 0
    code: str = ""
    fed_back: int = 0
    verification: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A run's steps, and its intents in their order."""

    run_id: str
    steps: tuple[TraceStep, ...]
    intents: Mapping[str, IntentTrace] = field(default_factory=dict)


def trace(records: Iterable[Record]) -> Trace:
    """Read a run back. The records are verified already.

    - Raises `PayloadError`: an event cannot be read.
    """
    reader = _Reader()
    steps = tuple(reader.step(record) for record in records)
    return Trace(reader.run_id, steps, reader.intents)


class _Reader:
    """Remembers what later events link to."""

    def __init__(self) -> None:
        self.run_id = ""
        self.intents: dict[str, IntentTrace] = {}
        self._goal = 0
        self._projection = 0
        self._request = 0
        self._wire = ""
        self._unfed: list[IntentTrace] = []
        self._turn: list[IntentTrace] = []

    def step(self, record: Record) -> TraceStep:
        self.run_id = record.run_id
        value = record.value()
        data = None if value is None else value.to_dict()
        if value is not None:
            self._link(record.seq, value)
        told = data or {}
        intent_id = told.get("intent_id", "")
        turn_id = told.get("turn_id", "") or (intent_id.rpartition(".")[0] if intent_id else "")
        lane = next(lane for prefix, lane in _BY_PREFIX.items() if record.type.startswith(prefix))
        return TraceStep(record.seq, record.at_ms, record.epoch, lane, record.type, turn_id, intent_id, data)

    def _link(self, seq: int, value: p.Payload) -> None:
        match value:
            case p.UserMessage() | p.RunStarted():
                self._goal = seq
            case p.ContextProjected():
                self._projection = seq
            case p.ModelRequested():
                self._asked(seq, value)
            case p.ModelAttemptStarted():
                self._wire = value.protocol or ""
            case p.ModelEnded() | p.ModelFailed():
                self._ended(seq, is_void=isinstance(value, p.ModelFailed))
            case p.ToolIntent():
                self._proposed(seq, value)
            case p.VerificationRecorded():
                if value.intent_id in self.intents:
                    self.intents[value.intent_id].verification = seq
            case _:
                intent = self.intents.get(getattr(value, "intent_id", ""))
                if intent is not None:
                    self._about(intent, seq, value)

    def _asked(self, seq: int, value: p.ModelRequested) -> None:
        self._request, self._turn = seq, []
        if value.purpose == "turn":
            for intent in self._unfed:
                intent.fed_back = seq
            self._unfed = []

    def _ended(self, seq: int, *, is_void: bool) -> None:
        for intent in self._turn:
            intent.decision, intent.is_void = seq, is_void

    def _proposed(self, seq: int, value: p.ToolIntent) -> None:
        intent = IntentTrace(
            value.intent_id,
            value.tool_name,
            goal=self._goal,
            projection=self._projection,
            request=self._request,
            proposed_by=tuple(one for one in (value.provider, value.model, value.request_id) if one),
            translated_by=self._wire,
            recorded=seq,
        )
        self.intents[value.intent_id] = intent
        self._turn.append(intent)

    def _about(self, intent: IntentTrace, seq: int, value: p.Payload) -> None:
        match value:
            case p.ToolValidated():
                intent.validated = seq
            case p.PermissionDecided():
                intent.approved = seq if value.decision == "allow" else 0
                intent.approved_by = f"{value.by} {value.rule}".rstrip() if value.decision == "allow" else ""
            case p.ExecutionStarted():
                intent.started, intent.executed_by = seq, f"{value.executor} ({value.sandbox})"
            case p.ExecutionFinished():
                intent.finished = seq
            case p.ExecutionInDoubt():
                intent.in_doubt = seq
            case p.ToolObserved():
                intent.observed, intent.code = seq, value.code
                self._unfed.append(intent)
            case _:
                pass
