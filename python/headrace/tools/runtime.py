"""One intent in, exactly one observation out (T1).

    lookup -> visible -> schema -> preconditions -> risk -> policy -> ask -> execute -> normalise -> redact -> budget
    -> observe

1. Each step that fails ends in an observation that names its phase and code (T2). A tool's failure is an observation
   and never an exception (T6); only what records may raise, and then nothing more is done.
2. Facts are recorded as they come to be, and each is durable before the next step: the validation, hooks' answers, the
   question and its answer, the start before anything is spawned or written, the end, the observation.
3. What was allowed is what is done: where somebody was asked, the call is prepared anew, and if it is another by now it
   is refused.
4. A cancelled call leaves nothing running, and has its observation. `interrupt` ends one call and not its caller.
5. What a tool gives is untrusted data. It is redacted and cut before it is recorded; no decision ever reads it.
6. The same intent is run once: a second call for it gives the first one's observation.

Never here: what tools do, who decides, where facts go.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from headrace.log.payloads import (
    ExecutionFinished,
    ExecutionStarted,
    FileChange,
    HookDecided,
    Limits,
    PermissionDecided,
    PermissionRequested,
    ToolIntent,
    ToolObserved,
    ToolValidated,
)
from headrace.tools.clerk import Clerk, short
from headrace.tools.clip import VIEW_BYTES
from headrace.tools.definition import Outcome, Prepared, RefusedError
from headrace.tools.gate import Call, Gate, Stop
from headrace.tools.hooks import AfterCall, ask_hook
from headrace.tools.output import Observed, RedactedOutput
from headrace.tools.permission.acts import Query
from headrace.tools.permission.grants import Grants
from headrace.tools.permission.policy import Mode, Policy
from headrace.tools.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from headrace.log.payloads import ArtifactRef, ObservationCode, Payload, PermissionAnswer, Phase
    from headrace.tools.execution import Limits as CommandLimits
    from headrace.tools.hooks import AfterHook, BeforeHook
    from headrace.tools.toolbox import Entry, Toolbox

__all__ = ["ToolRuntime", "intent_digest"]

T = TypeVar("T")

FAULTS: Final = 5
"""Of a schema that are told at once."""
RETRYABLE: Final = frozenset({"schema_invalid", "precondition_failed", "unknown_tool", "malformed_intent", "timeout"})
"""Codes after which the same wish, put otherwise, may work."""


NOTHING: Final = Observed("", 0, None, 0)
NO_OUTCOME: Final = Outcome()


def intent_digest(tool: str, value: Any) -> str:
    """Name what an intent wants: the tool and its normalised input."""
    text = json.dumps([tool, value], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class ToolRuntime:
    """Runs the tools of one run.

    - `record`: takes a fact, and returns once it is durable.
    - `ask`: takes a question to a person. Whoever has nobody to ask uses the mode `headless`.
    - `keep`: keeps a content as an artifact.
    - `tier`: of the executor that the tools use.
    - `view_bytes`: of an output in a model's sight.
    - `new_id`, `now_ms`: ids of executions; the clock, in milliseconds since the Unix epoch.

    Raises `ValueError`: the policy does not let the mode be used.
    """

    def __init__(
        self,
        *,
        toolbox: Toolbox,
        record: Callable[[Payload], Awaitable[None]],
        ask: Callable[[PermissionRequested], Awaitable[PermissionAnswer]],
        keep: Callable[[bytes], Awaitable[ArtifactRef]] | None = None,
        policy: Policy | None = None,
        mode: Mode = "default",
        root: str = "/",
        tier: str = "C",
        redactor: Redactor | None = None,
        before: Sequence[BeforeHook] = (),
        after: Sequence[AfterHook] = (),
        grants: Grants | None = None,
        view_bytes: int = VIEW_BYTES,
        new_id: Callable[[], str],
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.toolbox = toolbox
        self.root = root
        self._redactor = redactor or Redactor()
        self._clerk = Clerk(self._redactor, record, keep)
        self._gate = Gate(
            self._clerk,
            ask=ask,
            policy=policy or Policy(),
            mode=mode,
            grants=grants or Grants(),
            hooks=before,
            tier=tier,
            now_ms=now_ms,
        )
        self._tier, self._after = tier, tuple(after)
        self._view_bytes = view_bytes
        self._new_id = new_id
        self._results: dict[str, asyncio.Future[ToolObserved]] = {}
        self._before_us: dict[str, ToolObserved] = {}
        self._in_doubt: set[str] = set()
        self._running: dict[str, asyncio.Task[Any]] = {}

    @property
    def policy(self) -> Policy:
        """What decides."""
        return self._gate.policy

    @property
    def mode(self) -> Mode:
        """The permission mode."""
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        """Go on in another mode.

        Raises `ValueError`: the policy does not let it be used.
        """
        self._gate.enter(mode)

    def restore(self, observed: Iterable[ToolObserved], in_doubt: Iterable[str] = ()) -> None:
        """Take what a log has, before a run goes on: what was observed is not run again.

        - `in_doubt`: intents of which an execution started and has no end. They are never run again either; their
          observation says so.
        """
        self._before_us.update((one.intent_id, one) for one in observed)
        self._in_doubt.update(in_doubt)

    def interrupt(self, intent_id: str | None = None) -> bool:
        """End one call, or all under way, each with the observation `cancelled`. Tells whether there was one."""
        found = [name for name in self._running if intent_id in (None, name)]
        for name in found:
            self._running[name].cancel()
        return bool(found)

    async def run(self, intent: ToolIntent) -> ToolObserved:
        """Bring one intent to its observation, recording all facts on the way, the observation last.

        Raises what `record` raises: then the log is not to be trusted with more, and nothing more is done.
        If cancelled: nothing is left running, and the observation is recorded, with the code `cancelled`.
        """
        before_us = self._before_us.get(intent.intent_id)
        if before_us is not None:
            return before_us
        known = self._results.get(intent.intent_id)
        if known is not None:
            return await asyncio.shield(known)
        future: asyncio.Future[ToolObserved] = asyncio.get_running_loop().create_future()
        self._results[intent.intent_id] = future
        try:
            observed = await self._through(intent)
        except BaseException as error:
            if not future.done():
                future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if isinstance(error, Exception):
                future.exception()  # whoever waits sees it; if nobody does, it was seen here
            raise
        future.set_result(observed)
        return observed

    # --- the pipeline

    async def _through(self, intent: ToolIntent) -> ToolObserved:
        """Go all the way, in a task of its own, so that it can be interrupted without its caller."""
        task = asyncio.ensure_future(self._steps(intent))
        self._running[intent.intent_id] = task
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            await _surely(asyncio.wait((task,)))
            if task.cancelled():
                await _surely(self._unstarted(intent))
            else:
                task.result()  # a log that failed is told before the cancellation
            raise
        finally:
            self._running.pop(intent.intent_id, None)
        if task.cancelled():
            observed, cancelled = await _surely(self._unstarted(intent))
            if cancelled:
                raise asyncio.CancelledError
            return observed
        return task.result()

    async def _unstarted(self, intent: ToolIntent) -> ToolObserved:
        """Observe a call that was ended before anything was started."""
        return await self._observe(intent, "ask", "cancelled", "It was cancelled before it was started.")

    async def _steps(self, intent: ToolIntent) -> ToolObserved:
        if intent.intent_id in self._in_doubt:
            words = "It was started before, and nobody saw its end: what it did is not known. It is not run again."
            return (await _surely(self._observe(intent, "execute", "in_doubt", words)))[0]
        try:
            entry, value = self._look(intent)
            call = await self._prepare(intent, entry, value)
        except Stop as stop:
            await self._clerk.record(
                ToolValidated(
                    intent_id=intent.intent_id,
                    ok=False,
                    phase=stop.phase,
                    code=stop.code,
                    message=self._clerk.words(stop.message),
                )
            )
            await self._denied_by_nature(intent, stop)
            return (await _surely(self._observe(intent, stop.phase, stop.code, stop.message)))[0]
        await self._clerk.record(
            ToolValidated(
                intent_id=intent.intent_id,
                ok=True,
                phase="risk",
                normalised=_json(self._clerk.value(dict(call.prepared.normalised))),
                intent_digest=call.digest,
                tool_version=entry.version,
                effects=call.query.effects,
            )
        )
        try:
            call = await self._gate.let(call, lambda: self._again(call))
        except Stop as stop:
            return (await _surely(self._observe(intent, stop.phase, stop.code, stop.message)))[0]
        return await self._execute(call)

    def _look(self, intent: ToolIntent) -> tuple[Entry, Any]:
        """Lookup, visible, schema."""
        entry = self.toolbox.get(intent.tool_name)
        if entry is None:
            names = ", ".join(tool.name for tool in self.toolbox.menu())
            raise Stop("lookup", "unknown_tool", f"There is no tool {intent.tool_name[:80]!r}. There are: {names}.")
        if not entry.visible:
            raise Stop("visible", "tool_not_visible", f"The tool {intent.tool_name} is not offered in this run.")
        if entry.handler.spec.kind != intent.kind:
            raise Stop("schema", "malformed_intent", f"{intent.tool_name} is a {entry.handler.spec.kind} tool.")
        try:
            value = intent.input
        except ValueError:
            raise Stop("schema", "malformed_intent", "The arguments are not one JSON object.") from None
        faults = [
            f"{'/'.join(str(step) for step in fault.instance_path) or 'the arguments'}: {fault.message}"
            for fault, _ in zip(entry.validator.iter_errors(value), range(FAULTS), strict=False)
        ]
        if faults:
            raise Stop("schema", "schema_invalid", f"The arguments do not fit the schema. {'; '.join(faults)}")
        return entry, value

    async def _prepare(self, intent: ToolIntent, entry: Entry, value: Any) -> Call:
        """Preconditions and risk: what would be done."""
        try:
            prepared = await asyncio.wait_for(entry.handler.prepare(value), entry.handler.spec.timeout_s)
        except RefusedError as refused:
            raise Stop("preconditions", refused.code, refused.message) from None
        except TimeoutError:
            raise Stop("preconditions", "precondition_failed", "Looking at the call took too long.") from None
        except Exception as error:  # noqa: BLE001 - a tool may fail in any way, and is never an exception to its caller
            raise Stop("preconditions", "precondition_failed", _failure(error)) from None
        query = Query(
            tool=intent.tool_name, acts=prepared.acts, doubts=prepared.doubts, root=self.root, tier=self._tier
        )
        undeclared = set(query.effects) - set(entry.handler.spec.effects) - {"none"}
        if undeclared:
            words = f"{intent.tool_name} would {', '.join(sorted(undeclared))}, and does not declare it."
            raise Stop("risk", "precondition_failed", words)
        return Call(intent, entry, prepared, intent_digest(intent.tool_name, prepared.normalised), query)

    async def _again(self, call: Call) -> Call:
        """Prepare anew what waited for an answer: the world may be another by now."""
        try:
            return await self._prepare(call.intent, call.entry, call.intent.input)
        except Stop as stop:
            await self._denied_by_nature(call.intent, stop)
            raise Stop("ask", stop.code, stop.message) from None

    async def _denied_by_nature(self, intent: ToolIntent, stop: Stop) -> None:
        """Record a denial that no rule had to say: what a tool never does is denied in every mode, by us."""
        if stop.code == "permission_denied":
            await self._clerk.record(
                PermissionDecided(
                    intent_id=intent.intent_id,
                    decision="deny",
                    by="default",
                    reason=self._clerk.words(stop.message),
                )
            )

    # --- execution

    async def _execute(self, call: Call) -> ToolObserved:
        """Execute, and all that follows. From the start on, a cancellation waits for the facts."""
        spec, prepared, execution_id = call.entry.handler.spec, call.prepared, self._new_id()
        start = ExecutionStarted(
            intent_id=call.intent.intent_id,
            execution_id=execution_id,
            tool_name=spec.name,
            executor=spec.executor,
            cwd=prepared.cwd or self.root,
            intent_digest=call.digest,
            tool_version=call.entry.version,
            argv=tuple(self._clerk.clean(word) for word in prepared.argv),
            sandbox=self._tier if prepared.argv else "none",
            limits=_limits(prepared.limits, spec.timeout_s),
            environment=prepared.environment,
            effects=call.query.effects,
        )
        # From here on a cancellation waits for the facts: a start without an end would be in doubt.
        _, cancelled = await _surely(self._clerk.record(start))
        output = RedactedOutput(self._redactor, self._view_bytes)
        began, outcome = time.monotonic(), Outcome()
        try:
            if not cancelled:
                outcome = await self._outcome(prepared, output, spec.timeout_s)
        except asyncio.CancelledError:
            cancelled = True
        took = int((time.monotonic() - began) * 1000)
        try:
            closing = self._close(call, execution_id, output, outcome, took, cancelled=cancelled)
            return (await _surely(closing))[0]
        finally:
            output.close()

    @staticmethod
    async def _outcome(prepared: Prepared, output: RedactedOutput, timeout_s: float) -> Outcome:
        """Run it. Whatever happens, but a cancellation, is an outcome (T6)."""
        try:
            return await asyncio.wait_for(prepared.run(output), timeout_s)
        except TimeoutError:
            return Outcome(
                code="timeout", message=f"It took longer than {timeout_s:g} s and was ended.", retryable=True
            )
        except RefusedError as refused:
            return Outcome(code="tool_error", message=refused.message, retryable=True)
        except Exception as error:  # noqa: BLE001 - a tool may fail in any way
            return Outcome(code="tool_error", message=_failure(error))

    async def _close(
        self, call: Call, execution_id: str, output: RedactedOutput, outcome: Outcome, took: int, *, cancelled: bool
    ) -> ToolObserved:
        """Normalise, redact, budget, observe."""
        seen = await output.finish(self._clerk.keep)
        code: ObservationCode = "cancelled" if cancelled else outcome.code
        ended: Literal["ok", "tool_error", "timeout", "cancelled", "killed"] = (
            "cancelled" if cancelled else outcome.code
        )
        if outcome.signal is not None and ended == "tool_error":
            ended = "killed"
        message = "It was cancelled." if cancelled else outcome.message
        changes = [
            FileChange(path=one.path, before=one.before, after=one.after, diff=await self._clerk.artifact(one.diff))
            for one in outcome.changes
        ]
        await self._clerk.record(
            ExecutionFinished(
                intent_id=call.intent.intent_id,
                execution_id=execution_id,
                outcome=ended,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                duration_ms=took,
                cpu_ms=outcome.cpu_ms,
                peak_memory_bytes=outcome.peak_memory_bytes,
                output_bytes=output.raw_bytes,
                output=seen.whole,
                changes=tuple(changes),
                message=self._clerk.words(message),
            )
        )
        return await self._observe(
            call.intent,
            "observe" if code == "ok" else "execute",
            code,
            message,
            seen=seen,
            outcome=outcome,
            execution_id=execution_id,
        )

    async def _observe(
        self,
        intent: ToolIntent,
        phase: Phase,
        code: ObservationCode,
        message: str,
        *,
        seen: Observed = NOTHING,
        outcome: Outcome = NO_OUTCOME,
        execution_id: str | None = None,
    ) -> ToolObserved:
        said, count = self._redactor.text(message)
        text = "\n".join(part for part in (short(said), seen.text) if part)
        observed = ToolObserved(
            intent_id=intent.intent_id,
            phase=phase,
            code=code,
            text=text,
            retryable=outcome.retryable or code in RETRYABLE,
            execution_id=execution_id,
            omitted_bytes=seen.omitted,
            whole=seen.whole,
            redactions=count + seen.redactions,
            read_hashes=tuple(f"{path}={digest}" for path, digest in outcome.read_hashes),
        )
        for hook in self._after if execution_id is not None else ():
            told = AfterCall(intent_id=intent.intent_id, tool_name=intent.tool_name, code=code, text=observed.text)
            answer = await ask_hook(hook.after(told))
            decision = HookDecided(
                intent_id=intent.intent_id,
                hook=hook.name,
                decision=answer.decision,
                reason=self._clerk.words(answer.reason),
            )
            await self._clerk.record(decision)
            if answer.decision != "allow":
                observed = replace(observed, text=f"[withheld by the hook {hook.name}]")
        await self._clerk.record(observed)
        return observed


async def _surely(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """Do something to its end, whoever cancels meanwhile. Returns its result, and whether somebody did."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _failure(error: Exception) -> str:
    """Say that a tool failed, without its words: they are whatever it had at hand."""
    return f"The tool failed: {type(error).__name__}."


def _limits(limits: CommandLimits | None, timeout_s: float) -> Limits:
    if limits is None:
        return Limits(wall_ms=int(timeout_s * 1000))
    return Limits(
        wall_ms=int(limits.wall_s * 1000),
        cpu_ms=limits.cpu_s * 1000,
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
        processes=limits.processes,
    )
