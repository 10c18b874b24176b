"""The gateway's decisions: one per request, one per failed attempt, one note at the end.

1. `decide` touches no provider and no store: a dictionary lookup or two, then a recipe. A list of models may wait for
   what providers list, which whoever has an event loop fetches.
2. A configuration is compiled into one frozen `_Tables`; a reload puts another in its place, between two decisions.
3. What runs keeps the tables that it was planned with; what was learnt of a credential goes over to the new ones.
4. Clock and randomness are arguments.
5. What is settled is told to the books, which keep it and say what a key has left; they are never waited for, but by a
   key that has used up its leased block.
6. A credential that gets tokens itself is waited for by those alone who cannot do without a new one.

Never here: bytes of a stream, a prompt, a socket.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from headrace import calls
from headrace.breaker import Breakers
from headrace.catalogue import Listings
from headrace.errors import UnsupportedFeature
from headrace.events import ProviderErrorEvent
from headrace.keys import GatewayKey, KeyLimits, KeyRing
from headrace.model_lists import every_model, one_model
from headrace.requests import (
    Answer,
    AttemptSpec,
    Deferred,
    Failure,
    Gathered,
    Plan,
    Refusal,
    Request,
    RuntimeMap,
    Secret,
    Settlement,
)
from headrace.resolver import Resolver, compile_rows
from headrace.routes import Hop, Prepare, Ready, RouteAttempts, Rule
from headrace.selectors import NAME_LIMIT, Pattern, parse, some_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from headrace.catalogue import ModelFacts, Shape
    from headrace.config import Config, Key
    from headrace.credentials import Pool
    from headrace.credentials.oauth import TokenError
    from headrace.metrics import Figures
    from headrace.node import Node
    from headrace.registry import Registry
    from headrace.resolver import Row, Target

__all__ = ["Gateway", "TokenKeeper"]

Refresh: TypeAlias = "Callable[[Sequence[Row]], Awaitable[None]]"

_LOG = logging.getLogger("headrace.gateway")

#: Bytes of JSON per token, for an estimate that says that it is one.
BYTES_PER_TOKEN: Final = 4
#: Of lists of models, as they are written.
LISTS_KEPT: Final = 64
#: Kinds of requests to one model whose preparation is kept; they differ by headers that pass.
ALIKE_KEPT: Final = 32
#: Answers whose owner is remembered; a provider holds them for a month, a conversation goes on within the hour.
ANSWERS_KEPT: Final = 10_000
_RESPONSES: Final = "openai_responses"
_PREVIOUS: Final = "/previous_response_id"
_UNAVAILABLE: Final = 503
_OVERLOADED: Final = 529
_COUNTING: Final = "anthropic_messages"
_MESSAGES: Final = "/messages"
_GEMINI: Final = "google_gemini"
#: The shape of a list of models, by the client's protocol.
_SHAPES: Final[Mapping[str, Shape]] = {
    "anthropic_messages": "anthropic",
    "google_gemini": "google",
    "ollama_chat": "ollama",
}
#: What is answered without a provider.
_OWN: Final = ("models", "model", "metrics", "session")


class TokenKeeper(Protocol):
    """Who gets tokens: `credentials.oauth.Keeper` is one."""

    def watch(self, pools: Iterable[Pool], /) -> None:
        """Keep the tokens of these pools' members."""

    async def renew(self, provider: str, credential: str, refused: Secret | None) -> TokenError | None:
        """Get a member another token than the refused one. Says why there is none; then the member is marked."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """One configuration, compiled."""

    resolver: Resolver
    keys: KeyRing
    #: Fallback chains, by profile with its binding.
    rules: Mapping[str, tuple[Rule, ...]]
    #: The model lists, written once: by shape, key and version of the providers' lists.
    lists: dict[tuple[str, str | None, int], bytes]


@dataclass(slots=True)
class _Account:
    """On whose account a running request goes. `is_free`: no provider takes money for it."""

    at: float
    request_id: str
    asked: str | None
    key: GatewayKey | None
    is_free: bool


class Gateway:
    """Decides for the edge. A `Policy`.

    - `config`: checked.
    - `clock`: seconds since the Unix epoch.
    - `random`: uniform in [0, 1).
    - `salt`: 16 secret random bytes of this process.
    - `demo_url`: base URL of the running demo upstream, for rows of that kind without one.
    - `keeper`: gets tokens for credentials that have none of their own.
    - `books`: keep what is settled, share credentials' states with other gateways, and hold the keys' limits.
    - `figures`: count what is settled. None: nobody does.
    """

    def __init__(
        self,
        config: Config,
        *,
        registry: Registry,
        clock: Callable[[], float],
        random: Callable[[], float],
        salt: bytes,
        demo_url: str | None = None,
        books: Node | None = None,
        keeper: TokenKeeper | None = None,
        figures: Figures | None = None,
    ) -> None:
        self._books = books
        self._figures = figures
        self._keeper = keeper
        self._accounts: dict[int, _Account] = {}
        self._registry = registry
        self._clock = clock
        self._random = random
        self._salt = salt
        self._demo_url = demo_url
        self._token = 0
        self._running: dict[int, RouteAttempts] = {}
        self._breakers = Breakers()
        #: Answers that a provider may hold, each with the key that got it.
        self._answers: OrderedDict[tuple[str, str | None], None] = OrderedDict()
        #: What providers list of their models. Survives a reload.
        self.listings: Listings = Listings()
        #: Fetches some rows' lists into `listings`, for as long as a client may wait. Set by who has an event loop.
        self.refresh: Refresh | None = None
        self._tables = self._compile(config, {})
        if books is not None:
            books.watch(row.pool for row in self._tables.resolver.rows.values())
        if keeper is not None:
            keeper.watch(row.pool for row in self._tables.resolver.rows.values())

    @property
    def resolver(self) -> Resolver:
        """Of the configuration that holds now."""
        return self._tables.resolver

    def credential(self, token: int | None) -> str | None:
        """Give the id of the credential that a running request's attempt uses; None: it uses none, or has ended."""
        running = self._running.get(token) if token is not None else None
        return running.attempts.credential if running is not None else None

    def hops(self, token: int | None) -> tuple[Hop, ...]:
        """Give the steps along its route that a running request has made."""
        running = self._running.get(token) if token is not None else None
        return running.hops if running is not None else ()

    @property
    def running(self) -> int:
        """How many planned requests have not been settled."""
        return len(self._running)

    def way(self, token: int) -> RouteAttempts:
        """Give the way of a running request: its target, attempts and steps.

        - Raises `KeyError`: no such request is running.
        """
        return self._running[token]

    def reload(self, config: Config) -> None:
        """Take another checked configuration. Requests under way go on as they were planned."""
        self._tables = self._compile(config, self._tables.resolver.rows)
        if self._books is not None:
            self._books.watch((row.pool for row in self._tables.resolver.rows.values()), revive=True)
        if self._keeper is not None:
            self._keeper.watch(row.pool for row in self._tables.resolver.rows.values())

    def decide(self, request: Request) -> Deferred[Plan | Refusal | Answer]:
        """Say what is done with a request."""
        decided = self._decide_for(request)
        if self._figures is not None:
            if isinstance(decided, Refusal):
                self._figures.counts.refused(request.protocol, decided.code)
            elif isinstance(decided, CoroutineType):
                return self._figures.refused_later(request, decided)
        return decided

    def _decide_for(self, request: Request) -> Deferred[Plan | Refusal | Answer]:
        key = self._tables.keys.admit(request)
        if request.operation in _OWN:
            return self._own(request, key)
        if isinstance(key, Refusal):
            return key
        if self._books is None:
            return self._decide(request, key)
        admitted = self._books.admit(None, None) if key is None else self._books.admit(key.id, key.limits)
        if admitted is None:
            return self._accounted(request, key, self._decide(request, key))
        if isinstance(admitted, Refusal):
            return _in_words_of(request.protocol or "", admitted)
        return self._decide_once(admitted, request, key)

    async def _decide_once(
        self, admitting: Coroutine[Any, Any, Refusal | None], request: Request, key: GatewayKey | None
    ) -> Plan | Refusal | Answer:
        refused = await admitting
        if refused is not None:
            return _in_words_of(request.protocol or "", refused)
        decided = self._accounted(request, key, self._decide(request, key))
        return await decided if isinstance(decided, Coroutine) else decided

    def _accounted(
        self, request: Request, key: GatewayKey | None, decided: Deferred[Plan | Refusal | Answer]
    ) -> Deferred[Plan | Refusal | Answer]:
        if isinstance(decided, CoroutineType):
            return self._accounted_later(request, key, decided)
        if isinstance(decided, Plan):
            counting = request.operation == "count_tokens"
            self._accounts[decided.token] = _Account(self._clock(), request.id, request.model, key, counting)
        return decided

    async def _accounted_later(
        self, request: Request, key: GatewayKey | None, deciding: Coroutine[Any, Any, Plan | Refusal | Answer]
    ) -> Plan | Refusal | Answer:
        decided = await deciding
        self._accounted(request, key, decided)
        return decided

    def _decide(self, request: Request, key: GatewayKey | None) -> Deferred[Plan | Refusal | Answer]:
        tables = self._tables
        if request.operation in calls.OPERATIONS:
            return self._decide_call(request, key)
        target = self._may(request, key, several=len(tables.keys) > 1) or tables.resolver.resolve(
            request.model,
            subject=key.subject if key is not None else None,
            client=request.protocol or "openai_chat",
            has_images=lambda: request.has_images,
        )
        if isinstance(target, Refusal):
            return target
        unpriced = self._unpriced(key, target)
        if unpriced is not None:
            return unpriced
        count = request.operation == "count_tokens"
        if count and not (target.row.definition.counts_tokens and target.wire.protocol == request.protocol):
            return _estimate(request)
        return self._plan(request, key, target, count=count)

    def call(self, call: calls.Call) -> Deferred[Plan | Refusal] | calls.Own:
        """Say what is done with a library's call of a capability."""
        return self._call(call, None, None)

    def opened(self, token: int) -> calls.Opened:
        """Give what reads the answer to a running call.

        - Raises `KeyError`: no such call is running.
        """
        opened = self._running[token].call
        if not isinstance(opened, calls.Opened):
            raise KeyError(token)
        return opened

    def read(self, gathered: Gathered) -> Deferred[Answer | Refusal]:
        """Say what the client of a running call gets of the provider's answer.

        - Raises `KeyError`: no such call is running.
        """
        answer = self.opened(gathered.token).answer(gathered, now=int(self._clock()))
        if isinstance(answer, Answer):
            answer = replace(answer, headers=(*answer.headers, *self._running[gathered.token].told))
        return answer

    def next(self, failure: Failure) -> Deferred[AttemptSpec | Refusal]:
        """Say what follows a failed attempt of a running request.

        - Raises `KeyError`: no such request is running.
        """
        running, now = self._running[failure.token], self._clock()
        refused = running.refused(failure, now=now)
        if refused is not None and self._keeper is not None:
            return self._next_renewed(failure, running, refused)
        step = running.next(failure, now=now, random=self._random)
        self._log_last(failure, running, step)
        if isinstance(step, Refusal):
            return _in_words_of(running.client, step)
        return self._next_later(failure.token, running, step) if running.attempts.stale(now) else step

    async def _next_renewed(self, failure: Failure, way: RouteAttempts, refused: Secret) -> AttemptSpec | Refusal:
        wrong = await self._renew(way, refused)
        now = self._clock()
        if wrong is None:
            step = way.again(failure, now=now)
            self._log_last(failure, way, step)
            return step
        told = way.next(failure, now=now, random=self._random, because=wrong)
        self._log_last(failure, way, told)
        return await self._next_later(failure.token, way, told)

    async def _next_later(self, token: int, way: RouteAttempts, step: AttemptSpec | Refusal) -> AttemptSpec | Refusal:
        """See that the attempt that comes next has a token: this member's, or the next one's."""
        while isinstance(step, AttemptSpec) and way.attempts.stale(self._clock()):
            wrong = await self._renew(way, None)
            now = self._clock()
            if wrong is None:
                return way.attempts.renewed(step, now=now)
            failed = _unrenewed(token, step.attempt, wrong)
            step = way.next(failed, now=now, random=self._random, because=wrong)
            self._log_last(failed, way, step)
        return _in_words_of(way.client, step) if isinstance(step, Refusal) else step

    async def _renew(self, way: RouteAttempts, refused: Secret | None) -> TokenError | None:
        credential = way.attempts.credential
        if self._keeper is None or credential is None:
            from headrace.credentials.oauth import TokenError

            return TokenError("nobody gets tokens here", permanent=True)
        return await self._keeper.renew(way.target.row.id, credential, refused)

    def settle(self, settlement: Settlement) -> None:
        """Take note of what a plan came to. A settlement of nothing that runs is said in the log and is no error."""
        running = self._running.pop(settlement.token, None)
        if running is None:
            _LOG.warning("a settlement names request %d, which is not running", settlement.token)
            return
        now, error = self._clock(), settlement.error
        running.settled(settlement.lane, now)
        if error is None:
            # An id of our own making is held nowhere.
            if settlement.response_id and running.client == running.runtime.protocol == _RESPONSES:
                self._remember(running, settlement.response_id)
            running.succeeded(
                now=now,
                status=settlement.status,
                # They are read for a credential's limits, and making them costs more than the rest.
                headers=settlement.headers if running.attempts.credential is not None else (),
                sent=settlement.bytes_sent,
                received=settlement.bytes_received,
            )
        elif error.kind == "aborted":
            running.attempts.left(
                now=now,
                status=settlement.status,
                sent=settlement.bytes_sent,
                received=settlement.bytes_received,
            )
        elif not running.attempts.closed:
            seen = Failure(
                token=settlement.token,
                attempt=settlement.attempts,
                error=error,
                headers=settlement.headers,
                bytes_sent=settlement.bytes_sent,
                bytes_received=settlement.bytes_received,
            )
            running.interrupted(seen, now=now, random=self._random)
            self._log_last(seen, running, None)
        account = self._accounts.pop(settlement.token, None)
        if account is not None and self._books is not None:
            self._enter(self._books, account, running, settlement)
        if self._figures is not None:
            key = None if account is None or account.key is None else account.key.id
            is_free = account is not None and account.is_free
            prices = self._facts(running.runtime).prices
            self._figures.counts.settled(running, settlement, prices, key=key, is_free=is_free)

    def _facts(self, runtime: RuntimeMap) -> ModelFacts:
        return self._tables.resolver.facts.of(runtime.kind, runtime.provider, runtime.model)

    def lapse(self) -> None:
        """Have written what was settled: it has waited for others for long enough."""
        if self._books is not None:
            self._books.hasten()

    def _enter(self, books: Node, account: _Account, way: RouteAttempts, settlement: Settlement) -> None:
        runtime, key = way.runtime, account.key
        facts = self._facts(runtime)
        told = books.entry(
            number=settlement.token,
            at=account.at,
            request_id=account.request_id,
            key=None if key is None else key.id,
            asked=account.asked,
            client_protocol=way.client,
            runtime=runtime,
            attempts=way.records,
            settlement=settlement,
            prices=None if account.is_free else facts.prices,
            route=", ".join(map(str, way.hops)) if way.hops else None,
        )
        books.settled(told, None if key is None else key.limits)

    def _unpriced(self, key: GatewayKey | None, target: Target) -> Refusal | None:
        """Refuse a model without a known price to a key with a budget: nobody could say what is left of it."""
        if key is None or key.limits is None or key.limits.budget_usd is None:
            return None
        row = target.row
        prices = self._tables.resolver.facts.of(row.definition.kind, row.id, target.model).prices
        if prices is not None and prices.input is not None and prices.output is not None:
            return None
        return Refusal(
            status=403,
            code="model_price_unknown",
            message=f"this key has a budget, and the price of {target.name!r} is not known: "
            f'set price_input and price_output in [catalogue."{target.name}"]',
            param="model",
        )

    def _affordable(self, key: GatewayKey | None) -> Callable[[Target], bool] | None:
        """Say which fallbacks a key with a budget may be led to: those that it may ask for. None: all."""
        if key is None or key.limits is None or key.limits.budget_usd is None:
            return None
        return lambda found: self._unpriced(key, found) is None

    def models(self, protocol: str, key: GatewayKey | None = None) -> Answer:
        """List the names that a key may ask for, in the shape of the client's protocol, by what is known now."""
        tables, shape = self._tables, _SHAPES.get(protocol, "openai")
        name = (shape, key.id if key is not None else None, self.listings.version)
        body = tables.lists.get(name)
        if body is None:
            if len(tables.lists) >= LISTS_KEPT:
                tables.lists.clear()
            body = tables.lists[name] = every_model(tables.resolver, self.listings, key, shape)
        return Answer(body=body)

    def model(self, name: str, protocol: str, key: GatewayKey | None = None) -> Answer | Refusal:
        """Tell of one name, in the shape of the client's protocol."""
        body = one_model(name, self._tables.resolver, self.listings, key, _SHAPES.get(protocol, "openai"))
        if body is not None:
            return Answer(body=body)
        message = f"no model {name[:NAME_LIMIT]!r} is known here to this client; GET /v1/models lists those that are"
        return Refusal(status=404, code="model_not_found", message=message, param="model")

    def _own(self, request: Request, key: GatewayKey | Refusal | None) -> Deferred[Plan | Refusal | Answer]:
        if request.operation == "metrics":
            return self._page(request)
        if isinstance(key, Refusal):
            return key
        if request.operation == "session":
            # A conversation over one connection: each of its requests is decided on as it comes.
            return Answer(body=b"")
        now = self._clock()
        due = [row for row in self._tables.resolver.rows.values() if row.listing and self.listings.is_due(row.id, now)]
        if self.refresh is None or not due:
            return self._told(request, key)
        return self._told_later(self.refresh(due), request, key)

    def _page(self, request: Request) -> Answer | Refusal:
        if self._figures is None:
            return Refusal(status=404, code="unknown_path", message="nobody counts here")
        return self._figures.answer(
            request, self._running.values(), self._breakers, self._books, self.listings, now=self._clock()
        )

    def _told(self, request: Request, key: GatewayKey | None) -> Answer | Refusal:
        protocol = request.protocol or "openai_chat"
        one = request.operation == "model"
        return self.model(request.model or "", protocol, key) if one else self.models(protocol, key)

    async def _told_later(
        self, refreshing: Awaitable[None], request: Request, key: GatewayKey | None
    ) -> Answer | Refusal:
        await refreshing
        return self._told(request, key)

    def _decide_call(self, request: Request, key: GatewayKey | None) -> Deferred[Plan | Refusal | Answer]:
        if request.body_size >= calls.LARGE:
            return self._decide_call_aside(request, key)
        return self._decide_opened(calls.opened_by(request), request, key)

    async def _decide_call_aside(self, request: Request, key: GatewayKey | None) -> Plan | Refusal | Answer:
        import asyncio

        opened = await asyncio.to_thread(calls.opened_by, request)
        decided = self._decide_opened(opened, request, key)
        return await decided if isinstance(decided, Coroutine) else decided

    def _decide_opened(
        self, call: calls.Call | Refusal, request: Request, key: GatewayKey | None
    ) -> Deferred[Plan | Refusal | Answer]:
        if isinstance(call, Refusal):
            return call
        if key is not None and not key.may_ask(call.selector):
            return _not_allowed(call.selector, key)
        found = self._call(call, request, key)
        return found.answer() if isinstance(found, calls.Own) else found

    def _call(
        self, call: calls.Call, request: Request | None, key: GatewayKey | None
    ) -> Deferred[Plan | Refusal] | calls.Own:
        target = self._tables.resolver.resolve(
            call.selector or None, call.capability, subject=key.subject if key is not None else None
        )
        if isinstance(target, Refusal):
            return target
        unpriced = self._unpriced(key, target)
        if unpriced is not None:
            return unpriced
        resolver = self._tables.resolver
        if target.wire.run is not None:
            return calls.Own(call, target.wire.run, resolver.runtime(target, None))
        way: RouteAttempts

        def prepare(found: Target, runtime: RuntimeMap) -> Ready | Refusal:
            opened = calls.Opened(call, found.wire, found.model)
            prepared = opened.prepare(runtime)
            if isinstance(prepared, Refusal):
                return prepared
            way.call = opened
            return prepared, opened.relay

        conversation = None if request is None else self._conversation(request, key)
        way = self._way(target, prepare, calls.CLIENT, conversation, key)
        return self._begin(way)

    def _plan(
        self, request: Request, key: GatewayKey | None, target: Target, *, count: bool = False
    ) -> Deferred[Plan | Refusal]:
        client = request.protocol or target.wire.protocol

        def prepare(found: Target, runtime: RuntimeMap) -> Ready | Refusal:
            # What a library asks brings its body along; only the edge makes one for each request by a recipe.
            kept = not count and request.protocol is not None
            read = found.wire.alike(runtime, request) if kept and found.wire.alike is not None else None
            alike = None if read is None else (client, read)
            ready: Ready | None = None if alike is None else runtime.kept.get(alike)
            if ready is None:
                try:
                    ready = anew(found, runtime)
                except UnsupportedFeature as error:
                    return Refusal(status=400, code="unsupported_feature", message=str(error), param=error.param)
                if alike is not None:
                    if len(runtime.kept) >= ALIKE_KEPT:
                        runtime.kept.clear()
                    runtime.kept[alike] = ready
            return ready

        def anew(found: Target, runtime: RuntimeMap) -> Ready:
            prepared = found.wire.prepare(runtime, request)
            if count:
                # A definition whose path is not the wire's own has put it into the URL.
                own = found.wire.protocol == _COUNTING and prepared.url.endswith(_MESSAGES)
                path = "/count_tokens" if own else ""
                return replace(prepared, url=prepared.url + path), "opaque"
            same = found.wire.protocol == client and not prepared.normalise
            return prepared, "verbatim" if same else "normalised"

        way = self._way(
            target,
            prepare,
            client,
            # Affinity is a choice between several.
            self._conversation(request, key) if len(target.row.pool) > 1 or self._tables.rules else None,
            key,
            request=request,
            routed=not count,
        )
        return self._begin(way)

    def _way(
        self,
        target: Target,
        prepare: Prepare,
        client: str,
        conversation: str | None,
        key: GatewayKey | None,
        *,
        request: Request | None = None,
        routed: bool = True,
    ) -> RouteAttempts:
        tables = self._tables
        rules = tables.rules.get(target.profile or "", ()) if routed and tables.rules else ()
        return RouteAttempts(
            target,
            prepare,
            client=client,
            resolver=tables.resolver,
            rules=rules,
            breakers=self._breakers,
            now=self._clock(),
            conversation=conversation,
            has_images=(lambda: request.has_images) if request is not None and rules else None,
            may_take=self._affordable(key),
            owner=key.id if key is not None else "",
        )

    def _begin(self, way: RouteAttempts) -> Deferred[Plan | Refusal]:
        now = self._clock()
        plan = way.begin(self._token + 1, now=now, random=self._random)
        if isinstance(plan, Refusal):
            return _in_words_of(way.client, plan)
        self._token += 1
        self._running[self._token] = way
        return self._begin_later(plan, way) if way.attempts.stale(now) else plan

    async def _begin_later(self, plan: Plan, way: RouteAttempts) -> Plan | Refusal:
        step: AttemptSpec | Refusal | None = None
        try:
            step = await self._next_later(plan.token, way, plan.spec)
        finally:
            if not isinstance(step, AttemptSpec):
                self._running.pop(plan.token, None)
        return step if isinstance(step, Refusal) else replace(plan, spec=step, relay=step.relay or plan.relay)

    def _log_last(self, failure: Failure, running: RouteAttempts, step: AttemptSpec | Refusal | None) -> None:
        record = next(one for one in reversed(running.records) if one.attempt == failure.attempt)
        error = failure.error
        cause = record.cause.value if record.cause is not None else "ended"
        # A connection's failure is told in the kernel's own words; any other message may be the provider's.
        why = f"{cause}, {error.message}" if error.kind == "transport" else cause
        if record.status is not None:
            why = f"{why} (status {record.status})"
        if not isinstance(step, AttemptSpec):
            follows = "answered"
        elif record.next_in is None:
            follows = f"then {running.hops[-1]}"
        else:
            follows = f"again in {step.delay:.2f} s" if step.delay else "again at once"
        _LOG.info(
            "request %d, attempt %d at %s/%s: %s, %s, %s",
            failure.token,
            record.attempt,
            record.provider,
            record.credential or "-",
            why,
            f"credential {record.marked}" if record.marked else "no mark",
            follows,
        )

    def _may(self, request: Request, key: GatewayKey | None, *, several: bool) -> Refusal | None:
        """Refuse what this key may not ask. `several`: there are other keys too."""
        if key is None:
            return None
        if request.model and not key.may_ask(request.model):
            return _not_allowed(request.model, key)
        # With several keys, one could read what another's conversation holds, by its id.
        refs = request.state_refs if several else ()
        if refs and not (refs == (_PREVIOUS,) and (key.id, request.previous_response_id) in self._answers):
            field = refs[0].strip("/").replace("/", ".")
            return Refusal(
                status=400,
                code="unsupported_parameter",
                message=f"{field} names state held at the provider, and nothing shows that it is this key's; "
                "send the conversation itself",
                param=field,
            )
        return None

    def _conversation(self, request: Request, key: GatewayKey | None) -> str | None:
        """What affinity goes by; never shared between keys.

        The answer that the provider holds, else the client's session, else its cache key.
        """
        owner = key.id if key is not None else ""
        held = request.previous_response_id
        if held and (owner, held) in self._answers:
            return _answer_thread(owner, held)
        thread = request.session or request.prompt_cache_key
        return f"{owner}\0{thread}" if thread else None

    def _remember(self, way: RouteAttempts, response: str) -> None:
        """Remember whose an answer is that its provider may hold, and which credential has it."""
        self._answers[way.owner, response] = None
        self._answers.move_to_end((way.owner, response))
        if len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)
        credential = way.attempts.credential
        if credential is not None:
            way.target.row.pool.remember(_answer_thread(way.owner, response), credential)

    def _compile(self, config: Config, before: Mapping[str, Row]) -> _Tables:
        rows = compile_rows(config, self._registry, self._demo_url)
        for name, row in rows.items():
            if name in before:
                rows[name] = _continued(row, before[name].pool)
        resolver = Resolver(config, rows)
        keys = KeyRing(
            (
                (
                    GatewayKey(key.id, tuple(map(Pattern.of, key.models)), key.subject or key.id, _limits(key)),
                    key.secret,
                )
                for key in config.keys
            ),
            salt=self._salt,
        )
        rules: dict[str, tuple[Rule, ...]] = {}
        for route in config.routes:
            profile = str(parse(route.profile) or route.profile)
            rules[profile] = (*rules.get(profile, ()), Rule(route.to, frozenset(route.on), route.hedge))
        if self._figures is not None:
            self._figures.configure(config, rows)
        return _Tables(resolver, keys, rules, {})


