"""The way of one request above its attempts: from one model to the next of a profile's fallback chain.

1. `CredentialAttempts` owns what happens at one provider. Only when it has no further attempt is another model asked,
   if the profile has a route for this kind of failure.
2. Each step leaves a `Hop`: from where to where, why, and for which capability. The client is told in a header.
3. A model is asked once per request. One whose breaker is open, that lacks the capability, or that is known to take no
   images where the request has some, is passed over.
4. After the commit boundary nothing is tried again: whoever calls `next` has not answered yet.
5. A hedge is the one case of two attempts at a time, off by default: the next model is asked beside one that does not
   answer. Whoever's head comes first is the way from then on; the other attempt is recorded as called off.
6. The client's deadline is the first provider's `total`; a fallback has what is left of it.

Never here: who executes tools, a credential, parsing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from headrace.attempts import CredentialAttempts, pool_kind
from headrace.breaker import COUNTED
from headrace.config import DEFAULT_ON
from headrace.errors import ProviderError
from headrace.requests import AttemptSpec, Failure, Headers, Hedge, Plan, PreparedRequest, Refusal, Relay, RuntimeMap
from headrace.resolver import HEADER_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.attempts import AttemptRecord
    from headrace.breaker import Breakers
    from headrace.credentials.oauth import TokenError
    from headrace.requests import Lane, Secret
    from headrace.resolver import Resolver, Target

__all__ = ["Hop", "Prepare", "Ready", "RouteAttempts", "Rule"]

Random: TypeAlias = Callable[[], float]
Ready: TypeAlias = tuple[PreparedRequest, Relay]
Prepare: TypeAlias = "Callable[[Target, RuntimeMap], Ready | Refusal]"

_OPEN: Final = "circuit_open"
_BLIND: Final = "no_vision"
_HEDGE: Final = "hedge"


@dataclass(frozen=True, slots=True)
class Rule:
    """On these kinds of failure, these models are asked, in this order."""

    to: tuple[str, ...]
    on: frozenset[str] = frozenset(DEFAULT_ON)
    #: Seconds after which the first of them is asked beside the one that does not answer. None: never.
    hedge: float | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """Why another model was asked than the one before it.

    - `came_from`, `went_to`: `provider_id/model`.
    - `reason`: the error's kind, `circuit_open`, `no_vision` or `hedge`.
    - `after`: attempts that had been made by then.
    """

    came_from: str
    went_to: str
    reason: str
    capability: str
    after: int

    def __str__(self) -> str:
        went = f"{_shown(self.came_from)} -> {_shown(self.went_to)}"
        return f"{went}; reason={self.reason}; capability={self.capability}"


@dataclass(frozen=True, slots=True)
class _Hedged:
    """Where the way goes on if the second attempt of a hedge wins."""

    target: Target
    attempts: CredentialAttempts
    runtime: RuntimeMap
    hops: tuple[Hop, ...]


class RouteAttempts:
    """Owns one request's way. `begin` comes first, then `next` for each attempt that failed, then one of the ends.

    - `prepare`: makes what is sent to a target; a `Refusal` where it cannot carry the request.
    - `client`: the client's protocol.
    - `rules`: of the target's profile.
    - `conversation`: what affinity goes by, where a pool has several members.
    - `owner`: the id of the gateway key that asks.
    - `has_images`: asked where a fallback is known to take none.
    - `may_take`: whether a fallback may be taken for who asks. None: every one.
    """

    __slots__ = (
        "_breakers",
        "_conversation",
        "_ends",
        "_hedge",
        "_images",
        "_may_take",
        "_prepare",
        "_resolver",
        "_rules",
        "_skipped",
        "_started",
        "_tried",
        "attempts",
        "call",
        "client",
        "done",
        "hops",
        "owner",
        "runtime",
        "target",
    )

    def __init__(
        self,
        target: Target,
        prepare: Prepare,
        *,
        client: str,
        resolver: Resolver,
        rules: tuple[Rule, ...],
        breakers: Breakers,
        now: float,
        conversation: str | None = None,
        has_images: Callable[[], bool] | None = None,
        may_take: Callable[[Target], bool] | None = None,
        owner: str = "",
    ) -> None:
        self.target: Target = target
        self.client: str = client
        self.owner: str = owner
        #: What reads the answer of a capability beside the language model.
        self.call: Any = None
        self.hops: tuple[Hop, ...] = ()
        #: Of the attempts at the models before this one.
        self.done: tuple[AttemptRecord, ...] = ()
        if target.instead_of is not None:
            self.hops = (Hop(target.instead_of, target.name, _BLIND, target.capability, 0),)
        self._resolver = resolver
        self._rules = rules
        self._breakers = breakers
        self._prepare: Prepare | None = prepare
        self._images = has_images if rules else None
        self._may_take = may_take if rules else None
        self._conversation = conversation
        self._started = now
        total = target.row.deadlines.total
        self._ends = now + total if total is not None else None
        self._tried: frozenset[str] = frozenset((target.name,)) if rules else frozenset()
        self._hedge: _Hedged | None = None
        #: Attempts of a hedge that was called off, which the running attempt has not been told of.
        self._skipped = 0
        self.attempts: CredentialAttempts
        self.runtime: RuntimeMap

    @property
    def told(self) -> Headers:
        """Headers for the client: which model answers, and why no other."""
        if not self.hops:
            return self.target.told
        return (*self.target.told, ("x-headrace-fallback", ", ".join(map(str, self.hops))))

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """What became of every attempt of this request, at all models."""
        return (*self.done, *self.attempts.records)

    def begin(self, token: int, *, now: float, random: Random) -> Plan | Refusal:
        """Give the first attempt, at the first model that has a credential ready."""
        refused: Refusal | None = None
        prepare = self._prepare
        if prepare is None:
            raise ValueError("it has begun already")
        if not self._rules:
            # A long stream holds its request only where another model may still be asked.
            self._prepare = None
        while True:
            answer = self._breaker(now)
            kind = _OPEN
            if answer is None:
                answer = self._choose(0, now, random)
                if answer is None:
                    first = self._first(prepare, now)
                    if isinstance(first, Refusal):
                        return first
                    spec = first[0]
                    if self._rules and any(rule.hedge is not None for rule in self._rules):
                        spec = replace(spec, hedge=self._beside(prepare, now, random))
                    return Plan(token=token, spec=spec, client_protocol=self.client, relay=first[1])
                kind = pool_kind(self.target.row.pool.members(self.target.model, now))
            refused = refused or answer
            found = self._following(kind)
            if found is None:
                return refused
            self._go(found, kind, 0)

    def refused(self, failure: Failure, *, now: float) -> Secret | None:
        """Give the token that an attempt was refused with, if its credential may get another. None: go on."""
        self._skipped += self._lane(failure.lane, now)
        return self.attempts.refused(failure)

    def again(self, failure: Failure, *, now: float) -> AttemptSpec:
        """Give the attempt that follows a refused token, once there is another."""
        skipped, self._skipped = self._skipped, 0
        return self.attempts.again(failure, now=now, skipped=skipped)

    def next(
        self, failure: Failure, *, now: float, random: Random, because: TokenError | None = None
    ) -> AttemptSpec | Refusal:
        """Say what follows a failed attempt: another one here, the first one elsewhere, or the answer.

        - `because`: no token could be got for the credential.
        """
        skipped, self._skipped = self._skipped + self._lane(failure.lane, now), 0
        step = self.attempts.next(failure, now=now, random=random, skipped=skipped, because=because)
        self._judge(now, random)
        prepare = self._prepare
        if not isinstance(step, Refusal) or prepare is None or (self._ends is not None and now >= self._ends):
            return step
        kind, made = failure.error.kind, failure.attempt + skipped
        here = (self.target, self.attempts, self.hops)
        while (found := self._following(kind)) is not None:
            self._go(found, kind, made)
            if self._breaker(now) is None and self._choose(made, now, random) is None:
                try:
                    first = self._first(prepare, now)
                except ProviderError:
                    first = None  # its protocol cannot carry this request
                if isinstance(first, tuple):
                    self.done += here[1].records
                    return replace(first[0], relay=first[1])
            self.target, self.attempts, self.hops = here
        return step

    def settled(self, lane: Lane | None, now: float) -> None:
        """Take note of whose the answer is, where a hedge had begun; also that it is nobody's."""
        self._lane(lane, now)

    def _lane(self, lane: Lane | None, now: float) -> int:
        """Go on with the one that is told; the other was called off. Gives how many attempts that one was ahead."""
        hedge, self._hedge = self._hedge, None
        if hedge is None:
            return 0
        if lane is None:
            self._tried -= {hedge.target.name}
            return 0
        if lane != "second":
            hedge.attempts.left(now=now)
            self.done += hedge.attempts.records
            return 1
        self.attempts.left(now=now)
        self.done += self.attempts.records
        self.target, self.attempts, self.runtime, self.hops = hedge.target, hedge.attempts, hedge.runtime, hedge.hops
        return 0

    def _beside(self, prepare: Prepare, now: float, random: Random) -> Hedge | None:
        """Prepare the second attempt of a hedge: at the first model of the first rule that has one."""
        rule = next(rule for rule in self._rules if rule.hedge is not None)
        here = (self.target, self.attempts, self.runtime, self.hops)
        made = None
        found = self._resolver.explicit(rule.to[0], self.target.capability, self.client)
        if found is not None and found.name not in self._tried and self._takes(found):
            self._go(found, _HEDGE, 1)
            if self._breakers.admits(found.row.id, found.model, now) and self._choose(1, now, random) is None:
                try:
                    made = self._first(prepare, now)
                except ProviderError:
                    made = None
                if self.attempts.stale(now):
                    made = None  # nobody waits for a token of somebody who may not be asked
        hedged = _Hedged(self.target, self.attempts, self.runtime, self.hops)
        self.target, self.attempts, self.runtime, self.hops = here
        if not isinstance(made, tuple) or rule.hedge is None:
            return None
        self._tried |= {rule.to[0]}
        self._hedge = hedged
        return Hedge(rule.hedge, replace(made[0], relay=made[1]))

    def succeeded(self, *, now: float, status: int, headers: Headers, sent: int, received: int) -> None:
        """Take note that the running attempt has answered."""
        self.attempts.succeeded(now=now, status=status, headers=headers, sent=sent, received=received)
        self._breakers.succeeded(self.target.row.id, self.target.model)

    def interrupted(self, failure: Failure, *, now: float, random: Random) -> None:
        """Take note of a failure that the client has already seen."""
        self.attempts.interrupted(failure, now=now, random=random)
        self._judge(now, random)

    def _judge(self, now: float, random: Random) -> None:
        record = self.attempts.records[-1]
        if record.cause in COUNTED:
            row = self.target.row
            self._breakers.failed(row.id, self.target.model, row.breaker, now=now, random=random)

    def _breaker(self, now: float) -> Refusal | None:
        """Refuse a model whose breaker is open, if another may still be asked or the row would rather fail at once."""
        row = self.target.row
        if not (row.breaker.fail_fast or self._left()) or self._breakers.admits(row.id, self.target.model, now):
            return None
        return Refusal(
            status=503,
            code="server_is_overloaded",
            message=f"the model {self.target.name!r} failed again and again, and is left alone for a while",
            retry_at=self._breakers.until(row.id, self.target.model),
            should_retry=True,
        )

    def _choose(self, before: int, now: float, random: Random) -> Refusal | None:
        target = self.target
        self.attempts = CredentialAttempts(
            pool=target.row.pool,
            model=target.model,
            authorize=target.row.definition.authorize,
            authorize_token=target.row.definition.authorize_token,
            started=now if before else self._started,
            conversation=self._conversation if len(target.row.pool) > 1 else None,
            dead_codes=target.row.definition.dead_codes,
            before=before,
            ends=self._ends if before else None,
            told=self.told,
            way=target.row.way,
            http2=target.row.http2,
        )
        return self.attempts.choose(now=now, random=random)

    def _first(self, prepare: Prepare, now: float) -> tuple[AttemptSpec, Relay] | Refusal:
        runtime = self._resolver.runtime(self.target, self.attempts.credential)
        ready = prepare(self.target, runtime)
        if isinstance(ready, Refusal):
            return ready
        self.runtime = runtime
        return self.attempts.begin(ready[0], now=now), ready[1]

    def _left(self) -> bool:
        return bool(self._rules) and any(name not in self._tried for rule in self._rules for name in rule.to)

    def _candidates(self, kind: str) -> Iterator[str]:
        for rule in self._rules:
            if kind == _OPEN or kind in rule.on:
                yield from (name for name in rule.to if name not in self._tried)

    def _following(self, kind: str) -> Target | None:
        """Find the next model for a kind of failure. Each that is looked at is not looked at again."""
        for name in tuple(self._candidates(kind)):
            self._tried |= {name}
            found = self._resolver.explicit(name, self.target.capability, self.client)
            if found is not None and self._takes(found):
                return found
        return None

    def _takes(self, found: Target) -> bool:
        """Whether a fallback can take this request, and may."""
        if found.wire.run is not None or (self._may_take is not None and not self._may_take(found)):
            return False
        return not (found.blind and self._images is not None and self._images())

    def _go(self, target: Target, reason: str, after: int) -> None:
        hop = Hop(self.target.name, target.name, reason, self.target.capability, after)
        self.hops = (*self.hops, hop)
        self.target = target


def _shown(name: str) -> str:
    """Write a model's name so that a header may hold it."""
    return quote(name, safe=HEADER_TEXT)
