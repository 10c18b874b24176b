"""`state = fold(events)`: what a run has come to, from its events and from nothing else.

    proposed -> counted -> validated -> (asking) -> allowed -> started -> finished -> observed
    proposed -> void                       its response did not finish
    any before started -> observed         refused, denied or cancelled: nothing ran
    started -> in_doubt -> observed        or allowed once more, by a person

1. Pure: no clock, no randomness, no I/O; the same events give the same state, byte for byte, for ever.
2. The same rules guard what is about to be appended (`State.check`): an execution without an allowance, a second
   observation, an act on a void intent is refused before it is a fact.
3. A snapshot is a convenience: folding from one gives what folding everything gives.
4. An erased event says nothing. A run with one can be read and not resumed.

What a model is told (`headrace.context`), and any decision, must not be added here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import orjson

from headrace.log import payloads as p
from headrace.log.records import LogError, Record
from headrace.log.upcast import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["IllegalEventError", "IntentState", "Stage", "State", "fold"]

Stage: TypeAlias = Literal[
    "proposed",
    "void",
    "counted",
    "validated",
    "asking",
    "allowed",
    "denied",
    "started",
    "in_doubt",
    "finished",
    "observed",
]

_JUDGED: Final = frozenset({"counted", "validated", "asking", "allowed", "denied"})
"""Stages before a start, in which an intent may be judged, also once more after a resume."""
_RAN: Final = frozenset({"ok", "tool_error", "timeout"})
"""Observations that only an execution can give."""


class IllegalEventError(LogError):
    """An event that cannot follow what stands before it. Nothing was changed."""


@dataclass(slots=True)
class IntentState:
    """Where an intent stands, and the seq of each fact about it (0: not yet)."""

    intent_id: str
    turn_id: str
    tool_name: str
    stage: Stage = "proposed"
    digest: str = ""
    execution_id: str = ""
    executions: int = 0
    code: str = ""
    proposed: int = 0
    validated: int = 0
    decided: int = 0
    started: int = 0
    finished: int = 0
    observed: int = 0


@dataclass(slots=True)
class State:
    """What a run has come to. Changed by `apply` alone."""

    run_id: str = ""
    head: int = 0
    status: Literal["new", "running", "paused", "finished"] = "new"
    reason: str = ""
    """Why it is paused, or how it finished."""
    goal: str = ""
    model: str = ""
    """The selector that is asked now: a fallback changes it."""
    instructions: str = ""
    cwd: str = ""
    mode: str = ""
    policy: str | None = None
    workspace: str | None = None
    budget: p.Budget = field(default_factory=p.Budget)
    fallbacks: tuple[str, ...] = ()
    turns: int = 0
    """Turns begun: the next is `t{turns}`."""
    turn: str = ""
    """The turn whose response is under way."""
    purpose: str = ""
    failures: int = 0
    """Responses in a row that did not finish."""
    steps: int = 0
    tokens: int = 0
    money_micros: int = 0
    started_ms: int = 0
    stood_ms: int = 0
    """Time in which the run was paused or finished, before it went on."""
    stood_since_ms: int = 0
    last_ms: int = 0
    finish: str = ""
    """The finish reason of the last response."""
    intents: dict[str, IntentState] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    """Intents without an observation that are not void either, in their order."""
    grants: list[p.Grant] = field(default_factory=list)
    """Allowances that hold beyond their intent."""
    read_hashes: dict[str, str] = field(default_factory=dict)
    verifications: dict[int, bool] = field(default_factory=dict)
    compacted: int = 0
    """Seq of the last compaction."""
    erased: int = 0
    turn_usage: tuple[int, int] = (0, 0)
    """Tokens and money that the response under way has told so far: totals, so that the last one counts."""

    @property
    def open(self) -> list[IntentState]:
        """Intents that count and have no observation yet, in their order."""
        return [self.intents[one] for one in self.waiting if self.intents[one].stage != "proposed"]

    @property
    def used_ms(self) -> int:
        """Time that the run was under way, up to its last event."""
        standing = self.last_ms - self.stood_since_ms if self.stood_since_ms else 0
        return self.last_ms - self.started_ms - self.stood_ms - standing

    def check(self, payload: p.Payload) -> None:
        """Say whether this may be the next event.

        - Raises `IllegalEventError`: it may not, and why.
        """
        self._check(payload, _CHECKS.get(type(payload)))

    def _check(self, payload: Any, check: Callable[[State, Any], None] | None) -> None:
        if self.status == "new" and check is not _check_start:
            raise IllegalEventError(f"{payload.type}: a run begins with run.started")
        if check is not None:
            check(self, payload)

    def apply(self, record: Record) -> None:
        """Take in the next event.

        - Raises `IllegalEventError`: it cannot follow; nothing was taken in. `PayloadError`: it cannot be read.
        """
        # Unpacked at once: a hundred thousand come by.
        run_id, seq, _, at_ms, _, type_, version, _, _, _, _, raw = record
        if seq != self.head + 1:
            raise IllegalEventError(f"event {seq} does not follow event {self.head}")
        if raw is None:
            self.erased += 1
        else:
            cls, payload = shown(type_, version, raw)
            check = _CHECKS.get(cls)
            if self.status == "new":
                self._check(payload, check)
            elif check is not None:
                check(self, payload)
            self.last_ms = at_ms
            take = _TAKE.get(cls)
            if take is not None:
                take(self, payload, seq)
        self.run_id = run_id
        self.head = seq

    def to_json(self) -> bytes:
        """Give the state as canonical JSON: a snapshot, and what two folds are compared by."""
        grants: list[Any] = [orjson.Fragment(_told(grant)) for grant in self.grants]
        told = replace(self, grants=grants)
        return orjson.dumps(told, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, raw: bytes) -> State:
        """Read a snapshot back."""
        data = orjson.loads(raw)
        data["intents"] = {key: IntentState(**value) for key, value in data["intents"].items()}
        data["budget"] = p.Budget(**data["budget"])
        data["grants"] = [p.Grant.from_dict(value) for value in data["grants"]]
        data["verifications"] = {int(key): value for key, value in data["verifications"].items()}
        data["fallbacks"] = tuple(data["fallbacks"])
        data["turn_usage"] = tuple(data["turn_usage"])
        return cls(**data)


def _told(grant: p.Grant) -> bytes:
    """Give a grant's JSON; its rules are left out where there are none, as they were before there were any."""
    return orjson.dumps(grant).replace(b',"rules":[]}', b"}")


