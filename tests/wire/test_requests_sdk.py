"""Requests against the vendors' own SDKs: what we send is what their types know, and no field of theirs is lost unsaid.

1. Every translated body is a value of the target SDK's create parameters, keys that they do not know included.
2. Every field that a source SDK knows is tried by itself: it changes the target's body, or is reported, or is refused.
   `SILENT` names the exceptions, each with its reason; one that no longer holds fails.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import typing_extensions
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import ConfigDict, TypeAdapter, ValidationError

from headrace import UnsupportedFeature, translate_request
from headrace.errors import BadRequestError
from headrace.messages import (
    Continuation,
    File,
    Image,
    Message,
    ModelRequest,
    Options,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)

PARAMS: Mapping[str, Any] = {
    "openai_chat": CompletionCreateParamsNonStreaming,
    "openai_responses": ResponseCreateParamsNonStreaming,
    "anthropic_messages": MessageCreateParamsNonStreaming,
}
PAIRS = [(source, target) for source in PARAMS for target in PARAMS if source != target]

ORIGINS = (
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing.Required,
    typing.NotRequired,
    typing.Annotated,
)


def bare(annotation: Any) -> Any:
    while typing.get_origin(annotation) in ORIGINS:
        annotation = typing.get_args(annotation)[0]
    return annotation


def is_required(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing_extensions.Required, typing.Required)


def hints(cls: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(cls, vars(sys.modules[cls.__module__]), include_extras=True)


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, `None` left out; anything else alone."""
    annotation = bare(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Union or getattr(origin, "__name__", "") in ("UnionType", "Union"):
        return [one for arg in typing.get_args(annotation) if arg is not type(None) for one in alternatives(arg)]
    return [annotation]


# --- 1: what is sent --------------------------------------------------------------------------------------------------


def forbid_unknown_keys(cls: Any, seen: set[Any]) -> None:
    """Make pydantic refuse keys that a TypedDict does not know, all the way down."""
    cls = bare(cls)
    if typing_extensions.is_typeddict(cls):
        if cls in seen:
            return
        seen.add(cls)
        cls.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        for annotation in hints(cls).values():
            forbid_unknown_keys(annotation, seen)
    for arg in typing.get_args(cls):
        if not isinstance(arg, str):
            forbid_unknown_keys(arg, seen)


def exhaust(value: Any) -> Any:
    """Pull what pydantic validates lazily (`Iterable` fields)."""
    if isinstance(value, Mapping):
        return {key: exhaust(item) for key, item in value.items()}
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    return [exhaust(item) for item in value]


@pytest.fixture(scope="module")
def adapters() -> Mapping[str, TypeAdapter[Any]]:
    seen: set[Any] = set()
    for cls in PARAMS.values():
        forbid_unknown_keys(cls, seen)
    return {name: TypeAdapter(cls) for name, cls in PARAMS.items()}


CONVERSATIONS: Mapping[str, dict[str, Any]] = {
    "openai_chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "brief"},
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
                ],
            },
            {
                "role": "assistant",
                "content": "hm",
                "tool_calls": [
                    {"id": "c:1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "go"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c:1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}},
            {
                "type": "custom",
                "custom": {
                    "name": "g",
                    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}},
                },
            },
        ],
        "tool_choice": {"type": "custom", "custom": {"name": "g"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 100,
        "reasoning_effort": "high",
        "temperature": 0.5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "metadata": {"a": "b"},
        "service_tier": "default",
        "store": True,
        "user": "u",
        "verbosity": "low",
    },
    "openai_responses": {
        "model": "m",
        "instructions": "brief",
        "input": [
            {"role": "developer", "content": "dev"},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "https://x/a.png", "detail": "auto"},
                    {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "ns"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "go"},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "r"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                ],
            },
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "s"},
            {"type": "message", "role": "assistant", "content": "done"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [
            {
                "type": "namespace",
                "name": "ns",
                "description": "d",
                "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}],
            },
            {"type": "custom", "name": "g", "format": {"type": "text"}},
        ],
        "tool_choice": "required",
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        "max_output_tokens": 50,
        "store": False,
        "safety_identifier": "s",
    },
    "anthropic_messages": {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {
                        "type": "document",
                        "title": "t.pdf",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": [1]}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "is_error": True,
                        "content": [
                            {"type": "text", "text": "r"},
                            {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
                        ],
                    },
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "strict": True}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "metadata": {"user_id": "u"},
    },
}


def validate(adapter: TypeAdapter[Any], body: bytes) -> None:
    # Streaming is another class with the same fields.
    value = json.loads(body)
    value.pop("stream", None)
    exhaust(adapter.validate_python(value))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_translated_conversation_is_what_the_targets_sdk_knows(source, target, adapters):
    validate(adapters[source], json.dumps(CONVERSATIONS[source]).encode())
    made = translate_request(json.dumps(CONVERSATIONS[source]).encode(), source=source, target=target, model="theirs")
    validate(adapters[target], made.body)
    assert json.loads(made.body)["model"] == "theirs"


