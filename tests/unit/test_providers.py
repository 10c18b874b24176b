"""Preparation: which wire, which address, which headers, which edits; and never a secret."""

from dataclasses import replace

import pytest
from support.control import FakeRequest

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers import anthropic, openai, openai_compatible
from headrace.providers._wires import endpoint
from headrace.providers.openai_compatible import DIALECT_FLAGS, Settings
from headrace.registry import Registry
from headrace.requests import Deadlines, RuntimeMap, Secret

DEFINITIONS = Registry(tuple).definitions


def runtime(kind, protocol, settings=None, base_url=None):
    definition = DEFINITIONS[kind]
    return RuntimeMap(
        provider="row",
        kind=kind,
        model="upstream-model",
        base_url=base_url or definition.base_url or "https://x.example/v1",
        protocol=protocol,
        settings=settings if settings is not None else (definition.settings or (lambda: None))(),
        deadlines=Deadlines(idle=7.0),
    )


@pytest.mark.parametrize(
    ("base", "protocol", "url"),
    [
        ("https://api.openai.com/v1", "openai_chat", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "openai_responses", "https://api.openai.com/v1/responses"),
        ("https://api.anthropic.com", "anthropic_messages", "https://api.anthropic.com/v1/messages"),
        ("http://127.0.0.1:9/v1", "anthropic_messages", "http://127.0.0.1:9/v1/messages"),
        ("https://api.z.ai/api/paas/v4", "openai_chat", "https://api.z.ai/api/paas/v4/chat/completions"),
        ("https://d.example/anthropic", "anthropic_messages", "https://d.example/anthropic/v1/messages"),
    ],
)
def test_where_a_request_goes(base, protocol, url):
    assert endpoint(base, protocol) == url


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_every_kind_prepares_each_of_its_wires_without_a_secret(kind):
    for capability in DEFINITIONS[kind].speaks("language_model"):
        for client in ("openai_chat", "openai_responses", "anthropic_messages"):
            request = FakeRequest(protocol=client, sent={"authorization": "Bearer sk-client", "cookie": "c=sk-client"})
            made = capability.prepare(runtime(kind, capability.protocol), request)
            assert made.url.startswith(("https://", "http://127.0.0.1"))
            assert made.protocol == capability.protocol
            assert made.deadlines.idle == 7.0
            assert dict(made.headers)["content-type"] == "application/json"
            assert len({name for name, _ in made.headers}) == len(made.headers)
            assert "sk-client" not in str(made.headers)
            assert (request.recipes[0].protocol, request.recipes[0].model, request.recipes[0].provider) == (
                capability.protocol,
                "upstream-model",
                "row",
            )


def test_which_wires_a_kind_speaks():
    def wires(kind, forced=None):
        return [one.protocol for one in DEFINITIONS[kind].speaks("language_model", forced)]

    assert wires("openai") == ["openai_responses", "openai_chat"]
    assert wires("anthropic") == ["anthropic_messages"]
    assert wires("openai_compatible") == ["openai_chat"]
    assert wires("openai_compatible", "anthropic_messages") == ["anthropic_messages"]
    assert wires("openai", "openai_chat") == ["openai_chat"]
    assert wires("anthropic", "openai_chat") == []
    assert len(wires("demo")) == 3
    assert DEFINITIONS["demo"].speaks("web_search") == ()


def test_how_each_vendor_is_authorised():
    assert DEFINITIONS["openai"].authorize(Secret("k")) == (("authorization", "Bearer k"),)
    assert DEFINITIONS["anthropic"].authorize(Secret("k")) == (("x-api-key", "k"),)
    assert DEFINITIONS["groq"].authorize(Secret("k")) == bearer(Secret("k"))


SENT = {
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "b1,b2",
    "anthropic-organization-id": "org",
    "openai-beta": "responses=v1",
    "openai-organization": "org",
    "openai-project": "p",
    "originator": "codex",
    "session-id": "s",
    "thread-id": "t",
    "x-codex-window-id": "w",
    "x-codex-turn-state": "secret-route",
    "x-forwarded-for": "10.0.0.1",
    "authorization": "Bearer sk-client",
    "x-api-key": "sk-client",
    "cookie": "a=b",
    "user-agent": "me",
}


