"""The gateway's decisions: one per request, one per failed attempt, one note at the end.

1. `decide` touches no provider and no store: a dictionary lookup or two, then a recipe.
2. A configuration is compiled into one frozen `_Tables`; a reload puts another in its place, between two decisions.
3. What runs keeps the tables that it was planned with; what was learnt of a credential goes over to the new ones.
4. Clock and randomness are arguments.

Never here: bytes of a stream, a prompt, a socket.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.attempts import CredentialAttempts
from headrace.credentials import Credential, Pool
from headrace.keys import GatewayKey, KeyRing
from headrace.requests import (
    Answer,
    AttemptSpec,
    Deadlines,
    Failure,
    Plan,
    Refusal,
    Relay,
    Request,
    RuntimeMap,
    Settlement,
)
from headrace.selectors import Names, Pattern, Unresolved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.config import Config, Provider
    from headrace.events import ProviderErrorEvent
    from headrace.plugins import Capability, ProviderDefinition
    from headrace.registry import Registry

__all__ = ["Gateway"]

_LOG = logging.getLogger("headrace.gateway")

#: Bytes of JSON per token, for an estimate that says that it is one.
BYTES_PER_TOKEN: Final = 4
#: Runtime maps that are kept: a deployment's models times its credentials, and then some.
RUNTIMES_LIMIT: Final = 4096
_PROTOCOLS: Final = ("openai_chat", "openai_responses", "anthropic_messages")
_UNAVAILABLE: Final = 503
_OVERLOADED: Final = 529
_COUNTING: Final = "anthropic_messages"


@dataclass(frozen=True, slots=True)
class _Row:
    """A provider row, ready for decisions."""

    id: str
    definition: ProviderDefinition
    base_url: str
    settings: Any
    deadlines: Deadlines
    pool: Pool
    #: Client protocol to the wire that serves it best; empty where the provider has no language model.
    wires: Mapping[str, Capability]


@dataclass(frozen=True, slots=True)
class _Tables:
    """One configuration, compiled."""

    rows: Mapping[str, _Row]
    names: Names
    keys: KeyRing
    #: The model lists, written once: of OpenAI's shape and of Anthropic's.
    lists: Mapping[str, bytes]
    #: One for each that was planned: the same values again and again, and making one costs as much as looking it up
    #: saves. Bounded by `RUNTIMES_LIMIT`.
    runtimes: dict[tuple[str, str, str, str | None], RuntimeMap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Running:
    """A planned request until its settlement."""

    attempts: CredentialAttempts
    runtime: RuntimeMap
    client: str


class Gateway:
    """Decides for the edge. A `Policy`.

    - `config`: checked.
    - `clock`: seconds since the Unix epoch.
    - `random`: uniform in [0, 1).
    - `salt`: 16 secret random bytes of this process.
    - `demo_url`: base URL of the running demo upstream, for rows of that kind without one.
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
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._random = random
        self._salt = salt
        self._demo_url = demo_url
        self._token = 0
        self._running: dict[int, _Running] = {}
        self._tables = self._compile(config)

    @property
    def running(self) -> int:
        """How many planned requests have not been settled."""
        return len(self._running)

    def reload(self, config: Config) -> None:
        """Take another checked configuration. Requests under way go on as they were planned."""
        tables = self._compile(config)
        rows = {}
        for name, row in tables.rows.items():
            before = self._tables.rows.get(name)
            rows[name] = row if before is None else _continued(row, before.pool)
        self._tables = replace(tables, rows=rows)

    def decide(self, request: Request) -> Plan | Refusal | Answer:
        """Say what is done with a request."""
        tables = self._tables
        key = tables.keys.admit(request)
        if isinstance(key, Refusal):
            return key
        if request.operation == "models":
            return self.models(request.protocol or "openai_chat")
        found = _may(request, key, several=len(tables.keys) > 1) or _route(request, tables)
        if isinstance(found, Refusal):
            return found
        row, wire, model = found
        count = request.operation == "count_tokens"
        if count and not (row.definition.counts_tokens and wire.protocol == _COUNTING):
            return _estimate(request)
        return self._plan(request, key, row, wire, model, path="/count_tokens" if count else "")

    def next(self, failure: Failure) -> AttemptSpec | Refusal:
        """Say what follows a failed attempt of a running request.

        - Raises `KeyError`: no such request is running.
        """
        running = self._running[failure.token]
        step = running.attempts.next(failure, now=self._clock(), random=self._random)
        self._log_last(failure.token, running, failure.error)
        return _in_words_of(running.client, step) if isinstance(step, Refusal) else step

    def settle(self, settlement: Settlement) -> None:
        """Take note of what a plan came to. A settlement of nothing that runs is said in the log and is no error."""
        running = self._running.pop(settlement.token, None)
        if running is None:
            _LOG.warning("a settlement names request %d, which is not running", settlement.token)
            return
        attempts = running.attempts
        error = settlement.error
        if error is None:
            attempts.succeeded(now=self._clock())
        elif error.kind != "aborted" and not attempts.closed:
            seen = Failure(
                token=settlement.token,
                attempt=settlement.attempts,
                error=error,
                headers=settlement.headers,
                bytes_sent=settlement.bytes_sent,
                bytes_received=settlement.bytes_received,
            )
            attempts.interrupted(seen, now=self._clock(), random=self._random)
            self._log_last(settlement.token, running, error)

    def models(self, protocol: str) -> Answer:
        """List the names that may be asked for, in the shape of the client's protocol."""
        shape = "anthropic" if protocol == "anthropic_messages" else "openai"
        return Answer(body=self._tables.lists[shape])

    def _plan(
        self, request: Request, key: GatewayKey | None, row: _Row, wire: Capability, model: str, *, path: str = ""
    ) -> Plan | Refusal:
        now = self._clock()
        client = request.protocol or wire.protocol
        attempts = CredentialAttempts(
            pool=row.pool,
            model=model,
            authorize=row.definition.authorize,
            started=now,
            conversation=_conversation(request, key) if len(row.pool) > 1 else None,
            dead_codes=row.definition.dead_codes,
        )
        refused = attempts.choose(now=now, random=self._random)
        if refused is not None:
            return _in_words_of(client, refused)
        runtime = self._runtime(row, wire, model, attempts.credential)
        prepared = wire.prepare(runtime, request)
        relay: Relay = "verbatim" if wire.protocol == client else "normalised"
        if path:
            prepared = replace(prepared, url=prepared.url + path)
            relay = "opaque"
        spec = attempts.begin(prepared, now=now)
        self._token += 1
        self._running[self._token] = _Running(attempts, runtime, client)
        return Plan(token=self._token, spec=spec, client_protocol=client, relay=relay)

    def _runtime(self, row: _Row, wire: Capability, model: str, credential: str | None) -> RuntimeMap:
        made = self._tables.runtimes
        name = (row.id, wire.protocol, model, credential)
        runtime = made.get(name)
        if runtime is None:
            if len(made) >= RUNTIMES_LIMIT:
                made.clear()
            runtime = made[name] = RuntimeMap(
                provider=row.id,
                kind=row.definition.kind,
                model=model,
                base_url=row.base_url,
                protocol=wire.protocol,
                transport=wire.transport,
                credential=credential,
                settings=row.settings,
                deadlines=row.deadlines,
            )
        return runtime

    def _log_last(self, token: int, running: _Running, error: ProviderErrorEvent) -> None:
        record = running.attempts.records[-1]
        # A connection's failure is told in the kernel's own words; any other message may be the provider's.
        why = f"{record.cause.value}, {error.message}" if error.kind == "transport" else record.cause.value
        _LOG.info(
            "request %d, attempt %d at %s/%s: %s (status %s), %s, %s",
            token,
            record.attempt,
            running.runtime.provider,
            record.credential or "-",
            why,
            record.status,
            f"credential {record.marked}" if record.marked else "no mark",
            "answered" if record.next_in is None else f"again in {record.next_in:.2f} s",
        )

    def _compile(self, config: Config) -> _Tables:
        rows = {row.id: self._row(row) for row in config.providers}
        names = Names(models=config.models, bindings=config.bindings, providers=rows)
        keys = KeyRing(
            ((GatewayKey(key.id, tuple(map(Pattern.of, key.models))), key.secret) for key in config.keys),
            salt=self._salt,
        )
        return _Tables(rows, names, keys, _lists(names, rows))

    def _row(self, row: Provider) -> _Row:
        definition = self._registry.definitions[row.kind]
        speaks = definition.speaks("language_model", row.protocol)
        best = {one.protocol: one for one in reversed(speaks)}
        base_url = row.base_url or (self._demo_url if row.kind == "demo" else None) or definition.base_url or ""
        limits = row.deadlines
        return _Row(
            id=row.id,
            definition=definition,
            base_url=base_url,
            settings=self._registry.settings_of(row),
            deadlines=Deadlines(
                connect=limits.connect,
                first_byte=limits.first_byte,
                idle=limits.idle,
                content=limits.content,
                total=limits.total,
            ),
            pool=Pool(
                row.id,
                (Credential(one.id, one.secret) for one in row.credentials),
                strategy=row.pool.strategy,
                affinity=row.pool.affinity,
            ),
            wires={client: best.get(client, speaks[0]) for client in _PROTOCOLS} if speaks else {},
        )