@pytest.mark.parametrize("target", PARAMS)
def test_the_librarys_own_request_is_what_the_targets_sdk_knows(target, adapters):
    continuation = {
        "openai_chat": ("details", '[{"type":"reasoning.text","text":"hm"}]'),
        "openai_responses": ("encrypted", "gAAA"),
        "anthropic_messages": ("signature", "EqQB"),
    }
    form, data = continuation[target]
    request = ModelRequest(
        model="primary",
        messages=(
            Message.system("brief"),
            Message(
                "user",
                (Text("see"), Image.from_bytes(b"\x89PNG", "image/png"), File("a.pdf", "application/pdf", "AAAA")),
            ),
            Message(
                "assistant",
                (
                    Reasoning("hm"),
                    # Chat's slot is a vendor's, which OpenAI's own SDK does not know.
                    *(() if target == "openai_chat" else (Continuation(target, form, data),)),
                    Text("look"),
                    ToolCall("c:1", "f", '{"a":1}'),
                    ToolCall("c2", "g", "go", kind="custom"),
                ),
            ),
            Message("tool", (ToolResult("c:1", (Text("r"), Image(url="https://x/a.png")), is_error=True),)),
            Message("tool", (ToolResult("c2", (Text("s"),)),)),
            Message.user("go on"),
        ),
        tools=(Tool("f", "d", '{"type": "object"}', strict=True), Tool("g", kind="custom")),
        options=Options(
            max_output_tokens=100,
            temperature=0.5,
            tool_choice=ToolChoice("auto"),
            parallel_tool_calls=False,
            reasoning_effort="high",
            reasoning_summary="auto",
            response_format='{"type": "json_schema", "name": "n", "schema": {"type": "object"}}',
            user="u",
            metadata={"a": "b"},
        ),
    )
    made = translate_request(request.to_json(), source="headrace", target=target, model="theirs")
    validate(adapters[target], made.body)
    for text in ("brief", "see", "look", "go on"):
        assert text.encode() in made.body
    assert (data.encode() in made.body) is (target != "openai_chat")


def test_the_sdks_types_would_notice_a_wrong_key(adapters):
    for name, conversation in CONVERSATIONS.items():
        with pytest.raises(ValidationError):
            validate(adapters[name], json.dumps(conversation | {"surprise": 1}).encode())


