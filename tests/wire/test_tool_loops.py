"""Two turns of a tool loop, for every client and every provider: the answer is streamed to the client, its own SDK puts
it together, and what it gives back becomes the provider's second request.

The second request is what the vendor's own SDK would send, but for the differences of `tool_loops.json`. State goes
back to the row that gave it, unchanged, in its own place; no other row ever sees it, and the losses say so.
"""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest

from headrace import Decoder, Encoder, Translation, translate_request
from headrace.messages import (
    Continuation,
    Message,
    ModelRequest,
    Options,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.support.loops import ASKED, CLIENTS, PROVIDERS, RESULTS, TOOLS, Provider, Turn, hidden
from tests.support.sdks import Replay, replay

DIFFERENCES = pathlib.Path(__file__).with_name("tool_loops.json")
PREFIXES = {"openai_chat": "chatcmpl-1", "openai_responses": "resp_1", "anthropic_messages": "msg_1"}
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}
FUNCTIONS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]
SETTINGS: dict[str, dict[str, Any]] = {
    "openai_chat": {"tools": FUNCTIONS, "reasoning_effort": "low"},
    "openai_responses": {
        "tools": [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in TOOLS],
        "reasoning": {"effort": "low"},
    },
    "anthropic_messages": {
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "tools": [{"name": name, "input_schema": SCHEMA} for name in TOOLS],
    },
    "google_gemini": {
        "tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": SCHEMA} for name in TOOLS]}],
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}},
    },
    "ollama_chat": {"tools": FUNCTIONS, "think": True},
}
SOURCES = (*CLIENTS, "headrace")
PAIRS = [(client, provider) for client in SOURCES for provider in PROVIDERS]
NO_PLACE = ("ollama_chat",)
"""Clients whose protocol has nowhere to keep a state."""


@pytest.fixture(scope="module")
def server():
    with replay() as one:
        yield one


@pytest.fixture(scope="module")
def bodies(server):
    """Every client's second request after every provider's answer, and what was lost on the way to the client."""
    return {pair: asked_again(server, *pair) for pair in PAIRS}


def asked_again(server: Replay, client: str, name: str) -> tuple[bytes, list[str]]:
    provider = PROVIDERS[name]
    if verbatim(client, name):
        server.answer(provider.answer, provider.content_type)
        return body_of(client, CLIENTS[client][1](server)), []
    decoder = Decoder(provider.protocol, headers=[("content-type", provider.content_type)], provider="acme")
    events = decoder.feed(provider.answer) + decoder.finish("eof")
    assert events[-1].type == "model.finished"
    if client == "headrace":
        return library_turn(events), []
    encoder = Encoder(
        client,
        model="m",
        response_id=PREFIXES.get(client, "r1"),
        created=1,
        include_usage=True,
        provider="acme",
        family=provider.protocol,
        target_flags=provider.flags,
    )
    told = encoder.feed(events) + encoder.finish()
    server.answer(told, "application/x-ndjson" if client == "ollama_chat" else "text/event-stream")
    return body_of(client, CLIENTS[client][1](server)), [loss.path for loss in encoder.losses]


def library_turn(events: list[Any]) -> bytes:
    """The second turn of a program that uses the library: each event as its part, in their order."""
    parts: list[Any] = []
    for event in events:
        match event.type:
            case "model.reasoning_delta" if parts and isinstance(parts[-1], Reasoning):
                parts[-1] = Reasoning(parts[-1].text + event.text, event.kind)
            case "model.reasoning_delta":
                parts.append(Reasoning(event.text, event.kind))
            case "model.continuation":
                parts.append(Continuation(event.family, event.form, event.data, event.attach, "acme"))
            case "model.text_delta":
                parts.append(Text(event.text))
            case "tool_intent.proposed":
                call_id = event.provider_call_id or f"call_{event.call}"
                parts.append(ToolCall(call_id, event.tool_name, event.raw_input_text))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    results = [
        Message("tool", (ToolResult(call.call_id, (Text(result),)),))
        for call, result in zip(calls, RESULTS, strict=True)
    ]
    request = ModelRequest(
        model="m",
        messages=(Message.user(ASKED), Message("assistant", tuple(parts)), *results),
        tools=tuple(Tool(name, raw_schema=json.dumps(SCHEMA)) for name in TOOLS),
        options=Options(max_output_tokens=4096, reasoning_effort="low"),
    )
    return request.to_json()


def verbatim(client: str, name: str) -> bool:
    """Whether a gateway passes the answer as it came. Mistral's goes anew, as its definition says."""
    return client == name


def own(client: str, provider: Provider) -> bool:
    """Whether a state is the client's protocol's own, and stands in its place unwrapped."""
    return client == provider.protocol or (client, provider.protocol) == ("anthropic_messages", "bedrock_invoke")


def body_of(client: str, turn: Turn) -> bytes:
    return json.dumps({"model": "m"} | SETTINGS[client] | {CLIENTS[client][0]: turn}).encode()


def second(body: bytes, client: str, target: Provider, row: str) -> Translation:
    return translate_request(
        body, source=client, target=target.protocol, model="up", provider=row, target_flags=target.flags
    )