@pytest.mark.parametrize(
    ("kind", "client", "upstream", "passed"),
    [
        (
            "openai",
            "openai_responses",
            "openai_responses",
            {"openai-beta", "originator", "session-id", "thread-id", "x-codex-window-id"},
        ),
        ("openai", "openai_chat", "openai_chat", {"openai-beta", "originator", "session-id", "thread-id"}),
        ("anthropic", "anthropic_messages", "anthropic_messages", {"anthropic-version", "anthropic-beta"}),
        ("openai", "anthropic_messages", "openai_responses", set()),
        ("openai", "openai_responses", "openai_chat", set()),
        ("anthropic", "openai_chat", "anthropic_messages", {"anthropic-version"}),
        ("openai_compatible", "openai_chat", "openai_chat", {"openai-beta", "originator", "session-id", "thread-id"}),
    ],
)
def test_only_its_own_familys_headers_pass(kind, client, upstream, passed):
    capability = next(one for one in DEFINITIONS[kind].capabilities if one.protocol == upstream)
    made = capability.prepare(runtime(kind, upstream), FakeRequest(protocol=client, sent=dict(SENT)))
    assert {name for name, _ in made.headers} == passed | {"content-type", "accept"}


def test_the_clients_version_wins_and_decides_on_sampling():
    request = FakeRequest(protocol="anthropic_messages", sent={"anthropic-version": "2026-10-21"})
    made = anthropic.prepare(runtime("anthropic", "anthropic_messages"), request)
    assert dict(made.headers)["anthropic-version"] == "2026-10-21"
    assert request.recipes[0].target_flags == ("auto_cache",)
    request = FakeRequest(protocol="openai_chat", sent={"anthropic-version": "2026-10-21"})
    made = anthropic.prepare(runtime("anthropic", "anthropic_messages"), request)
    assert dict(made.headers)["anthropic-version"] == "2023-06-01"
    assert request.recipes[0].target_flags == ("auto_cache", "sampling")


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("claude-3-7-sonnet-20250219", ("sampling", "no_adaptive_thinking", "thinking_budget")),
        ("claude-opus-4-20250514", ("sampling", "no_adaptive_thinking", "thinking_budget")),
        ("claude-haiku-4-5-20251001", ("sampling", "no_adaptive_thinking", "thinking_budget")),
        ("claude-sonnet-4-6", ("sampling",)),
        ("claude-opus-4-7", ()),
        ("claude-opus-4-8", ("system_messages",)),
        ("claude-sonnet-5", ()),
        ("claude-fable-5-2", ("system_messages",)),
        ("claude-mythos-preview", ("sampling",)),
    ],
)
def test_a_claude_models_number_says_what_it_takes(model, flags):
    request = FakeRequest(protocol="openai_chat")
    settings = anthropic.Settings(cache=False)
    anthropic.prepare(replace(runtime("anthropic", "anthropic_messages", settings), model=model), request)
    assert request.recipes[0].target_flags == flags


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-4o-mini", False),
        ("ft:gpt-4.1:x", False),
        ("gpt-5-chat-latest", False),
        ("gpt-5.4", True),
        ("o3", True),
        ("codex-mini-latest", True),
        ("a-name-of-ours", None),
    ],
)
def test_a_model_that_does_not_reason_is_not_asked_to(model, reasons):
    request = FakeRequest(protocol="anthropic_messages")
    openai.prepare(replace(runtime("openai", "openai_chat"), model=model), request)
    flags = request.recipes[0].target_flags
    assert ("no_effort" in flags) is (reasons is False)
    # Its reasoning is asked for always where it is known to reason, and never where it would refuse that.
    assert ("reasons" in flags) is (reasons is True)
    assert ("no_encrypted_reasoning" in flags) is (reasons is False)


def test_configured_features_join_the_clients():
    settings = anthropic.Settings(beta=("b2", "b3"))
    request = FakeRequest(protocol="anthropic_messages", sent={"anthropic-beta": "b1, b2"})
    made = anthropic.prepare(runtime("anthropic", "anthropic_messages", settings), request)
    assert dict(made.headers)["anthropic-beta"] == "b1,b2,b3"


