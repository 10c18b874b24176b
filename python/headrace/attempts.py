"""The owner of one request's attempts: mark, take the next member, back off, or let the answer go out.

1. `causes.ROWS` says what each cause of failure does. Nobody marks a credential elsewhere.
2. A failure marks only the credential that made the attempt; one that cannot be attributed marks nobody.
3. One attempt at a time, never another provider, and no member that is not ready.
4. Every member is tried once, at once. Then, if the cause allows it, a second round after a backoff with full jitter.
   A failure that is nobody's ends after one round. A pool's only member gets its second attempt before its mark takes
   effect: after `retry_after` where that is short, else after the backoff; where it is long the answer goes out now.
   A credential that gets its tokens itself has a refused one exchanged, once per request, before that counts.
   A WebSocket that cannot be had, or is lost before an answer began, is nobody's failure: the request goes over HTTP.
5. A pooled connection that died unused is nobody's failure: the attempt is made again on a fresh one, once.
6. What the operator must mend (a redirect, a bot challenge of the provider's edge) is nobody's and is not repeated.
7. The clock and the randomness are arguments.

Never here: parsing, tools, sockets, a route to another provider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.causes import ROWS, Cause, Row, cause_of
from headrace.credentials import Credential, Mark, Member, Pool, Status, emptied, read_limits
from headrace.requests import (
    AttemptSpec,
    AwsKeys,
    Failure,
    Headers,
    PreparedRequest,
    Refusal,
    Secret,
    SigV4,
    quick,
)

if TYPE_CHECKING:
    from headrace.credentials.oauth import TokenError
    from headrace.proxies import Way

__all__ = [
    "ROWS",
    "AttemptRecord",
    "Cause",
    "CredentialAttempts",
    "Row",
    "backoff",
    "cause_of",
    "pool_answer",
    "pool_kind",
]

Random: TypeAlias = Callable[[], float]

#: The first backoff is up to this long; each further one up to twice as long.
BACKOFF_BASE_S: Final = 0.5
BACKOFF_CAP_S: Final = 8.0
#: A lone member waits for a `retry_after` up to this long; longer waits are the client's.
PATIENCE_S: Final = 2.0
#: A rate limit that names no time: 1 s, 2 s, 4 s, ... up to this, with jitter.
RATE_LIMIT_CAP_S: Final = 60.0
OVERLOAD_CAP_S: Final = 30.0
INTERRUPTED_S: Final = 5.0
#: How long a provider that would not switch to a WebSocket is asked over HTTP alone.
PLAIN_S: Final = 300.0
#: A wait longer than this is no business of a client's automatic retry.
RETRY_WORTH_S: Final = 60.0


#: What servers without WebSockets answer: a wrong path or method, ask otherwise, no such thing here.
_NO_SWITCH: Final = frozenset({404, 405, 426, 501})


def _no_websocket(failure: Failure, cause: Cause) -> bool:
    """Whether it was the WebSocket that failed: the switch to it, or its connection before an answer began."""
    error = failure.error
    if error.status is not None:
        # An error's message over an open one may hold a status, too.
        return error.status in _NO_SWITCH and error.phase == "head"
    return cause is Cause.INTERRUPTED and error.kind != "timeout"


def backoff(round_: int, random: Random, *, base: float = BACKOFF_BASE_S, cap: float = BACKOFF_CAP_S) -> float:
    """Give a wait with full jitter: anything up to `base * 2**round`, `cap` at most."""
    return random() * min(cap, base * 2.0 ** min(round_, 32))


@quick
@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What became of one attempt, for the ledger. Holds no secret.

    - `credential`: its id; None where the provider takes none.
    - `cause`, `kind`: why it failed, and the error's kind; None where it answered.
    - `marked`: the state that its credential got.
    - `next_in`: seconds that the next attempt waits; None: there is none.
    - `began`, `ended`: Unix time.
    """

    attempt: int
    credential: str | None
    cause: Cause | None
    status: int | None
    marked: Status | None
    next_in: float | None
    provider: str = ""
    model: str = ""
    kind: str | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    began: float = 0.0
    ended: float = 0.0


