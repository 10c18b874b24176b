"""Tool loops of two turns: what each provider answers in our own streams, and what its SDK sends in the second turn.

Every answer reasons, keeps that state which its vendor wants back, says a few words and asks for two tools at once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore.config import Config
from google.genai import types
from openai.lib.streaming.chat import ChatCompletionStreamState

from headrace.providers.mistral import DIALECT
from tests.support.bedrock_fixtures import block, call, claude, end, ended, reasoning, stop, text
from tests.support.eventstream import event
from tests.support.sdks import Replay

ASKED = "How deep is it?"
RESULTS = ("9 m", "it blows")
TOOLS = ("tide_at", "wind_at")
ARGUMENTS = ('{"port":"Dorn"}', '{"port":"Vell","deep":{"a":[1,2.5]}}')
Turn = list[dict[str, Any]]


@dataclass(frozen=True)
class Provider:
    """A provider row's wire, its answer, and the state in it that has to come back."""

    protocol: str
    answer: bytes
    content_type: str
    second: Callable[[Replay], Turn]
    """What the vendor's SDK sends of the conversation in the second turn."""
    state: tuple[str, ...]
    flags: tuple[str, ...] = ()
    thought: str = ""
    """Readable reasoning that goes back instead of a state."""


def sse(*chunks: dict[str, Any], named: bool = False, done: bool = False) -> bytes:
    lines = [(f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n" for one in chunks]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def lines(*values: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in values).encode()


# --- openai_chat, with the details that its compatible vendors keep ---


def _chat_chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat_call(at: int, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": TOOLS[at], "arguments": ""} if arguments is None else {"arguments": arguments}
    return {"tool_calls": [{"index": at, **more, "function": function}]}


CHAT = sse(
    _chat_chunk({"role": "assistant", "content": ""}),
    _chat_chunk(
        {
            "reasoning": "Two ",
            "reasoning_details": [{"type": "reasoning.text", "text": "Two ", "index": 0, "format": "f"}],
        }
    ),
    _chat_chunk(
        {"reasoning": "calls.", "reasoning_details": [{"type": "reasoning.text", "text": "calls.", "index": 0}]}
    ),
    _chat_chunk(
        {
            "reasoning_details": [
                {"type": "reasoning.text", "signature": "c2lnLWNoYXQ=", "index": 0},
                {"type": "reasoning.encrypted", "data": "b3BhcXVlLWNoYXQ=", "id": "rs_1", "index": 1},
            ]
        }
    ),
    _chat_chunk({"content": "I look."}),
    *(
        _chat_chunk(one)
        for at in (0, 1)
        for one in (_chat_call(at, id=f"call_{at}", type="function"), _chat_call(at, ARGUMENTS[at]))
    ),
    _chat_chunk({}, "tool_calls"),
    done=True,
)


def _chat_given(server: Replay) -> dict[str, Any]:
    """The message that OpenAI's SDK has put together, as a program gives it back."""
    state = ChatCompletionStreamState()
    for chunk in server.openai.chat.completions.create(model="m", messages=[], stream=True):
        state.handle_chunk(chunk)
    message = state.current_completion_snapshot.choices[0].message
    return message.model_dump(mode="json", exclude_unset=True, exclude={"parsed"})


def chat_turn(server: Replay) -> Turn:
    """The second turn of a Chat client."""
    given = _chat_given(server)
    for one in given["tool_calls"]:
        # The SDK's own helper adds them; its types for requests have neither.
        one.pop("index", None)
        one["function"].pop("parsed_arguments", None)
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(given["tool_calls"], RESULTS, strict=True)
    ]
    return [{"role": "user", "content": ASKED}, given, *results]


def _chat_second(server: Replay) -> Turn:
    messages: Any = chat_turn(server)
    server.answer(b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[]}')
    server.openai.chat.completions.create(model="m", messages=messages)
    return server.asked["messages"]


# --- Mistral's dialect of it ---

MISTRAL = sse(
    _chat_chunk({"role": "assistant", "content": ""}),
    _chat_chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Two "}]}]}),
    _chat_chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "calls."}]}]}),
    _chat_chunk({"content": "I look."}),
    _chat_chunk(
        {
            "tool_calls": [
                {"id": f"aBcDeFgH{at}", "index": at, "function": {"name": TOOLS[at], "arguments": ARGUMENTS[at]}}
                for at in (0, 1)
            ]
        },
        "tool_calls",
    ),
    done=True,
)