def _continued(row: _Row, pool: Pool) -> _Row:
    """Let a row go on with its pool, so that requests under way still mark it; or take over what it knows."""
    if row.pool.serves_as(pool):
        pool.revive()
        return replace(row, pool=pool)
    row.pool.take_over(pool)
    return row


def _may(request: Request, key: GatewayKey | None, *, several: bool) -> Refusal | None:
    """Refuse what this key may not ask. `several`: there are other keys too."""
    if key is None:
        return None
    if request.model and not key.may_ask(request.model):
        return Refusal(
            status=403, code="model_not_allowed", message=f"this key may not ask for {request.model!r}", param="model"
        )
    # With several keys, one could read what another's conversation holds, by its id.
    if several and request.state_refs:
        field = request.state_refs[0].strip("/").replace("/", ".")
        return Refusal(
            status=400,
            code="unsupported_parameter",
            message=f"{field} names state held at the provider, and nothing shows that it is this key's; "
            "send the conversation itself",
            param=field,
        )
    return None


def _route(request: Request, tables: _Tables) -> tuple[_Row, Capability, str] | Refusal:
    """Find who is asked, over which wire, for which of its models."""
    name = request.model
    if not name:
        message = "the body names no model"
        return Refusal(status=400, code="missing_required_parameter", message=message, param="model")
    route = tables.names.resolve(name)
    if isinstance(route, Unresolved):
        return Refusal(status=422, code=route.code, message=route.message, param="model")
    row = tables.rows[route.provider]
    wire = row.wires.get(request.protocol or "openai_chat")
    if route.capability == "language_model" and wire is not None:
        return row, wire, route.model
    able = ", ".join(sorted({one.name for one in row.definition.capabilities}))
    asked = "language_model" if wire is None else f"{route.capability}, and this path is for language_model"
    return Refusal(
        status=422,
        code="unsupported_capability",
        message=f"{name!r} asks {route.provider!r} for {asked}; that provider has: {able}",
        param="model",
    )


