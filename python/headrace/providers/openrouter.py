"""OpenRouter: many vendors' models behind Chat Completions, Responses and Messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings, _images, _rerank, openai_compatible
from headrace.providers._shapes import dressed
from headrace.providers._wires import alike

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(openai_compatible.Settings):
    """Who asks, for its rankings; and what its models take."""

    dialect: tuple[str, ...] = ("effort", "reasoning_object", "strict", "echo_reasoning")
    """As with any compatible server; in Chat how much is to be thought stands in `reasoning`."""
    referer: str | None = None
    """Sent as `http-referer`: the address of the application that asks."""
    title: str | None = None
    """Sent as `x-title`: its name."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a request in the wire of the runtime map."""
    return openai_compatible.prepare(runtime, request, headers=_application(runtime))


def _who(runtime: RuntimeMap) -> Headers:
    return (*openai_compatible.own_headers(runtime), *_application(runtime))


def _application(runtime: RuntimeMap) -> Headers:
    settings: Settings = runtime.settings
    named = (("http-referer", settings.referer), ("x-title", settings.title))
    return tuple((name, value) for name, value in named if value)


DEFINITION = ProviderDefinition(
    kind="openrouter",
    label="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    capabilities=(
        *(
            Capability("language_model", protocol, prepare, alike=alike)
            for protocol in ("openai_chat", "openai_responses", "anthropic_messages")
        ),
        *(dressed(one, headers=_who) for one in (_embeddings.OPENAI, _rerank.JINA, _images.OPENROUTER)),
    ),
    settings=Settings,
    environment="OPENROUTER_API_KEY",
)
