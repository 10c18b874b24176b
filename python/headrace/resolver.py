"""The resolver: from a selector, a capability and a subject to one provider row, one wire and one upstream model.

1. It is one for requests, for capabilities other than a language model's, and for `headrace doctor`.
2. It touches no provider, no credential and no clock; the same configuration gives the same answer.
3. A selector that leads nowhere is a `Refusal` with status 422 that names what was asked and what exists.
4. Embeddings and rerank have no profile: they take `provider_id/model`, a name of `[models]`, or `[defaults]`.
5. A model that is known to take no images has its requests with images sent to `vision_fallback`.

Never here: the choice of a credential, a fallback after a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from headrace.breaker import BreakerPolicy
from headrace.catalogue import Facts
from headrace.credentials import Credential, Pool
from headrace.proxies import DIRECT, NEAR, Way
from headrace.requests import Deadlines, Headers, Refusal, RuntimeMap, Secret
from headrace.selectors import Explicit, Names, Route, Unresolved, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.config import Config, Provider, Server
    from headrace.config import Credential as ConfiguredCredential
    from headrace.credentials.oauth import Grant
    from headrace.plugins import Capability, ProviderDefinition
    from headrace.registry import Registry
    from headrace.requests import AwsKeys

__all__ = ["HEADER_TEXT", "LANGUAGE_MODEL", "VISION", "Resolver", "Row", "Target", "compile_rows", "grant_of", "way_of"]

LANGUAGE_MODEL: Final = "language_model"
VISION: Final = "vision_fallback"
#: Targets and runtime maps that are kept: a deployment's names times its credentials, and then some.
KEPT: Final = 4096
#: What of a model's name a header may hold as it is, beside letters and digits; a comma stands between values.
HEADER_TEXT: Final = "/:@!$&'()*+=~._-"
_PROTOCOLS: Final = ("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "ollama_chat")
_EXPLICIT: Final = frozenset({"embeddings", "rerank"})


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A provider row, ready for decisions."""

    id: str
    definition: ProviderDefinition
    base_url: str
    settings: Any
    deadlines: Deadlines
    pool: Pool
    breaker: BreakerPolicy
    #: Client protocol to the wire that serves it best; empty where the provider has no language model.
    wires: Mapping[str, Capability]
    #: Capability to its best wire.
    able: Mapping[str, Capability]
    #: Where it lists its models, and headers beside the authorisation. None: nobody asks.
    listing: tuple[str, Headers] | None = None
    #: By which proxy it is asked. None: straight.
    way: Way | None = None
    #: Over HTTP/2, where its address speaks it.
    http2: bool = False

    def authorized(self, credential: Credential) -> Headers | AwsKeys:
        """Write a credential's secret, or the token that it got, into headers; or give the keys to sign with."""
        own = self.definition.authorize_token if credential.grant is not None else None
        return (own or self.definition.authorize)(credential.secret)

    def wire(self, capability: str, client: str | None) -> Capability | None:
        """Give the wire that serves a capability, best for a client's protocol. None: the provider lacks it."""
        if capability == LANGUAGE_MODEL and client is not None:
            return self.wires.get(client)
        return self.able.get(capability)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Who is asked for one selector.

    - `asked`: the selector.
    - `profile`: the profile, with its binding, by which it was reached.
    - `blind`: the model is known to take no images.
    - `instead_of`: the model that a request with images was meant for, as `provider_id/model`.
    - `told`: headers that tell the client which model answers.
    """

    row: Row
    wire: Capability
    model: str
    capability: str
    asked: str
    profile: str | None = None
    blind: bool = False
    instead_of: str | None = None
    told: Headers = ()

    @property
    def name(self) -> str:
        """As `provider_id/model`."""
        return f"{self.row.id}/{self.model}"


class Resolver:
    """The names and rows of one configuration.

    - `config`: checked.
    - `rows`: of this configuration, by id.
    """

    __slots__ = ("_defaults", "_found", "_runtimes", "_subjects", "facts", "names", "rows")

    def __init__(self, config: Config, rows: Mapping[str, Row]) -> None:
        self.rows: Mapping[str, Row] = rows
        self.facts: Facts = Facts(config.catalogue)
        subjects = {name: config.bindings_of(name) for name in config.subjects}
        self.names: Names = Names(models=config.models, bindings=config.bindings, providers=rows, subjects=subjects)
        self._subjects = frozenset(subjects)
        self._defaults = {"embeddings": config.defaults.embeddings, "rerank": config.defaults.rerank}
        # The same few again and again, and making one costs as much as looking it up saves. Bounded by `KEPT`.
        self._found: dict[tuple[str, str | None, str, str | None], Target] = {}
        self._runtimes: dict[tuple[Target, str | None], RuntimeMap] = {}

    def resolve(
        self,
        selector: str | None,
        capability: str = LANGUAGE_MODEL,
        subject: str | None = None,
        *,
        client: str | None = None,
        has_images: Callable[[], bool] | None = None,
    ) -> Target | Refusal:
        """Find who is asked.

        - `selector`: what the client calls `model`; None for the configured default of a capability that has one.
        - `capability`: what is wanted of it.
        - `subject`: whose bindings hold: a gateway key's subject.
        - `client`: the client's protocol; its own wire wins where the provider speaks it.
        - `has_images`: asked only where the model found is known to take none.
        """
        if subject not in self._subjects:
            subject = None
        name = selector or self._defaults.get(capability)
        if not name:
            return self._unnamed(capability)
        key = (name, subject, capability, client)
        target = self._found.get(key)
        if target is None:
            found = self._resolve(name, capability, subject, client)
            if isinstance(found, Refusal):
                return found
            target = found
            if len(self._found) < KEPT:
                self._found[key] = target
        if target.blind and has_images is not None and has_images():
            return self._seeing(target, subject, client)
        return target

    def explicit(self, name: str, capability: str, client: str | None = None) -> Target | None:
        """Find `provider_id/model`, as a route's next step names it. None: that provider lacks the capability."""
        selector = parse(name)
        row = self.rows.get(selector.provider) if isinstance(selector, Explicit) else None
        if row is None or not isinstance(selector, Explicit):
            return None
        wire = row.wire(capability, client)
        if wire is None:
            return None
        return self._target(row, wire, Route(row.id, selector.model, capability), name)

    def runtime(self, target: Target, credential: str | None) -> RuntimeMap:
        """Give the frozen runtime map of a target and the one credential that was chosen for it."""
        made = self._runtimes
        runtime = made.get((target, credential))
        if runtime is None:
            if len(made) >= KEPT:
                made.clear()
            row = target.row
            runtime = made[target, credential] = RuntimeMap(
                provider=row.id,
                kind=row.definition.kind,
                model=target.model,
                base_url=row.base_url,
                protocol=target.wire.protocol,
                transport=target.wire.transport,
                credential=credential,
                settings=row.settings,
                deadlines=row.deadlines,
                capability=target.capability,
                profile=target.profile,
            )
        return runtime

    def _resolve(self, name: str, capability: str, subject: str | None, client: str | None) -> Target | Refusal:
        route = self.names.resolve(name, subject)
        if isinstance(route, Unresolved):
            return Refusal(status=422, code=route.code, message=route.message, param="model")
        row = self.rows[route.provider]
        if route.profile is not None and (route.capability != capability or capability in _EXPLICIT):
            return _incapable(
                f"{name!r} asks {row.id!r} for {route.capability}, and this path is for {capability}; "
                f"that provider has: {_listed(row)}"
            )
        wire = row.wire(capability, client)
        if wire is None:
            able = ", ".join(sorted(one.id for one in self.rows.values() if one.wire(capability, client)))
            return _incapable(
                f"{name!r} asks {row.id!r} for {capability}; that provider has: {_listed(row)}; "
                f"providers that have {capability}: {able or 'none'}"
            )
        return self._target(row, wire, Route(route.provider, route.model, capability, route.profile), name)

    def _target(self, row: Row, wire: Capability, route: Route, asked: str) -> Target:
        facts = self.facts.of(row.definition.kind, row.id, route.model)
        blind = facts.blind and route.capability == LANGUAGE_MODEL
        told = (("x-headrace-model", quote(f"{row.id}/{route.model}", safe=HEADER_TEXT)),)
        return Target(row, wire, route.model, route.capability, asked, route.profile, blind, told=told)

    def _seeing(self, target: Target, subject: str | None, client: str | None) -> Target | Refusal:
        found = self.resolve(VISION, LANGUAGE_MODEL, subject, client=client)
        if isinstance(found, Refusal) or found.blind:
            why = "is known to take none either" if isinstance(found, Target) else "is not bound"
            return _incapable(
                f"{target.asked!r} leads to {target.name!r}, which is known to take no images, and the profile "
                f"{VISION!r} {why}; leave the images out, bind {VISION!r} to a model that takes them, or correct "
                f'[catalogue."{target.name}"]'
            )
        return replace(found, asked=target.asked, instead_of=target.name)

    def _unnamed(self, capability: str) -> Refusal:
        if capability in self._defaults:
            return Refusal(
                code="model_binding_not_configured",
                message=f"the body names no model, and [defaults] has none for {capability}; "
                "name one as provider_id/model",
                param="model",
            )
        message = "the body names no model"
        return Refusal(status=400, code="missing_required_parameter", message=message, param="model")


