"""The only importer of the native module: what the rest of the package may take from it.

No policy, and no value that is not native.
"""

from __future__ import annotations

from headrace._core import (
    Annotation,
    AssembledFrom,
    Attach,
    BodyRecipe,
    Continuation,
    Decoder,
    DemoRef,
    FailureRef,
    GatewayConfig,
    GatewayRef,
    HostedTool,
    Media,
    ModelFinished,
    ModelStarted,
    ProviderErrorEvent,
    ReasoningDelta,
    RefusalDelta,
    RequestRef,
    SettlementRef,
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
    "BodyRecipe",
    "Continuation",
    "Decoder",
    "DemoRef",
    "FailureRef",
    "GatewayConfig",
    "GatewayRef",
    "HostedTool",
    "Media",
    "ModelFinished",
    "ModelStarted",
    "ProviderErrorEvent",
    "ReasoningDelta",
    "RefusalDelta",
    "RequestRef",
    "SettlementRef",
    "TextDelta",
    "ToolIntentDelta",
    "ToolIntentProposed",
    "Usage",
    "filter_response_headers",
    "toml_document",
]
