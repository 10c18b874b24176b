"""Azure, the ChatGPT plan, Cohere, Mistral, Ollama and OpenRouter: addresses, headers, authorisation and dialects."""

import base64
import json
from dataclasses import replace

import pytest
from support.control import FakeRequest

from headrace.providers import azure_openai, chatgpt, cohere, mistral, ollama, openrouter
from headrace.registry import Registry
from headrace.requests import REMOVE, Deadlines, RuntimeMap, Secret

DEFINITIONS = Registry(tuple).definitions
AZURE = "https://res.openai.azure.com"


def runtime(kind, protocol, settings, base_url=None):
    return RuntimeMap(
        provider="row",
        kind=kind,
        model="up/model",
        base_url=base_url or DEFINITIONS[kind].base_url,
        protocol=protocol,
        settings=settings,
        deadlines=Deadlines(),
    )


@pytest.mark.parametrize(
    ("base", "version", "protocol", "url"),
    [
        (AZURE, None, "openai_chat", f"{AZURE}/openai/v1/chat/completions"),
        (f"{AZURE}/openai/v1/", None, "openai_responses", f"{AZURE}/openai/v1/responses"),
        (
            f"{AZURE}/openai",
            "2026-01-01-preview",
            "openai_chat",
            f"{AZURE}/openai/deployments/up%2Fmodel/chat/completions?api-version=2026-01-01-preview",
        ),
        (AZURE, "v", "openai_responses", f"{AZURE}/openai/responses?api-version=v"),
    ],
)
def test_azure_has_two_families_of_addresses(base, version, protocol, url):
    settings = azure_openai.Settings(api_version=version)
    made = azure_openai.prepare(runtime("azure_openai", protocol, settings, base), FakeRequest(protocol=protocol))
    assert made.url == url


def test_azure_takes_a_key_or_a_token():
    assert azure_openai.authorize(Secret("0123456789abcdef")) == (("api-key", "0123456789abcdef"),)
    assert azure_openai.authorize(Secret("eyJh.eyJi.sig")) == (("authorization", "Bearer eyJh.eyJi.sig"),)


def test_azure_models_that_do_not_reason_are_not_asked_to():
    request = FakeRequest(protocol="anthropic_messages")
    settings = azure_openai.Settings(reasoning=False)
    azure_openai.prepare(runtime("azure_openai", "openai_chat", settings, AZURE), request)
    assert "no_effort" in request.recipes[0].target_flags


@pytest.mark.parametrize(
    ("deployment", "flag"), [("gpt-35-turbo", "no_effort"), ("gpt-5.1", "reasons"), ("ours", None)]
)
def test_an_azure_deployment_is_taken_for_the_model_that_it_is_called_as(deployment, flag):
    request = FakeRequest(protocol="anthropic_messages")
    asked = runtime("azure_openai", "openai_responses", azure_openai.Settings(), AZURE)
    azure_openai.prepare(replace(asked, model=deployment), request)
    assert request.recipes[0].target_flags[:1] == ((flag,) if flag else ())


def token(claims):
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return Secret(f"eyJhbGciOiJub25lIn0.{part}.c2ln")


