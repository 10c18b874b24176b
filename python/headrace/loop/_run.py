"""The loop: propose, record, validate, permit, execute, observe, project; again, until the run ends or stands still.

What is durable before what (each arrow is an append that has returned):

    request -> bytes leave        response finished -> validation        decision -> start
    start -> spawn                observation -> the next request

1. The loop knows what the log says and nothing else: `state` is the fold, `records` are the events, and both move only
   after an append. A loop that is taken up from the log goes on as the one that wrote it would have.
2. A fact that may not follow is refused before it is written, whoever wants to record it.
3. Provider code never gets here: a model's stream comes in as events and ends as payloads.
4. An intent is acted on only when its response has finished, one at a time, in order; each has one observation. Those
   in a row that only read, as their tools declare, run side by side, and are recorded as `_beside` says.
5. A step can be called off at any time (`cancel_step`, `stop`): what had begun is then cancelled, or in doubt.

Do not add: what a tool does, what a policy says, a provider's name.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from headrace import errors
from headrace.context import (
    ESTIMATOR,
    Projection,
    Target,
    compaction_request,
    ledger_since,
    plan_compaction,
    project,
    told_digest,
)
from headrace.log import payloads as p
from headrace.log.menus import Menu
from headrace.loop._beside import Beside
from headrace.loop._budgets import exceeded
from headrace.loop._owners import Act, act_on, wait_s
from headrace.loop._ports import AskLater, Settings, SharingToolRuntime
from headrace.loop._transcript import Transcript, attempt_payloads
from headrace.runtime import RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.events import ModelEvent
    from headrace.log.eventlog import RunLog
    from headrace.log.records import Record
    from headrace.log.state import IntentState, State
    from headrace.loop._ports import Ask, Models, ModelStream, Seen, ToolRuntime
    from headrace.messages import ModelRequest

__all__ = ["Run", "nobody"]

BATCH: Final = 500
"""Events of one append of a response: within what an append takes, with room for the attempts."""

SIDE_BY_SIDE: Final = 8
"""Intents that run at once: what reads waits for a disk or a peer, and twenty of them at once would be no faster."""
PAIR: Final = 2

_UNASKED: Final = {"credential_pool_exhausted": "rate_limit", "unsupported_capability": "unsupported_feature"}
"""Kinds of what was refused before anybody was asked; anything else is the request's own fault."""


async def nobody(request: p.PermissionRequested) -> p.PermissionAnswer:
    """Answer as nobody: the run is paused until somebody is there."""
    raise AskLater(f"nobody is there to answer for {request.intent_id}")


