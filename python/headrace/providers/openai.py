"""OpenAI's own service: Responses first, Chat Completions beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers._wires import language_model

if TYPE_CHECKING:
    from headrace.requests import PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who pays, where a key belongs to several."""

    organization: str | None = None
    """Sent as `openai-organization`."""
    project: str | None = None
    """Sent as `openai-project`."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Responses or Chat request."""
    settings: Settings = runtime.settings
    named = (("openai-organization", settings.organization), ("openai-project", settings.project))
    return language_model(runtime, request, headers=tuple((name, value) for name, value in named if value))


DEFINITION = ProviderDefinition(
    kind="openai",
    label="OpenAI",
    base_url="https://api.openai.com/v1",
    capabilities=(
        Capability("language_model", "openai_responses", prepare),
        Capability("language_model", "openai_chat", prepare),
    ),
    settings=Settings,
    environment="OPENAI_API_KEY",
    patterns=("gpt-*",),
)
