"""Look at a configuration as requests would see it, and on demand try every credential with one tiny request.

1. Names are looked up by the very resolver that requests use.
2. Nothing is sent anywhere unless `try_out` is called; then each credential makes one real request, of a few tokens.
3. A finding holds no secret and no words of a provider.
4. What is sent goes the way that requests go: by the same proxy.

Never here: a repair.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.catalogue import ask
from headrace.config import Config, is_loopback
from headrace.errors import HeadraceError, ProviderError
from headrace.messages import Message, ModelRequest, Options
from headrace.proxies import without_user
from headrace.requests import AwsKeys, Refusal
from headrace.resolver import LANGUAGE_MODEL, Resolver, Row, Target, compile_rows
from headrace.runtime import RefusedError, SyncRuntime
from headrace.selectors import CAPABILITY_OF, PROFILES, some_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.config import Provider
    from headrace.registry import Registry

__all__ = ["BUILT_IN", "Finding", "examine", "try_out"]

#: Kinds whose address no user has to know: nobody outside of this process is asked there.
BUILT_IN: Final = frozenset({"demo", "plain_fetch"})
#: The fewest that every vendor takes.
TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what was found.

    - `ok`: None for what is neither right nor wrong.
    """

    ok: bool | None
    about: str
    told: str

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "FAIL", None: "-   "}[self.ok]
        return f"{mark} {self.about}: {self.told}"


def examine(config: Config, registry: Registry) -> Iterator[Finding]:
    """Say what each row is, and where each name, profile and default leads."""
    for broken in registry.broken:
        yield Finding(False, f"plug-in {broken.source}", f"left out: {broken.reason}")
    rows = compile_rows(config, registry)
    resolver = Resolver(config, rows)
    for row in config.providers:
        yield _row(row, rows[row.id])
        if row.kind not in BUILT_IN and _is_own(rows[row.id].base_url, config.server.port):
            told = "stands at the port where `headrace serve` listens; give [server] another, or run one of the two"
            yield Finding(None, f"provider {row.id}", told)
    for subject in (None, *config.subjects):
        yield from _names(resolver, subject)
    bound = config.bindings
    free = [name for name in PROFILES if name not in bound and f"{name}.default" not in bound]
    if free:
        yield Finding(None, "profiles", f"not bound: {', '.join(free)}")
    for capability in ("embeddings", "rerank"):
        if getattr(config.defaults, capability) is not None:
            yield _led(f"default for {capability}", resolver.resolve(None, capability))
    yield from _prices(config, resolver)
    for route in config.routes:
        yield Finding(None, f"route of {route.profile}", f"{' -> '.join(route.to)} on {', '.join(route.on)}")


def _is_own(url: str, port: int) -> bool:
    parts = urlsplit(url)
    return parts.port == port and is_loopback(parts.hostname or "")


def _row(row: Provider, made: Row) -> Finding:
    ids = ", ".join(one.id for one in row.credentials)
    wires = ", ".join(dict.fromkeys(one.protocol for one in made.able.values()))
    able = ", ".join(sorted(made.able))
    where = "built in" if row.kind in BUILT_IN else f"{row.kind} at {made.base_url}"
    proxy = None if made.way is None or row.kind in BUILT_IN else made.way.of(made.base_url)
    way = f" by way of the proxy {without_user(proxy)}" if proxy is not None else ""
    told = f"{where}{way}; {able} by {wires}; credentials: {ids or 'none'}"
    return Finding(bool(made.able), f"provider {row.id}", told)


def _names(resolver: Resolver, subject: str | None) -> Iterator[Finding]:
    for name, route in resolver.names.public(subject):
        capability = CAPABILITY_OF[route.profile.partition(".")[0]] if route.profile is not None else route.capability
        about = name if subject is None else f"{name} for {subject}"
        yield _led(about, resolver.resolve(name, capability, subject))
    if subject is None:
        for pattern, target in resolver.names.patterns:
            yield Finding(None, f"pattern {pattern}", target)


