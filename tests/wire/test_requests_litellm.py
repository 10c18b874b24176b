"""One conversation, sent to every provider: what we send and what LiteLLM sends for the same.

LiteLLM's bodies stand in `litellm_bodies.json`, with its version and with the differences that are meant, each with its
reason; one that is no longer there fails. They are taken anew by hand: the library is too large to install for a test.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from headrace import translate_request
from headrace.messages import Image, Message, ModelRequest, Options, Text, Tool, ToolCall, ToolResult
from headrace.providers.mistral import DIALECT
from tests.wire.test_tool_loops import differing

THEIRS = json.loads(pathlib.Path(__file__).with_name("litellm_bodies.json").read_text("utf-8"))
SCHEMA = '{"type":"object","properties":{"port":{"type":"string"}},"required":["port"],"additionalProperties":false}'
FORMAT = '{"type":"object","properties":{"sum":{"type":"string"}},"required":["sum"],"additionalProperties":false}'
REQUEST = ModelRequest(
    model="primary",
    messages=(
        Message.system("Be brief."),
        Message("user", (Text("What is this?"), Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png"))),
        Message(
            "assistant",
            (
                Text("I look."),
                ToolCall("call_1", "tide_at", '{"port":"Dorn"}'),
                ToolCall("call_2", "tide_at", '{"port":"Vell"}'),
            ),
        ),
        Message("tool", (ToolResult("call_1", (Text("9 m"),)),)),
        Message("tool", (ToolResult("call_2", (Text("no such port"),), is_error=True),)),
        Message.user("Sum up."),
    ),
    tools=(Tool("tide_at", "Tides.", SCHEMA),),
    options=Options(
        max_output_tokens=2000,
        reasoning_effort="low",
        response_format=f'{{"type":"json_schema","name":"sum","schema":{FORMAT},"strict":true}}',
    ),
)
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (name, ()) for name in THEIRS["bodies"] if name not in ("mistral", "cohere_chat", "ollama_chat")
} | {
    "mistral": ("openai_chat", (*DIALECT, "effort")),
    "cohere_chat": ("cohere_chat", ("no_effort",)),
    "ollama_chat": ("ollama_chat", ("effort",)),
    "google_gemini": ("google_gemini", ("thinking_budget",)),
}


def plain(value: Any) -> Any:
    """One spelling for what has several: texts alone and as a list of one, Google's two ways to write a key."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    told = {re.sub("_([a-z])", lambda found: found[1].upper(), key): plain(one) for key, one in value.items()}
    for key in ("content", "system", "output"):
        if isinstance(told.get(key), str):
            told[key] = [{"type": "text", "text": told[key]}]
    if told.get("type") in ("input_text", "output_text"):
        told["type"] = "text"
    return told


def test_what_we_send_is_what_litellm_sends():
    allowed = {(row["provider"], row["path"]): row["reason"] for row in THEIRS["differences"]}
    assert all(len(reason) > 20 for reason in allowed.values())
    used, wrong = set(), []
    assert TARGETS.keys() == THEIRS["bodies"].keys()
    for name, (target, flags) in TARGETS.items():
        made = translate_request(
            REQUEST.to_json(), source="headrace", target=target, model="theirs", target_flags=flags
        )
        for path, (ours, theirs) in differing(plain(json.loads(made.body)), plain(THEIRS["bodies"][name])).items():
            if path in ("model", "stream"):
                continue
            used.add((name, path))
            if (name, path) not in allowed:
                wrong.append(f"{name} {path}: ours {ours!r}, theirs {theirs!r}")
    assert not wrong, "\n".join(wrong)
    assert used == allowed.keys(), f"no longer so: {allowed.keys() - used}"


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_of_the_conversation_is_missing(name):
    target, flags = TARGETS[name]
    made = translate_request(REQUEST.to_json(), source="headrace", target=target, model="theirs", target_flags=flags)
    for text in ("Be brief.", "What is this?", "iVBORw0KGgo=", "I look.", "Dorn", "Vell", "no such port", "Sum up."):
        assert text.encode() in made.body, text