def _in_words_of(client: str, refusal: Refusal) -> Refusal:
    """Overload has a status of its own in Messages."""
    if client == "anthropic_messages" and refusal.status == _UNAVAILABLE:
        return replace(refusal, status=_OVERLOADED)
    return refusal


def _conversation(request: Request, key: GatewayKey | None) -> str | None:
    """What affinity goes by: the client's session, else its cache key; never shared between keys."""
    thread = request.session or request.prompt_cache_key
    return f"{key.id if key is not None else ''}\0{thread}" if thread else None


def _estimate(request: Request) -> Answer:
    """Count by the body's size, and say so."""
    tokens = max(1, request.body_size // BYTES_PER_TOKEN)
    return Answer(body=b'{"input_tokens":%d}' % tokens, headers=(("x-headrace-estimate", "true"),))


def _lists(names: Names, rows: Mapping[str, _Row]) -> Mapping[str, bytes]:
    import orjson

    known = {name: route.provider for name, route in names.public()}
    for row in rows.values():
        known.update((f"{row.id}/{model}", row.id) for model in row.definition.models)
    # When a model was made is not known here; the epoch is how Anthropic's own list says so.
    openai = [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name, owner in known.items()]
    told = {"type": "model", "created_at": "1970-01-01T00:00:00Z", "lifecycle": "active"}
    anthropic = [{**told, "id": name, "display_name": name} for name in known]
    ids = list(known)
    return {
        "openai": orjson.dumps({"object": "list", "data": openai}),
        "anthropic": orjson.dumps(
            {
                "data": anthropic,
                "has_more": False,
                "first_id": ids[0] if ids else None,
                "last_id": ids[-1] if ids else None,
            }
        ),
    }
