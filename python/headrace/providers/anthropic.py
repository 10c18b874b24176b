"""Anthropic's own service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers._wires import alike, anthropic_listing, language_model

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "authorize", "authorize_token", "flags_of", "prepare"]


#: The family and the version in a model's name: `claude-opus-4-8`, `claude-3-7-sonnet-20250219`. A date is no version.
_NUMBER: Final = re.compile(r"claude-(?:(opus|[a-z]+)-)?(\d)(?!\d)(?:[-.](\d)(?!\d))?")
_NEW: Final = (9, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is sent where the client says nothing of it."""

    version: str = "2023-06-01"
    """Sent as `anthropic-version` for a client that names none."""
    beta: tuple[str, ...] = ()
    """Features switched on for every request, beside those that the client names in `anthropic-beta`."""
    cache: bool = True
    """Whether a translated request asks for its prompt to be cached, which OpenAI's protocols do unasked."""


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
    return language_model(
        runtime, request, headers=headers, flags=flags_of(runtime.model, version, cache=settings.cache)
    )


def flags_of(model: str, version: str, *, cache: bool) -> tuple[str, ...]:
    """Say what a model takes in a translated request. One whose number is not seen is taken for a new one."""
    found = _NUMBER.search(model)
    number = (int(found[2]), int(found[3] or 0)) if found else _NEW
    flags: tuple[str, ...] = ("auto_cache",) if cache else ()
    # Dates compare as text. From this version on sampling is refused, and by newer models in every version.
    if version < "2026-10-21" and (number < (4, 7) or not found):
        flags += ("sampling",)
    if number < (4, 6):
        flags += ("no_adaptive_thinking", "thinking_budget")
    # The first to take them was Opus 4.8.
    if found and number >= ((4, 8) if found[1] == "opus" else (5, 1)):
        flags += ("system_messages",)
    return flags


def authorize(secret: Secret) -> Headers:
    """Authorise with the key's own header, and with it alone."""
    return (("x-api-key", secret.reveal()),)


def authorize_token(secret: Secret) -> Headers:
    """Authorise with a login's token, which needs a feature switched on."""
    return (*bearer(secret), ("anthropic-beta", "oauth-2025-04-20"))


DEFINITION = ProviderDefinition(
    kind="anthropic",
    label="Anthropic",
    base_url="https://api.anthropic.com",
    authorize=authorize,
    authorize_token=authorize_token,
    capabilities=(Capability("language_model", "anthropic_messages", prepare, alike=alike),),
    settings=Settings,
    environment="ANTHROPIC_API_KEY",
    patterns=("claude-*",),
    counts_tokens=True,
    listing=anthropic_listing,
)