def _prices(config: Config, resolver: Resolver) -> Iterator[Finding]:
    """Say of which models that the configuration names nobody knows what they cost."""
    found: dict[str, None] = {}
    for subject in (None, *config.subjects):
        for _, route in resolver.names.public(subject):
            if route.capability == LANGUAGE_MODEL and not _priced(resolver, route.provider, route.model):
                found[f"{route.provider}/{route.model}"] = None
    for one in config.routes:
        for name in one.to:
            provider, _, model = name.partition("/")
            if provider in resolver.rows and not _priced(resolver, provider, model):
                found[name] = None
    if found:
        told = "counted nowhere, and no key with a budget is led there: set price_input and price_output in [catalogue]"
        yield Finding(None, "prices", f"not known of {some_of(found)}; what they cost is {told}")


def _priced(resolver: Resolver, provider: str, model: str) -> bool:
    row = resolver.rows[provider]
    if row.definition.kind in BUILT_IN:
        return True  # costs nobody anything
    prices = resolver.facts.of(row.definition.kind, provider, model).prices
    return prices is not None and prices.input is not None and prices.output is not None


def _led(about: str, found: Target | Refusal) -> Finding:
    if isinstance(found, Refusal):
        return Finding(False, about, f"{found.code}: {found.message}")
    return Finding(True, about, f"{found.name} by {found.wire.protocol}" + (", takes no images" if found.blind else ""))


def try_out(config: Config, registry: Registry) -> Iterator[Finding]:
    """Make one real request with every credential. Costs a few tokens each, and takes as long as the providers do."""
    rows = compile_rows(config, registry)
    resolver = Resolver(config, rows)
    for row in config.providers:
        if LANGUAGE_MODEL not in rows[row.id].able:
            yield Finding(None, f"provider {row.id}", "not tried: it has no language model")
            continue
        for credential in row.credentials or (None,):
            alone = replace(row, credentials=(credential,) if credential is not None else ())
            about = f"{row.id}/{credential.id}" if credential is not None else row.id
            model = _some_model(config, resolver, rows[row.id])
            if model is None:
                yield Finding(
                    False, about, "not tried: no model of it is known; name one in [models], [profiles] or [[routes]]"
                )
            else:
                # What leads to other rows goes, so that no other is asked in its place.
                yield _tried(
                    about, Config(server=config.server, providers=(alone,), store=config.store), f"{row.id}/{model}"
                )


def _some_model(config: Config, resolver: Resolver, row: Row) -> str | None:
    for _, route in resolver.names.public():
        if route.provider == row.id and route.capability == LANGUAGE_MODEL:
            return route.model
    for one in config.routes:
        if CAPABILITY_OF[one.profile.partition(".")[0]] == LANGUAGE_MODEL:
            for name in one.to:
                provider, _, model = name.partition("/")
                if provider == row.id:
                    return model
    if row.definition.models:
        return row.definition.models[0]
    credential = row.pool.peek(0.0)
    if row.listing is None:
        return None
    own = row.authorized(credential) if credential is not None else ()
    if isinstance(own, AwsKeys):
        return None
    url, headers = row.listing
    proxy = row.way.of(url) if row.way is not None else None
    listed = ask(url, (*headers, *own), proxy) or ()
    return listed[0].id if listed else None


def _tried(about: str, config: Config, selector: str) -> Finding:
    request = ModelRequest(selector, (Message.user("Say ok."),), options=Options(max_output_tokens=TOKENS))
    began = time.monotonic()
    try:
        with SyncRuntime(config) as runtime, runtime.stream(request) as stream:
            stream.result()
    except RefusedError as error:
        return Finding(False, about, f"{selector}: {error.code}")
    except ProviderError as error:
        event = error.event
        why = f" (status {event.status})" if event is not None and event.status else ""
        if event is not None and event.kind == "transport":  # told in the kernel's own words
            why = f", {event.message}"
        return Finding(False, about, f"{selector}: {error.kind}{why}")
    except HeadraceError as error:
        return Finding(False, about, f"{selector}: {type(error).__name__}")
    return Finding(True, about, f"{selector} answered in {time.monotonic() - began:.2f} s")
