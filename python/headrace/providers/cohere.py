"""Cohere's own service, in version 2 of its chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings, _rerank
from headrace.providers._shapes import dressed
from headrace.providers._wires import language_model

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What its models can do, and who asks."""

    thinking: bool = False
    """Whether the models reason: then an effort becomes a budget of thinking, and what was thought goes back as such
    and not as a plan. Models that do not reason refuse both."""
    client_name: str | None = None
    """Sent as `x-client-name`."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a chat request."""
    settings: Settings = runtime.settings
    return language_model(
        runtime, request, headers=_named(runtime), flags=("effort",) if settings.thinking else ("no_effort",)
    )


def _named(runtime: RuntimeMap) -> Headers:
    settings: Settings = runtime.settings
    return (("x-client-name", settings.client_name),) if settings.client_name else ()


DEFINITION = ProviderDefinition(
    kind="cohere",
    label="Cohere",
    base_url="https://api.cohere.com",
    capabilities=(
        Capability("language_model", "cohere_chat", prepare),
        dressed(_embeddings.COHERE, headers=_named),
        dressed(_rerank.COHERE, headers=_named),
    ),
    settings=Settings,
    environment="COHERE_API_KEY",
    patterns=("command-*",),
)
