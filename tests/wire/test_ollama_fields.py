"""Every field of a request in the official `ollama` package's own types, to every target: carried, reported or refused
under Ollama's own name for it."""

from __future__ import annotations

import json
from typing import Any

import ollama
import pytest
from ollama._types import ChatRequest

from headrace import UnsupportedFeature, translate_request

CALL = {"function": {"name": "f"}}
FIELDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "": (ChatRequest, {"messages": []}, {"format": {"mark": {}}}),
    "options": (ollama.Options, {"messages": [], "options": {}}, {"stop": ["mark"]}),
    "messages[]": (ollama.Message, {"messages": [{"role": "user"}]}, {"role": "user", "images": ["mark"]}),
    "messages[].tool_calls[]": (
        ollama.Message.ToolCall,
        {"messages": [{"role": "assistant", "tool_calls": [CALL]}]},
        {"function": {"name": "mark"}},
    ),
    "messages[].tool_calls[].function": (
        ollama.Message.ToolCall.Function,
        {"messages": [{"role": "assistant", "tool_calls": [CALL]}]},
        {"arguments": {"mark": 1}},
    ),
    "tools[]": (ollama.Tool, {"messages": [], "tools": [CALL]}, {"function": {"name": "mark"}}),
    "tools[].function": (ollama.Tool.Function, {"messages": [], "tools": [CALL]}, {"parameters": {"mark": {}}}),
}
"""Path -> the SDK's type, the least body that has one, and values that its annotations do not tell."""
STRUCTURE = {"messages", "tools", "options", "messages[].tool_calls"}
MEANT = {"model", "stream", "think", "messages[].role", "messages[].tool_name", "messages[].thinking", "tools[].type"}
"""What is carried by its meaning, and not with its value."""
TARGETS = ("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "bedrock_converse", "cohere_chat")


def sample(annotation: Any) -> Any:
    """A value of a field's type."""
    said = str(annotation)
    return next((value for kind, value in (("bool", True), ("int", 4242), ("float", 4242)) if kind in said), "mark")


def told(body: dict[str, Any], target: str) -> tuple[str, set[str]]:
    """The target's body and the losses; of what is refused, its name."""
    sent = json.dumps(body).encode()
    flags = ("sampling", "top_k")
    try:
        made = translate_request(sent, source="ollama_chat", target=target, model="up", target_flags=flags)
    except UnsupportedFeature as refused:
        return "", {(refused.param or "").replace("[0]", "[]")}
    return made.body.decode(), {loss.path for loss in made.losses}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", FIELDS)
def test_every_field_of_the_sdks_types_is_in_the_tables(path, target):
    model, least, values = FIELDS[path]
    seen = 0
    for name, field in model.model_fields.items():
        place = f"{path}.{name}".lstrip(".")
        if place in STRUCTURE:
            continue
        body = json.loads(json.dumps(least))
        at = body
        for step in filter(None, path.split(".")):
            at = at[step.removesuffix("[]")][0] if step.endswith("[]") else at[step]
        at[name] = values.get(name, sample(field.annotation))
        made, lost = told(body, target)
        assert place in lost or place in MEANT or "mark" in made or "4242" in made, (place, lost, made)
        seen += 1
    assert seen


def test_what_the_sdk_does_not_know_is_named_too():
    _, lost = told({"messages": [{"role": "user", "content": "q", "own": 1}], "options": {"new": 1}}, "openai_chat")
    assert lost == {"messages[].own", "options.new"}
