"""An Ollama server, over its own chat; over Chat Completions or Messages where the configuration says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings
from headrace.providers._wires import language_model

if TYPE_CHECKING:
    from headrace.requests import PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the server runs its models."""

    think: bool = False
    """Whether the models reason: then an effort that a client asks for becomes `think`. Others refuse it."""
    think_tags: bool = False
    """Whether `<think>` to `</think>` in its text is reasoning, as with older servers."""
    num_ctx: int | None = None
    """Tokens of context; without it the server's own default counts, and what is longer is cut without a word."""
    keep_alive: str | None = None
    """How long a model stays loaded after an answer, such as `10m`."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a chat request."""
    settings: Settings = runtime.settings
    native = runtime.protocol == "ollama_chat"
    edits: dict[str, Any] = {}
    if native and settings.num_ctx is not None:
        edits["/options/num_ctx"] = settings.num_ctx
    if native and settings.keep_alive is not None:
        edits["/keep_alive"] = settings.keep_alive
    if native:
        flags: tuple[str, ...] = ("effort",) if settings.think else ("no_effort",)
    else:
        flags = ("anthropic_compatible" if runtime.protocol == "anthropic_messages" else "openai_compatible",)
        flags += ("effort", "echo_reasoning") if settings.think else ()
    return language_model(
        runtime,
        request,
        think_tags=settings.think_tags,
        flags=flags,
        edits=edits,
        # Its own clients are to have the thinking apart too.
        normalise=native and settings.think_tags,
    )


DEFINITION = ProviderDefinition(
    kind="ollama",
    label="Ollama",
    base_url="http://127.0.0.1:11434",
    capabilities=(
        Capability("language_model", "ollama_chat", prepare),
        Capability("language_model", "openai_chat", prepare, forced_only=True),
        Capability("language_model", "anthropic_messages", prepare, forced_only=True),
        _embeddings.OLLAMA,
    ),
    settings=Settings,
)
