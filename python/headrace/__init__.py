"""Headrace: a model's stream, carried to whoever decides.

    import headrace

    decoder = headrace.Decoder("openai_chat")
    for event in decoder.feed(data) + decoder.finish("eof"):
        print(event)

1. These names are the public face; the modules that they come from are public where they have no underscore.
2. A name is imported when it is first used: `import headrace` loads neither pydantic nor httpx nor asyncio.

Logic must not be added here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.errors import HeadraceError, ProviderError, UnsupportedFeature
    from headrace.events import (
        Annotation,
        AssembledFrom,
        Attach,
        Continuation,
        HostedTool,
        Media,
        ModelEvent,
        ModelFinished,
        ModelStarted,
        ProviderErrorEvent,
        ReasoningDelta,
        RefusalDelta,
        TextDelta,
        ToolIntentDelta,
        ToolIntentProposed,
        Usage,
    )
    from headrace.messages import Message, ModelRequest, Options, Tool
    from headrace.requests import REMOVE
    from headrace.runtime import RefusedError, Runtime, SyncRuntime
    from headrace.translate import (
        Decoder,
        Encoder,
        Loss,
        Translation,
        error_reply,
        filter_response_headers,
        translate_request,
    )

__all__ = [
    "REMOVE",
    "Annotation",
    "AssembledFrom",
    "Attach",
    "Continuation",
    "Decoder",
    "Encoder",
    "HeadraceError",
    "HostedTool",
    "Loss",
    "Media",
    "Message",
    "ModelEvent",
    "ModelFinished",
    "ModelRequest",
    "ModelStarted",
    "Options",
    "ProviderError",
    "ProviderErrorEvent",
    "ReasoningDelta",
    "RefusalDelta",
    "RefusedError",
    "Runtime",
    "SyncRuntime",
    "TextDelta",
    "Tool",
    "ToolIntentDelta",
    "ToolIntentProposed",
    "Translation",
    "UnsupportedFeature",
    "Usage",
    "__version__",
    "error_reply",
    "filter_response_headers",
    "translate_request",
]

# Where each name comes from. Those that are not listed are events.
_HOMES = {
    "Decoder": "translate",
    "Encoder": "translate",
    "Loss": "translate",
    "Translation": "translate",
    "error_reply": "translate",
    "HeadraceError": "errors",
    "ProviderError": "errors",
    "UnsupportedFeature": "errors",
    "Message": "messages",
    "ModelRequest": "messages",
    "Options": "messages",
    "REMOVE": "requests",
    "RefusedError": "runtime",
    "Runtime": "runtime",
    "SyncRuntime": "runtime",
    "Tool": "messages",
    "filter_response_headers": "translate",
    "translate_request": "translate",
}

__version__: str


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("headrace")
    elif name in __all__:
        value = getattr(importlib.import_module(f"headrace.{_HOMES.get(name, 'events')}"), name)
    else:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