class CredentialAttempts:
    """Owns the attempts of one request.

    `choose` comes first, then `begin` with the request as prepared for that choice; its body serves every attempt,
    and each has its own authorisation. Then `next` for each attempt that failed, and `succeeded` or `interrupted`.

    - `authorize`: writes a secret into headers, or gives the keys to sign with.
    - `authorize_token`: the same for a token that the credential got itself, where that differs.
    - `conversation`: what affinity goes by.
    - `started`: when the request was whole; the total deadline counts from then, over all attempts.
    - `before`: so many attempts of this request were made elsewhere.
    - `ends`: when a deadline above this provider's own ends them all, in Unix time.
    - `way`: by which proxy the provider is asked.
    - `http2`: over HTTP/2, where its address speaks it.
    - `told`: headers for the client with a good answer.
    """

    __slots__ = (
        "_again",
        "_attempt",
        "_authorize",
        "_authorize_token",
        "_began",
        "_conversation",
        "_credential",
        "_dead_codes",
        "_ends",
        "_http2",
        "_model",
        "_pool",
        "_prepared",
        "_records",
        "_redone",
        "_renewed",
        "_round",
        "_started",
        "_told",
        "_tried",
        "_way",
        "closed",
    )

    def __init__(
        self,
        *,
        pool: Pool,
        model: str,
        authorize: Callable[[Secret], Headers | AwsKeys],
        authorize_token: Callable[[Secret], Headers | AwsKeys] | None = None,
        started: float,
        conversation: str | None = None,
        dead_codes: Collection[str] = (),
        before: int = 0,
        ends: float | None = None,
        told: Headers = (),
        way: Way | None = None,
        http2: bool = False,
    ) -> None:
        self._pool = pool
        self._model = model
        self._prepared: PreparedRequest | None = None
        self._authorize = authorize
        self._authorize_token = authorize_token or authorize
        self._started = started
        self._conversation = conversation
        self._dead_codes = dead_codes
        self._credential: Credential | None = None
        self._attempt = before
        self._began = started
        self._ends = ends
        self._told = told
        self._way = way
        self._http2 = http2
        self._round = 0
        # Mostly they stay empty: a long stream holds no sets for nothing.
        self._tried: frozenset[str] = frozenset()
        self._again = True
        self._redone = False
        #: Credentials of which this request has had a token exchanged.
        self._renewed: frozenset[str] = frozenset()
        self._records: list[AttemptRecord] = []
        #: Whether the last failure was answered: no further attempt will come.
        self.closed: bool = False

    @property
    def credential(self) -> str | None:
        """The id of the credential that the running attempt uses."""
        return self._credential.id if self._credential is not None else None

    @property
    def records(self) -> tuple[AttemptRecord, ...]:
        """What became of the attempts that failed."""
        return tuple(self._records)

    def choose(self, *, now: float, random: Random) -> Refusal | None:
        """Take the first credential; a `Refusal` where no member is ready. None: `credential` says which, if any."""
        if len(self._pool):
            self._credential = self._pool.choose(self._model, now=now, random=random, conversation=self._conversation)
            if self._credential is None:
                self.closed = True
                return pool_answer(self._pool.provider, self._pool.members(self._model, now), now=now)
        return None

    def begin(self, prepared: PreparedRequest, *, now: float) -> AttemptSpec:
        """Give the first attempt of a request that was prepared for the chosen credential."""
        plain = prepared.otherwise is not None and now < self._pool.plain_until
        self._prepared = prepared = (prepared.otherwise or prepared) if plain else prepared
        credential, made = self._credential, prepared.made
        first = self._attempt == 0 and (credential is None or credential.grant is None)
        if made is not None and first and made[0] is credential and made[1].told == self._told:
            self._attempt, self._began = 1, now
            if credential is not None:
                self._tried |= {credential.id}
            spec = made[1]
            if spec.sealed is False:
                object.__setattr__(spec, "sealed", True)
            return spec
        spec = self._spec(now=now, delay=0.0)
        if first:
            # Only what is prepared for many requests meets it again.
            object.__setattr__(prepared, "made", (credential, spec))
        return spec

    def stale(self, now: float) -> bool:
        """Whether the running attempt cannot be made before a token was got."""
        return self._credential is not None and self._credential.is_stale(now)

    def refused(self, failure: Failure) -> Secret | None:
        """Give the token that a failed attempt was refused with, if another is worth getting. None: go on."""
        credential = self._credential
        if self.closed or credential is None or credential.grant is None or credential.id in self._renewed:
            return None
        if cause_of(failure, dead_codes=self._dead_codes) is not Cause.UNAUTHORIZED:
            return None
        return credential.secret

    def renewed(self, spec: AttemptSpec, *, now: float) -> AttemptSpec:
        """Give a planned attempt again, with the token that its credential has now."""
        self._attempt -= 1
        new = self._spec(now=now, delay=0.0)
        return replace(spec, headers=new.headers, signer=new.signer, secrets=new.secrets)

    def again(self, failure: Failure, *, now: float, skipped: int = 0) -> AttemptSpec:
        """Give the attempt that follows a refused token: by the same credential, with its new one.

        - Raises `ValueError`: it is not the running attempt that failed.
        """
        began = self._ended(failure, now, skipped)
        if self._credential is not None:
            self._renewed |= {self._credential.id}
        self._note(failure, None, 0.0, now, cause=Cause.UNAUTHORIZED, **began)
        return self._spec(now=now, delay=0.0)

    def _ended(self, failure: Failure, now: float, skipped: int) -> dict[str, Any]:
        if self.closed or failure.attempt != self._attempt:
            raise ValueError(f"attempt {failure.attempt} is not running")
        self._attempt += skipped
        return {"credential": self.credential, "began": min(self._began, now)}

    def next(
        self, failure: Failure, *, now: float, random: Random, skipped: int = 0, because: TokenError | None = None
    ) -> AttemptSpec | Refusal:
        """Say what follows a failed attempt: another attempt, or the answer.

        - `skipped`: attempts of this request that were made elsewhere beside it.
        - `because`: no token could be got for the credential, and whoever tried has marked it.

        - Raises `ValueError`: it is not the running attempt that failed.
        """
        began = self._ended(failure, now, skipped)
        cause = cause_of(failure, dead_codes=self._dead_codes) if because is None else Cause.UNRENEWED
        if cause is Cause.STALE_CONNECTION:
            if not self._redone and self._in_time(0.0, now) and self._still_ready(now):
                self._redone = True
                self._note(failure, None, 0.0, now, cause=cause, **began)
                return self._spec(now=now, delay=0.0, fresh=True)
            cause = Cause.INTERRUPTED
        otherwise = self._prepared.otherwise if self._prepared is not None else None
        if otherwise is not None and _no_websocket(failure, cause) and self._in_time(0.0, now):
            self._pool.plain_until = now + PLAIN_S
            self._prepared = otherwise
            self._note(failure, None, 0.0, now, cause=Cause.ENDPOINT, **began)
            return self._spec(now=now, delay=0.0)
        row = ROWS[cause]
        self._again = self._again and row.again
        wait = self._lone_wait(failure, row, now=now, random=random)
        if wait is not None:
            self._round += 1
            self._note(failure, None, wait, now, cause=cause, **began)
            return self._spec(now=now, delay=wait)
        marked = self._mark(failure, cause, now=now, random=random)
        spec = self._another(row, now=now, random=random) if row.others else None
        self._note(failure, marked, None if spec is None else spec.delay, now, cause=cause, **began)
        if spec is not None:
            return spec
        self.closed = True
        return self._answer(failure, cause, now) if because is None else self._unrenewed(because, now)

    def interrupted(self, failure: Failure, *, now: float, random: Random) -> None:
        """Take note of a failure that the client has already seen: mark, and nothing more.

        A pool's only member is not marked for an interruption: nobody else could serve the next request better.
        """
        if self.closed:
            return
        self.observe(failure.headers, now)
        cause = cause_of(failure, dead_codes=self._dead_codes)
        lone = len(self._pool) == 1 and cause in {Cause.INTERRUPTED, Cause.OVERLOADED, Cause.STALE_CONNECTION}
        # A token that is refused so late is exchanged when it is refused again.
        spared = lone or self.refused(failure) is not None
        self.closed = True
        marked = None if spared else self._mark(failure, cause, now=now, random=random)
        self._note(failure, marked, None, now, cause=cause)

    def left(self, *, now: float, status: int = 0, sent: int = 0, received: int = 0) -> None:
        """Take note that the client left: of the provider nothing can be said."""
        if not self.closed:
            self.closed = True
            self._records.append(self._record(status, "aborted", sent, received, now))

    def succeeded(
        self, *, now: float, status: int = 200, headers: Headers = (), sent: int = 0, received: int = 0
    ) -> None:
        """Take note that the running attempt has answered.

        - `sent`, `received`: bytes to and from the provider.
        """
        self.closed = True
        self._records.append(self._record(status, None, sent, received, now))
        self.observe(headers, now)
        if self._credential is not None:
            self._pool.succeeded(self._credential.id, self._model, now)

    def observe(self, headers: Headers, now: float) -> None:
        """Take note of what an answer's headers say of the credential's limits."""
        if self._credential is not None and headers:
            self._pool.observe(self._credential.id, self._model, headers, now)

    def _spec(self, *, now: float, delay: float, fresh: bool = False) -> AttemptSpec:
        self._attempt += 1
        if self._credential is not None:
            if self._credential.grant is not None:
                # Its token may have been exchanged since it was chosen.
                self._credential = self._pool.member(self._credential.id) or self._credential
            self._tried |= {self._credential.id}
        prepared = self._prepared
        if prepared is None:
            raise ValueError("no attempt was begun")
        deadlines = prepared.deadlines
        ends = self._end()
        if ends is not None and self._attempt > 1:
            deadlines = replace(deadlines, total=max(ends - now - delay, 0.001))
        headers = prepared.headers
        signer = None
        secrets: tuple[str, ...] = ()
        if self._credential is not None:
            secret = self._credential.secret
            own = self._authorize if self._credential.grant is None else self._authorize_token
            authorized = own(secret)
            text = secret.reveal()
            if isinstance(authorized, AwsKeys):
                signer = _signer(prepared, authorized)
                more = (authorized.secret_access_key, authorized.session_token)
                secrets = (text, *(one.reveal() for one in more if one is not None))
            else:
                headers = _joined(headers, authorized)
                secrets = (text, *(value for _, value in authorized if text not in value))
        self._began = now + delay
        return AttemptSpec(
            method=prepared.method,
            url=prepared.url,
            headers=headers,
            body=prepared.body,
            protocol=prepared.protocol,
            transport=prepared.transport,
            deadlines=deadlines,
            provider=self._pool.provider,
            think_tags=prepared.think_tags,
            usage_asked=prepared.usage_asked,
            attempt=self._attempt,
            delay=delay,
            fresh_connection=fresh,
            signer=signer,
            http2=self._http2,
            proxy=self._way.of(prepared.url) if self._way is not None else None,
            told=self._told,
            secrets=secrets,
        )

    def _end(self) -> float | None:
        """When the total deadline ends all attempts."""
        total = self._prepared.deadlines.total if self._prepared is not None else None
        ends = [one for one in (self._ends, None if total is None else self._started + total) if one is not None]
        return min(ends, default=None)

    def _in_time(self, delay: float, now: float) -> bool:
        ends = self._end()
        return ends is None or now + delay < ends

    def _lone_wait(self, failure: Failure, row: Row, *, now: float, random: Random) -> float | None:
        """How long a pool's only member waits for its second attempt. None: it gets none."""
        if len(self._pool) != 1 or self._round > 0 or not row.again:
            return None
        hint = failure.error.retry_after_s
        if hint is not None and hint > PATIENCE_S:
            return None
        wait = float(hint) if hint else backoff(0, random)
        return wait if self._in_time(wait, now) and self._still_ready(now + wait) else None

    def _still_ready(self, at: float) -> bool:
        """Whether the running attempt's credential may be used again: another request may have marked it meanwhile."""
        return self._credential is None or self._pool.is_ready(self._credential.id, self._model, at)

    def _another(self, row: Row, *, now: float, random: Random) -> AttemptSpec | None:
        """Take the next member: of this round at once, of the second after a backoff. None: nobody is left."""
        if len(self._pool) < 2 or not self._in_time(0.0, now):  # noqa: PLR2004 - nobody beside the one that failed
            return None
        choice = self._pool.choose(
            self._model, now=now, random=random, without=self._tried, conversation=self._conversation
        )
        delay = 0.0
        if choice is None:
            # An unattributed failure marks nobody, so another round would meet the same members in the same state.
            if self._round > 0 or not self._again or row.mark is None:
                return None
            self._round += 1
            self._tried = frozenset()
            delay = backoff(self._round, random)
            if not self._in_time(delay, now):
                return None
            choice = self._pool.choose(self._model, now=now + delay, random=random, conversation=self._conversation)
            if choice is None:
                return None
        self._credential = choice
        return self._spec(now=now, delay=delay)

    def _mark(self, failure: Failure, cause: Cause, *, now: float, random: Random) -> Status | None:
        row = ROWS[cause]
        if row.mark is None or self._credential is None:
            return None
        scope = self._model if row.scope == "model" else None
        failures = self._pool.failures(self._credential.id, model=scope) + 1
        hint = _hint(failure, now)
        mark = _mark_for(cause, failure.error.kind, hint, failures, now=now, random=random)
        self._pool.mark(self._credential.id, mark, model=scope)
        return mark.status

    def _note(self, failure: Failure, marked: Status | None, next_in: float | None, now: float, **facts: Any) -> None:
        error = failure.error
        record = self._record(error.status, error.kind, failure.bytes_sent, failure.bytes_received, now)
        self._records.append(replace(record, attempt=failure.attempt, marked=marked, next_in=next_in, **facts))

    def _record(self, status: int | None, kind: str | None, sent: int, received: int, now: float) -> AttemptRecord:
        return AttemptRecord(
            attempt=self._attempt,
            credential=self.credential,
            cause=None,
            status=status,
            marked=None,
            next_in=None,
            provider=self._pool.provider,
            model=self._model,
            kind=kind,
            bytes_sent=sent,
            bytes_received=received,
            began=min(self._began, now),
            ended=now,
        )

    def _unrenewed(self, why: TokenError, now: float) -> Refusal:
        members = self._pool.members(self._model, now)
        if all(member.status is not Status.READY for member in members):
            answer = pool_answer(self._pool.provider, members, now=now)
            if answer.status == 429:  # noqa: PLR2004 - others are limited, which says more
                return answer
        return Refusal(
            status=502,
            code="upstream_response_failed",
            message=f"no token could be got for a credential of the provider {self._pool.provider!r}: {why}",
            retry_at=now + why.retry_after if why.retry_after else None,
            should_retry=False,
        )

    def _answer(self, failure: Failure, cause: Cause, now: float) -> Refusal:
        members = self._pool.members(self._model, now)
        if cause is not Cause.CLIENT and members and all(member.status is not Status.READY for member in members):
            answer = pool_answer(self._pool.provider, members, now=now)
            if answer.status == 429:  # noqa: PLR2004 - the pool's own answer; else the failure says more
                return answer
        error = failure.error
        if cause in _OPERATORS:
            return _operators(cause, failure, self._pool.provider)
        hint = error.retry_after_s
        return Refusal(
            status=502,
            code="upstream_response_failed",
            message="the provider's answer failed",
            retry_at=now + hint if hint else None,
            # This gateway has made its attempts; a client that repeats at once only repeats them.
            should_retry=False if cause is Cause.CLIENT or (hint or 0.0) > RETRY_WORTH_S else None,
            error=error,
        )