def _continued(row: Row, pool: Pool) -> Row:
    """Let a row go on with its pool, so that requests under way still mark it; or take over what it knows."""
    if row.pool.serves_as(pool):
        pool.revive()
        return replace(row, pool=pool)
    row.pool.take_over(pool)
    return row


def _limits(key: Key) -> KeyLimits | None:
    if key.requests_per_minute is None and key.tokens_per_minute is None and key.budget_usd is None:
        return None
    return KeyLimits(
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
        budget_usd=key.budget_usd,
        budget_period=key.budget_period,
    )


def _not_allowed(name: str, key: GatewayKey) -> Refusal:
    what = f"this key may not ask for {name!r}" if name else "this key may not leave the model to the gateway"
    message = f"{what}; it may ask for: {some_of(map(str, key.models))}"
    return Refusal(status=403, code="model_not_allowed", message=message, param="model")


def _in_words_of(client: str, refusal: Refusal) -> Refusal:
    """Overload has a status of its own in Messages."""
    if client == "anthropic_messages" and refusal.status == _UNAVAILABLE:
        return replace(refusal, status=_OVERLOADED)
    return refusal


def _unrenewed(token: int, attempt: int, why: TokenError) -> Failure:
    """Give the failure of an attempt that could not be made for want of a token."""
    error = ProviderErrorEvent(
        kind="auth", retryable=not why.permanent, message=str(why), retry_after_s=why.retry_after, phase="connect"
    )
    return Failure(token=token, attempt=attempt, error=error)


def _answer_thread(owner: str, response: str) -> str:
    return f"{owner}\0answer\0{response}"


def _estimate(request: Request) -> Answer:
    """Count by the body's size, and say so."""
    tokens = max(1, request.body_size // BYTES_PER_TOKEN)
    body = b'{"totalTokens":%d}' if request.protocol == _GEMINI else b'{"input_tokens":%d}'
    return Answer(body=body % tokens, headers=(("x-headrace-estimate", "true"),))