def compile_rows(config: Config, registry: Registry, demo_url: str | None = None) -> dict[str, Row]:
    """Make the rows of a checked configuration.

    - `demo_url`: base URL of the running demo upstream, for rows of that kind without one.
    """
    return {row.id: _row(row, config.server, registry, demo_url) for row in config.providers}


def way_of(row: Provider, server: Server) -> Way | None:
    """Give the way to a configured provider. None: straight."""
    if row.proxy is not None:
        return Way(row.proxy) if row.proxy.reveal() != DIRECT else None
    return Way(server.proxy, (*server.no_proxy, *NEAR)) if server.proxy is not None else None


def _row(row: Provider, server: Server, registry: Registry, demo_url: str | None) -> Row:
    definition = registry.definitions[row.kind]
    base_url = row.base_url or (demo_url if row.kind == "demo" else None) or definition.base_url or ""
    settings = registry.settings_of(row)
    speaks = definition.speaks(LANGUAGE_MODEL, row.protocol)
    best = {one.protocol: one for one in reversed(speaks)}
    able: dict[str, Capability] = {}
    for one in definition.capabilities:
        if one.name != LANGUAGE_MODEL and not one.forced_only:
            able.setdefault(one.name, one)
    if speaks:
        able[LANGUAGE_MODEL] = speaks[0]
    limits = row.deadlines
    way = way_of(row, server)
    return Row(
        id=row.id,
        definition=definition,
        base_url=base_url,
        settings=settings,
        deadlines=Deadlines(
            connect=limits.connect,
            first_byte=limits.first_byte,
            idle=limits.idle,
            content=limits.content,
            total=limits.total,
        ),
        pool=Pool(
            row.id,
            (Credential(one.id, one.secret or Secret(""), grant_of(one, way)) for one in row.credentials),
            strategy=row.pool.strategy,
            affinity=row.pool.affinity,
        ),
        breaker=BreakerPolicy(row.breaker.failures, row.breaker.open, row.breaker.fail_fast),
        wires={client: best.get(client, speaks[0]) for client in _PROTOCOLS} if speaks else {},
        able=able,
        listing=definition.listing(base_url, settings) if definition.listing is not None and row.list_models else None,
        way=way,
        http2=row.http2,
    )


def grant_of(one: ConfiguredCredential, way: Way | None = None) -> Grant | None:
    """Give the way in which a configured credential gets its tokens. None: it has a secret of its own."""
    if one.oauth is None:
        return None
    from headrace.credentials.oauth import Grant

    return Grant(
        one.oauth,
        file=one.file,
        tenant=one.tenant,
        client_id=one.client_id,
        client_secret=one.client_secret,
        scope=one.scope,
        source=one.source,
        issuer=one.issuer,
        way=way,
    )


def _listed(row: Row) -> str:
    return ", ".join(sorted(row.able)) or "none"


def _incapable(message: str) -> Refusal:
    return Refusal(code="unsupported_capability", message=message, param="model")