def conversation(body: Any) -> Turn:
    turn: Turn = body.get("messages") or body.get("input") or body.get("contents")
    return turn


def plain(value: Any) -> Any:
    """One spelling for what is said in several: a text alone is a list of one, and texts are texts both ways.

    Gemini's thoughts are for people: what they stand on is the signature, on whatever part it came.
    """
    if isinstance(value, list):
        return [plain(one) for one in value if not (isinstance(one, dict) and one.get("thought") and len(one) == 2)]
    if not isinstance(value, dict):
        return value
    value = {key: plain(one) for key, one in value.items() if not (key == "annotations" and not one)}
    if isinstance(value.get("content"), str):
        value["content"] = [{"type": "text", "text": value["content"]}]
    if value.get("type") in ("input_text", "output_text"):
        value["type"] = "text"
    return value


def differing(ours: Any, theirs: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """The places where two bodies differ, without the numbers of list items. Arguments are what they say as JSON."""
    if path.endswith("arguments") and isinstance(ours, str) and isinstance(theirs, str):
        ours, theirs = json.loads(ours), json.loads(theirs)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found: dict[str, tuple[Any, Any]] = {}
        for key in ours.keys() | theirs.keys():
            found |= differing(ours.get(key), theirs.get(key), f"{path}.{key}".lstrip("."))
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return {k: v for a, b in zip(ours, theirs, strict=True) for k, v in differing(a, b, f"{path}[]").items()}
    return {} if ours == theirs else {path: (ours, theirs)}


def test_the_second_request_is_what_the_vendors_sdk_would_send(server, bodies):
    allowed = {(row["client"], row["provider"], row["path"]): row for row in json.loads(DIFFERENCES.read_text("utf-8"))}
    assert all(len(row["reason"]) > 20 for row in allowed.values())
    used, wrong = set(), []
    for name, provider in PROVIDERS.items():
        server.answer(provider.answer, provider.content_type)
        theirs = provider.second(server)
        for client in SOURCES:
            made = second(bodies[client, name][0], client, provider, "acme")
            for path, values in differing(plain(conversation(json.loads(made.body))), plain(theirs)).items():
                rows = {(c, name, path) for c in (client, "*")} & allowed.keys()
                used |= rows
                if not rows:
                    wrong.append(f"{client} {name} {path}: ours {values[0]!r}, theirs {values[1]!r}")
    assert not wrong, "\n".join(wrong)
    assert used == allowed.keys(), f"no longer so: {allowed.keys() - used}"


@pytest.mark.parametrize(("client", "name"), PAIRS)
def test_state_goes_back_to_its_row_and_to_no_other(client, name, bodies):
    provider, (body, lost) = PROVIDERS[name], bodies[client, name]
    kept = client not in NO_PLACE or own(client, provider)
    assert kept or not provider.state or "response.reasoning_state" in lost, lost
    made = second(body, client, provider, "acme")
    for state in provider.state:
        assert (state.encode() in made.body) is kept, state
    for text in (*TOOLS, *RESULTS, *provider.thought.split()):
        assert text.encode() in made.body, text
    assert b"hr1." not in made.body
    # What the gateway made for one row says nothing to another.
    if kept and not own(client, provider):
        other = second(body, client, provider, "other")
        assert leaks(provider, other.body) == [], "another row"
        assert not provider.state or other.losses
    if provider.thought and client == "openai_responses":
        # Its slot says whose reasoning it is.
        other = second(body, client, provider, "other")
        assert provider.thought.encode() not in other.body
        assert other.losses


def leaks(provider: Provider, body: bytes) -> list[str]:
    text = body.decode()
    return [state for state in provider.state if any(form in text for form in hidden(state))] + (
        ["hr1"] if "hr1." in text or "aHIxL" in text else []
    )


@pytest.mark.parametrize(("client", "name"), PAIRS)
def test_no_other_family_ever_sees_a_state(client, name, bodies):
    provider, (body, _) = PROVIDERS[name], bodies[client, name]
    for other, target in PROVIDERS.items():
        if {target.protocol, provider.protocol} in ({provider.protocol}, {"anthropic_messages", "bedrock_invoke"}):
            continue
        made = second(body, client, target, "acme")
        assert leaks(provider, made.body) == [], other
        if provider.state and client not in NO_PLACE:
            assert made.losses, f"{other}: said nowhere"


@pytest.mark.parametrize(("client", "name"), PAIRS)
def test_a_conversation_that_grows_keeps_the_bytes_of_its_earlier_part(client, name, bodies):
    """Turn by turn, after what the provider answered: its cache finds the same beginning."""
    provider, body = PROVIDERS[name], json.loads(bodies[client, name][0])
    key = "messages" if client == "headrace" else CLIENTS[client][0]
    first = body[key]
    made = [
        second(json.dumps(body | {key: (first * 2)[:cut]}).encode(), client, provider, "acme").body
        for cut in (1, len(first), len(first) + 1, 2 * len(first))
    ]
    for earlier, later in itertools.pairwise(made):
        # Up to the end of what the last message holds: what follows stands behind the conversation.
        assert later.startswith(earlier[: earlier.rindex(b"]")].rstrip(b"]}")), (earlier, later)
        assert len(later) > len(earlier)
