"""What a person has allowed, and for how long it holds.

1. A grant binds the intent's digest, the directory, the policy's hash and an expiry. If one of them is another, it does
   not hold.
2. A grant answers a question. It never lifts a denial: the policy is asked first, every time.
3. `once` is used up by the call that it was given for. `rule` holds for calls whose every question a rule of the same
   words would answer.
4. What is taken from a log is no wider and lives no longer than what a person can give here.

Never here: the clock. An instant is an argument, in milliseconds since the Unix epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.payloads import Grant, GrantedRule
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
        for grant in dict.fromkeys(grants):  # each use of one is recorded with it
            left_ms = 0 if grant.expires_ms is None or grant.policy != policy else grant.expires_ms - now_ms
            live = 0 < left_ms <= LIFE_MS
            if live and grant.scope == "session" and grant.intent_digest:
                self._exact[grant.intent_digest, grant.cwd, grant.policy] = grant
            elif live and grant.scope == "rule" and grant.rules:
                self._by_rule.append(_ByRule(grant, tuple(map(_rule, grant.rules))))
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
        rules = rules_for(query) if scope == "rule" else ()
        grant = Grant(
            intent_digest="" if scope == "rule" else digest,
            cwd=cwd,
            policy=policy.hash,
            expires_ms=now_ms + LIFE_MS,
            scope=scope,
            rules=rules,
        )
        if scope == "session":
            self._exact[digest, cwd, policy.hash] = grant
        elif scope == "rule":
            self._by_rule.append(_ByRule(grant, tuple(map(_rule, rules))))
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


def rules_for(query: Query) -> tuple[GrantedRule, ...]:
    """Make the rules that allow what was asked about: these words, this file, this host, and nothing beside."""
    rules = []
    for act in query.acts:
        if isinstance(act, Run) and act.command.known and not act.command.doubts:
            rules.append(GrantedRule(tool=query.tool, argv=act.command.words))
        elif isinstance(act, Open):
            rules.append(GrantedRule(tool=query.tool, path=_literal(act.path)))
        elif isinstance(act, Connect) and act.certain:
            rules.append(GrantedRule(tool=query.tool, host=_literal(act.host)))
    return tuple(rules) or (GrantedRule(tool=query.tool),)


def _rule(granted: GrantedRule) -> Rule:
    return Rule(
        effect="allow",
        tool=granted.tool,
        argv=granted.argv or None,
        path=granted.path or None,
        host=granted.host or None,
        why="allowed by a person",
    )


def _literal(text: str) -> str:
    return "".join(f"[{one}]" if one in "*?[{" else one for one in text)


def _live(grant: Grant, now_ms: int) -> bool:
    return grant.expires_ms is not None and now_ms < grant.expires_ms
