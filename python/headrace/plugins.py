"""What a provider tells about itself. A plug-in is one file that makes a `ProviderDefinition`.

An installed package offers its definition, or a list of them, in the entry-point group `headrace.providers`.
The built-in ones come through the same door.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from headrace.requests import AwsKeys, Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = [
    "ENTRY_POINT_GROUP",
    "KIND",
    "Alike",
    "Capability",
    "Listing",
    "Prepare",
    "ProviderDefinition",
    "Read",
    "Run",
    "bearer",
]

ENTRY_POINT_GROUP: Final = "headrace.providers"
KIND: Final = re.compile(r"\A[a-z][a-z0-9_]{0,62}\Z")

Prepare: TypeAlias = Callable[[RuntimeMap, Any], PreparedRequest]
"""From what is asked (a `Request`, or a capability's own, as an `EmbedRequest`) to what is sent. Pure: no socket, no
clock, no secret."""

Read: TypeAlias = Callable[[Any, bytes], Any]
"""From a capability's request and a good answer's body to its result. Pure. Raises `ReadError` for a refusal, and
`ValueError`, `KeyError` or `TypeError` for what is no answer."""

Run: TypeAlias = Callable[[RuntimeMap, Any], Awaitable[Any]]
"""Does a call that is no request to a provider (our own fetch), and gives its result."""


Alike: TypeAlias = Callable[[RuntimeMap, Request], Hashable]
"""From what is asked to all that its preparation depends on. None: nothing is kept of it."""

Listing: TypeAlias = Callable[[str, Any], tuple[str, Headers]]
"""Of a base URL and the settings, gives the address of the provider's own list of models, and headers beside the
authorisation."""


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
    read: Read | None = None
    """For a capability that is not the language model."""
    read_event: Read | None = None
    """The same for the data of one event of a stream: a partial result, the result, or None for what says nothing."""
    carries: frozenset[str] = frozenset()
    """The request's fields that this wire has a place for. What a client says beyond them is reported as lost."""
    run: Run | None = None
    """In the place of `prepare`'s request."""
    alike: Alike | None = None
    """What of a request its preparation depends on, but for the body, which the gateway's edge makes by a recipe. Where
    it is there, what was prepared for one request of the gateway serves for all that give the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDefinition:
    """A kind of provider. Of a capability's wires the best stands first, and the client's own protocol wins."""

    kind: str
    label: str
    capabilities: tuple[Capability, ...]
    base_url: str | None = None
    """None: the configuration must give one."""
    authorize: Callable[[Secret], Headers | AwsKeys] = bearer
    """Headers with the secret in them; or, of a request that was prepared with `signing`, the keys to sign it with."""
    authorize_token: Callable[[Secret], Headers | AwsKeys] | None = None
    """The same for a token that a credential with `oauth` got, where that differs."""
    settings: type | None = None
    """A frozen dataclass; its fields are the keys of `[providers.settings]`."""
    environment: str | None = None
    """The variable whose key brings this provider up where there is no configuration file."""
    patterns: tuple[str, ...] = ()
    """Client names that lead here where there is no configuration file."""
    models: tuple[str, ...] = ()
    """Known beforehand, for the model list."""
    listing: Listing | None = None
    """Where it lists its models itself. None: nowhere."""
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
