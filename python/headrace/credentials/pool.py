"""The credentials of one provider row, and which of them is taken.

1. Synchronous: between the look at a state and the choice nothing else runs.
2. A member that is not ready is never chosen, by no strategy and for no conversation.
3. Affinity comes before the strategy: a conversation stays with the member that holds its cache, while that is ready.
4. A member whose last answer said that nothing is left comes after all others, also for its own conversation: the next
   request would be its 429. It is no state: where nobody else is ready it is tried.
5. A mark is on one member, and on one model of it where the limit is the model's.

Never here: a clock or randomness of its own, a secret in a repr, a second provider.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.credentials.limits import projection, read_limits
from headrace.credentials.state import READY, Mark, Status, worst

if TYPE_CHECKING:
    from headrace.credentials.oauth import Grant
    from headrace.requests import Secret

__all__ = ["STRATEGIES", "Credential", "Member", "Pool", "Strategy"]

#: So many conversations are remembered per row; the one unused longest is forgotten first.
CONVERSATIONS: Final = 10_000

#: So many members' limits, each for one model, are remembered per row.
PROJECTIONS: Final = 4096

Random: TypeAlias = Callable[[], float]
OnMark: TypeAlias = Callable[[str, str | None, Mark], None]
"""Called with the member, the model (None: all), and the mark."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One member: its name and its secret.

    - `grant`: how it gets tokens, where its secret is one. The secret is empty until there is one.
    - `login`: tells whose tokens these are from those of the login before; a refresh changes nothing.
    - `useless`: Unix time from which on the token is not sent. None: as long as nobody refuses it.
    """

    id: str
    secret: Secret
    grant: Grant | None = None
    login: str = ""
    useless: float | None = None

    def is_stale(self, now: float) -> bool:
        """Whether a token has to be got before a request can be made."""
        if self.grant is None:
            return False
        return not self.secret.reveal() or (self.useless is not None and now >= self.useless)

    @property
    def identity(self) -> str:
        """What it is known again by in another configuration. For comparing alone: it may be the secret."""
        return f"oauth {self.grant.identity}" if self.grant is not None else self.secret.reveal()


@dataclass(frozen=True, slots=True)
class Member:
    """What may be told of a member."""

    id: str
    status: Status
    reason: str
    until: float | None

    def __str__(self) -> str:
        return f"{self.id} {self.status}" + (f" ({self.reason})" if self.reason else "")

    @property
    def told(self) -> str:
        """With the time, where it is known: `c1 cooling (rate_limit) until 2026-01-31T12:00:00Z`."""
        return str(self) + (f" until {_instant(self.until)}" if self.until is not None else "")


@dataclass(frozen=True, slots=True)
class Counters:
    """What a strategy may look at: how often each member was taken, and which was taken last."""

    used: Mapping[str, int]
    last: int


def _instant(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Strategy: TypeAlias = Callable[[Sequence[int], Sequence[Credential], Counters, Random], int]
"""Of the positions that are ready (one at least, in order), give one. Pure."""


def _fill_first(ready: Sequence[int], _all: Sequence[Credential], _counters: Counters, _random: Random) -> int:
    return ready[0]


def _round_robin(ready: Sequence[int], _all: Sequence[Credential], counters: Counters, _random: Random) -> int:
    return next((at for at in ready if at > counters.last), ready[0])


def _least_used(ready: Sequence[int], every: Sequence[Credential], counters: Counters, _random: Random) -> int:
    return min(ready, key=lambda at: counters.used.get(every[at].id, 0))


def _random(ready: Sequence[int], _all: Sequence[Credential], _counters: Counters, random: Random) -> int:
    return ready[min(int(random() * len(ready)), len(ready) - 1)]


STRATEGIES: Final[Mapping[str, Strategy]] = {
    "fill_first": _fill_first,
    "round_robin": _round_robin,
    "least_used": _least_used,
    "random": _random,
}


class Pool:
    """A row's credentials. A row without any is a pool of nobody: it always lets a request pass without one."""

    __slots__ = (
        "_affine",
        "_conversations",
        "_last",
        "_marks",
        "_members",
        "_seen",
        "_strategy",
        "_used",
        "on_mark",
        "plain_until",
        "provider",
    )

    def __init__(
        self, provider: str, members: Iterable[Credential], *, strategy: str = "fill_first", affinity: bool = True
    ) -> None:
        self.provider: str = provider
        self._members = tuple(members)
        self._strategy = STRATEGIES[strategy]
        self._affine = affinity
        self._conversations: OrderedDict[str, str] = OrderedDict()
        self._marks: dict[tuple[str, str | None], Mark] = {}
        self._used: dict[str, int] = {}
        #: What is known of a member's limits for a model, and the requests left by it that were taken since.
        self._seen: dict[tuple[str, str], list[Any]] = {}
        self._last = -1
        #: Until then (Unix time) the provider is not asked for a WebSocket: it refused one.
        self.plain_until: float = 0.0
        #: Told of every mark that is made here, with its scope: for those who share or keep states.
        self.on_mark: OnMark | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"Pool({self.provider!r}, {[member.id for member in self._members]})"

    def choose(
        self,
        model: str,
        *,
        now: float,
        random: Random,
        without: Collection[str] = (),
        conversation: str | None = None,
    ) -> Credential | None:
        """Take a member that is ready for a model. None: there is none.

        - `without`: ids that were tried already.
        - `conversation`: what affinity goes by.
        """
        ready = [
            at
            for at, member in enumerate(self._members)
            if member.id not in without and self.is_ready(member.id, model, now)
        ]
        if not ready:
            return None
        if self._seen and len(ready) > 1:
            ready = [at for at in ready if not self._empty(self._members[at].id, model, now)] or ready
        at = self._kept(ready, conversation)
        if at is None:
            at = self._strategy(ready, self._members, Counters(self._used, self._last), random)
        chosen = self._members[at]
        self._last = at
        self._used[chosen.id] = self._used.get(chosen.id, 0) + 1
        seen = self._seen.get((chosen.id, model))
        if seen is not None and seen[1] is not None:
            seen[1] -= 1
        if conversation is not None:
            self.remember(conversation, chosen.id)
        return chosen

    def remember(self, conversation: str, credential: str) -> None:
        """Keep a conversation with a member from now on."""
        if self._affine and len(self._members) > 1:
            self._conversations[conversation] = credential
            self._conversations.move_to_end(conversation)
            if len(self._conversations) > CONVERSATIONS:
                self._conversations.popitem(last=False)

    def peek(self, now: float) -> Credential | None:
        """Give a member that can be used at once, for whatever model, and count no use of it. None: there is none."""
        for member in self._members:
            mark = self._marks.get((member.id, None), READY)
            if mark.at(now) is Status.READY and not member.is_stale(now):
                return member
        return None

    def member(self, credential: str) -> Credential | None:
        """Give a member as it is now: tokens are exchanged."""
        return next((member for member in self._members if member.id == credential), None)

    def grants(self) -> tuple[Credential, ...]:
        """Give the members that get their tokens themselves."""
        return tuple(member for member in self._members if member.grant is not None)

    def renewed(self, credential: str, secret: Secret, *, login: str, useless: float | None) -> None:
        """Take a member's new token."""
        self._members = tuple(
            replace(member, secret=secret, login=login, useless=useless) if member.id == credential else member
            for member in self._members
        )

    def _kept(self, ready: Sequence[int], conversation: str | None) -> int | None:
        held = self._conversations.get(conversation) if conversation is not None else None
        return next((at for at in ready if self._members[at].id == held), None) if held else None

    def _empty(self, credential: str, model: str, now: float) -> bool:
        seen = self._seen.get((credential, model))
        if seen is None:
            return False
        if seen[0] <= now:
            del self._seen[credential, model]
            return False
        return seen[1] is not None and seen[1] <= 0

    def observe(self, credential: str, model: str, headers: Iterable[tuple[str, str]], now: float) -> None:
        """Take note of what an answer's headers say of a member's limits."""
        if len(self._members) < 2:  # noqa: PLR2004 - nobody else could be taken
            return
        found = projection(read_limits(headers, now), now)
        if found is None:
            self._seen.pop((credential, model), None)
        elif len(self._seen) < PROJECTIONS or (credential, model) in self._seen:
            self._seen[credential, model] = [found.until, found.requests]

    def mark(self, credential: str, mark: Mark, *, model: str | None = None, told: bool = False) -> None:
        """Mark one member, on one model or (None) on all. Of two marks on one scope the one that holds longer stays.

        - `told`: by another process; then `on_mark` is not called.
        """
        if not any(member.id == credential for member in self._members):
            return
        before = self._marks.get((credential, model))
        # A request that had begun before a key was found dead must not make it merely tired.
        if before is not None and before.recheck > mark.recheck:
            return
        self._marks[credential, model] = mark
        if self.on_mark is not None and not told:
            self.on_mark(credential, model, mark)

    def lift(self, credential: str, *, model: str | None = None) -> None:
        """Take a mark off: somebody has seen that its reason is gone."""
        self._marks.pop((credential, model), None)

    def is_ready(self, credential: str, model: str, now: float) -> bool:
        """Whether a member may be used for a model."""
        return self.mark_of(credential, model, now).at(now) is Status.READY

    def marks(self) -> Mapping[tuple[str, str | None], Mark]:
        """Give all marks, by member and model (None: on all models)."""
        return dict(self._marks)

    def mark_of(self, credential: str, model: str, now: float) -> Mark:
        """Give the mark that counts for a model."""
        marks = self._marks
        if not marks:
            return READY
        found = (marks.get((credential, None)), marks.get((credential, model)))
        return worst(tuple(mark for mark in found if mark is not None), now)

    def failures(self, credential: str, *, model: str | None) -> int:
        """How many failures in a row are behind the mark of this scope."""
        mark = self._marks.get((credential, model))
        return mark.failures if mark is not None else 0

    def succeeded(self, credential: str, model: str, now: float) -> None:
        """Forget the failures of a member that has answered. A mark that still holds was made meanwhile, and stays."""
        for scope in ((credential, None), (credential, model)):
            mark = self._marks.get(scope)
            if mark is not None and mark.at(now) is Status.READY:
                del self._marks[scope]

    def members(self, model: str, now: float) -> tuple[Member, ...]:
        """Tell each member's state for a model."""
        out = []
        for member in self._members:
            mark = self.mark_of(member.id, model, now)
            status = mark.at(now)
            ready = status is Status.READY
            out.append(Member(member.id, status, "" if ready else mark.reason, None if ready else mark.until))
        return tuple(out)

    def fingerprint(self, credential: str) -> str:
        """Give what tells a member's secret from the one before it: 32 bits, too few to find a secret by."""
        member = self.member(credential)
        secret = "" if member is None else member.secret.reveal() if member.grant is None else member.login
        return blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=4, person=b"headrace-pool").hexdigest()

    def serves_as(self, before: Pool) -> bool:
        """Whether another pool has the same members, secrets and way of choosing, and can go on in this one's place."""
        return (
            self._strategy is before._strategy
            and self._affine == before._affine
            and [(one.id, one.identity) for one in self._members] == [(one.id, one.identity) for one in before._members]
        )

    def revive(self) -> None:
        """Give dead members another chance: a person has been here."""
        self._marks = {scope: mark for scope, mark in self._marks.items() if mark.status is not Status.DEAD}

    def take_over(self, before: Pool) -> None:
        """Carry over what was learnt of members that are the same in a new configuration.

        A member whose secret changed begins anew, and so does a dead one.
        """
        same = {
            new.id
            for new in self._members
            for old in before._members
            if new.id == old.id and new.identity == old.identity
        }
        for old in before.grants():
            if old.id in same:
                self.renewed(old.id, old.secret, login=old.login, useless=old.useless)
        self._marks = {
            scope: mark for scope, mark in before._marks.items() if scope[0] in same and mark.status is not Status.DEAD
        }
        self._seen = {scope: seen for scope, seen in before._seen.items() if scope[0] in same}
        self.on_mark = before.on_mark
        self._used = {name: count for name, count in before._used.items() if name in same}
        self._conversations = OrderedDict(
            (talk, member) for talk, member in before._conversations.items() if member in same
        )
