"""Mistral's own service: Chat Completions in its dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings
from headrace.providers._wires import alike, language_model

if TYPE_CHECKING:
    from headrace.requests import PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "DIALECT", "Settings", "prepare"]

#: What its API takes beside what most do, or does not: an unknown field is refused.
DIALECT: Final = (
    "openai_compatible",
    "strict",
    "no_stream_options",
    "no_user",
    "random_seed",
    "short_ids",
    "thinking_parts",
    "no_files",
    "anew",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What its models can do."""

    reasoning: bool = False
    """Whether the models take `reasoning_effort`; the others refuse it."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a chat request.

    Its answers go to Chat clients anew: content of typed parts is nothing that `openai` reads.
    """
    settings: Settings = runtime.settings
    flags = (*DIALECT, "effort") if settings.reasoning else DIALECT
    return language_model(runtime, request, ask_usage=False, flags=flags, normalise=True)


DEFINITION = ProviderDefinition(
    kind="mistral",
    label="Mistral",
    base_url="https://api.mistral.ai/v1",
    capabilities=(Capability("language_model", "openai_chat", prepare, alike=alike), _embeddings.MISTRAL),
    settings=Settings,
    environment="MISTRAL_API_KEY",
    patterns=("mistral-*", "magistral-*", "ministral-*", "codestral-*"),
)