def recorded(shared: pathlib.Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    folders = {family: family for family in PARAMS} | {"openai_compatible": "openai_chat"}
    for folder, family in folders.items():
        for line in (shared / "recordings" / folder / "requests.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            if "messages" in row["request"] or "input" in row["request"]:
                yield row["file"], family, row["request"]


@pytest.mark.parametrize("target", PARAMS)
def test_what_real_clients_sent_becomes_what_the_targets_sdk_knows(target, adapters, shared):
    made = refused = 0
    for file, source, request in recorded(shared):
        if source == target:
            continue
        try:
            body = translate_request(json.dumps(request).encode(), source=source, target=target, model="theirs").body
        except UnsupportedFeature:
            refused += 1
            continue
        try:
            validate(adapters[target], body)
        except ValidationError as error:
            pytest.fail(f"{file}: {error}\n{body.decode()}")
        made += 1
    assert made > 20
    assert refused < made / 3


# --- 2: what is read --------------------------------------------------------------------------------------------------

COUNTER = itertools.count(1)


def plain(annotation: Any, path: str) -> Any:
    """The smallest value of a type: objects with their required keys alone."""
    annotation = alternatives(annotation)[0]
    origin = typing.get_origin(annotation)
    simple = {bool: True, int: 5, float: 0.5, str: STRINGS.get(path.rsplit(".", 1)[-1], "x")}
    if typing_extensions.is_typeddict(annotation):
        required = {key: plain(of, f"{path}.{key}") for key, of in hints(annotation).items() if is_required(of)}
        return required | FILLED.get(annotation.__name__, {})
    if origin in (typing.Literal, typing_extensions.Literal):
        return typing.get_args(annotation)[0]
    if annotation in simple:
        return simple[annotation]
    return [] if origin not in (None, dict) else {}


#: Strings that have a form of their own.
STRINGS = {
    "url": "https://x/a.png",
    "image_url": "https://x/a.png",
    "file_data": "data:application/pdf;base64,AAAA",
    "arguments": "{}",
}

#: What an object needs besides its required keys before anything can be said of the others.
FILLED: Mapping[str, Mapping[str, Any]] = {
    "CompletionCreateParamsNonStreaming": {"tools": [{"type": "function", "function": {"name": "x"}}]},
    "ResponseCreateParamsNonStreaming": {
        "input": [],
        "tools": [{"type": "function", "name": "x", "parameters": None, "strict": None}],
    },
    "MessageCreateParamsNonStreaming": {"tools": [{"name": "x", "input_schema": {}}]},
    "FileFile": {"file_data": "data:application/pdf;base64,AAAA"},
    "ResponseInputImageParam": {"image_url": "https://x/a.png"},
    "ResponseInputImageContentParam": {"image_url": "https://x/a.png"},
    "ResponseInputFileParam": {"file_data": "data:application/pdf;base64,AAAA"},
    "ResponseInputFileContentParam": {"file_data": "data:application/pdf;base64,AAAA"},
    "FunctionCallOutput": {"call_id": "x"},
}


def values(annotation: Any, path: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    """`(path of the field, value without it, value with it)` for every field below a type."""
    if depth > 9:
        return
    for one in alternatives(annotation):
        if typing_extensions.is_typeddict(one):
            yield from fields(one, path, depth)
        elif (item := item_of(one)) is not None:
            for where, without, with_it in values(item, f"{path}[]", depth + 1):
                yield where, [without], [with_it]


def fields(cls: Any, path: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    base = plain(cls, path)
    for key, of in hints(cls).items():
        here = f"{path}.{key}" if path else key
        for option in [] if is_required(of) else alternatives(of):
            asked = marked(option, here)
            # An empty object or list asks for nothing; what it may hold is tried below.
            if asked not in ({}, []):
                yield here, {k: v for k, v in base.items() if k != key}, base | {key: asked}
        for where, without, with_it in values(of, here, depth + 1):
            yield where, base | {key: without}, base | {key: with_it}


def item_of(annotation: Any) -> Any:
    """The items' type of a list; None for what is none."""
    if typing.get_origin(annotation) in (None, dict, typing.Literal, typing_extensions.Literal):
        return None
    args = typing.get_args(annotation)
    return args[0] if len(args) == 1 else None


def marked(option: Any, path: str) -> Any:
    """A value that asks for something, told from the smallest one."""
    origin = typing.get_origin(option)
    number = next(COUNTER)
    key = path.rsplit(".", 1)[-1]
    simple = {str: f"mark{number}", int: 3000 + number, float: 0.25}
    if option is str and key in STRINGS and key != "arguments":
        return STRINGS[key].replace("x", f"x{number}")
    if option in simple:
        return simple[option]
    if origin is dict:
        return {f"mark{number}": "1"}
    if origin in (typing.Literal, typing_extensions.Literal):
        return typing.get_args(option)[-1]
    item = item_of(option)
    if item is None:
        return plain(option, path)
    inner = plain(item, f"{path}[]")
    return [inner if inner not in ("x", {}) else f"mark{number}"]


#: Fields that change nothing in the target and are not reported: path, and why that is no loss.
SILENT: Mapping[str, str] = {
    "input[].type": "an item with a role is a message",
    "model": "the provider's own name takes its place",
    "modalities": "text alone is what there is",
    "parallel_tool_calls": "parallel calls are what Messages does",
    "response_format": "text is the default",
    "response_format.json_schema.strict": "strict is what Messages is",
    "stream": "not streaming is how it is without it",
    "stream_options.include_usage": "the encoder writes the usage chunk",
    "text.format": "text is the default",
    "text.format.strict": "strict is what Messages is",
    "thinking": "adaptive: the target decides how much it thinks",
    "thinking.display": "omitted is what the target does without being asked",
    "tools[].custom.format": "any text is the default",
    "tools[].format": "any text is the default",
    "input[].tools[].format": "any text is the default",
    "tools[].type": "custom is a function, as it is without a type",
    "truncation": "disabled is the default",
}


def is_about(loss: str, path: str) -> bool:
    """Whether a loss tells of a field: it is the field, a part of it, what it is a part of, or the type of that."""
    loss = loss.partition(".type:")[0]

    def within(inner: str, outer: str) -> bool:
        return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))

    return within(loss, path) or within(path, loss)


def unsaid(source: str, target: str) -> tuple[int, dict[str, str], dict[str, str]]:
    """How many fields were tried; those that change nothing and are not reported; those that made a body invalid."""
    tried = 0
    silent: dict[str, str] = {}
    broken: dict[str, str] = {}
    for path, without, with_it in values(PARAMS[source], "", 0):
        tried += 1
        try:
            made = translate_request(json.dumps(with_it).encode(), source=source, target=target, model="m")
        except UnsupportedFeature:
            continue
        except BadRequestError as error:
            broken[path] = f"{error}: {json.dumps(with_it)[:300]}"
            continue
        if any(is_about(loss.path, path) for loss in made.losses):
            continue
        try:
            base = translate_request(json.dumps(without).encode(), source=source, target=target, model="m")
        except (UnsupportedFeature, BadRequestError):
            # Without the field there is nothing to compare with: it is what made the body one.
            continue
        if base.body == made.body:
            silent[path] = json.dumps(with_it)[:400]
    return tried, silent, broken


def test_no_field_of_an_sdk_is_lost_unsaid():
    seen: set[str] = set()
    for source, target in PAIRS:
        tried, silent, broken = unsaid(source, target)
        assert not broken, "\n".join(f"{source} -> {target} {path}: {said}" for path, said in broken.items())
        surprising = {path: body for path, body in silent.items() if path not in SILENT}
        assert not surprising, "\n".join(f"{source} -> {target} {path}: {body}" for path, body in surprising.items())
        assert tried > 60, (source, target, tried)
        seen |= silent.keys()
    assert seen == SILENT.keys(), "no longer silent"