def _joined(headers: Headers, authorized: Headers) -> Headers:
    """Put authorising headers to a request's own. Both may switch features on: that is one list."""
    own = {name: value for name, value in headers if name in _LISTS}
    for name, value in authorized:
        if name in own:
            asked = dict.fromkeys([*(one.strip() for one in own[name].split(",")), value])
            headers = tuple(pair for pair in headers if pair[0] != name)
            authorized = (*(pair for pair in authorized if pair[0] != name), (name, ",".join(asked)))
    return headers + authorized


def _signer(prepared: PreparedRequest, keys: AwsKeys) -> SigV4:
    signing = prepared.signing
    if signing is None:
        raise ValueError("a key pair signs nothing here: the request was prepared without a region and a service")
    return SigV4(
        region=signing.region,
        service=signing.service,
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token,
    )


_LISTS: Final = frozenset({"anthropic-beta"})
_OPERATORS: Final = frozenset({Cause.REDIRECTED, Cause.CHALLENGED})


def _operators(cause: Cause, failure: Failure, provider: str) -> Refusal:
    """Say what only the operator can mend. No client's request is at fault."""
    if cause is Cause.REDIRECTED:
        message = (
            f"the provider {provider!r} answered {failure.error.status}, a redirect, and none is followed with a "
            "credential: set its base_url to the address where it serves"
        )
    else:
        ray = next((value for name, value in failure.headers if name.lower() == "cf-ray"), "")
        message = (
            f"the bot protection in front of the provider {provider!r} stopped this machine (a Cloudflare challenge"
            f"{f', cf-ray {ray}' if ray else ''}): check that its base_url is the API's, or have this address allowed"
        )
    return Refusal(status=502, code="upstream_response_failed", message=message, should_retry=False)