def fold(records: Iterable[Record], state: State | None = None) -> State:
    """Fold events, from the first on or from what `state` has taken in.

    - `state`: is changed and given back.

    Raises what `State.apply` raises.
    """
    made = State() if state is None else state
    apply = made.apply
    for record in records:
        apply(record)
    return made


# --- what may follow what


def _illegal(payload: p.Payload, why: str) -> IllegalEventError:
    return IllegalEventError(f"{payload.type}: {why}")


def _check_start(state: State, payload: Any) -> None:
    if state.status != "new":
        raise _illegal(payload, "the run has begun already")


def _check_finished(state: State, payload: Any) -> None:
    if state.turn or state.waiting:
        raise _illegal(payload, "a response or an intent is still open")
    if payload.outcome == "verified" and not state.verifications.get(payload.verification_seq or 0):
        raise _illegal(payload, "no passed verification is recorded at that seq")


def _check_request(state: State, payload: Any) -> None:
    if state.status != "running":
        raise _illegal(payload, f"the run is {state.status}")
    if state.turn:
        raise _illegal(payload, f"the turn {state.turn} has not ended")
    if state.waiting:
        raise _illegal(payload, f"the intent {state.waiting[0]} has no observation")


def _check_turn(state: State, payload: Any) -> None:
    if payload.turn_id != state.turn:
        raise _illegal(payload, f"the turn {payload.turn_id} is not under way")


def _check_intent(state: State, payload: Any) -> None:
    _check_turn(state, payload)
    if payload.intent_id in state.intents:
        raise _illegal(payload, f"the intent {payload.intent_id} was proposed already")


def _known(state: State, payload: Any) -> IntentState:
    intent = state.intents.get(payload.intent_id)
    if intent is None:
        raise _illegal(payload, f"the intent {payload.intent_id} was never proposed")
    if intent.stage == "void":
        raise _illegal(payload, f"the intent {payload.intent_id} is void: its response did not finish")
    if intent.stage == "proposed":
        raise _illegal(payload, f"the response of the intent {payload.intent_id} has not finished")
    if intent.stage == "observed":
        raise _illegal(payload, f"the intent {payload.intent_id} has its observation")
    return intent


def _check_judged(state: State, payload: Any) -> None:
    intent = _known(state, payload)
    if intent.stage not in _JUDGED and not _is_persons_retry(intent, payload):
        raise _illegal(payload, f"the intent {payload.intent_id} is {intent.stage}")


