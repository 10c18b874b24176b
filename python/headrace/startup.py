"""From a command line and an environment to a checked configuration with its registry, and to what watches the file.

Never here: a decision, a listener.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.config import Reloader, find, from_environment, guess, load, stamp_of
from headrace.registry import Registry
from headrace.resolver import grant_of
from headrace.selectors import CAPABILITY_OF, PROFILES, Explicit, Profile, check_names, explicit_fault, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.config import Config

__all__ = ["Setup", "check_capabilities", "check_credentials", "check_selectors", "configure"]


def check_selectors(config: Config) -> list[tuple[tuple[str | int, ...], str]]:
    """Find what is wrong with the names of a configuration. One of the checks that its loading takes."""
    ids = [row.id for row in config.providers]

    def like(word: str) -> str:
        return f"{guess(word, ids)}; known: {', '.join(ids) or 'none; add one as [[providers]]'}"

    found = list(
        check_names(
            models=config.models,
            profiles=config.bindings,
            providers=ids,
            like=like,
            subjects={name: subject.bindings for name, subject in config.subjects.items()},
        )
    )
    for name in ("embeddings", "rerank"):
        target = getattr(config.defaults, name)
        fault = explicit_fault(target, frozenset(ids), like) if target is not None else None
        if fault is not None:
            found.append((("defaults", name), fault))
    bound = {str(parse(name) or name) for name in config.bindings}
    bound |= {str(parse(name) or name) for one in config.subjects.values() for name in one.bindings}
    for at, route in enumerate(config.routes):
        if not isinstance(parse(route.profile), Profile):
            message = f"is no profile; use one of {', '.join(PROFILES)}, or PROFILE.NAME"
            found.append((("routes", at, "profile"), message))
        elif str(parse(route.profile)) not in bound:
            found.append((("routes", at, "profile"), "nothing is bound to it; bind it in [profiles]"))
        for index, target in enumerate(route.to):
            fault = explicit_fault(target, frozenset(ids), like)
            if fault is not None:
                found.append((("routes", at, "to", index), fault))
    return found


def check_capabilities(config: Config, registry: Registry) -> list[tuple[tuple[str | int, ...], str]]:
    """Find profiles and routes that lead to a provider which cannot do what they ask. One of the loading's checks."""
    rows = {row.id: registry.definitions.get(row.kind) for row in config.providers}
    found: list[tuple[tuple[str | int, ...], str]] = []

    def look(path: tuple[str | int, ...], profile: str, target: str) -> None:
        asked, model = parse(profile), parse(target)
        definition = rows.get(model.provider) if isinstance(model, Explicit) else None
        if not isinstance(asked, Profile) or definition is None or not isinstance(model, Explicit):
            return  # somebody else's fault to find
        wanted = CAPABILITY_OF[asked.name]
        able = sorted({one.name for one in definition.capabilities})
        if wanted not in able:
            found.append((path, f"the provider {model.provider!r} has no {wanted}; it has: {', '.join(able)}"))

    for name, target in config.bindings.items():
        look(("profiles", *name.split(".", 1)), name, target)
    for subject, one in config.subjects.items():
        for name, target in one.bindings.items():
            look(("subjects", subject, "profiles", *name.split(".", 1)), name, target)
    for at, route in enumerate(config.routes):
        for index, target in enumerate(route.to):
            look(("routes", at, "to", index), route.profile, target)
    return found


def check_credentials(config: Config) -> list[tuple[tuple[str | int, ...], str]]:
    """Find what is wrong with the ways in which credentials get tokens. One of the loading's checks."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for at, row in enumerate(config.providers):
        for index, one in enumerate(row.credentials):
            grant = grant_of(one)
            if grant is not None:
                from headrace.credentials.oauth import check_grant

                path = ("providers", at, "credentials", index)
                found += [((*path, key), message) for key, message in check_grant(grant)]
    return found


@dataclass(frozen=True, slots=True)
class Setup:
    """What a gateway is started with."""

    config: Config
    registry: Registry
    #: None without a file: there is nothing to watch.
    reloader: Reloader | None
    #: None: from the environment.
    path: Path | None


def configure(
    explicit: Path | None,
    *,
    environ: Mapping[str, str],
    server: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> Setup:
    """Find, read and check the configuration; without a file, make one of what the environment holds.

    - `explicit`: the file that the command line names.
    - `server`: keys of `[server]` that the command line says instead.

    Raises `ConfigurationError`: something in it is wrong.
    """
    registry = registry if registry is not None else Registry()
    said = server or {}
    path = find(explicit, environ)
    if path is None:
        return Setup(from_environment(environ, registry.definitions.values(), server=said), registry, None, None)

    def read() -> Config:
        checks = (
            registry.check,
            check_selectors,
            lambda config: check_capabilities(config, registry),
            check_credentials,
        )
        return load(path, environ=environ, checks=checks, server=said)

    # The watch begins before the first read: a change between the two must not be missed.
    reloader = Reloader(read, lambda: stamp_of(path))
    return Setup(read(), registry, reloader, path)
