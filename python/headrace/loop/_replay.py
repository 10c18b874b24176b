"""Replay: what happened, again, without its effects (R1, R2).

    trace      the events themselves: verified, folded, projected again, linked. Nothing is asked, nothing is run
    model      another model gets the same observations, in a run of its own
    dry_run    validation and permission once more, up to where an execution would start
    sandbox    executions once more, each refused unless its sandbox isolates it

1. `trace` is a pure function and runs with every effect a bomb.
2. In every other mode, what the world must not see is stopped where its start would be recorded: a tool runtime starts
   nothing before that is durable.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.context import Target, project
from headrace.log import payloads as p
from headrace.log.menus import Menu
from headrace.log.state import State, fold
from headrace.log.trace import Trace, trace
from headrace.loop._bombs import bombs
from headrace.loop._ports import AskLater
from headrace.loop._runs import Opened, start

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.log.eventlog import EventLog
    from headrace.log.records import Record
    from headrace.loop._ports import Ask, Models, RecordFact, Settings, ToolRuntime

__all__ = ["Again", "RecordedTools", "Replayed", "replay_dry", "replay_model", "replay_sandbox", "replay_trace"]

ISOLATED: Final = frozenset({"A"})
"""Tiers that isolate: an execution in them reaches neither our files nor the network."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a trace replay came to.

    - `state`: the fold.
    - `projections`: how many requests were projected again.
    - `differing`: seq of projections that tell something else now than they did (none, unless a release changed how a
      log is told).
    """

    state: State
    trace: Trace
    projections: int
    differing: tuple[int, ...]


def replay_trace(records: Sequence[Record]) -> Replayed:
    """Replay a run from its verified events alone.

    - Raises `EffectError`: something was about to touch the world. `IllegalEventError`, `PayloadError`.
    """
    with bombs():
        state = fold(records)
        differing = []
        projections = 0
        for record in records:
            told = record.value() if record.type == p.ContextProjected.type else None
            if not isinstance(told, p.ContextProjected):
                continue
            projections += 1
            target = Target(told.model, told.family, told.provider)
            if project(records[: told.upto], target=target).digest != told.request:
                differing.append(record.seq)
        return Replayed(state, trace(records), projections, tuple(differing))


async def replay_model(
    log: EventLog,
    run_id: str,
    *,
    into: EventLog,
    models: Models,
    model: str | None = None,
    settings: Settings | None = None,
) -> tuple[State, Opened]:
    """Let a model, the same or another, do a run's task over the recorded observations.

    - `into`: the log that gets the new run; one in memory leaves no trace.

    The new run pauses where the model wants what was never done: there is no observation for it.
    """
    records = await log.read(run_id)
    first = records[0].value()
    if not isinstance(first, p.RunStarted):
        raise AskLater(f"run {run_id}: its first event is erased")
    opened = await start(into, replace(first, model=model or first.model, budget=p.Budget()))
    menu = next((one for record in records if isinstance(one := record.value(), p.ModelRequested) and one.menu), None)
    offered = Menu.from_body(await log.artifacts.get(menu.menu)) if menu is not None else Menu()
    run = opened.run(models=models, tools=RecordedTools(records, offered), settings=settings)
    return await run.go(), opened


class RecordedTools:
    """A tool runtime that gives what was observed, for the same tool with the same input, in the same order."""

    def __init__(self, records: Sequence[Record], menu: Menu) -> None:
        self._menu = menu
        intents: dict[str, p.ToolIntent] = {}
        self._observed: dict[tuple[str, bytes], deque[p.ToolObserved]] = defaultdict(deque)
        for record in records:
            value = record.value()
            if isinstance(value, p.ToolIntent):
                intents[value.intent_id] = value
            elif isinstance(value, p.ToolObserved):
                self._observed[_wish(intents[value.intent_id])].append(value)

    def menu(self) -> Menu:
        """Offer what was offered."""
        return self._menu

    async def run(self, intent: p.ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> p.ToolObserved:  # noqa: ARG002
        """Give the recorded observation."""
        left = self._observed.get(_wish(intent))
        if not left:
            raise AskLater(f"the recording has no observation of {intent.tool_name} with this input")
        seen = left.popleft()
        name = intent.intent_id
        execution = ""
        if seen.code == "permission_denied":
            await record(p.PermissionDecided(intent_id=name, decision="deny", by="mode", rule="replay"))
        elif seen.execution_id:
            execution = f"{name}/replay"
            await record(p.PermissionDecided(intent_id=name, decision="allow", by="mode", rule="replay"))
            await record(
                p.ExecutionStarted(
                    intent_id=name,
                    execution_id=execution,
                    tool_name=intent.tool_name,
                    executor="replay",
                    cwd="",
                    effects=("none",),
                )
            )
            await record(_ended(name, execution, seen.code))
        code = "cancelled" if seen.code == "in_doubt" else seen.code
        return replace(seen, intent_id=name, execution_id=execution or None, code=code)


def _ended(name: str, execution: str, code: str) -> p.ExecutionFinished:
    outcome = code if code in ("ok", "timeout", "tool_error") else "cancelled"
    return p.ExecutionFinished.from_dict({"intent_id": name, "execution_id": execution, "outcome": outcome})


def _wish(intent: p.ToolIntent) -> tuple[str, bytes]:
    """What is wanted, whatever its spelling."""
    try:
        wanted: Any = intent.input
    except ValueError:
        wanted = intent.raw_input_text
    return intent.tool_name, orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)


# --- the tool runtime once more


@dataclass(frozen=True, slots=True)
class Again:
    """An intent then and now.

    - `then`, `now`: `allow`, `deny`, `ask`, or the code with which it was refused before it could be permitted.
    - `then_text`, `now_text`: what was observed, where it was executed again.
    - `why`: what the tool runtime said.
    """

    intent_id: str
    tool_name: str
    then: str
    now: str
    why: str = ""
    then_text: str | None = None
    now_text: str | None = None

    @property
    def differs(self) -> bool:
        """Whether it would come out otherwise now."""
        return (self.then, self.then_text) != (self.now, self.now_text)


class _Halt(Exception):  # noqa: N818 - the way out of a tool runtime that was about to start something
    """An execution was about to start."""


async def replay_dry(records: Sequence[Record], tools: ToolRuntime) -> list[Again]:
    """Validate and permit every intent of a run once more, by the rules that hold now. Nothing is executed or asked."""
    return await _once_more(records, tools, allowed=frozenset())


async def replay_sandbox(
    records: Sequence[Record], tools: ToolRuntime, *, tiers: Collection[str] = ISOLATED
) -> list[Again]:
    """Execute every intent that was executed once more, in a sandbox of one of these tiers and nowhere else.

    - `tools`: over a copy of the workspace; it decides by its own policy, and nobody is asked.
    """
    return await _once_more(records, tools, allowed=frozenset(tiers))


async def _once_more(records: Sequence[Record], tools: ToolRuntime, *, allowed: frozenset[str]) -> list[Again]:
    values = {record.seq: record.value() for record in records}
    whole = fold(records)
    state = State()
    made = []
    for record in records:
        state.apply(record)
        if record.type != p.ModelEnded.type:
            continue
        for waiting in state.open:
            intent = values[waiting.proposed]
            if isinstance(intent, p.ToolIntent):
                made.append(await _again(intent, tools, state, allowed, _then(values, whole, intent.intent_id)))
    return made


def _then(values: dict[int, p.Payload | None], whole: State, intent_id: str) -> tuple[str, str | None]:
    one = whole.intents[intent_id]
    decided, observed = values.get(one.decided), values.get(one.observed)
    text = observed.text if isinstance(observed, p.ToolObserved) else None
    if isinstance(decided, p.PermissionDecided):
        return decided.decision, text
    return one.code or one.stage, text


async def _again(
    intent: p.ToolIntent, tools: ToolRuntime, state: State, allowed: frozenset[str], then: tuple[str, str | None]
) -> Again:
    """Bring one intent as far as it may go."""
    scratch = fold((), State.from_json(state.to_json()))
    facts: list[p.Payload] = []

    async def record(payload: p.Payload) -> None:
        facts.append(payload)
        if isinstance(payload, p.ExecutionStarted) and payload.sandbox not in allowed:
            raise _Halt

    async def ask(request: p.PermissionRequested) -> p.PermissionAnswer:
        raise AskLater(f"nobody is asked in a replay: {request.summary}")

    text, why, asked, code = None, "", False, "allow"
    try:
        observed = await tools.run(intent, state=scratch, record=record, ask=ask)
        text, why, code = observed.text, observed.text, observed.code
    except _Halt:
        pass  # allowed, and not to be executed here
    except AskLater as later:
        why, asked = str(later), True
    decisions = [one.decision for one in facts if isinstance(one, p.PermissionDecided)]
    now = "ask" if asked else decisions[-1] if decisions else code
    is_run = bool(allowed) and text is not None and now == "allow"
    return Again(
        intent.intent_id,
        intent.tool_name,
        then[0],
        now,
        why="" if is_run else why,
        then_text=then[1] if is_run else None,
        now_text=text if is_run else None,
    )
