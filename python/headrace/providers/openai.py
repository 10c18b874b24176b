"""OpenAI's own service: Responses first, Chat Completions beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings, _images
from headrace.providers._shapes import dressed
from headrace.providers._wires import alike, language_model, openai_listing

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "model_flags", "prepare"]


#: Models that do not reason.
_PLAIN: Final = re.compile(r"(?:ft:)?(?:gpt-3|gpt-4|chatgpt-4o|gpt-5-chat)")
#: Models that are known to reason, also where nothing is said of it.
_REASON: Final = re.compile(r"(?:ft:)?(?:o[1-9]|gpt-[5-9]|codex-)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who pays, where a key belongs to several."""

    organization: str | None = None
    """Sent as `openai-organization`."""
    project: str | None = None
    """Sent as `openai-project`."""
    websocket: bool = False
    """Whether Responses streams go over WebSockets that are kept open; HTTP is what remains where one cannot be had."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Responses or Chat request."""
    headers = _payer(runtime)
    # These refuse to be asked how much they reason, also where a translated request would ask it; the others refuse
    # sampling that a client of another vendor asks for by habit.
    flags = model_flags(runtime.model)
    return language_model(runtime, request, headers=headers, flags=flags, websocket=runtime.settings.websocket)


def model_flags(model: str) -> tuple[str, ...]:
    """Tell what a model of OpenAI's takes, by its name: its reasoning is asked for only where it reasons."""
    if _PLAIN.match(model):
        return ("no_effort", "no_encrypted_reasoning", "sampling")
    return ("reasons",) if _REASON.match(model) else ()


def _payer(runtime: RuntimeMap) -> Headers:
    settings: Settings = runtime.settings
    named = (("openai-organization", settings.organization), ("openai-project", settings.project))
    return tuple((name, value) for name, value in named if value)


DEFINITION = ProviderDefinition(
    kind="openai",
    label="OpenAI",
    base_url="https://api.openai.com/v1",
    capabilities=(
        Capability("language_model", "openai_responses", prepare, alike=alike),
        Capability("language_model", "openai_chat", prepare, alike=alike),
        dressed(_embeddings.OPENAI, headers=_payer),
        dressed(_images.OPENAI, headers=_payer),
    ),
    settings=Settings,
    environment="OPENAI_API_KEY",
    patterns=("gpt-*",),
    listing=openai_listing,
)
