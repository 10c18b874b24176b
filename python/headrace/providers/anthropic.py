"""Anthropic's own service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers._wires import language_model

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "authorize", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is sent where the client says nothing of it."""

    version: str = "2023-06-01"
    """Sent as `anthropic-version` for a client that names none."""
    beta: tuple[str, ...] = ()
    """Features switched on for every request, beside those that the client names in `anthropic-beta`."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Messages request."""
    settings: Settings = runtime.settings
    own = request.protocol == "anthropic_messages"
    version = (own and request.header("anthropic-version")) or settings.version
    headers: Headers = (("anthropic-version", version),)
    if settings.beta:
        asked = (own and request.header("anthropic-beta")) or ""
        every = dict.fromkeys([*(name.strip() for name in asked.split(",") if name.strip()), *settings.beta])
        headers += (("anthropic-beta", ",".join(every)),)
    # Dates compare as text. From this version on sampling is refused, so a translated request must not carry it.
    flags = ("sampling",) if version < "2026-10-21" else ()
    return language_model(runtime, request, headers=headers, flags=flags)


def authorize(secret: Secret) -> Headers:
    """Authorise with the key's own header, and with it alone."""
    return (("x-api-key", secret.reveal()),)


DEFINITION = ProviderDefinition(
    kind="anthropic",
    label="Anthropic",
    base_url="https://api.anthropic.com",
    authorize=authorize,
    capabilities=(Capability("language_model", "anthropic_messages", prepare),),
    settings=Settings,
    environment="ANTHROPIC_API_KEY",
    patterns=("claude-*",),
    counts_tokens=True,
)
