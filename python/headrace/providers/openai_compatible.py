"""Anything that speaks OpenAI's Chat Completions, and what may be told of its dialect.

Some of these servers speak Responses or Messages as well; `protocol` in the configuration then chooses that wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers import _embeddings, _images, _rerank
from headrace.providers._shapes import dressed
from headrace.providers._wires import NEVER_SET, TOKEN, alike, language_model, openai_listing

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap

__all__ = ["CAPABILITIES", "DEFINITION", "DIALECT_FLAGS", "MORE", "Settings", "own_headers", "prepare"]

#: The names that the codec's translation knows (`request/flags.rs`), by test.
DIALECT_FLAGS: Final = (
    "developer",
    "content_lists",
    "stream_options",
    "strict",
    "parallel_tool_calls",
    "custom_tools",
    "required_choice",
    "allowed_tools",
    "effort",
    "json_schema",
    "images",
    "files",
    "audio",
    "sampling",
    "top_k",
    "penalties",
    "extras",
    "system_messages",
    "cache_marks",
    "auto_cache",
    "invoke_body",
    "encrypted_reasoning",
    "reasons",
    "echo_reasoning_content",
    "echo_reasoning",
    "thinking_parts",
    "reasoning_object",
    "user",
    "random_seed",
    "short_ids",
    "anew",
    "max_completion_tokens",
    "adaptive_thinking",
    "skip_signatures",
    "thinking_budget",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The dialect of one server."""

    include_usage: bool = True
    """Whether it takes `stream_options.include_usage`; where not, a stream's usage is what it sends by itself."""
    think_tags: bool = False
    """Whether `<think>` to `</think>` in its text is reasoning."""
    dialect: tuple[str, ...] = ()
    """What this server takes beside what most do, or with `no_` before it does not, in a request that had to be
    translated to its protocol."""
    websocket: bool = False
    """Whether its Responses streams go over WebSockets that are kept open, with HTTP where one cannot be had."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request. Never a secret: a key belongs into `[[providers.credentials]]`."""

    def __post_init__(self) -> None:
        """Refuse unknown flags, and headers that carry secrets, are the connection's own, or are no headers."""
        for flag in self.dialect:
            if flag.removeprefix("no_") not in DIALECT_FLAGS:
                raise ValueError(f"dialect: no such flag; known: {', '.join(DIALECT_FLAGS)}, each also with no_")
        for name, value in self.headers.items():
            if name.lower() in NEVER_SET or not TOKEN.fullmatch(name):
                raise ValueError("headers: one cannot be set here; a key belongs into [[providers.credentials]]")
            if not (value.isascii() and value.isprintable() and value == value.strip()):
                raise ValueError("headers: a value has characters that no header may have")


def prepare(runtime: RuntimeMap, request: Request, *, headers: Headers = ()) -> PreparedRequest:
    """Prepare a request in the wire of the runtime map.

    - `headers`: a vendor's own; those of the settings take their places.
    """
    settings: Settings = runtime.settings
    configured = own_headers(runtime)
    taken = {name for name, _ in configured}
    headers = (*(pair for pair in headers if pair[0] not in taken), *configured)
    if runtime.protocol == "anthropic_messages" and not (
        request.protocol == "anthropic_messages" and request.header("anthropic-version")
    ):
        headers += (("anthropic-version", "2023-06-01"),)
    base = "anthropic_compatible" if runtime.protocol == "anthropic_messages" else "openai_compatible"
    usage = () if settings.include_usage else ("no_stream_options",)
    return language_model(
        runtime,
        request,
        headers=headers,
        ask_usage=settings.include_usage,
        think_tags=settings.think_tags,
        flags=(base, *usage, *settings.dialect),
        websocket=settings.websocket,
    )


def own_headers(runtime: RuntimeMap) -> Headers:
    """Give the headers of the settings."""
    settings: Settings = runtime.settings
    return tuple((name.lower(), value) for name, value in settings.headers.items())


CAPABILITIES = (
    Capability("language_model", "openai_chat", prepare, alike=alike),
    Capability("language_model", "openai_responses", prepare, forced_only=True, alike=alike),
    Capability("language_model", "anthropic_messages", prepare, forced_only=True, alike=alike),
)

#: Which of these a server has, only its own answers tell.
MORE = tuple(dressed(one, headers=own_headers) for one in (_embeddings.OPENAI_PLAIN, _rerank.JINA, _images.OPENAI))

DEFINITION = ProviderDefinition(
    kind="openai_compatible",
    label="OpenAI-compatible server",
    capabilities=(*CAPABILITIES, *MORE),
    settings=Settings,
    listing=openai_listing,
)