def _is_persons_retry(intent: IntentState, payload: Any) -> bool:
    """Say whether a person orders an execution in doubt to be done over: nothing else may."""
    return intent.stage == "in_doubt" and payload.type == p.PermissionDecided.type and payload.by == "person"


def _check_started(state: State, payload: Any) -> None:
    intent = _known(state, payload)
    if intent.stage != "allowed":
        raise _illegal(payload, f"the intent {payload.intent_id} is {intent.stage} and not allowed")
    if payload.intent_digest and intent.digest and payload.intent_digest != intent.digest:
        raise _illegal(payload, f"the intent {payload.intent_id} was allowed in another form")


def _check_ended(state: State, payload: Any) -> None:
    intent = _known(state, payload)
    if intent.stage != "started" or intent.execution_id != payload.execution_id:
        raise _illegal(payload, f"the execution {payload.execution_id} is not under way")


def _check_observed(state: State, payload: Any) -> None:
    intent = _known(state, payload)
    if intent.stage == "started":
        raise _illegal(payload, f"the execution {intent.execution_id} has not ended")
    if payload.code in _RAN and intent.stage != "finished":
        raise _illegal(payload, f"{payload.code} needs an execution, and the intent is {intent.stage}")
    if payload.code == "permission_denied" and intent.stage != "denied":
        raise _illegal(payload, f"nobody denied it: the intent is {intent.stage}")
    if (payload.code == "in_doubt") != (intent.stage == "in_doubt"):
        raise _illegal(payload, f"the intent is {intent.stage}")


_CHECKS: Final[Mapping[type, Callable[[State, Any], None]]] = {
    p.RunStarted: _check_start,
    p.RunFinished: _check_finished,
    p.ModelRequested: _check_request,
    p.ModelStarted: _check_turn,
    p.ModelSpoke: _check_turn,
    p.ModelRefused: _check_turn,
    p.ModelReasoned: _check_turn,
    p.ModelContinued: _check_turn,
    p.ModelAnnotated: _check_turn,
    p.ModelHostedTool: _check_turn,
    p.ModelMedia: _check_turn,
    p.ModelUsed: _check_turn,
    p.ModelEnded: _check_turn,
    p.ModelFailed: _check_turn,
    p.ToolIntent: _check_intent,
    p.ToolValidated: _check_judged,
    p.HookDecided: _check_judged,
    p.PermissionRequested: _check_judged,
    p.PermissionDecided: _check_judged,
    p.ExecutionStarted: _check_started,
    p.ExecutionFinished: _check_ended,
    p.ExecutionInDoubt: _check_ended,
    p.ToolObserved: _check_observed,
}


# --- what each event changes


def _started(state: State, event: p.RunStarted, seq: int) -> None:  # noqa: ARG001 - all takers are called alike
    state.status = "running"
    state.goal, state.model, state.cwd = event.goal, event.model, event.cwd
    state.instructions, state.mode = event.instructions, event.mode
    state.policy, state.workspace = event.policy, event.workspace
    state.budget, state.fallbacks = event.budget, event.fallbacks
    state.started_ms = state.last_ms


def _paused(state: State, event: p.RunPaused, seq: int) -> None:  # noqa: ARG001
    state.status, state.reason = "paused", event.reason
    state.workspace = event.workspace or state.workspace
    state.stood_since_ms = state.stood_since_ms or state.last_ms


def _resumed(state: State, event: p.RunResumed, seq: int) -> None:  # noqa: ARG001
    state.status, state.reason, state.failures = "running", "", 0
    if state.stood_since_ms:
        state.stood_ms += state.last_ms - state.stood_since_ms
        state.stood_since_ms = 0
    state.workspace = event.workspace or state.workspace
    state.policy = event.policy or state.policy
    state.budget = event.budget or state.budget
    if event.expired_grants:
        state.grants = [one for one in state.grants if one.expires_ms is None or one.expires_ms > state.last_ms]


def _run_finished(state: State, event: p.RunFinished, seq: int) -> None:  # noqa: ARG001
    state.status, state.reason = "finished", event.outcome
    state.workspace = event.workspace or state.workspace
    state.stood_since_ms = state.last_ms


def _verified(state: State, event: p.VerificationRecorded, seq: int) -> None:
    state.verifications[seq] = event.passed


