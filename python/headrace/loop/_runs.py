"""Beginning a run, taking one up again, and branching one off.

1. Taking up passes a gate: what the run relied on (workspace, policy, grants, budget, artifacts, chain) is looked at
   again. What does not hold stops it, until somebody accepts it by name; what is broken cannot be accepted.
2. What a dead process left open is closed first: a response that did not end is void, an execution that has no end is
   in doubt.
3. A fork is a run of its own: it holds copies of the parent's events up to a point, and says from where.

Do not add: looking at the world. What the gate compares with is given to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import anyio

from headrace.log import payloads as p
from headrace.log.artifacts import referred
from headrace.log.records import LogError, uuid7
from headrace.log.state import State, fold
from headrace.loop._run import Run, nobody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

    from headrace.log.eventlog import EventLog, RunLog
    from headrace.log.records import Record
    from headrace.loop._ports import Ask, Models, Seen, Settings, ToolRuntime

__all__ = ["Finding", "FindingName", "GateClosed", "Opened", "fork", "gate", "resume", "start"]

FindingName: TypeAlias = Literal[
    "workspace_changed",
    "policy_changed",
    "budget_exhausted",
    "artifacts_missing",
    "grants_expired",
    "in_doubt",
    "erased",
]
#: These are told and stop nothing: expired grants are gone, and what is in doubt is asked about.
_TOLD: Final = frozenset({"grants_expired", "in_doubt"})
#: Nobody can accept these: the state is not known.
_FATAL: Final = frozenset({"erased"})


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a run relied on does not hold any longer."""

    name: FindingName
    detail: str

    @property
    def stops(self) -> bool:
        """Whether the run may not go on unless somebody accepts it."""
        return self.name not in _TOLD


