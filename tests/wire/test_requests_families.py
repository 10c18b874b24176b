"""Requests to Cohere, Mistral and Ollama against the vendors' own SDKs: what they would send, and nothing that they
do not know.

The body that we make is given to the SDK's own call, as arguments; what the SDK then sends is our body. A key that
the SDK does not know is refused at the top, and found by `unknown` beneath it.
"""

from __future__ import annotations

import json
from typing import Any

import cohere
import httpx
import mistralai.client
import ollama
import pydantic
import pytest
from cohere.types import chat_message_v2
from mistralai.client.models import ChatCompletionRequest

from headrace import translate_request
from headrace.messages import Image, Message, ModelRequest, Options, Reasoning, Text, Tool, ToolCall, ToolResult
from headrace.providers.mistral import DIALECT

MESSAGES_OF_COHERE = {
    "system": chat_message_v2.SystemChatMessageV2,
    "user": chat_message_v2.UserChatMessageV2,
    "assistant": chat_message_v2.AssistantChatMessageV2,
    "tool": chat_message_v2.ToolChatMessageV2,
}
FLAGS = {"mistral": (*DIALECT, "effort"), "cohere": ("effort",), "ollama": ("effort",)}
TARGETS = {"mistral": "openai_chat", "cohere": "cohere_chat", "ollama": "ollama_chat"}
SCHEMA = '{"type": "object", "properties": {"port": {"type": "string"}}}'

NEUTRAL = ModelRequest(
    model="primary",
    messages=(
        Message.system("brief"),
        Message("user", (Text("see"), Image.from_bytes(b"\x89PNG", "image/png"))),
        Message(
            "assistant",
            (Reasoning("hm"), Text("look"), ToolCall("c:1", "f", '{"port":"Brest"}'), ToolCall("c2", "g", "{}")),
        ),
        Message("tool", (ToolResult("c:1", (Text("no such port"),), is_error=True),)),
        Message("tool", (ToolResult("c2", (Text("s"),)),)),
        Message.user("go on"),
    ),
    tools=(Tool("f", "d", SCHEMA, strict=True), Tool("g", "e", SCHEMA)),
    options=Options(
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=("END",),
        reasoning_effort="high",
        response_format='{"type": "json_schema", "name": "n", "schema": {"type": "object"}}',
        user="u",
    ),
)
CLIENTS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c:1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "f", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "c:1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
        ],
        "tool_choice": "auto",
        "max_completion_tokens": 100,
        "reasoning_effort": "low",
        "presence_penalty": 0.5,
        "stop": ["END"],
        "seed": 3,
    },
    "openai_responses": {
        "model": "m",
        "instructions": "brief",
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "go"},
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "s"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
            {"type": "custom", "name": "g", "description": "e"},
        ],
        "reasoning": {"effort": "medium"},
        "max_output_tokens": 50,
    },
    "anthropic_messages": {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "see"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": ""},
                    {"type": "text", "text": "a"},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1]}},
                    {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [
                            {"type": "text", "text": "r"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                            },
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "s"},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "stop_sequences": ["END"],
        "top_k": 4,
    },
}


class CaughtError(Exception):
    """What an SDK would have sent."""

    def __init__(self, body: Any) -> None:
        self.body = body


def catch(request: httpx.Request) -> httpx.Response:
    raise CaughtError(json.loads(request.content))


def unknown(value: Any) -> list[str]:
    """The keys that no type of the SDK knows, anywhere in a parsed value."""
    if isinstance(value, pydantic.BaseModel):
        found = list(value.model_extra or {})
        return found + [key for name in type(value).model_fields for key in unknown(getattr(value, name))]
    if isinstance(value, (list, tuple)):
        return [key for item in value for key in unknown(item)]
    return []


def sent_by_cohere(body: dict[str, Any]) -> Any:
    client = cohere.ClientV2(api_key="none", httpx_client=httpx.Client(transport=httpx.MockTransport(catch)))
    for message in body["messages"]:
        assert unknown(MESSAGES_OF_COHERE[message["role"]].model_validate(message)) == [], message
    assert [key for tool in body["tools"] for key in unknown(cohere.ToolV2.model_validate(tool))] == []
    arguments = {key: value for key, value in body.items() if key != "stream"}
    with pytest.raises(CaughtError) as caught:
        client.chat(**arguments)
    return caught.value.body


def sent_by_mistral(body: dict[str, Any]) -> Any:
    assert unknown(ChatCompletionRequest.model_validate(body)) == []
    client = mistralai.client.Mistral(
        api_key="none", client=httpx.Client(transport=httpx.MockTransport(catch)), retry_config=None
    )
    with pytest.raises(CaughtError) as caught:
        client.chat.complete(**{key: value for key, value in body.items() if key != "stream"})
    return caught.value.body


def sent_by_ollama(body: dict[str, Any]) -> Any:
    client = ollama.Client(host="http://127.0.0.1:9", transport=httpx.MockTransport(catch))
    with pytest.raises(CaughtError) as caught:
        client.chat(**body | {"stream": False})
    return caught.value.body


SENT = {"cohere": sent_by_cohere, "mistral": sent_by_mistral, "ollama": sent_by_ollama}


DEFAULTS: dict[str, dict[str, Any]] = {
    # What its SDK says though it means nothing.
    "mistral": {"prefix": False, "index": 0},
    # Empty content is left out by its SDK; calls pair by id with newer servers, which its types do not know; and
    # schemas are not kept whole.
    "ollama": {"content": "", "id": ..., "tool_call_id": ..., "additionalProperties": ...},
    "cohere": {},
}


def plain(vendor: str, value: Any) -> Any:
    """A body without the keys of `DEFAULTS`, where they have these values."""
    if isinstance(value, list):
        return [plain(vendor, item) for item in value]
    if not isinstance(value, dict):
        return value
    known = DEFAULTS[vendor]
    return {k: plain(vendor, v) for k, v in value.items() if not (k in known and known[k] in (v, ...))}


@pytest.mark.parametrize("vendor", SENT)
@pytest.mark.parametrize("source", [*CLIENTS, "headrace"])
def test_what_is_sent_is_what_the_vendors_sdk_would_send(vendor, source):
    body = NEUTRAL.to_json() if source == "headrace" else json.dumps(CLIENTS[source]).encode()
    made = translate_request(body, source=source, target=TARGETS[vendor], model="theirs", target_flags=FLAGS[vendor])
    ours = json.loads(made.body)
    # The texts of a prompt are all there, and what was thought goes back.
    for text in ("go on", "brief" if source != "openai_chat" else "a\\n\\nb", "hm"):
        assert text.encode() in made.body, text
    theirs = SENT[vendor](json.loads(made.body))
    assert plain(vendor, {**ours, "stream": None}) == plain(vendor, {**theirs, "stream": None})


def test_a_plan_goes_back_as_the_plan_to_a_model_that_does_not_reason():
    flags = ("no_effort",)
    made = translate_request(
        NEUTRAL.to_json(), source="headrace", target="cohere_chat", model="theirs", target_flags=flags
    )
    turn = json.loads(made.body)["messages"][2]
    assert turn["tool_plan"] == "hm"
    assert turn["content"] == [{"type": "text", "text": "look"}]
    assert ("thinking" in json.loads(made.body)) is False
    assert any(loss.path == "options.reasoning_effort" for loss in made.losses)