def test_openai_says_who_pays():
    settings = openai.Settings(organization="org-1", project="proj-1")
    made = openai.prepare(
        runtime("openai", "openai_chat", settings), FakeRequest(sent={"openai-organization": "org-of-the-client"})
    )
    named = dict(made.headers)
    assert (named["openai-organization"], named["openai-project"]) == ("org-1", "proj-1")


@pytest.mark.parametrize(
    ("client", "stream", "asked", "takes", "edited", "taken_out"),
    [
        ("openai_chat", True, False, True, True, True),
        ("openai_chat", True, True, True, False, False),
        ("openai_chat", False, False, True, False, False),
        ("openai_chat", True, False, False, False, False),
        ("anthropic_messages", True, False, True, True, False),
        ("anthropic_messages", True, False, False, False, False),
    ],
)
def test_usage_is_asked_for_where_the_client_did_not(client, stream, asked, takes, edited, taken_out):
    request = FakeRequest(protocol=client, stream=stream, include_usage=asked)
    made = openai_compatible.prepare(
        runtime("openai_compatible", "openai_chat", Settings(include_usage=takes)), request
    )
    assert request.recipes[0].edits == ({"/stream_options/include_usage": True} if edited else {})
    assert made.usage_asked is taken_out


def test_usage_is_a_matter_of_chat_alone():
    request = FakeRequest(protocol="openai_responses")
    made = openai.prepare(runtime("openai", "openai_responses"), request)
    assert (request.recipes[0].edits, made.usage_asked) == ({}, False)


def test_accept_follows_the_body():
    for stream, accept in [(True, "text/event-stream"), (False, "application/json")]:
        made = openai.prepare(runtime("openai", "openai_chat"), FakeRequest(stream=stream))
        assert dict(made.headers)["accept"] == accept


def test_a_compatible_server_has_its_dialect():
    settings = Settings(think_tags=True, dialect=("developer", "no_images"), headers={"X-Title": "me"})
    request = FakeRequest(protocol="openai_responses")
    made = openai_compatible.prepare(runtime("openai_compatible", "openai_chat", settings), request)
    assert made.think_tags
    assert dict(made.headers)["x-title"] == "me"
    assert request.recipes[0].target_flags == ("openai_compatible", "developer", "no_images")
    request = FakeRequest(protocol="anthropic_messages")
    made = openai_compatible.prepare(runtime("openai_compatible", "anthropic_messages", settings), request)
    assert request.recipes[0].target_flags[0] == "anthropic_compatible"
    assert dict(made.headers)["anthropic-version"] == "2023-06-01"
    assert not made.think_tags


def test_the_dialects_flags_are_the_translations(root):
    text = (root / "rust/codec/src/request/flags.rs").read_text(encoding="utf-8")
    body = text[text.index("flags! {") : text.index("/// The set of flags")]
    names = [line.split('"')[1] for line in body.splitlines() if ' = "' in line]
    assert tuple(names) == DIALECT_FLAGS


def test_vendors_that_refuse_the_usage_option_are_not_asked():
    request = FakeRequest()
    DEFINITIONS["zai"].capabilities[0].prepare(runtime("zai", "openai_chat"), request)
    assert request.recipes[0].edits == {}
    assert "no_stream_options" in request.recipes[0].target_flags


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        ("cerebras", "echo_reasoning"),
        ("deepseek", "echo_reasoning_content"),
        ("groq", "max_completion_tokens"),
        ("moonshot", "no_required_choice"),
        ("zai", "echo_reasoning_content"),
    ],
)
def test_a_vendors_dialect_is_known(kind, flag):
    request = FakeRequest(protocol="anthropic_messages")
    DEFINITIONS[kind].capabilities[0].prepare(runtime(kind, "openai_chat"), request)
    assert flag in request.recipes[0].target_flags
    assert {name.removeprefix("no_") for name in request.recipes[0].target_flags[1:]} <= set(DIALECT_FLAGS)


def test_a_definition_is_a_value():
    one = Capability("language_model", "openai_chat", openai.prepare)
    made = ProviderDefinition(kind="k", label="K", capabilities=(one,))
    assert made == ProviderDefinition(kind="k", label="K", capabilities=(one,))
    with pytest.raises(AttributeError):
        made.kind = "other"
