"""What a provider tells about itself. A plug-in is one file that makes a `ProviderDefinition`.

An installed package offers its definition, or a list of them, in the entry-point group `headrace.providers`.
The built-in ones come through the same door.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["ENTRY_POINT_GROUP", "KIND", "Capability", "Prepare", "ProviderDefinition", "bearer"]

ENTRY_POINT_GROUP: Final = "headrace.providers"
KIND: Final = re.compile(r"\A[a-z][a-z0-9_]{0,62}\Z")

Prepare: TypeAlias = Callable[[RuntimeMap, Request], PreparedRequest]
"""Pure: no socket, no clock, no secret."""


def bearer(secret: Secret) -> Headers:
    """Authorise as most vendors want it."""
    return (("authorization", f"Bearer {secret.reveal()}"),)


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a provider can do, in one wire protocol."""

    name: str
    protocol: str
    prepare: Prepare
    transport: str = "http"
    forced_only: bool = False
    """Taken only where the row's `protocol` says so: not every provider of this kind has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDefinition:
    """A kind of provider. Of a capability's wires the best stands first, and the client's own protocol wins."""

    kind: str
    label: str
    capabilities: tuple[Capability, ...]
    base_url: str | None = None
    """None: the configuration must give one."""
    authorize: Callable[[Secret], Headers] = bearer
    settings: type | None = None
    """A frozen dataclass; its fields are the keys of `[providers.settings]`."""
    environment: str | None = None
    """The variable whose key brings this provider up where there is no configuration file."""
    patterns: tuple[str, ...] = ()
    """Client names that lead here where there is no configuration file."""
    models: tuple[str, ...] = ()
    """Known beforehand, for the model list."""
    counts_tokens: bool = False
    """Answers `count_tokens` in Anthropic's form."""
    dead_codes: frozenset[str] = frozenset()
    """Error codes with a 403 that mean: this credential will not work again."""

    def speaks(self, capability: str, forced: str | None = None) -> tuple[Capability, ...]:
        """List the wires for a capability, best first; only the one that the configuration forces, if it does."""
        return tuple(
            one
            for one in self.capabilities
            if one.name == capability and (one.protocol == forced if forced else not one.forced_only)
        )