def _mistral_second(server: Replay) -> Turn:
    thinking, said, calls = "", "", []
    for one in server.mistral.chat.stream(model="m", messages=[]):
        delta = one.data.choices[0].delta
        calls += delta.tool_calls or []
        if isinstance(delta.content, str):
            said += delta.content
        else:
            thinking += "".join(part.text for chunk in delta.content or [] for part in chunk.thinking)
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": thinking}]},
        {"type": "text", "text": said},
    ]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": result}
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    server.answer(b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[],"usage":{}}')
    messages: Any = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": content, "tool_calls": calls},
        *results,
    ]
    server.mistral.chat.complete(model="m", messages=messages)
    return server.asked["messages"]


# --- openai_responses ---

_ITEMS: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Two calls."}],
        "encrypted_content": "ZW5jLXJlc3BvbnNlcw==",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    },
    *(
        {
            "type": "function_call",
            "id": f"fc_{at}",
            "call_id": f"call_{at}",
            "name": TOOLS[at],
            "arguments": ARGUMENTS[at],
            "status": "completed",
        }
        for at in (0, 1)
    ),
]


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": output,
    } | rest


RESPONSES = sse(
    {"type": "response.created", "sequence_number": 0, "response": _response("in_progress", [])},
    *(
        {"type": f"response.output_item.{word}", "sequence_number": 0, "output_index": at, "item": item}
        for at, item in enumerate(_ITEMS)
        for word in ("added", "done")
    ),
    {"type": "response.completed", "sequence_number": 0, "response": _response("completed", _ITEMS)},
    named=True,
)


def responses_turn(server: Replay) -> Turn:
    """The second turn of a Responses client, as Codex sends it: without ids, statuses and raw reasoning."""
    with server.openai.responses.stream(model="m", input="") as stream:
        response = stream.get_final_response()
    items = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
    for item in items:
        for key in ("id", "status", "parsed_arguments"):
            item.pop(key, None)
        if item["type"] == "reasoning":
            item["content"] = None
        for part in item.get("content") or []:
            part.pop("parsed", None)
            part.pop("logprobs", None)
    calls = [item for item in items if item["type"] == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": result}
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    return [{"type": "message", "role": "user", "content": ASKED}, *items, *results]


def _responses_second(server: Replay) -> Turn:
    items: Any = responses_turn(server)
    server.answer(json.dumps(_response("completed", [])).encode())
    server.openai.responses.create(model="m", input=items)
    return server.asked["input"]


# --- anthropic_messages, and Bedrock's host of it ---

_BLOCKS = [
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Two "},
        {"type": "thinking_delta", "thinking": "calls."},
        {"type": "signature_delta", "signature": "c2lnLW1lc3NhZ2Vz"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "cmVkLW1lc3NhZ2Vz"}),
    *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."}),
    *(
        one
        for at in (0, 1)
        for one in block(
            3 + at,
            {"type": "tool_use", "id": f"toolu_{at}", "name": TOOLS[at], "input": {}},
            {"type": "input_json_delta", "partial_json": ARGUMENTS[at]},
        )
    ),
    *ended("tool_use"),
]
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
MESSAGES = sse(
    {"type": "message_start", "message": _MESSAGE | {"usage": {"input_tokens": 12, "output_tokens": 1}}},
    *_BLOCKS,
    named=True,
)


def messages_turn(server: Replay) -> Turn:
    """The second turn of a Messages client."""
    with server.anthropic.messages.stream(max_tokens=99, model="m", messages=[]) as stream:
        message = stream.get_final_message()
    content = [one.model_dump(mode="json", exclude_none=True) for one in message.content]
    for one in content:
        one.pop("parsed_output", None)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result}
        for call, result in zip((c for c in message.content if c.type == "tool_use"), RESULTS, strict=True)
    ]
    return [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": content},
        {"role": "user", "content": results},
    ]


def _messages_second(server: Replay) -> Turn:
    if "amazon" in server.content_type:
        # The SDK's host for Bedrock takes the same out of the chunks.
        server.answer(MESSAGES, "text/event-stream")
    messages: Any = messages_turn(server)
    server.answer(json.dumps(_MESSAGE | {"usage": {"input_tokens": 1, "output_tokens": 1}}).encode())
    server.anthropic.messages.create(max_tokens=99, model="m", messages=messages)
    return server.asked["messages"]


# --- google_gemini ---


def _gemini_chunk(*parts: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "responseId": "g1"}


GEMINI = sse(
    _gemini_chunk({"text": "Two ", "thought": True}),
    _gemini_chunk({"text": "calls.", "thought": True}),
    _gemini_chunk({"text": "I look."}),
    _gemini_chunk(
        {
            "functionCall": {"id": "g0", "name": TOOLS[0], "args": json.loads(ARGUMENTS[0])},
            "thoughtSignature": "c2lnLWdlbWluaQ==",
        },
        {"functionCall": {"id": "g1", "name": TOOLS[1], "args": json.loads(ARGUMENTS[1])}},
    ),
    _gemini_chunk({"text": ""}, reason="STOP"),
)


