"""Ollama's own SDK against a gateway: its chat and its list of models, whoever answers."""

from __future__ import annotations

import contextlib
import json

import httpx
import ollama
import pytest

from headrace import Decoder, Encoder, translate_request
from headrace.testing import Cut, Gate, Reply, Upstream
from tests.support import control
from tests.support.cases import fixtures, recordings
from tests.support.clients import direct
from tests.support.edge import listener, served
from tests.support.replay import PROVIDERS, replaying

HI = [{"role": "user", "content": "hi"}]
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@contextlib.contextmanager
def sdk(url):
    one = ollama.Client(host=url)
    try:
        yield one
    finally:
        one._client.close()  # noqa: SLF001 - it has no way of its own


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def client(gateway):
    with sdk(gateway.url) as one:
        yield one


def test_a_stream_and_one_object(client):
    lines = list(client.chat(model="demo/text", messages=HI, stream=True))
    assert len(lines) > 2
    assert lines[-1].done
    assert lines[-1].done_reason == "stop"
    assert not any(line.done for line in lines[:-1])
    whole = client.chat(model="demo/text", messages=HI)
    assert whole.done
    assert whole.message.content == "".join(line.message.content for line in lines)
    assert "demo provider" in whole.message.content
    assert whole.eval_count
    assert whole.model == "demo/text"


def test_a_tool_is_called_and_its_result_goes_back(client):
    asked = client.chat(model="demo/tools", messages=HI, tools=[TOOL])
    (call,) = asked.message.tool_calls
    assert call.function.name == "weather"
    assert isinstance(call.function.arguments, dict)
    result = {"role": "tool", "tool_name": "weather", "content": "sun"}
    answer = client.chat(model="demo/tools", messages=[*HI, asked.message, result], tools=[TOOL])
    assert answer.message.content


