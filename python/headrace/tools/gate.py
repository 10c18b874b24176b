"""The gate between what a call would do and doing it: hooks, policy, earlier grants, and a person.

1. Whatever was decided is a fact of the log before this returns, and names who decided: a rule, the mode, a hook, a
   grant, a person, or the default.
2. A denial has no appeal here: hooks come first and can only tighten, a grant answers nothing but a question.
3. After a person's answer the call is prepared anew. If it is another by now, it is refused.

Never here: what rules say (`permission`), executing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from headrace.log.payloads import HookDecided, PermissionDecided, PermissionRequested
from headrace.tools.hooks import BeforeCall, ask_hook
from headrace.tools.permission.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.log.payloads import Grant, ObservationCode, PermissionAnswer, Phase, ToolIntent
    from headrace.tools.clerk import Clerk
    from headrace.tools.definition import Prepared
    from headrace.tools.hooks import BeforeHook
    from headrace.tools.permission.acts import Query
    from headrace.tools.permission.grants import Grants
    from headrace.tools.permission.policy import Mode, Policy
    from headrace.tools.toolbox import Entry

__all__ = ["Call", "Gate", "Stop"]


class Stop(Exception):  # noqa: N818 - no error: the way out of the pipeline with an observation
    """The pipeline ends here."""

    def __init__(self, phase: Phase, code: ObservationCode, message: str) -> None:
        super().__init__(message)
        self.phase = phase
        self.code = code
        self.message: str = message


@dataclass(frozen=True, slots=True)
class Call:
    """An intent on its way."""

    intent: ToolIntent
    entry: Entry
    prepared: Prepared
    digest: str
    query: Query


class Gate:
    """Decides the calls of one run."""

    def __init__(
        self,
        clerk: Clerk,
        *,
        ask: Callable[[PermissionRequested], Awaitable[PermissionAnswer]],
        policy: Policy,
        mode: Mode,
        grants: Grants,
        hooks: Sequence[BeforeHook],
        tier: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._clerk, self._ask = clerk, ask
        self.policy: Policy = policy
        self.grants: Grants = grants
        self.mode: Mode = mode
        self.enter(mode)
        self._before, self._tier, self._now_ms = tuple(hooks), tier, now_ms

    def enter(self, mode: Mode) -> None:
        """Go on in a mode.

        Raises `ValueError`: the policy does not let it be used.
        """
        if not self.policy.allows_mode(mode):
            raise ValueError(f"mode: the policy does not let {mode} be used")
        self.mode = mode

    async def let(self, call: Call, again: Callable[[], Awaitable[Call]]) -> Call:
        """Let a call through, or not. Returns the call as it may be done.

        - `again`: prepares the call anew, once somebody was asked.

        Raises `Stop`: it is denied.
        """
        if not call.entry.executable:
            await self._decide(call, "deny", "policy", reason="the tool may be seen and not executed")
            raise Stop(
                "policy", "permission_denied", f"The tool {call.intent.tool_name} may not be executed in this run."
            )
        hooked = await self._ask_hooks(call)
        decision = self.policy.decide(call.query, self.mode)
        rule = decision.rule
        if decision.effect == "deny":
            by = decision.by if not rule else "policy"
            await self._decide(call, "deny", by, rule=rule, reason=decision.why)
            raise Stop("policy", "permission_denied", f"Denied{f' by {rule}' if rule else ''}: {decision.why}.")
        if hooked is not None and decision.effect == "allow":
            if self.mode == "headless":
                await self._decide(call, "deny", "hook", reason=hooked)
                raise Stop("policy", "permission_denied", f"Denied: nobody is there to be asked: {hooked}.")
            decision = Decision("ask", "default", "", hooked)
        if decision.effect == "allow":
            await self._decide(call, "allow", decision.by, rule=rule, reason=decision.why)
            return call
        grant = self.grants.find(
            decision,
            digest=call.digest,
            cwd=call.prepared.cwd,
            policy=self.policy,
            query=call.query,
            now_ms=self._now_ms(),
        )
        if grant is not None and hooked is None:
            await self._decide(call, "allow", "grant", rule=rule, reason="allowed before", grant=grant)
            return call
        await self._ask_person(call, decision, with_rule=decision.rule_may_answer and hooked is None)
        anew = await again()
        if anew.query != call.query or anew.digest != call.digest or anew.prepared.diff != call.prepared.diff:
            words = "What would be done now is not what was allowed; propose it again."
            raise Stop("ask", "precondition_failed", words)
        return anew

    async def _ask_hooks(self, call: Call) -> str | None:
        """Ask the hooks. Returns why one of them wants a person to be asked, or None."""
        wish = None
        for hook in self._before:
            told = BeforeCall(
                intent_id=call.intent.intent_id,
                tool_name=call.intent.tool_name,
                value=self._clerk.value(dict(call.prepared.normalised)),
                effects=call.query.effects,
                summary=self._clerk.clean(call.prepared.summary),
                cwd=call.prepared.cwd,
            )
            answer = await ask_hook(hook.before(told))
            await self._clerk.record(
                HookDecided(
                    intent_id=call.intent.intent_id,
                    hook=hook.name,
                    decision=answer.decision,
                    reason=self._clerk.words(answer.reason),
                )
            )
            if answer.decision == "deny":
                await self._decide(call, "deny", "hook", rule=hook.name, reason=answer.reason)
                raise Stop("policy", "permission_denied", f"Denied by the hook {hook.name}: {answer.reason}.")
            if answer.decision == "ask":
                wish = answer.reason or f"the hook {hook.name} wants it"
        return wish

    async def _ask_person(self, call: Call, decision: Decision, *, with_rule: bool) -> None:
        prepared = call.prepared
        diff = await self._clerk.artifact(prepared.diff) if prepared.diff else None
        choices: tuple[Literal["once", "session", "rule", "deny"], ...] = (
            ("once", "session", "rule", "deny") if with_rule else ("once", "session", "deny")
        )
        question = PermissionRequested(
            intent_id=call.intent.intent_id,
            tool_name=call.intent.tool_name,
            intent_digest=call.digest,
            summary=self._clerk.words(prepared.summary),
            argv=tuple(self._clerk.clean(word) for word in prepared.argv),
            cwd=prepared.cwd,
            tier=self._tier,
            rule=decision.rule,
            why=self._clerk.words(decision.why),
            effects=call.query.effects,
            policy=self.policy.hash,
            diff=diff,
            choices=choices,
        )
        await self._clerk.record(question)
        answer = await self._ask(question)
        if answer.decision != "allow" or answer.scope not in choices:
            reason = answer.reason or ("that choice was not offered" if answer.decision == "allow" else "")
            await self._decide(call, "deny", answer.by, rule=decision.rule, reason=reason)
            said = f": {reason}" if reason else ""
            raise Stop(
                "ask", "permission_denied", f"Denied by {'a person' if answer.by == 'person' else 'default'}{said}."
            )
        grant = self.grants.give(
            answer.scope,
            digest=call.digest,
            cwd=prepared.cwd,
            policy=self.policy,
            query=call.query,
            now_ms=self._now_ms(),
        )
        await self._decide(call, "allow", answer.by, rule=decision.rule, reason=answer.reason, grant=grant)

    async def _decide(
        self,
        call: Call,
        decision: Literal["allow", "deny"],
        by: Literal["policy", "mode", "grant", "hook", "person", "default"],
        *,
        rule: str = "",
        reason: str = "",
        grant: Grant | None = None,
    ) -> None:
        if grant is not None and self._clerk.value(grant.to_dict()) != grant.to_dict():
            grant = replace(grant, rules=())  # a rule with a secret cut out of it would be another rule
        await self._clerk.record(
            PermissionDecided(
                intent_id=call.intent.intent_id,
                decision=decision,
                by=by,
                rule=rule,
                reason=self._clerk.words(reason),
                grant=grant,
            )
        )