def gemini_turn(server: Replay) -> Turn:
    """The second turn of a Gemini client: every chunk's parts in their order, without what says nothing."""
    parts: list[types.Part] = []
    for chunk in server.google.models.generate_content_stream(model="m", contents=ASKED):
        for candidate in chunk.candidates or []:
            parts += (candidate.content and candidate.content.parts) or []
    parts = [part for part in parts if part.text != "" or part.thought_signature]
    calls = [part.function_call for part in parts if part.function_call]
    results = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": result}))
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    contents: Any = [
        types.Content(role="user", parts=[types.Part(text=ASKED)]),
        types.Content(role="model", parts=parts),
        types.Content(role="user", parts=results),
    ]
    server.answer(b'{"candidates":[{"finishReason":"STOP"}]}')
    server.google.models.generate_content(model="m", contents=contents)
    return server.asked["contents"]


# --- Bedrock's Converse ---

CONVERSE = (
    event("messageStart", {"role": "assistant"})
    + reasoning(0, {"text": "Two "}, {"text": "calls."}, {"signature": "c2lnLWNvbnZlcnNl"})
    + stop(0)
    + reasoning(1, {"redactedContent": "cmVkLWNvbnZlcnNl"})
    + stop(1)
    + text(2, "I look.")
    + stop(2)
    + b"".join(call(3 + at, f"tooluse_{at}", TOOLS[at], ARGUMENTS[at]) + stop(3 + at) for at in (0, 1))
    + end("tool_use")
)


def _converse_second(server: Replay) -> Turn:
    client = botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=server.url,
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - nobody's
        config=Config(retries={"max_attempts": 1}),
    )
    blocks: dict[int, dict[str, Any]] = {}
    for one in client.converse_stream(modelId="m", messages=[])["stream"]:
        for value in one.values():
            at = value.get("contentBlockIndex")
            if "start" in value:
                blocks[at] = {"toolUse": value["start"]["toolUse"] | {"input": ""}}
            delta = value.get("delta", {})
            if "text" in delta:
                blocks.setdefault(at, {"text": ""})["text"] += delta["text"]
            if "toolUse" in delta:
                blocks[at]["toolUse"]["input"] += delta["toolUse"]["input"]
            if hidden := delta.get("reasoningContent", {}).get("redactedContent"):
                blocks[at] = {"reasoningContent": {"redactedContent": hidden}}
            elif thought := delta.get("reasoningContent"):
                whole = blocks.setdefault(at, {"reasoningContent": {"reasoningText": {"text": ""}}})
                signed = whole["reasoningContent"]["reasoningText"]
                for key, piece in thought.items():
                    signed[key] = signed.get(key, "") + piece
    content = [blocks[at] for at in sorted(blocks)]
    uses = [one["toolUse"] for one in content if "toolUse" in one]
    for use in uses:
        use["input"] = json.loads(use["input"])
    results = [
        {"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": result}]}}
        for use, result in zip(uses, RESULTS, strict=True)
    ]
    server.answer(b'{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}')
    client.converse(
        modelId="m",
        messages=[
            {"role": "user", "content": [{"text": ASKED}]},
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ],
    )
    client.close()
    return server.asked["messages"]


# --- Cohere and Ollama ---


def _cohere_event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    return {"type": kind, **({} if index is None else {"index": index}), "delta": {"message": message}}


COHERE = sse(
    {"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant"}}},
    _cohere_event("content-start", 0, content={"type": "thinking", "thinking": ""}),
    _cohere_event("content-delta", 0, content={"thinking": "Two "}),
    _cohere_event("content-delta", 0, content={"thinking": "calls."}),
    {"type": "content-end", "index": 0},
    _cohere_event("content-start", 1, content={"type": "text", "text": ""}),
    _cohere_event("content-delta", 1, content={"text": "I look."}),
    {"type": "content-end", "index": 1},
    *(
        one
        for at in (0, 1)
        for one in (
            _cohere_event(
                "tool-call-start",
                at,
                tool_calls={"id": f"co_{at}", "type": "function", "function": {"name": TOOLS[at], "arguments": ""}},
            ),
            _cohere_event("tool-call-delta", at, tool_calls={"function": {"arguments": ARGUMENTS[at]}}),
            {"type": "tool-call-end", "index": at},
        )
    ),
    {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    named=True,
)