def _compacted(state: State, event: p.ContextCompacted, seq: int) -> None:  # noqa: ARG001
    state.compacted = seq


def _requested(state: State, event: p.ModelRequested, seq: int) -> None:  # noqa: ARG001
    state.turn, state.purpose = event.turn_id, event.purpose
    state.turns += 1
    state.steps += event.purpose == "turn"
    state.turn_usage = (0, 0)


def _forked(state: State, event: p.RunForked, seq: int) -> None:  # noqa: ARG001
    state.model, state.failures = event.model or state.model, 0


def _fell_back(state: State, event: p.ModelFellBack, seq: int) -> None:  # noqa: ARG001
    if not event.for_turn:
        state.model, state.failures = event.to_model, 0


def _used(state: State, event: p.ModelUsed, seq: int) -> None:  # noqa: ARG001
    tokens, money = state.turn_usage
    now = (event.input_tokens or 0) + (event.output_tokens or 0), event.money_micros or 0
    state.tokens += now[0] - tokens
    state.money_micros += now[1] - money
    state.turn_usage = now


def _proposed(state: State, event: p.ToolIntent, seq: int) -> None:
    state.intents[event.intent_id] = IntentState(event.intent_id, event.turn_id, event.tool_name, proposed=seq)
    state.waiting.append(event.intent_id)


def _ended(state: State, event: p.ModelEnded, seq: int) -> None:  # noqa: ARG001
    _close(state, "counted")
    state.failures, state.finish = 0, event.reason


def _failed(state: State, event: p.ModelFailed, seq: int) -> None:  # noqa: ARG001
    _close(state, "void")
    state.failures += 1


def _close(state: State, stage: Stage) -> None:
    # A request is made only when nothing waits: all that do are this turn's.
    for intent_id in state.waiting:
        state.intents[intent_id].stage = stage
    if stage == "void":
        state.waiting.clear()
    state.turn = ""


def _validated(state: State, event: p.ToolValidated, seq: int) -> None:
    intent = state.intents[event.intent_id]
    intent.stage, intent.validated, intent.digest = "validated", seq, event.intent_digest


def _asked(state: State, event: p.PermissionRequested, seq: int) -> None:  # noqa: ARG001
    state.intents[event.intent_id].stage = "asking"


def _decided(state: State, event: p.PermissionDecided, seq: int) -> None:
    intent = state.intents[event.intent_id]
    intent.stage, intent.decided = "allowed" if event.decision == "allow" else "denied", seq
    if event.decision == "allow" and event.grant is not None and event.grant.scope != "once":
        state.grants.append(event.grant)


def _execution_started(state: State, event: p.ExecutionStarted, seq: int) -> None:
    intent = state.intents[event.intent_id]
    intent.stage, intent.started, intent.execution_id = "started", seq, event.execution_id
    intent.executions += 1


def _execution_finished(state: State, event: p.ExecutionFinished, seq: int) -> None:
    intent = state.intents[event.intent_id]
    intent.stage, intent.finished = "finished", seq


def _in_doubt(state: State, event: p.ExecutionInDoubt, seq: int) -> None:  # noqa: ARG001
    state.intents[event.intent_id].stage = "in_doubt"


def _observed(state: State, event: p.ToolObserved, seq: int) -> None:
    intent = state.intents[event.intent_id]
    intent.stage, intent.observed, intent.code = "observed", seq, event.code
    state.waiting.remove(event.intent_id)
    for pair in event.read_hashes:
        path, _, digest = pair.rpartition("=")
        state.read_hashes[path] = digest


_TAKE: Final[Mapping[type, Callable[[State, Any, int], None]]] = {
    p.RunStarted: _started,
    p.RunPaused: _paused,
    p.RunResumed: _resumed,
    p.RunFinished: _run_finished,
    p.RunForked: _forked,
    p.VerificationRecorded: _verified,
    p.ContextCompacted: _compacted,
    p.ModelRequested: _requested,
    p.ModelFellBack: _fell_back,
    p.ModelUsed: _used,
    p.ModelEnded: _ended,
    p.ModelFailed: _failed,
    p.ToolIntent: _proposed,
    p.ToolValidated: _validated,
    p.PermissionRequested: _asked,
    p.PermissionDecided: _decided,
    p.ExecutionStarted: _execution_started,
    p.ExecutionFinished: _execution_finished,
    p.ExecutionInDoubt: _in_doubt,
    p.ToolObserved: _observed,
}