class GateClosed(LogError):  # noqa: N818 - a state of the gate, said as one
    """The run may not be taken up as it is. `findings` says why, and `accept` is how: by their names."""

    def __init__(self, run_id: str, findings: tuple[Finding, ...]) -> None:
        told = "; ".join(f"{one.name}: {one.detail}" for one in findings)
        super().__init__(f"run {run_id} does not pass the gate: {told}")
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that is ready to be led.

    - `findings`: what the gate found and let pass.
    """

    log: RunLog
    records: list[Record]
    state: State
    findings: tuple[Finding, ...] = ()

    def run(
        self,
        *,
        models: Models,
        tools: ToolRuntime,
        ask: Ask = nobody,
        seen: Seen | None = None,
        settings: Settings | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> Run:
        """Make the `Run` of it; see there."""
        return Run(
            self.log,
            self.records,
            self.state,
            models=models,
            tools=tools,
            ask=ask,
            seen=seen,
            settings=settings,
            sleep=sleep,
        )


async def start(log: EventLog, started: p.RunStarted, *, run_id: str | None = None) -> Opened:
    """Begin a run. Its goal is the user's first message.

    - `run_id`: made of time and randomness by default.

    Raises `ConflictError`: there is such a run.
    """
    run_id = run_id or uuid7(int(log.clock() * 1000), log.randomness(10))
    writer = await log.create(run_id, started, p.UserMessage(text=started.goal))
    records = await log.read(run_id)
    return Opened(writer, records, fold(records))


def gate(
    state: State,
    *,
    workspace: str | None = None,
    policy: str | None = None,
    now_ms: int,
    missing: Collection[str] = (),
    budget: p.Budget | None = None,
) -> tuple[Finding, ...]:
    """Compare what a run relied on with how it is now. Pure.

    - `workspace`, `policy`: their hashes now; None where nobody looks.
    - `missing`: digests of artifacts that the log refers to and that are gone.
    - `budget`: the one that will hold.
    """
    kept = budget or state.budget
    found = _findings(state, workspace=workspace, policy=policy, now_ms=now_ms, missing=missing, budget=kept)
    return tuple(found)


def _findings(
    state: State, *, workspace: str | None, policy: str | None, now_ms: int, missing: Collection[str], budget: p.Budget
) -> Iterator[Finding]:
    if state.erased:
        yield Finding("erased", f"{state.erased} of its events have no content any longer")
    if workspace is not None and state.workspace is not None and workspace != state.workspace:
        yield Finding("workspace_changed", f"it was {state.workspace[:12]} and is {workspace[:12]}")
    if policy is not None and state.policy is not None and policy != state.policy:
        yield Finding("policy_changed", f"it was {state.policy[:12]} and is {policy[:12]}")
    used = (
        ("steps", budget.steps, state.steps),
        ("tokens", budget.tokens, state.tokens),
        ("money", budget.money_micros, state.money_micros),
        ("time", budget.time_ms, state.used_ms),
    )
    spent = [name for name, limit, amount in used if limit is not None and amount >= limit]
    if spent:
        yield Finding("budget_exhausted", f"nothing is left of {', '.join(spent)}")
    if missing:
        yield Finding("artifacts_missing", f"{len(missing)}, the first is {min(missing)}")
    if expired := sum(one.expires_ms is not None and one.expires_ms <= now_ms for one in state.grants):
        yield Finding("grants_expired", f"{expired} of {len(state.grants)}")
    if doubtful := [one.intent_id for one in state.open if one.stage in ("started", "in_doubt")]:
        yield Finding("in_doubt", f"{', '.join(doubtful)} started and has no end")


async def resume(
    log: EventLog,
    run_id: str,
    *,
    workspace: str | None = None,
    policy: str | None = None,
    budget: p.Budget | None = None,
    accept: Collection[str] = (),
) -> Opened:
    """Take a run up again, wherever it was left. Whoever led it before is fenced.

    - `workspace`, `policy`: their hashes as they are now.
    - `budget`: another one from now on.
    - `accept`: findings that somebody has accepted.

    Raises `GateClosed`: the run is as it was, and nobody was fenced. `UnknownRunError`, `TamperedError`. `ValueError`:
    no finding is called what was accepted.
    """
    if unknown := set(accept).difference(get_args(FindingName)):
        raise ValueError(f"accept: {min(unknown)!r} is no finding; there are {', '.join(get_args(FindingName))}")
    records = await log.read(run_id)
    state = fold(records)
    named = {one for record in records if (value := record.value()) is not None for one in referred(value.to_dict())}
    missing = await log.artifacts.missing(named)
    now_ms = int(log.clock() * 1000)
    found = gate(state, workspace=workspace, policy=policy, now_ms=now_ms, missing=missing, budget=budget)
    closed = tuple(one for one in found if one.stops and (one.name not in accept or one.name in _FATAL))
    if closed:
        raise GateClosed(run_id, closed)
    writer = await log.open(run_id)
    if writer.head != state.head:  # whoever led it has gone on meanwhile
        records = await log.read(run_id)
        state = fold(records)
    expired = sum(one.expires_ms is not None and one.expires_ms <= now_ms for one in state.grants)
    resumed = p.RunResumed(
        workspace=workspace,
        policy=policy,
        accepted=tuple(sorted(one.name for one in found if one.stops)),
        expired_grants=expired,
        budget=budget,
    )
    added = await writer.append(*_closing(state, "its process ended"), resumed)
    return Opened(writer, [*records, *added], fold(added, state), found)


async def fork(
    log: EventLog,
    run_id: str,
    *,
    at: int | None = None,
    new_id: str | None = None,
    model: str | None = None,
    why: str = "",
) -> Opened:
    """Branch a run off: a new one with the events up to `at`, standing still, to be resumed.

    - `at`: a seq; None: the last.
    - `model`: another selector, to go on with.

    Raises `LogError`: there is no such event, or one of them is erased. The parent is not touched.
    """
    records = await log.read(run_id)
    at = len(records) if at is None else at
    if not 0 < at <= len(records):
        raise LogError(f"run {run_id} has events 1 to {len(records)}, and no event {at}")
    payloads = [value for record in records[:at] if (value := record.value()) is not None]
    if len(payloads) < at:
        raise LogError(f"run {run_id}: an event up to {at} is erased, and cannot be copied")
    new_id = new_id or uuid7(int(log.clock() * 1000), log.randomness(10))
    closing = _closing(fold(records[:at]), f"the run was forked at event {at}")
    forked = p.RunForked(from_run=run_id, from_seq=at, from_chain=records[at - 1].chain.hex(), why=why, model=model)
    standing = p.RunPaused(reason="stopped", detail="forked")
    writer = await log.create(new_id, *payloads, *closing, forked, standing, like=run_id)
    made = await log.read(new_id)
    return Opened(writer, made, fold(made))


def _closing(state: State, why: str) -> list[p.Payload]:
    """Close what is open: a response is void, an execution is in doubt."""
    made: list[p.Payload] = []
    if state.turn:
        made.append(p.ModelFailed(turn_id=state.turn, kind="stream_interrupted", retryable=True, message=why))
    made += [
        p.ExecutionInDoubt(intent_id=one.intent_id, execution_id=one.execution_id, started_seq=one.started, why=why)
        for one in state.open
        if one.stage == "started"
    ]
    return made
