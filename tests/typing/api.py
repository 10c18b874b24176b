"""A user's program over the public face, for mypy and pyright in their strict modes. It is checked and never run."""

from __future__ import annotations

from typing import assert_type

import headrace
from headrace.codes import ErrorKind, FinishReason
from headrace.errors import KINDS, RateLimitError, from_event


def told(event: headrace.ModelEvent) -> str:
    match event:
        case headrace.TextDelta(text, index):
            assert_type(text, str)
            assert_type(index, int)
            return text
        case headrace.ToolIntentProposed(tool_name=name, input=arguments):
            return f"{name}({arguments})"
        case headrace.ProviderErrorEvent():
            assert_type(event.kind, ErrorKind)
            assert_type(event.retry_after_s, float | None)
            raise from_event(event)
        case headrace.ModelFinished(reason):
            assert_type(reason, FinishReason)
            return reason
        case headrace.Continuation():
            assert_type(event.attach, headrace.Attach)
            return event.attach.to
        case _:
            return event.type


def made() -> list[headrace.ModelEvent]:
    usage = headrace.Usage(input_tokens=3)
    assert_type(usage.output_tokens, int | None)
    assert_type(usage.to_json(), bytes)
    intent = headrace.ToolIntentProposed(call=0, id="t0.0", tool_name="look", raw_input_text="{}")
    assert_type(intent.assembled_from, headrace.AssembledFrom)
    return [headrace.TextDelta("a", 0, seq=1), usage, intent, headrace.ModelFinished("stop")]


def caught(error: headrace.ProviderError) -> str:
    assert_type(KINDS["auth"], type[headrace.ProviderError])
    if isinstance(error, RateLimitError) and error.event is not None:
        return error.event.phase
    return error.param or str(error)