def _hint(failure: Failure, now: float) -> float | None:
    """How long the provider says to wait: in so many words, or by the reset of the bucket that is empty."""
    hint = failure.error.retry_after_s
    if hint is not None and isfinite(hint) and hint > 0:
        return float(hint)
    reset = emptied(read_limits(failure.headers, now), now) if failure.headers else None
    return reset - now if reset is not None else None


def _mark_for(cause: Cause, kind: str, hint: float | None, failures: int, *, now: float, random: Random) -> Mark:
    doubled = 2.0 ** min(failures - 1, 16)
    if cause is Cause.UNAUTHORIZED:
        return Mark.dead(kind)
    if cause is Cause.QUOTA:
        return Mark.exhausted(kind, now + hint if hint else None, now, failures=failures)
    if cause is Cause.INTERRUPTED:
        return Mark.cooling(kind, now + INTERRUPTED_S, now, failures=failures)
    cap = OVERLOAD_CAP_S if cause is Cause.OVERLOADED else RATE_LIMIT_CAP_S
    # Half of the wait is jitter: members that failed together must not come back together.
    wait = min(cap, doubled) * (0.5 + 0.5 * random())
    if hint:
        wait = min(hint, OVERLOAD_CAP_S) if cause is Cause.OVERLOADED else hint
    return Mark.cooling(kind, now + wait, now, failures=failures)


def pool_kind(members: tuple[Member, ...]) -> str:
    """Name the kind of failure that a pool without a ready member amounts to: that of the member that is back first."""
    waiting = [one for one in members if one.until is not None]
    first = min(waiting, key=lambda one: one.until or 0.0, default=members[0] if members else None)
    return first.reason if first is not None and first.reason else "unknown"


def pool_answer(provider: str, members: tuple[Member, ...], *, now: float) -> Refusal:
    """Answer for a pool of which no member is ready: each member's safe status, and when to come back if known."""
    told = "; ".join(member.told for member in members)
    waits = [member.until for member in members if member.until is not None]
    retry_at = min(waits, default=None)
    limited = any(member.reason in {"rate_limit", "quota"} for member in members)
    if limited:
        status, code = 429, "credential_pool_exhausted"
    elif any(member.status is Status.COOLING for member in members):
        status, code = 503, "server_is_overloaded"
    else:
        status, code = 502, "upstream_response_failed"
    return Refusal(
        status=status,
        code=code,
        message=f"no credential of the provider {provider!r} can be used now: {told}",
        retry_at=retry_at,
        should_retry=retry_at is not None and retry_at - now <= RETRY_WORTH_S,
    )