def test_a_plans_token_names_its_account():
    secret = token({"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}})
    assert chatgpt.authorize(secret) == (
        ("authorization", f"Bearer {secret.reveal()}"),
        ("chatgpt-account-id", "acc-1"),
    )
    for other in (
        Secret("sk-key"),
        Secret("a.!!!.c"),
        token([1]),
        token({"https://api.openai.com/auth": {"chatgpt_account_id": "a\r\nb"}}),
    ):
        assert [name for name, _ in chatgpt.authorize(other)] == ["authorization"]


@pytest.mark.parametrize("client", ["openai_responses", "openai_chat", "anthropic_messages"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_plans_backend_streams_and_stores_nothing(client, stream):
    request = FakeRequest(protocol=client, stream=stream, sent={"originator": "codex_cli_rs"})
    settings = chatgpt.Settings(account_id="acc-2")
    made = chatgpt.prepare(runtime("chatgpt", "openai_responses", settings), request)
    assert made.url == "https://chatgpt.com/backend-api/codex/responses"
    assert request.recipes[0].edits == {"/stream": True, "/store": False, "/max_output_tokens": REMOVE}
    assert request.recipes[0].target_flags == ("reasons",)
    headers = dict(made.headers)
    assert headers["accept"] == "text/event-stream"
    assert headers["chatgpt-account-id"] == "acc-2"
    assert headers["originator"] == ("codex_cli_rs" if client == "openai_responses" else "headrace")
    assert len(headers) == len(made.headers)


def test_cohere_is_told_of_thinking_where_its_models_think():
    for thinking, flag in ((True, "effort"), (False, "no_effort")):
        request = FakeRequest(protocol="openai_chat")
        settings = cohere.Settings(thinking=thinking, client_name="me")
        made = cohere.prepare(runtime("cohere", "cohere_chat", settings), request)
        assert made.url == "https://api.cohere.com/v2/chat"
        assert request.recipes[0].target_flags == (flag,)
        assert dict(made.headers)["x-client-name"] == "me"


def test_mistral_is_written_anew_and_read_anew():
    request = FakeRequest(protocol="openai_chat")
    made = mistral.prepare(runtime("mistral", "openai_chat", mistral.Settings()), request)
    assert made.normalise
    assert made.usage_asked is False
    assert request.recipes[0].edits == {}
    assert {"anew", "short_ids", "random_seed", "no_stream_options"} <= set(request.recipes[0].target_flags)
    assert "effort" not in request.recipes[0].target_flags
    mistral.prepare(runtime("mistral", "openai_chat", mistral.Settings(reasoning=True)), request)
    assert "effort" in request.recipes[1].target_flags


def test_ollama_is_told_how_to_run_its_models():
    request = FakeRequest(protocol="openai_chat")
    settings = ollama.Settings(think=True, think_tags=True, num_ctx=8192, keep_alive="10m")
    made = ollama.prepare(runtime("ollama", "ollama_chat", settings), request)
    assert made.url == "http://127.0.0.1:11434/api/chat"
    assert dict(made.headers)["accept"] == "application/x-ndjson"
    assert made.think_tags
    assert made.normalise
    assert not ollama.prepare(runtime("ollama", "ollama_chat", ollama.Settings()), FakeRequest()).normalise
    assert request.recipes[0].edits == {"/options/num_ctx": 8192, "/keep_alive": "10m"}
    assert request.recipes[0].target_flags == ("effort",)
    at = runtime("ollama", "openai_chat", settings, "http://127.0.0.1:11434/v1")
    made = ollama.prepare(at, FakeRequest(protocol="openai_chat"))
    assert made.url == "http://127.0.0.1:11434/v1/chat/completions"
    assert dict(made.headers)["accept"] == "text/event-stream"


def test_openrouter_is_told_who_asks_and_how_much_to_reason():
    settings = openrouter.Settings(referer="https://app.example", title="App", headers={"X-Title": "Mine"})
    request = FakeRequest(protocol="anthropic_messages")
    made = openrouter.prepare(runtime("openrouter", "openai_chat", settings), request)
    headers = dict(made.headers)
    assert (headers["http-referer"], headers["x-title"]) == ("https://app.example", "Mine")
    assert "reasoning_object" in request.recipes[0].target_flags
    own = FakeRequest(protocol="anthropic_messages")
    messages = replace(runtime("openrouter", "anthropic_messages", settings), base_url="https://openrouter.ai/api/v1")
    made = openrouter.prepare(messages, own)
    assert made.url == "https://openrouter.ai/api/v1/messages"
    assert dict(made.headers)["anthropic-version"] == "2023-06-01"


VENDORS = ("github_models", "huggingface", "llamacpp", "lm_studio", "minimax", "qwen", "sglang", "vllm")


@pytest.mark.parametrize("kind", VENDORS)
def test_a_compatible_vendor_is_a_row_of_data(kind):
    definition = DEFINITIONS[kind]
    (capability,) = definition.speaks("language_model")
    made = capability.prepare(runtime(kind, "openai_chat", definition.settings()), FakeRequest())
    assert made.url == f"{definition.base_url}/chat/completions"
