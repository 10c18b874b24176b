"""What a person has allowed, and for how long it holds.

1. A grant binds the intent's digest, the directory, the policy's hash and an expiry. If one of them is another, it does
   not hold.
2. A grant answers a question. It never lifts a denial: the policy is asked first, every time.
3. `once` is used up by the call that it was given for. `rule` holds for calls whose every question a rule of the same
   words would answer; it lives as long as the process and is not restored.

Never here: the clock. An instant is an argument, in milliseconds since the Unix epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.payloads import Grant
from headrace.tools.permission.acts import Connect, Open, Query, Run
from headrace.tools.permission.policy import Decision, Layer, Policy
from headrace.tools.permission.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

__all__ = ["LIFE_MS", "Grants", "rules_for"]

LIFE_MS: Final = 8 * 60 * 60 * 1000
"""A working day: who comes back tomorrow is asked again."""


@dataclass(frozen=True, slots=True)
class _ByRule:
    grant: Grant
    rules: tuple[Rule, ...]


class Grants:
    """The allowances of one run."""

    __slots__ = ("_by_rule", "_exact")

    def __init__(self) -> None:
        self._exact: dict[tuple[str, str, str], Grant] = {}
        self._by_rule: list[_ByRule] = []

    def restore(self, grants: Iterable[Grant], policy: str, now_ms: int) -> int:
        """Take the grants of a log that still hold. Returns how many did not."""
        lost = 0
        for grant in grants:
            live = grant.expires_ms is not None and grant.expires_ms > now_ms and grant.policy == policy
            if live and grant.scope == "session" and grant.intent_digest:
                self._exact[grant.intent_digest, grant.cwd, grant.policy] = grant
            elif grant.scope != "once":
                lost += 1
        return lost

    def give(
        self,
        scope: Literal["once", "session", "rule"],
        *,
        digest: str,
        cwd: str,
        policy: Policy,
        query: Query,
        now_ms: int,
    ) -> Grant:
        """Note what a person said. Returns the grant, for the log."""
        grant = Grant(
            intent_digest="" if scope == "rule" else digest,
            cwd=cwd,
            policy=policy.hash,
            expires_ms=now_ms + LIFE_MS,
            scope=scope,
        )
        if scope == "session":
            self._exact[digest, cwd, policy.hash] = grant
        elif scope == "rule":
            self._by_rule.append(_ByRule(grant, rules_for(query)))
        return grant

    def find(
        self, decision: Decision, *, digest: str, cwd: str, policy: Policy, query: Query, now_ms: int
    ) -> Grant | None:
        """Find a grant that answers a question, and still holds.

        - `decision`: what policy said of the call; a denial has no answer.
        """
        if decision.effect != "ask":
            return None
        exact = self._exact.get((digest, cwd, policy.hash))
        if exact is not None and _live(exact, now_ms):
            return exact
        if not decision.rule_may_answer:
            return None
        for one in self._by_rule:
            if one.grant.cwd != cwd or one.grant.policy != policy.hash or not _live(one.grant, now_ms):
                continue
            session = next((layer for layer in policy.layers if layer.name == "session"), Layer("session"))
            widened = policy.with_layer(Layer("session", (*session.rules, *one.rules), session.modes))
            if widened.decide(query).effect == "allow":
                return one.grant
        return None


def rules_for(query: Query) -> tuple[Rule, ...]:
    """Make the rules that allow what was asked about: these words, this file, this host, and nothing beside."""
    rules = []
    for act in query.acts:
        if isinstance(act, Run) and act.command.known and not act.command.doubts:
            rules.append(Rule(effect="allow", tool=query.tool, argv=act.command.words, why="allowed by a person"))
        elif isinstance(act, Open):
            rules.append(Rule(effect="allow", tool=query.tool, path=_literal(act.path), why="allowed by a person"))
        elif isinstance(act, Connect) and act.certain:
            rules.append(Rule(effect="allow", tool=query.tool, host=_literal(act.host), why="allowed by a person"))
    if not rules:
        rules.append(Rule(effect="allow", tool=query.tool, why="allowed by a person"))
    return tuple(rules)


def _literal(text: str) -> str:
    return "".join(f"[{one}]" if one in "*?[{" else one for one in text)


def _live(grant: Grant, now_ms: int) -> bool:
    return grant.expires_ms is not None and now_ms < grant.expires_ms
