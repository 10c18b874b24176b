"""Claude on Vertex AI over real sockets: what Anthropic's own client for it sends, and what clients of two protocols
get."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic import AnthropicVertex

from headrace.testing import Reply, Seen, Upstream
from tests.support import control
from tests.support.edge import listener

PROJECT, REGION, MODEL, TOKEN = "acme-1", "europe-west1", "claude-sonnet-4-5@20250929", "ya29.token"
HEAD = f"/v1/projects/{PROJECT}/locations/{REGION}/publishers/anthropic/models"
USAGE = {"input_tokens": 12, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4}
MESSAGE: dict[str, Any] = {
    "id": "msg_vrtx_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": USAGE,
}
CONTENT = [
    {"type": "text", "text": "High noon."},
    {"type": "tool_use", "id": "toolu_vrtx_01", "name": "tide", "input": {"port": "Dorn"}},
]
WHOLE = MESSAGE | {"content": CONTENT, "stop_reason": "tool_use", "usage": USAGE | {"output_tokens": 9}}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "High "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "noon."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": CONTENT[1] | {"input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"port":'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"Dorn"}'}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]
STREAM = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in EVENTS).encode()
ROUTES = {
    f"{HEAD}/{MODEL}:rawPredict": Reply.json(WHOLE),
    f"{HEAD}/{MODEL}:streamRawPredict": Reply.stream(STREAM),
    f"{HEAD}/count-tokens:rawPredict": Reply.json({"input_tokens": 31}),
    f"{HEAD}/full:rawPredict": Reply.json(
        {"error": {"code": 429, "message": "Quota exceeded for a base model.", "status": "RESOURCE_EXHAUSTED"}},
        status=429,
    ),
}
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}
ASK: dict[str, Any] = {
    "max_tokens": 900,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "When?"}],
    "tools": [{"name": "tide", "input_schema": SCHEMA}],
}
CHAT: dict[str, Any] = {
    "max_completion_tokens": 900,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}],
    "tools": [{"type": "function", "function": {"name": "tide", "parameters": SCHEMA}}],
}


@pytest.fixture
def upstream():
    with Upstream(ROUTES) as one:
        yield one


@pytest.fixture
def gateway(upstream):
    rows = (
        f'[[providers]]\nid = "v"\nkind = "vertex"\nprotocol = "anthropic_messages"\nbase_url = "{upstream.url}"\n'
        f'[providers.settings]\nproject = "{PROJECT}"\nlocation = "{REGION}"\nanthropic_version = "2026-10-21"\n'
        '[[providers.credentials]]\nid = "one"\nsecret = "env:TOKEN"\n'
    )
    with listener(control.gateway(rows, environ={"TOKEN": TOKEN})) as edge:
        host, port = edge.address
        yield f"http://{host}:{port}"


def vertex(url: str) -> AnthropicVertex:
    return AnthropicVertex(region=REGION, project_id=PROJECT, access_token=TOKEN, base_url=f"{url}/v1", max_retries=0)


def last(upstream: Upstream) -> tuple[Seen, Any]:
    seen = upstream.facts().requests[-1]
    return seen, json.loads(seen.body)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_what_is_sent_is_what_anthropics_own_client_sends(gateway, upstream, stream):
    with vertex(upstream.url) as theirs:
        theirs.messages.create(model=MODEL, stream=stream, **ASK)
    wanted, body = last(upstream)
    with anthropic.Anthropic(base_url=gateway, api_key="none", max_retries=0) as client:
        client.messages.create(model=f"v/{MODEL}", stream=stream, **ASK)
    seen, sent = last(upstream)
    assert (seen.method, seen.target) == (wanted.method, wanted.target)
    assert sent == body
    told, theirs_told = dict(seen.headers), dict(wanted.headers)
    for name in ("authorization", "content-type", "anthropic-version", "anthropic-beta", "x-api-key"):
        assert told.get(name) == theirs_told.get(name), name
    # A client of another protocol is translated to the same request.
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="none", max_retries=0) as client:
        client.chat.completions.create(model=f"v/{MODEL}", stream=stream, **CHAT)
    seen, sent = last(upstream)
    assert seen.target == wanted.target
    assert {"stream": False, **sent, "messages": None, "system": None} == {**body, "messages": None, "system": None}
    assert sent["messages"] in (body["messages"], [{"role": "user", "content": [{"type": "text", "text": "When?"}]}])


def test_a_messages_client_gets_what_the_vendors_client_gets(gateway, upstream):
    with anthropic.Anthropic(base_url=gateway, api_key="none") as ours, vertex(upstream.url) as theirs:
        got = ours.messages.create(model=f"v/{MODEL}", **ASK)
        assert got == theirs.messages.create(model=MODEL, **ASK)
        with ours.messages.stream(model=f"v/{MODEL}", **ASK) as stream:
            streamed = stream.get_final_message()
        with theirs.messages.stream(model=MODEL, **ASK) as stream:
            assert streamed == stream.get_final_message()
    assert (got.content[0].text, got.content[1].input, got.stop_reason) == ("High noon.", {"port": "Dorn"}, "tool_use")
    # It passes as it is.
    ask = {**ASK, "model": f"v/{MODEL}", "stream": True}
    assert httpx.post(f"{gateway}/v1/messages", json=ask).content == STREAM


def test_a_chat_client_gets_the_same_in_its_words(gateway):
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="none") as client:
        whole = client.chat.completions.create(model=f"v/{MODEL}", **CHAT)
        with client.chat.completions.stream(
            model=f"v/{MODEL}", stream_options={"include_usage": True}, **CHAT
        ) as stream:
            streamed = stream.get_final_completion()
    for answer in (whole, streamed):
        (choice,) = answer.choices
        (call,) = choice.message.tool_calls
        assert (choice.message.content, choice.finish_reason) == ("High noon.", "tool_calls")
        assert (call.id, call.function.name) == ("toolu_vrtx_01", "tide")
        assert json.loads(call.function.arguments) == {"port": "Dorn"}
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (16, 9)


def test_tokens_are_counted_where_the_vendors_client_counts_them(gateway, upstream):
    ask = {"messages": ASK["messages"], "system": "Be brief."}
    with vertex(upstream.url) as theirs:
        theirs.messages.count_tokens(model=MODEL, **ask)
    wanted, body = last(upstream)
    with anthropic.Anthropic(base_url=gateway, api_key="none") as client:
        assert client.messages.count_tokens(model=f"v/{MODEL}", **ask).input_tokens == 31
    seen, sent = last(upstream)
    assert (seen.target, sent) == (wanted.target, body)


def test_a_refusal_of_the_hosts_is_told_in_the_clients_words(gateway):
    with (
        anthropic.Anthropic(base_url=gateway, api_key="none", max_retries=0) as client,
        pytest.raises(anthropic.RateLimitError),
    ):
        client.messages.create(model="v/full", **ASK)
    with (
        openai.OpenAI(base_url=f"{gateway}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.RateLimitError),
    ):
        client.chat.completions.create(model="v/full", **CHAT)
