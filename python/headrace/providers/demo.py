"""The built-in demo: a scripted upstream on loopback that needs no key and speaks all three protocols.

Its address is known only when it runs; whoever starts it puts it into the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.plugins import Capability, ProviderDefinition
from headrace.providers._wires import alike, language_model

if TYPE_CHECKING:
    from headrace.requests import PreparedRequest, Request, RuntimeMap

__all__ = ["DEFINITION", "prepare"]


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a request in whatever the client speaks."""
    return language_model(runtime, request)


DEFINITION = ProviderDefinition(
    kind="demo",
    label="Demo",
    capabilities=tuple(
        Capability("language_model", protocol, prepare, alike=alike)
        for protocol in ("openai_responses", "openai_chat", "anthropic_messages")
    ),
    base_url="http://127.0.0.1:0/v1",
    models=("text", "tools", "reasoning", "slow", "cut", "error-429", "error-503"),
)
