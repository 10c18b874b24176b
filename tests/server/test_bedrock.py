"""Requests to Bedrock through a gateway that is really served, judged by AWS's own library: the path that it would
write, the signature that it would make of the very bytes that came, and the model of the service for the body."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import botocore.session
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from headrace.config import Config, Credential, Provider
from headrace.messages import Message, ModelRequest
from headrace.requests import Secret
from headrace.runtime import SyncRuntime
from headrace.testing import Reply, Seen, Upstream
from tests.support import control
from tests.support.edge import listener
from tests.support.eventstream import chunk, event
from tests.support.replay import PATHS

KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token==")
PAIR = f"{KEYS.access_key}:{KEYS.secret_key}:{KEYS.token}"
REGION = "eu-west-1"
NOVA, CLAUDE = (
    "eu.amazon.nova-lite-v1:0",
    "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-5-v1:0",
)

CONVERSE_STREAM = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hi"}}) + event(
    "messageStop", {"stopReason": "end_turn"}
)
INVOKE_STREAM = b"".join(
    chunk(one)
    for one in [
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
)
CONVERSE = {"output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}}, "stopReason": "end_turn"}
CONVERSE |= {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1}}
INVOKE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn"}
INVOKE |= {"content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}}

PNG = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}

CHAT = {
    "max_completion_tokens": 900,
    "stop": ["END"],
    "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "tide", "schema": SCHEMA}},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look — 見て."},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {"id": i, "type": "function", "function": {"name": "look", "arguments": '{"port":"Dorn"}'}}
                for i in "ab"
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "noon"},
        {"role": "tool", "tool_call_id": "b", "content": "one"},
        {"role": "user", "content": "And?"},
    ],
}
MESSAGES = {
    "max_tokens": 900,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "look", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {"port": "Dorn"}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "closed"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                },
                {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
}
RESPONSES = {
    "max_output_tokens": 900,
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
    "tool_choice": "required",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"port":"Dorn"}'},
        {"type": "function_call_output", "call_id": "a", "output": "noon"},
    ],
}
BODIES = {"openai_chat": CHAT, "openai_responses": RESPONSES, "anthropic_messages": MESSAGES}


def answers(wire: str, *, stream: bool) -> Reply:
    if not stream:
        body = json.dumps(INVOKE if wire == "invoke" else CONVERSE).encode()
        return Reply((body,), headers=(("content-type", "application/json"),))
    body = INVOKE_STREAM if wire == "invoke" else CONVERSE_STREAM
    return Reply((body,), headers=(("content-type", "application/vnd.amazon.eventstream"),), framing="chunked")


def config(url: str) -> str:
    return (
        f'[[providers]]\nid = "aws"\nkind = "bedrock"\nbase_url = "{url}"\n'
        f'[providers.settings]\nregion = "{REGION}"\n'
        f'[[providers.credentials]]\nid = "one"\nsecret = "env:AWS"\n'
    )


def gateway(url: str, secret: str) -> Any:
    return control.gateway(config(url), environ={"AWS": secret})


def asked(client: str, model: str, *, stream: bool, key: str = PAIR, **headers: str) -> tuple[Seen, Any]:
    """Ask a gateway; give what Bedrock saw, and the answer."""
    wire = "invoke" if "anthropic" in model else "converse"
    with (
        Upstream(answers(wire, stream=stream), record=1) as upstream,
        listener(gateway(upstream.url, key)) as edge,
        httpx.Client(timeout=20) as http,
    ):
        host, port = edge.address
        body = {**BODIES[client], "model": f"aws/{model}", "stream": stream}
        answer = http.post(f"http://{host}:{port}{PATHS[client]}", json=body, headers=headers)
        (seen,) = upstream.facts().requests
        return seen, answer


def signed_by_botocore(seen: Seen) -> str:
    """The authorisation that botocore writes for the same request: headers, bytes and time."""
    told = dict(seen.headers)
    names = told["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: told[name] for name in names if name != "host"}
    request = AWSRequest("POST", f"http://{told['host']}{seen.target}", headers=headers, data=seen.body)
    request.context["timestamp"] = told["x-amz-date"]
    auth = SigV4Auth(KEYS, "bedrock", REGION)
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    signed = auth.signed_headers(auth.headers_to_sign(request))
    return f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={signed}, Signature={signature}"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("model", [NOVA, CLAUDE], ids=["converse", "invoke"])
@pytest.mark.parametrize("client", PATHS)
def test_the_service_would_take_the_request(client, model, stream):
    seen, answer = asked(client, model, stream=stream)
    assert answer.status_code == 200, answer.text
    assert "hi" in answer.text
    told = dict(seen.headers)
    assert told["authorization"] == signed_by_botocore(seen)
    assert told["x-amz-security-token"] == KEYS.token
    assert {"content-type", "host", "x-amz-date", "x-amz-security-token"} <= set(
        told["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    )
    names = {(NOVA, True): "ConverseStream", (NOVA, False): "Converse"}
    names |= {(CLAUDE, True): "InvokeModelWithResponseStream", (CLAUDE, False): "InvokeModel"}
    operation = (
        botocore.session.get_session().get_service_model("bedrock-runtime").operation_model(names[model, stream])
    )
    given = json.loads(seen.body)
    if model == NOVA:
        report = ParamValidator().validate({"modelId": model, **given}, operation.input_shape)
        assert not report.has_errors(), report.generate_report()
        assert set(given) <= set(operation.input_shape.members)
    else:
        assert given["anthropic_version"] == "bedrock-2023-05-31"
        assert not {"model", "stream"} & set(given)
        # What a Messages client asks arrives as it was.
        assert client != "anthropic_messages" or given["messages"] == MESSAGES["messages"]
    written = create_serializer("rest-json").serialize_to_request(
        {"modelId": model, **({"messages": []} if model == NOVA else {"body": b""})}, operation
    )
    assert seen.path == written["url_path"]


def test_a_bearer_key_is_shown_and_nothing_is_signed():
    seen, answer = asked("openai_chat", NOVA, stream=False, key="ABSK-hush")
    told = dict(seen.headers)
    assert (answer.status_code, told["authorization"]) == (200, "Bearer ABSK-hush")
    assert "x-amz-date" not in told


def test_what_a_messages_client_asks_in_headers_stands_in_the_body():
    seen, _ = asked("anthropic_messages", CLAUDE, stream=True, **{"anthropic-beta": "one, two,one"})
    assert json.loads(seen.body)["anthropic_beta"] == ["one", "two"]
    assert "anthropic-beta" not in dict(seen.headers)


def test_no_repr_holds_the_keys():
    policy = gateway("http://127.0.0.1:9", PAIR)
    plan = policy.decide(control.FakeRequest(model=f"aws/{NOVA}"))
    assert plan.spec.signer is not None
    shown = repr(plan) + repr(plan.spec) + repr(plan.spec.signer)
    assert REGION in shown
    assert not any(secret in shown for secret in (KEYS.secret_key, KEYS.token))


def test_the_library_signs_its_own_requests_as_it_sends_them():
    credential = Credential(id="one", secret=Secret(PAIR))
    with Upstream(answers("converse", stream=True), record=2) as upstream:
        row = Provider(
            id="aws", kind="bedrock", base_url=upstream.url, credentials=(credential,), settings={"region": REGION}
        )
        request = ModelRequest(f"aws/{NOVA}", (Message.user("How does the water run?"),))
        with SyncRuntime(Config(providers=(row,))) as runtime:
            for _ in range(2):  # the second over the connection of the first
                with runtime.stream(request) as answer:
                    assert answer.result().text == "hi"
        for seen in upstream.facts().requests:
            assert dict(seen.headers)["authorization"] == signed_by_botocore(seen)
            assert seen.path == "/model/eu.amazon.nova-lite-v1%3A0/converse-stream"


def test_a_reasoned_answer_goes_back_to_who_gave_it_and_to_nobody_else():
    """Two turns through the gateway: what the client was shown is what the second request holds."""
    reasoned = b"".join(
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": part}})
        for part in ({"text": "Hm."}, {"signature": "Eg=="})
    )
    reasoned += event("contentBlockStop", {"contentBlockIndex": 0}) + CONVERSE_STREAM
    reply = Reply((reasoned,), headers=(("content-type", "application/vnd.amazon.eventstream"),), framing="chunked")
    hello = {"role": "user", "content": "hi"}
    with Upstream(reply, record=4) as upstream, listener(gateway(upstream.url, PAIR)) as edge:
        host, port = edge.address
        client = anthropic.Anthropic(base_url=f"http://{host}:{port}", api_key="none", max_retries=0)
        asked_for: dict[str, Any] = {"model": f"aws/{NOVA}", "max_tokens": 900}
        with client, client.messages.stream(messages=[hello], **asked_for) as stream:
            first = stream.get_final_message()
            turns = [hello, {"role": "assistant", "content": first.content}, hello]
            with client.messages.stream(messages=turns, **asked_for) as again:
                again.until_done()
        second = json.loads(upstream.facts().requests[1].body)
    assert [block.type for block in first.content] == ["thinking", "text"]
    assert first.content[0].signature.startswith("hr1.bedrock_converse.")
    assert second["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eg=="}}},
        {"text": "hi"},
    ]


def invoked(model: str, body: dict[str, Any], client: str = "openai_chat", settings: str = "") -> tuple[Any, Any, int]:
    """Ask by InvokeModel; give the body that came, the answer, and how many requests came."""
    answer = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]} if "nova" not in model else CONVERSE
    reply = Reply((json.dumps(answer).encode(),), headers=(("content-type", "application/json"),))
    with Upstream({"*": reply}, record=1) as upstream, httpx.Client(timeout=20) as http:
        rows = config(upstream.url).replace(
            "[providers.settings]\n", f'[providers.settings]\nwire = "invoke"\n{settings}'
        )
        with listener(control.gateway(rows, environ={"AWS": PAIR})) as edge:
            host, port = edge.address
            got = http.post(f"http://{host}:{port}{PATHS[client]}", json={**body, "model": f"aws/{model}"})
        seen = upstream.facts().requests
        return json.loads(seen[0].body) if seen else None, got, len(seen)


def test_nova_is_asked_by_invoke_in_a_body_of_converses_shape():
    body = {"max_tokens": 9, "top_k": 5, "messages": [{"role": "user", "content": "hi"}]}
    for model in (NOVA, "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-pro-v1:0"):
        given, got, _ = invoked(model, body, "anthropic_messages")
        assert given == {
            "schemaVersion": "messages-v1",
            "inferenceConfig": {"maxTokens": 9, "topK": 5},
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        }
        assert got.json()["content"] == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(
    ("model", "limit"), [("openai.gpt-oss-120b-1:0", "max_completion_tokens"), ("qwen.qwen3-32b-v1:0", "max_tokens")]
)
def test_models_that_speak_chat_are_asked_in_it(model, limit):
    body = {"max_tokens": 9, "system": "Be brief.", "messages": [{"role": "user", "content": "hi"}]}
    given, got, _ = invoked(model, body, "anthropic_messages")
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert given == {limit: 9, "messages": said}
    assert got.json()["content"] == [{"type": "text", "text": "hi"}]
    # A Chat client's own body, without what stands in the URL.
    given, got, _ = invoked(model, {"messages": said, "seed": 1, "stream_options": None})
    assert given == {"messages": said, "seed": 1}
    assert got.json()["choices"][0]["message"]["content"] == "hi"


@pytest.mark.parametrize(
    "model", ["us.meta.llama3-3-70b-instruct-v1:0", "amazon.titan-text-lite-v1", "mistral.mistral-7b-instruct-v0:2"]
)
def test_models_of_one_prompt_are_refused_with_what_to_use_instead(model):
    _, got, count = invoked(model, {"messages": [{"role": "user", "content": "hi"}]})
    assert (got.status_code, count) == (400, 0)
    error = got.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_feature", "model")
    assert 'wire = "auto"' in error["message"]
    # By Converse all of them are asked.
    seen, answer = asked("openai_chat", model, stream=False)
    assert seen.target.endswith("/converse")
    assert answer.status_code == 200


def test_a_setting_says_the_format_of_a_model_whose_name_does_not():
    name = "arn:aws:bedrock:eu-west-1:1:imported-model/abc123"
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    assert "anthropic_version" in invoked(name, ask)[0]
    assert invoked(name, ask, settings='format = "chat"\n')[0] == ask
    assert invoked(name, ask, settings='format = "nova"\n')[0]["schemaVersion"] == "messages-v1"