def _cohere_second(server: Replay) -> Turn:
    content: dict[int, dict[str, str]] = {}
    calls: dict[int, dict[str, Any]] = {}
    for one in server.cohere.chat_stream(model="m", messages=[]):
        delta: Any = getattr(one, "delta", None)
        match one.type:
            case "content-start":
                content[one.index] = {"type": delta.message.content.type}
            case "content-delta":
                part, piece = content[one.index], delta.message.content
                part[part["type"]] = part.get(part["type"], "") + (piece.text or piece.thinking)
            case "tool-call-start":
                calls[one.index] = delta.message.tool_calls.model_dump()
            case "tool-call-delta":
                calls[one.index]["function"]["arguments"] += delta.message.tool_calls.function.arguments
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(calls.values(), RESULTS, strict=True)
    ]
    messages: Any = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": list(content.values()), "tool_calls": list(calls.values())},
        *results,
    ]
    server.answer(b'{"id":"m","finish_reason":"COMPLETE","message":{"role":"assistant"}}')
    server.cohere.chat(model="m", messages=messages)
    return server.asked["messages"]


def _ollama_line(done: bool = False, **message: Any) -> dict[str, Any]:
    line = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": ""} | message,
    }
    return line | ({"done": True, "done_reason": "stop"} if done else {"done": False})


OLLAMA = lines(
    _ollama_line(thinking="Two "),
    _ollama_line(thinking="calls."),
    _ollama_line(content="I look."),
    _ollama_line(
        tool_calls=[{"function": {"name": TOOLS[at], "arguments": json.loads(ARGUMENTS[at])}} for at in (0, 1)]
    ),
    _ollama_line(done=True),
)


def ollama_turn(server: Replay) -> Turn:
    """The second turn of an Ollama client, as its documentation puts it together."""
    thinking, said, calls = "", "", list[Any]()
    for one in server.ollama.chat(model="m", messages=[], stream=True):
        thinking += one.message.thinking or ""
        said += one.message.content or ""
        calls += one.message.tool_calls or []
    results = [
        {"role": "tool", "tool_name": call.function.name, "content": result}
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    server.answer(json.dumps(_ollama_line(done=True)).encode())
    given = {"role": "assistant", "thinking": thinking, "content": said, "tool_calls": calls}
    server.ollama.chat(model="m", messages=[{"role": "user", "content": ASKED}, given, *results])
    return server.asked["messages"]


STREAM, EVENTS = "text/event-stream", "application/vnd.amazon.eventstream"
PROVIDERS = {
    "openai_chat": Provider(
        "openai_chat", CHAT, STREAM, _chat_second, ("c2lnLWNoYXQ=", "b3BhcXVlLWNoYXQ="), ("openai_compatible",)
    ),
    "mistral": Provider(
        "openai_chat", MISTRAL, STREAM, _mistral_second, (), (*DIALECT, "effort"), thought="Two calls."
    ),
    "openai_responses": Provider("openai_responses", RESPONSES, STREAM, _responses_second, ("ZW5jLXJlc3BvbnNlcw==",)),
    "anthropic_messages": Provider(
        "anthropic_messages", MESSAGES, STREAM, _messages_second, ("c2lnLW1lc3NhZ2Vz", "cmVkLW1lc3NhZ2Vz")
    ),
    "google_gemini": Provider("google_gemini", GEMINI, STREAM, gemini_turn, ("c2lnLWdlbWluaQ==",)),
    "bedrock_converse": Provider(
        "bedrock_converse", CONVERSE, EVENTS, _converse_second, ("c2lnLWNvbnZlcnNl", "cmVkLWNvbnZlcnNl")
    ),
    "bedrock_invoke": Provider(
        "bedrock_invoke",
        claude(*_BLOCKS),
        EVENTS,
        _messages_second,
        ("c2lnLW1lc3NhZ2Vz", "cmVkLW1lc3NhZ2Vz"),
    ),
    "cohere_chat": Provider("cohere_chat", COHERE, STREAM, _cohere_second, (), ("effort",), thought="Two calls."),
    "ollama_chat": Provider(
        "ollama_chat", OLLAMA, "application/x-ndjson", ollama_turn, (), ("effort",), thought="Two calls."
    ),
}

CLIENTS: dict[str, tuple[str, Callable[[Replay], Turn]]] = {
    "openai_chat": ("messages", chat_turn),
    "openai_responses": ("input", responses_turn),
    "anthropic_messages": ("messages", messages_turn),
    "google_gemini": ("contents", gemini_turn),
    "ollama_chat": ("messages", ollama_turn),
}
"""Where a client's body has its conversation, and its second turn, after what it read from the server."""


def hidden(state: str) -> set[str]:
    """The spellings that a state may hide in."""
    return {state, base64.urlsafe_b64encode(state.encode()).decode().rstrip("=")}
