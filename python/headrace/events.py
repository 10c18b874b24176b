"""The events of a model's stream: native, frozen, one class each.

`match` works by class and position; `__match_args__` are the fields in their order, without `seq` and `offset`::

    match event:
        case TextDelta(text):
            print(text, end="")
        case ToolIntentProposed(tool_name=name, input=arguments):
            ...

1. An event never changes. Absent is None, and never an empty string or a 0.
2. Exactly one terminal event ends every stream: `ModelFinished` or `ProviderErrorEvent`.
3. An intent that is followed by a `ProviderErrorEvent` is void.

I/O and a provider's field names must not be added here.
"""

from __future__ import annotations

from typing import TypeAlias

from headrace._bridge import (
    Annotation,
    AssembledFrom,
    Attach,
    Continuation,
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
)

__all__ = [
    "EVENT_CLASSES",
    "Annotation",
    "AssembledFrom",
    "Attach",
    "Continuation",
    "HostedTool",
    "Media",
    "ModelEvent",
    "ModelFinished",
    "ModelStarted",
    "ProviderErrorEvent",
    "ReasoningDelta",
    "RefusalDelta",
    "TextDelta",
    "ToolIntentDelta",
    "ToolIntentProposed",
    "Usage",
    "is_terminal",
]

ModelEvent: TypeAlias = (
    ModelStarted
    | TextDelta
    | RefusalDelta
    | ReasoningDelta
    | Continuation
    | Annotation
    | HostedTool
    | Media
    | ToolIntentDelta
    | ToolIntentProposed
    | Usage
    | ModelFinished
    | ProviderErrorEvent
)
"""Any event of a model's stream."""

EVENT_CLASSES: dict[str, type[ModelEvent]] = {
    cls.type: cls
    for cls in (
        ModelStarted,
        TextDelta,
        RefusalDelta,
        ReasoningDelta,
        Continuation,
        Annotation,
        HostedTool,
        Media,
        ToolIntentDelta,
        ToolIntentProposed,
        Usage,
        ModelFinished,
        ProviderErrorEvent,
    )
}
"""The class of each event's name."""


def is_terminal(event: ModelEvent) -> bool:
    """Say whether this event ends its stream."""
    return isinstance(event, ModelFinished | ProviderErrorEvent)
