"""The only importer of the native module: what the rest of the package may take from it.

No policy, and no value that is not native.
"""

from __future__ import annotations

from headrace._core import (
    Annotation,
    AssembledFrom,
    Attach,
    Continuation,
    Decoder,
    HostedTool,
    Media,
    ModelFinished,
    ModelStarted,
    ProviderErrorEvent,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolIntentDelta,
    ToolIntentProposed,
    Usage,
    filter_response_headers,
    toml_document,
)

__all__ = [
    "Annotation",
    "AssembledFrom",
    "Attach",
    "Continuation",
    "Decoder",
    "HostedTool",
    "Media",
    "ModelFinished",
    "ModelStarted",
    "ProviderErrorEvent",
    "ReasoningDelta",
    "RefusalDelta",
    "TextDelta",
    "ToolIntentDelta",
    "ToolIntentProposed",
    "Usage",
    "filter_response_headers",
    "toml_document",
]
