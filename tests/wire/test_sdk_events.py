"""Every event, item and block that the vendors' SDKs know is taken, with the meaning that it has.

One instance of each is made from the SDK's own types. What is new in a later SDK makes these tests fail until somebody
says what it is.
"""

from __future__ import annotations

import json
import types
import typing
from typing import Any

import pydantic
import pytest
from anthropic.types.beta import BetaContentBlock, BetaRawMessageStreamEvent
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent

from headrace import Decoder

ENDS = {
    "response.completed": "model.finished",
    "response.incomplete": "model.finished",
    "response.failed": "provider.error",
    "error": "provider.error",
}
CALLS = {"function_call", "custom_tool_call"}
ACTIONS = {"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"}
ITEMS = {
    "message": {"model.text_delta"},
    "reasoning": {"model.reasoning_delta", "model.continuation"},
    "compaction": {"model.continuation"},
    "image_generation_call": {"model.hosted_tool", "model.media"},
    # What only a client sends, or what belongs to the prompt.
    "additional_tools": set(),
    "mcp_approval_response": set(),
    **{kind: {"tool_intent.proposed"} for kind in CALLS | ACTIONS},
}
"""What each output item gives besides deltas of its call; any other is a tool that the provider ran."""
BLOCKS = {
    "text": {"model.text_delta"},
    "thinking": {"model.reasoning_delta", "model.continuation"},
    "redacted_thinking": {"model.continuation"},
    "compaction": {"model.continuation"},
    "tool_use": {"tool_intent.proposed"},
    "fallback": set(),
}


def members(union: Any) -> list[type[pydantic.BaseModel]]:
    """The classes of a union, however it is wrapped."""
    if typing.get_origin(union) is typing.Annotated:
        return members(typing.get_args(union)[0])
    if typing.get_origin(union) in (typing.Union, types.UnionType):
        return [cls for part in typing.get_args(union) for cls in members(part)]
    return [union]


def sample(kind: Any) -> Any:
    """A value of this type: the first choice of a union, one item in a list, every field of a model."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return args[0]
    if origin in (typing.Annotated, typing.Union, types.UnionType):
        return sample(args[0])
    if origin in (list, dict):
        return [sample(args[0])] if origin is list else {"key": sample(args[1])}
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        return {field.alias or name: sample(field.annotation) for name, field in kind.model_fields.items()}
    return {str: "{}", int: 1, float: 1.0, bool: True}.get(kind, {})


def kind_of(cls: type[pydantic.BaseModel]) -> str:
    return str(sample(cls)["type"])


def decode(protocol: str, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    decoder = Decoder(protocol)
    body = b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)
    return [event.to_dict() for event in decoder.feed(body) + decoder.finish("eof")]


CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "model": "m", "output": []}}


@pytest.mark.parametrize("cls", members(ResponseStreamEvent), ids=kind_of)
def test_a_responses_event_is_taken(cls):
    event = sample(cls)
    if isinstance(response := event.get("response"), dict):
        response |= {"id": "resp_1", "output": [], "incomplete_details": None}
    events = decode("openai_responses", [CREATED, event, COMPLETED])
    assert events[-1]["type"] == ENDS.get(event["type"], "model.finished")
    assert events[-1].get("kind") not in ("stream_interrupted", "malformed_tool_call")
    if event["type"] == "response.output_text.delta":
        assert [e["text"] for e in events if e["type"] == "model.text_delta"] == ["{}"]


@pytest.mark.parametrize("cls", members(ResponseOutputItem), ids=kind_of)
@pytest.mark.parametrize("whole", [False, True], ids=["stream", "whole"])
def test_a_responses_item_is_what_it_is(cls, whole):
    item = sample(cls)
    if "status" in item:
        item["status"] = "completed"
    if item["type"] == "message":
        item["content"][0]["annotations"] = []
    if item["type"] == "shell_call":
        item["environment"] = {"type": "local"}
    if whole:
        body = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item]}
        decoder = Decoder("openai_responses")
        events = [e.to_dict() for e in decoder.feed(json.dumps(body).encode()) + decoder.finish("eof")]
    else:
        added = {"type": "response.output_item.added", "output_index": 0, "item": item}
        events = decode("openai_responses", [CREATED, added, added | {"type": "response.output_item.done"}, COMPLETED])
    given = {e["type"] for e in events} - {"model.started", "model.finished", "tool_intent.delta"}
    assert given == ITEMS.get(item["type"], {"model.hosted_tool"})
    acts = item["type"] in CALLS | ACTIONS
    assert events[-1]["reason"] == ("tool_intents" if acts else "stop")
    if item["type"] in ACTIONS:
        intent = next(e for e in events if e["type"] == "tool_intent.proposed")
        envelope = {"type", "id", "call_id", "status", "created_by", "caller"}
        assert (intent["tool_name"], set(intent["input"])) == (item["type"], set(item) - envelope)


@pytest.mark.parametrize("cls", members(BetaRawMessageStreamEvent), ids=kind_of)
def test_a_messages_event_is_taken(cls):
    event = sample(cls)
    start = {"type": "message_start", "message": {"id": "{}", "model": "m", "content": []}}
    if event["type"] == "message_start":
        event["message"]["content"] = []
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    events = decode("anthropic_messages", [start, event, end, {"type": "message_stop"}])
    ended = "provider.error" if event["type"] == "message_stop" else "model.finished"
    assert events[-1]["type"] == ended


@pytest.mark.parametrize("cls", members(BetaContentBlock), ids=kind_of)
def test_a_messages_block_is_what_it_is(cls):
    block = sample(cls)
    block["citations"] = None
    start = {"type": "message_start", "message": {"id": "m1", "model": "m", "content": []}}
    body = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    events = decode("anthropic_messages", body)
    given = {e["type"] for e in events} - {"model.started", "model.usage", "model.finished", "tool_intent.delta"}
    assert given == BLOCKS.get(block["type"], {"model.hosted_tool"})
    assert events[-1]["reason"] == ("tool_intents" if block["type"] == "tool_use" else "stop")