def test_without_stream_in_its_body_a_request_streams(gateway):
    with httpx.stream("POST", f"{gateway.url}/api/chat", json={"model": "demo/text", "messages": HI}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_models_are_listed(client):
    names = [model.model for model in client.list().models]
    assert "demo/text" in names


@pytest.mark.parametrize(("model", "status"), [("nobody/knows", 422), ("demo/error-429", 429)])
def test_a_refusal_is_the_sdks_own_error(client, model, status):
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat(model=model, messages=HI)
    assert caught.value.status_code == status
    assert caught.value.error


@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_of_every_provider(provider):
    """What the SDK puts together of each fixture that ends well is what its bytes decode to."""
    cases = [case for case in fixtures() if case.provider == provider and "finish" in case.direct]
    replies = {case.name: Reply((case.body,), headers=(("content-type", case.content_type),)) for case in cases}
    with replaying(replies) as stage, sdk(stage.url) as client:
        for case in cases:
            want = case.direct
            for stream in (True, False):
                if provider == "ollama_chat" and stream is case.is_stream:
                    # It passes as it is, and may hold what the SDK does not take.
                    continue
                asked = client.chat(model=f"{provider}/{case.name}", messages=HI, stream=stream)
                lines = list(asked) if stream else [asked]
                said = "".join(line.message.content or "" for line in lines)
                assert said in (want["text"] + want["refusal"], want["refusal"] + want["text"]), case.file
                assert "".join(line.message.thinking or "" for line in lines) == want["reasoning"], case.file
                calls = [call.function for line in lines for call in line.message.tool_calls or []]
                wanted = [[n, {"input": given} if isinstance(given, str) else given] for n, given in want["calls"]]
                assert [[call.name, dict(call.arguments)] for call in calls] == wanted, case.file
                assert lines[-1].done, case.file


def test_a_relay_within_the_protocol_has_the_providers_bytes(shared):
    """Every fixture and recording, asked for as it came: lines and objects pass as they are, and are read along."""
    cases = [case for case in fixtures() + recordings(shared) if case.provider == "ollama_chat"]
    replies = {case.name: Reply((case.body,), headers=(("content-type", case.content_type),)) for case in cases}
    passed = 0
    with replaying(replies) as stage, httpx.Client(timeout=20) as client:
        for case in cases:
            ask = {"model": f"ollama_chat/{case.name}", "messages": HI, "stream": case.is_stream}
            answer = client.post(f"{stage.url}/api/chat", json=ask)
            if "error" in case.direct:
                assert answer.status_code >= 400, case.file
                continue
            passed += 1
            assert (answer.status_code, answer.headers["content-type"]) == (200, case.content_type), case.file
            # What follows the end of an answer is no part of it.
            assert case.body.startswith(answer.content), case.file
            assert not case.body[len(answer.content) :].strip() or case.is_stream, case.file
            assert direct("ollama_chat", answer.content)["finish"] == case.direct["finish"], case.file
            assert "x-headrace-loss" not in answer.headers, case.file
    assert passed > 20


def test_a_body_within_the_protocol_keeps_its_bytes_but_for_the_model():
    sent = b'{"model":"o/m","options":{"num_ctx" : 1e3},"think":"low","messages":[{"role":"user","content":"hi"}]}'
    line = b'{"model":"m","message":{"role":"assistant","content":"Noon"},"done":true,"own":[1.50]}\n'
    reply = Reply((line,), headers=(("content-type", "application/x-ndjson"),))
    with Upstream({"/api/chat": reply}) as upstream:
        rows = f'[[providers]]\nid = "o"\nkind = "ollama"\nbase_url = "{upstream.url}"\n'
        with listener(control.gateway(rows)) as edge:
            url = "http://{}:{}/api/chat".format(*edge.address)
            answer = httpx.post(url, content=sent, headers={"content-type": "application/json"})
        (seen,) = upstream.facts().requests
    assert answer.content == line
    assert seen.body == sent.replace(b"o/m", b"m")
    assert "x-headrace-loss" not in answer.headers


def test_a_stream_that_is_cut_ends_with_a_line_that_says_so():
    line = b'{"model":"m","message":{"role":"assistant","content":"No"},"done":false}\n'
    reply = Reply((line, Gate("cut"), Cut()), headers=(("content-type", "application/x-ndjson"),), framing="chunked")
    with Upstream({"/api/chat": reply}) as upstream:
        rows = f'[[providers]]\nid = "o"\nkind = "ollama"\nbase_url = "{upstream.url}"\n'
        with listener(control.gateway(rows)) as edge, sdk("http://{}:{}".format(*edge.address)) as client:
            lines = client.chat(model="o/m", messages=HI, stream=True)
            assert next(lines).message.content == "No"
            upstream.open("cut")
            with pytest.raises(ollama.ResponseError):
                list(lines)


def test_a_conversation_in_its_words_is_the_one_in_chats():
    body = {
        "model": "m",
        "format": {"type": "object"},
        "options": {"num_predict": 9, "temperature": 0.5, "stop": ["END"], "num_ctx": 4096},
        "think": "high",
        "keep_alive": "5m",
        "tools": [TOOL],
        "messages": [
            {"role": "user", "content": "see", "images": ["iVBORw0KGgo="]},
            {
                "role": "assistant",
                "content": "",
                "thinking": "hm",
                "tool_calls": [
                    {"function": {"name": "f", "arguments": {"a": 1}}},
                    {"function": {"name": "g", "arguments": {}}},
                ],
            },
            {"role": "tool", "tool_name": "g", "content": "second"},
            {"role": "tool", "tool_name": "f", "content": "first"},
        ],
    }
    made = translate_request(json.dumps(body).encode(), source="ollama_chat", target="openai_chat", model="up")
    chat = json.loads(made.body)
    assert chat["stream"] is True
    assert (chat["max_completion_tokens"], chat["temperature"], chat["stop"]) == (9, 0.5, ["END"])
    assert chat["reasoning_effort"] == "high"
    assert chat["response_format"]["json_schema"]["schema"] == {"type": "object"}
    user, turn, *results = chat["messages"]
    assert user["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    ids = [call["id"] for call in turn["tool_calls"]]
    assert [json.loads(call["function"]["arguments"]) for call in turn["tool_calls"]] == [{"a": 1}, {}]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [(ids[1], "second"), (ids[0], "first")]
    lost = {loss.path for loss in made.losses}
    assert {"keep_alive", "options.num_ctx"} <= lost


def test_a_failure_after_the_beginning_is_a_line():
    decoder = Decoder("openai_chat")
    events = decoder.feed(b'data: {"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"High"}}]}\n\n')
    events += decoder.finish("reset")
    encoder = Encoder("ollama_chat", model="m", response_id="chatcmpl-1", created=0)
    out = encoder.feed(events) + encoder.finish()
    said = direct("ollama_chat", out)
    assert said["text"] == "High"
    assert said["error"].kind == "unknown"