class Run:
    """One run, being led. Many live in one process; each is used by one task, `say`, `cancel_step` and `stop` by any.

    - `log`: the run's writer, `records`: its events so far, verified (`headrace.loop.start`, `resume` and `fork` make
      all three).
    - `seen`: is shown each record once it is durable, and each event of a model as it comes.
    """

    def __init__(
        self,
        log: RunLog,
        records: Sequence[Record],
        state: State,
        *,
        models: Models,
        tools: ToolRuntime,
        ask: Ask = nobody,
        seen: Seen | None = None,
        settings: Settings | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.log = log
        self.records: list[Record] = list(records)
        self.state = state
        self.settings: Settings = settings or Settings()
        self._models = models
        self._tools = tools
        self._ask = ask
        self._seen = seen
        self._sleep = sleep
        self._said: deque[p.UserMessage] = deque()
        self._writing = anyio.Lock()
        self._step: anyio.CancelScope | None = None
        self._stopping = False
        self._beside: Beside | None = None
        self._menus: set[str] = set()
        #: The last ledger that was recorded, and where: a projection's event holds what is new since.
        self._ledger: tuple[int, Sequence[p.LedgerEntry]] | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.log.run_id

    def say(self, text: str, *, attachments: tuple[p.ArtifactRef, ...] = ()) -> None:
        """Tell the model something at its next turn, also while it works."""
        is_under_way = self._step is not None
        self._said.append(
            p.UserMessage(text=text, kind="steering" if is_under_way else "reply", attachments=attachments)
        )

    def cancel_step(self) -> bool:
        """Call off what is under way: the response, or the tool. The run goes on after a tool. False: nothing was."""
        if self._step is None:
            return False
        self._step.cancel()
        return True

    def stop(self) -> None:
        """Call off what is under way and pause the run."""
        self._stopping = True
        self.cancel_step()

    async def go(self) -> State:
        """Lead the run until it has finished or stands still, and give its state.

        - Raises what the log raises (`FencedError`: another process has taken the run). An exception of the tool
          runtime is a defect and goes through; the run can be resumed.

        If cancelled: as if the process had died; the run can be resumed.
        """
        while True:
            await self._hear()
            if self.state.status != "running":
                self._stopping = False
                await self._seal()
                return self.state
            if self._stopping:
                self._stopping = False
                await self._pause("interrupted")
            elif waiting := self.state.open:
                sharing = self._sharing(waiting)
                await (self._carry_out(waiting[0]) if len(sharing) < PAIR else self._carry_out_beside(sharing))
            elif answer := self._last_answer():
                await self._answered(answer)
            elif over := exceeded(self.state):
                await self.record(over)
                await self._pause("budget", f"the budget of {over.which} is used up")
            else:
                await self._turn()

    def _last_answer(self) -> p.ModelEnded | None:
        """The model's answer, if nothing has come after it: then there is nothing to ask."""
        if self.state.purpose == "compact":
            return None
        news = (p.ModelEnded.type, p.ModelFailed.type, p.UserMessage.type, p.ToolObserved.type)
        last = next((record for record in reversed(self.records) if record.type in news), None)
        value = last.value() if last is not None else None
        return value if isinstance(value, p.ModelEnded) and value.reason != "pause" else None

    def _stepping(self) -> anyio.CancelScope:
        """Make the scope of a step, to be called off from outside; at once where the run is to stop anyway."""
        self._step = anyio.CancelScope()
        if self._stopping:
            self._step.cancel()
        return self._step

    async def _seal(self) -> None:
        """Seal what was recorded since the last seal."""
        key = self.settings.seal
        if key is not None and self.records and self.records[-1].type != p.LogSealed.type:
            await self.record(key.seal(self.run_id, self.log.head, self.log.chain))

    async def record(self, *payloads: p.Payload, key: str | None = None) -> list[Record]:
        """Record facts: durable, and part of the state, when this returns.

        - Raises `IllegalEventError`: the first may not follow; nothing was recorded.

        If cancelled: the cancellation waits until it is done.
        """
        with anyio.CancelScope(shield=True):
            async with self._writing:
                self.state.check(payloads[0])
                records = await self.log.append(*payloads, key=key)
                for record in records:
                    if record.seq > self.state.head:
                        self.state.apply(record)
                        self.records.append(record)
                        if self._seen is not None:
                            self._seen(record)
        return records

    async def _fact(self, payload: p.Payload) -> None:
        """Record for the tool runtime. A start has a key: the same execution never starts twice."""
        key = f"{payload.execution_id}/start" if isinstance(payload, p.ExecutionStarted) else None
        beside = self._beside
        if beside is not None:
            await beside.turn(payload)
        await self.record(payload, key=key)
        if beside is not None:
            beside.recorded(payload)

    async def _hear(self) -> None:
        """Take in what was said. A run that stood still goes on for it."""
        while self._said:
            if self.state.status == "running" and self.state.waiting:
                return  # results come first
            said = self._said.popleft()
            if self.state.status != "running":
                await self.record(p.RunResumed())
            await self.record(said)

    # --- the model's turn

    async def _turn(self) -> None:
        menu = self._tools.menu()
        target = self._target()
        projection = self._project(target, menu)
        limit = self.settings.context_tokens
        if limit is not None and projection.tokens > limit and await self._compact():
            projection = self._project(target, menu)
        turn_id = f"t{self.state.turns}"
        if menu.digest and menu.digest not in self._menus:
            await self.log.log.artifacts.put(self.run_id, menu.body, media="application/json")
            self._menus.add(menu.digest)
        projected = self._projected(projection, target, turn_id)
        requested = p.ModelRequested(
            turn_id=turn_id,
            model=target.model,
            request=projection.digest,
            menu=menu.digest,
            tools=tuple(one.tool.name for one in menu.entries),
            tokens=projection.tokens,
        )
        records = await self.record(projected, requested, key=f"{turn_id}/request")
        self._ledger = (records[0].seq, projection.ledger)
        transcript = await self._asked(projection.request, turn_id, menu)
        if isinstance(transcript.end, p.ModelFailed):
            await self._failed(transcript.end)

    def _target(self) -> Target:
        try:
            route = self._models.route(self.state.model)
        except RefusedError:
            return Target(self.state.model)  # asking will say the same, and then it is recorded
        return Target(self.state.model, route.protocol, route.provider)

    def _project(self, target: Target, menu: Menu) -> Projection:
        return project(
            self.records,
            target=target,
            menu=menu,
            options=self.settings.options,
            run_id=self.run_id,
            turn_id=f"t{self.state.turns}",
        )

    def _projected(self, made: Projection, target: Target, turn_id: str) -> p.ContextProjected:
        base, before = self._ledger or (0, None)
        ledger, continues = ledger_since(before, made.ledger)
        return p.ContextProjected(
            turn_id=turn_id,
            upto=made.upto,
            ledger=ledger,
            request=made.digest,
            messages=len(made.request.messages),
            tokens=made.tokens,
            model=target.model,
            family=target.family,
            provider=target.provider,
            base=base if continues else 0,
            estimator=ESTIMATOR,
        )

    async def _asked(self, request: ModelRequest, turn_id: str, menu: Menu) -> Transcript:
        """Ask a model, and record all that it answers."""
        price, model = self.settings.price, self.state.model
        transcript = Transcript(
            turn_id,
            menu,
            price=lambda used: price(model, used) if price is not None else None,
            redact=self.settings.redact,
        )
        stream: ModelStream | None = None
        with self._stepping():
            try:
                await anyio.lowlevel.checkpoint()  # nothing is sent for a run that is to stop
                async with self._models.stream(request) as stream:
                    async for batch in stream.batches():
                        if stream.attempts:
                            transcript.answered_by(stream.attempts[-1])
                        for event in batch:
                            self._show(event)
                            transcript.take(event)
            except (RefusedError, errors.ProviderError) as refused:
                transcript.fail(_refused(turn_id, refused))
            finally:
                self._step = None
        if transcript.end is None:
            transcript.abort("it was called off")
        for content, mime in transcript.media.values():
            await self.log.log.artifacts.put(self.run_id, content, media=mime)
        asked = () if stream is None else attempt_payloads(turn_id, stream.attempts, stream.hops)
        made = [*asked, *transcript.payloads()]
        for at in range(0, len(made), BATCH):
            await self.record(*made[at : at + BATCH])
        return transcript

    def _show(self, event: ModelEvent) -> None:
        if self._seen is not None:
            self._seen(event)

    async def _answered(self, end: p.ModelEnded) -> None:
        """End a run whose model wants nothing more, or wait for the user."""
        text = self._last_text(end.turn_id)
        if end.reason in ("content_filter", "refusal"):
            await self._finish(p.RunFinished(outcome="failed", reason=end.reason, text=text))
        elif end.reason == "length":
            words = "the answer was cut at its length limit: say something, or raise max_output_tokens"
            await self._pause("asked", words)
        elif self.settings.is_chat:
            await self._pause("asked", "the model has answered")
        else:
            if not await self._checked():
                return
            passed = [seq for seq, ok in self.state.verifications.items() if ok]
            outcome = p.RunFinished(outcome="completed", reason=end.reason, text=text)
            if passed and not any(not ok for seq, ok in self.state.verifications.items() if seq > passed[-1]):
                outcome = p.RunFinished(outcome="verified", reason=end.reason, text=text, verification_seq=passed[-1])
            await self._finish(outcome)

    async def _checked(self) -> bool:
        """Check what the model claims, if somebody can. False: the run does not end with this answer."""
        if self.settings.verify is None:
            return True
        made: p.VerificationRecorded | None = None
        with anyio.CancelScope() as scope:
            self._step = scope
            try:
                made = await self.settings.verify(self.records)
            finally:
                self._step = None
        if made is None:
            await self._pause("interrupted", "the verification was called off")
            return False
        await self.record(made)
        failed = sum(not ok for ok in self.state.verifications.values())
        if made.passed or failed > self.settings.verify_tries:
            return True
        # What the check wrote is data, and is not told here: the model can run it for itself.
        words = f"This does not hold yet: {made.claim}. Find out why, mend it, and try again."
        await self.record(p.UserMessage(text=words, kind="steering"))
        return False

    async def _pause(self, reason: str, detail: str = "") -> None:
        look = self.settings.look
        told = {"reason": reason, "detail": detail, "workspace": await look() if look is not None else None}
        await self.record(p.RunPaused.from_dict(told))

    async def _finish(self, finished: p.RunFinished) -> None:
        look = self.settings.look
        await self.record(finished if look is None else replace(finished, workspace=await look()))

    def _last_text(self, turn_id: str) -> str:
        said = (record.value() for record in reversed(self.records) if record.type == p.ModelSpoke.type)
        texts = []
        for one in said:
            if not isinstance(one, p.ModelSpoke) or one.turn_id != turn_id:
                break
            texts.append(one.text)
        return "".join(reversed(texts))

    async def _failed(self, end: p.ModelFailed) -> None:
        """Do what the table of owners says about a provider's failure."""
        if self._stopping:
            return
        state, settings = self.state, self.settings
        wait = wait_s(state.failures, end.retry_after_ms)
        act = act_on(
            end.kind,
            failures=state.failures,
            retries=settings.retries,
            can_wait=wait <= settings.wait_limit_s,
            can_compact=self._compactable() is not None,
            has_fallback=self._next_model() is not None,
        )
        if act is Act.RETRY:
            await self._wait(wait)
        elif act is Act.COMPACT and not await self._compact():
            await self._give_up(end)
        elif act is Act.FALL_BACK:
            await self._fall_back(end)
        elif act is Act.ASK:
            is_ours = end.kind == "aborted"
            detail = f"{end.kind}: {end.message or ''}".rstrip(": ")
            await self._pause("interrupted" if is_ours else "provider", detail)
        elif act is Act.FAIL:
            await self._give_up(end)

    async def _wait(self, seconds: float) -> None:
        with self._stepping():
            try:
                await self._sleep(seconds)
            finally:
                self._step = None

    async def _give_up(self, end: p.ModelFailed) -> None:
        await self._finish(p.RunFinished(outcome="failed", reason=f"{end.kind}: {end.message or ''}".rstrip(": ")))

    def _next_model(self) -> str | None:
        """The first fallback that was not tried since the run's own model was."""
        chain = (*self.state.fallbacks,)
        at = chain.index(self.state.model) + 1 if self.state.model in chain else 0
        return chain[at] if at < len(chain) else None

    async def _fall_back(self, end: p.ModelFailed) -> None:
        to = self._next_model()
        if to is None:
            return
        needs = [word for word, is_needed in (("tools", bool(self._tools.menu().entries)),) if is_needed]
        await self.record(
            p.ModelFellBack(
                turn_id=end.turn_id,
                from_model=self.state.model,
                to_model=to,
                reason=end.kind,
                capability=",".join(["language_model", *needs]),
            )
        )

    # --- compaction

    def _compactable(self) -> object | None:
        return plan_compaction(self.records, keep_tokens=self.settings.keep_tokens)

    async def _compact(self) -> bool:
        """Have the older part of the conversation summarised. False: there is none, or nobody did."""
        plan = plan_compaction(self.records, keep_tokens=self.settings.keep_tokens)
        if plan is None:
            return False
        turn_id = f"t{self.state.turns}"
        model = self.state.model
        request = compaction_request(self.records, plan, model=model, run_id=self.run_id, turn_id=turn_id)
        asked = p.ModelRequested(turn_id=turn_id, model=model, request=told_digest(request), purpose="compact")
        await self.record(asked, key=f"{turn_id}/request")
        transcript = await self._asked(request, turn_id, Menu())
        summary = self._last_text(turn_id)
        if not isinstance(transcript.end, p.ModelEnded) or not summary:
            return False
        chain = self.records[plan.last - 1].chain
        await self.record(
            p.ContextCompacted(
                first=plan.first,
                last=plan.last,
                replaced=plan.replaced,
                chain=chain.hex(),
                summary=summary,
                by=model,
                tokens_before=plan.tokens,
                tokens_after=-(-len(summary.encode()) // 4),
            )
        )
        return True

    # --- intents

    async def _carry_out(self, waiting: IntentState) -> None:
        intent = self._intent(waiting)
        if waiting.stage == "in_doubt":
            observed = await self._in_doubt(intent, waiting)
        elif waiting.stage == "finished":
            observed = self._recovered(waiting)
        else:
            observed = await self._run_tool(intent)
        if observed is not None and self.state.intents[intent.intent_id].stage != "observed":
            await self.record(observed, key=f"{intent.intent_id}/observed")

    async def _run_tool(self, intent: p.ToolIntent) -> p.ToolObserved | None:
        with self._stepping():
            try:
                await anyio.lowlevel.checkpoint()
                return await self._tools.run(intent, state=self.state, record=self._fact, ask=self._ask)
            except AskLater as later:
                await self._pause("asked", str(later))
                return None
            finally:
                self._step = None
        return await self._called_off(intent)

    async def _called_off(self, intent: p.ToolIntent) -> p.ToolObserved | None:
        """Observe what was called off. The tool runtime has recorded the end of what ran, or the end is not known."""
        now = self.state.intents[intent.intent_id]
        if now.stage == "observed":
            return None
        if now.stage == "started":
            await self.record(
                p.ExecutionInDoubt(
                    intent_id=intent.intent_id,
                    execution_id=now.execution_id,
                    started_seq=now.started,
                    why="it was called off, and its end was not seen",
                )
            )
            return None
        words = "it was called off while it ran" if now.stage == "finished" else "it was called off before it began"
        return p.ToolObserved(
            intent_id=intent.intent_id,
            phase="execute",
            code="cancelled",
            text=words,
            execution_id=now.execution_id or None,
        )

    def _sharing(self, waiting: Sequence[IntentState]) -> list[IntentState]:
        """Give those at the front that may run side by side."""
        tools, found = self._tools, []
        if isinstance(tools, SharingToolRuntime):
            for one in waiting[:SIDE_BY_SIDE]:
                if one.stage != "counted" or not tools.may_share(self._intent(one)):
                    break
                found.append(one)
        return found

    async def _carry_out_beside(self, sharing: Sequence[IntentState]) -> None:
        intents = [self._intent(one) for one in sharing]

        async def one(intent: p.ToolIntent) -> None:
            observed = await self._tools.run(intent, state=self.state, record=self._fact, ask=self._ask)
            if self.state.intents[intent.intent_id].stage != "observed":
                await self._fact(observed)

        with self._stepping() as step:
            beside = self._beside = Beside([one.intent_id for one in intents])
            try:
                await beside.all([partial(one, intent) for intent in intents])
            finally:
                self._step = self._beside = None
        for intent in intents if step.cancel_called else ():
            if self.state.intents[intent.intent_id].stage != "observed":
                observed = await self._called_off(intent)
                if observed is not None:
                    await self.record(observed, key=f"{intent.intent_id}/observed")
        if beside.later is not None and not step.cancel_called:
            await self._pause("asked", str(beside.later))

    async def _in_doubt(self, intent: p.ToolIntent, waiting: IntentState) -> p.ToolObserved | None:
        """Ask a person whether what may have run is to be run again. By itself it never is."""
        question = p.PermissionRequested(
            intent_id=intent.intent_id,
            tool_name=intent.tool_name,
            intent_digest=waiting.digest,
            summary=f"run {intent.tool_name} again: it started once and nobody saw its end",
            why="in doubt",
            choices=("once", "deny"),
        )
        try:
            answer = await self._ask(question)
        except AskLater as later:
            await self._pause("in_doubt", str(later))
            return None
        if answer.decision == "allow":
            await self.record(
                p.PermissionDecided(intent_id=intent.intent_id, decision="allow", by="person", reason=answer.reason)
            )
            return None  # allowed now: the loop carries it out
        words = "this execution started and nobody saw its end: whether it took effect is not known"
        return p.ToolObserved(
            intent_id=intent.intent_id,
            phase="execute",
            code="in_doubt",
            text=f"{words}. {answer.reason}".rstrip(". ") + ".",
            execution_id=waiting.execution_id,
        )

    def _recovered(self, waiting: IntentState) -> p.ToolObserved:
        """Observe an execution whose end is recorded and whose observation was lost with a process."""
        ended = self.records[waiting.finished - 1].value()
        if not isinstance(ended, p.ExecutionFinished):
            raise TypeError(f"event {waiting.finished} is no end of an execution")
        exit_code = "" if ended.exit_code is None else f", exit code {ended.exit_code}"
        whole = ended.output
        where = f" Its output is artifact {whole.digest}." if whole is not None else ""
        codes: dict[str, p.ObservationCode] = {"ok": "ok", "timeout": "timeout", "cancelled": "cancelled"}
        return p.ToolObserved(
            intent_id=ended.intent_id,
            phase="observe",
            code=codes.get(ended.outcome, "tool_error"),
            text=f"It ended before an interruption: {ended.outcome}{exit_code}. {ended.message}".rstrip() + where,
            execution_id=ended.execution_id,
            whole=whole,
            omitted_bytes=whole.size if whole is not None else 0,
        )

    def _intent(self, waiting: IntentState) -> p.ToolIntent:
        value = self.records[waiting.proposed - 1].value()
        if not isinstance(value, p.ToolIntent):
            raise TypeError(f"event {waiting.proposed} is no intent")
        return value


def _refused(turn_id: str, refused: RefusedError | errors.ProviderError) -> p.ModelFailed:
    """Record that nobody was asked, as the failure of a response that never began."""
    if isinstance(refused, errors.ProviderError):
        kind = refused.kind
        return p.ModelFailed.from_dict({"turn_id": turn_id, "kind": kind, "message": str(refused), "phase": "request"})
    kind = _UNASKED.get(refused.code, "bad_request")
    return p.ModelFailed.from_dict(
        {
            "turn_id": turn_id,
            "kind": kind,
            "retryable": kind == "rate_limit",
            "status": refused.status,
            "code": refused.code,
            "message": str(refused),
            "phase": "request",
        }
    )
