"""Marks for a vendor's prompt cache: each lands where its vendor wants it, or its loss is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace import translate_request

EPHEMERAL = {"type": "ephemeral"}
EXPLICIT = {"mode": "explicit"}
MARKED: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "prompt_cache_key": "k",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "long", "prompt_cache_breakpoint": EXPLICIT},
                    {"type": "text", "text": "short"},
                ],
            }
        ],
    },
    "openai_responses": {
        "prompt_cache_key": "k",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "long", "prompt_cache_breakpoint": EXPLICIT},
                    {"type": "input_text", "text": "short"},
                ],
            }
        ],
    },
    "anthropic_messages": {
        "max_tokens": 9,
        "system": [{"type": "text", "text": "brief", "cache_control": EPHEMERAL}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": EPHEMERAL}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "long", "cache_control": EPHEMERAL},
                    {"type": "text", "text": "short"},
                ],
            }
        ],
    },
}
CONTROL = {"type": "text", "text": "long", "cache_control": EPHEMERAL}
POINT = {"cachePoint": {"type": "default"}}
CHAT = {"type": "text", "text": "long", "prompt_cache_breakpoint": EXPLICIT}
INPUT = {"type": "input_text", "text": "long", "prompt_cache_breakpoint": EXPLICIT}
LANDS: dict[str, tuple[str, Any]] = {
    "openai_chat": ("messages", CHAT),
    "openai_responses": ("input", INPUT),
    "anthropic_messages": ("messages", CONTROL),
    "bedrock_invoke": ("messages", CONTROL),
    "bedrock_converse": ("messages", POINT),
}
"""Where a mark of a text stands, and how it looks there, for the vendors that have any."""
OTHERS = ("google_gemini", "cohere_chat", "ollama_chat")
WORDS = ("cache_control", "cachePoint", "prompt_cache")


def made(source: str, target: str) -> tuple[dict[str, Any], set[str]]:
    body = json.dumps({"model": "m"} | MARKED[source]).encode()
    result = translate_request(body, source=source, target=target, model="up")
    return json.loads(result.body), {loss.path for loss in result.losses}


@pytest.mark.parametrize("target", LANDS)
@pytest.mark.parametrize("source", MARKED)
def test_a_mark_lands_where_its_vendor_wants_it(source, target):
    body, lost = made(source, target)
    key, mark = LANDS[target]
    parts = [part for message in body[key] if isinstance(message["content"], list) for part in message["content"]]
    if source == "anthropic_messages" and target in ("openai_chat", "openai_responses"):
        # OpenAI's caches need no marks, and ours are not made up: said, and nothing more.
        assert {path for path in lost if "cache_control" in path}
        assert not any(word in json.dumps(body) for word in WORDS)
        return
    at = parts.index(mark)
    # A point stands behind what it marks; what follows is not marked.
    assert parts[at - 1 if mark is POINT else at]["text"] == "long"
    assert parts[at + 1]["text"] == "short"
    assert sum(any(word in json.dumps(part) for word in WORDS) for part in parts) == 1


def test_marks_of_the_system_and_of_tools_become_points_behind_them():
    body, lost = made("anthropic_messages", "bedrock_converse")
    assert body["system"] == [{"text": "brief"}, POINT]
    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == ["toolSpec", "cachePoint"]
    assert not lost


@pytest.mark.parametrize(
    ("source", "target"), [("openai_chat", "openai_responses"), ("openai_responses", "openai_chat")]
)
def test_a_key_of_the_cache_passes_between_openais_own(source, target):
    body, lost = made(source, target)
    assert body["prompt_cache_key"] == "k"
    assert not any("prompt_cache_key" in path for path in lost)


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("source", MARKED)
def test_where_there_is_no_place_for_a_mark_its_loss_is_said(source, target):
    body, lost = made(source, target)
    assert not any(word in json.dumps(body) for word in WORDS)
    assert any("cache" in path for path in lost), lost
