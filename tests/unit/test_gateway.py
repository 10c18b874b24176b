"""The gateway's decisions, from a request without a socket to a plan, a refusal or an answer."""

import json
import logging

import pytest
from support.control import Clock, FakeError, FakeRequest, configured, failure, gateway

from headrace.gateway import ALIKE_KEPT
from headrace.providers._wires import KEPT_HEADERS
from headrace.requests import Answer, Plan, Refusal, Settlement

TEXT = """
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "https://acme.example/v1"
[[providers.credentials]]
id = "first"
secret = "env:KEY_1"
[providers.deadlines]
connect = 3
total = 60
[[providers]]
id = "claude"
kind = "anthropic"
[[providers.credentials]]
id = "only"
secret = "env:KEY_2"
[[providers]]
id = "oai"
kind = "openai"
[[providers.credentials]]
id = "a"
secret = "env:KEY_3"
[[providers.credentials]]
id = "b"
secret = "env:KEY_4"
[providers.pool]
strategy = "round_robin"
[[providers]]
id = "demo"
kind = "demo"
[[providers]]
id = "local"
kind = "openai_compatible"
base_url = "http://127.0.0.1:11434/v1"
[profiles]
primary = "acme/big"
web_search = "acme/search"
[models]
"mock-fast" = "acme/mock-fast"
"claude-*" = "claude/{model}"
"""
ENVIRON = {f"KEY_{n}": f"sk-up-{n}" for n in range(1, 5)} | {"TEAM_A": "sk-team-a", "TEAM_B": "sk-team-b"}
KEYS = '\n[[keys]]\nid = "team-a"\nsecret = "env:TEAM_A"\n'
TWO_KEYS = KEYS + '[[keys]]\nid = "team-b"\nsecret = "env:TEAM_B"\nmodels = ["mock-*"]\n'


def plan(of, **facts):
    made = of.decide(FakeRequest(**facts))
    assert isinstance(made, Plan), made
    return made


def test_the_same_protocol_is_relayed_verbatim_with_the_names_changed():
    request = FakeRequest(model="mock-fast")
    made = gateway(TEXT, ENVIRON).decide(request)
    assert (made.relay, made.client_protocol, made.spec.protocol) == ("verbatim", "openai_chat", "openai_chat")
    spec = made.spec
    assert (spec.method, spec.url) == ("POST", "https://acme.example/v1/chat/completions")
    assert dict(spec.headers)["authorization"] == "Bearer sk-up-1"
    assert (spec.deadlines.connect, spec.deadlines.idle, spec.deadlines.total) == (3, 120, 60)
    assert (spec.provider, spec.attempt, spec.delay) == ("acme", 1, 0.0)
    assert request.recipes[0].model == "mock-fast"
    assert spec.body is request.recipes[0]


@pytest.mark.parametrize(
    ("client", "model", "upstream", "relay"),
    [
        ("openai_chat", "oai/m", "openai_chat", "verbatim"),
        ("openai_responses", "oai/m", "openai_responses", "verbatim"),
        ("anthropic_messages", "oai/m", "openai_responses", "normalised"),
        ("openai_chat", "claude/m", "anthropic_messages", "normalised"),
        ("openai_responses", "claude/m", "anthropic_messages", "normalised"),
        ("anthropic_messages", "claude-5", "anthropic_messages", "verbatim"),
        ("openai_responses", "acme/m", "openai_chat", "normalised"),
        ("openai_chat", "demo/text", "openai_chat", "verbatim"),
        ("openai_responses", "demo/text", "openai_responses", "verbatim"),
        ("anthropic_messages", "demo/text", "anthropic_messages", "verbatim"),
    ],
)
def test_the_clients_own_protocol_wins_where_the_provider_speaks_it(client, model, upstream, relay):
    made = plan(gateway(TEXT, ENVIRON), protocol=client, model=model)
    assert (made.spec.protocol, made.relay, made.client_protocol) == (upstream, relay, client)


def test_a_forced_protocol_is_the_only_one():
    text = TEXT.replace('base_url = "https://acme', 'protocol = "openai_responses"\nbase_url = "https://acme')
    made = plan(gateway(text, ENVIRON), model="acme/m")
    assert (made.spec.protocol, made.relay) == ("openai_responses", "normalised")


def test_the_demo_is_where_it_listens_and_needs_no_key():
    spec = plan(gateway(TEXT, ENVIRON), model="demo/text").spec
    assert spec.url == "http://127.0.0.1:4242/v1/chat/completions"
    assert "authorization" not in dict(spec.headers)


@pytest.mark.parametrize(
    ("facts", "status", "code", "words"),
    [
        ({"model": None}, 400, "missing_required_parameter", "names no model"),
        ({"model": "gpt-9"}, 422, "unknown_model_selector", "'gpt-9'"),
        ({"model": "nobody/m"}, 422, "unknown_model_selector", "acme/MODEL"),
        ({"model": "heavy"}, 422, "model_binding_not_configured", "'heavy'"),
        ({"model": "web_search"}, 422, "unsupported_capability", "web_search"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_before_anything_is_touched(facts, status, code, words):
    of = gateway(TEXT, ENVIRON)
    no = of.decide(FakeRequest(**facts))
    assert isinstance(no, Refusal)
    assert (no.status, no.code, no.param) == (status, code, "model")
    assert words in no.message
    assert of.running == 0


def test_keys_are_asked_for_first():
    of = gateway(TEXT + KEYS, ENVIRON)
    assert of.decide(FakeRequest(model="gpt-9")).status == 401
    assert of.decide(FakeRequest(operation="models")).status == 401
    assert of.decide(FakeRequest(sent={"x-api-key": "wrong"})).code == "invalid_api_key"
    assert isinstance(of.decide(FakeRequest(sent={"x-api-key": "sk-team-a"})), Plan)
    assert isinstance(of.decide(FakeRequest(sent={"authorization": "Bearer sk-team-a"})), Plan)


def test_a_key_for_some_models_is_403_for_others():
    of = gateway(TEXT + TWO_KEYS, ENVIRON)
    no = of.decide(FakeRequest(model="acme/m", sent={"x-api-key": "sk-team-b"}))
    assert (no.status, no.code, no.param) == (403, "model_not_allowed", "model")
    assert no.message == "this key may not ask for 'acme/m'; it may ask for: mock-*"
    assert isinstance(of.decide(FakeRequest(model="mock-fast", sent={"x-api-key": "sk-team-b"})), Plan)


def test_with_several_keys_an_id_of_state_upstream_is_400():
    asked = {"state_refs": ("/input/0/file_id",), "sent": {"x-api-key": "sk-team-a"}}
    no = gateway(TEXT + TWO_KEYS, ENVIRON).decide(FakeRequest(**asked))
    assert (no.status, no.code, no.param) == (400, "unsupported_parameter", "input.0.file_id")
    assert isinstance(gateway(TEXT + KEYS, ENVIRON).decide(FakeRequest(**asked)), Plan)
    assert isinstance(gateway(TEXT, ENVIRON).decide(FakeRequest(**asked)), Plan)


def test_a_failure_leads_to_the_next_member_and_settles_once():
    of = gateway(TEXT, ENVIRON)
    made = plan(of, model="oai/m")
    assert dict(made.spec.headers)["authorization"] == "Bearer sk-up-3"
    step = of.next(failure("rate_limit", token=made.token, status=429, retry_after_s=30.0))
    assert dict(step.headers)["authorization"] == "Bearer sk-up-4"
    assert (step.attempt, step.url, step.body) == (2, made.spec.url, made.spec.body)
    assert of.running == 1
    of.settle(Settlement(token=made.token, attempts=2, status=200, finish="stop"))
    assert of.running == 0
    assert {dict(plan(of, model="oai/m").spec.headers)["authorization"] for _ in range(3)} == {"Bearer sk-up-4"}


def test_the_last_failure_is_the_answer_or_the_pool_is():
    of = gateway(TEXT, ENVIRON)
    made = plan(of)
    again = of.next(failure("overloaded", token=made.token, status=503))
    answer = of.next(failure("overloaded", token=made.token, attempt=again.attempt, status=503))
    assert answer.error.kind == "overloaded"
    of.settle(Settlement(token=made.token, attempts=2, status=503, error=FakeError("overloaded", 503)))
    made = plan(of, model="acme/other")
    answer = of.next(failure("rate_limit", token=made.token, status=429, retry_after_s=100.0))
    assert (answer.status, answer.code) == (429, "credential_pool_exhausted")
    refused = of.decide(FakeRequest(model="acme/other"))
    assert (refused.code, refused.retry_at) == ("credential_pool_exhausted", 1_000_100.0)


def test_a_pool_that_cools_answers_503_and_529_to_a_client_of_messages():
    of = gateway(TEXT, ENVIRON)
    made = plan(of)
    of.next(failure("overloaded", token=made.token, status=503))
    of.next(failure("overloaded", token=made.token, attempt=2, status=503))
    told = {client: of.decide(FakeRequest(protocol=client)) for client in ("openai_chat", "anthropic_messages")}
    assert {client: no.status for client, no in told.items()} == {"openai_chat": 503, "anthropic_messages": 529}
    assert all(no.code == "server_is_overloaded" and no.retry_at for no in told.values())


def test_what_broke_after_the_commit_marks_and_a_client_that_left_does_not():
    of = gateway(TEXT, ENVIRON)
    made = plan(of, model="oai/m")
    of.settle(Settlement(token=made.token, attempts=1, status=200, error=FakeError("aborted")))
    made = plan(of, model="oai/m")  # round robin: the other one
    of.settle(Settlement(token=made.token, attempts=1, status=200, error=FakeError("stream_interrupted")))
    used = [dict(plan(of, model="oai/m").spec.headers)["authorization"] for _ in range(3)]
    assert used == ["Bearer sk-up-3"] * 3


def test_a_settlement_of_nothing_is_said_and_is_no_error(caplog):
    with caplog.at_level(logging.WARNING):
        gateway(TEXT, ENVIRON).settle(Settlement(token=99, attempts=1, status=200, finish="stop"))
    assert "99" in caplog.text


def test_every_failed_attempt_leaves_evidence(caplog):
    of = gateway(TEXT, ENVIRON)
    made = plan(of, model="oai/m")
    with caplog.at_level(logging.INFO, logger="headrace"):
        of.next(failure("auth", token=made.token, status=401))
    assert "attempt 1 at oai/a: unauthorized (status 401), credential dead, again at once" in caplog.text
    assert "sk-" not in caplog.text


def test_the_log_says_why_a_connection_failed_and_never_what_a_provider_said(caplog):
    of = gateway(TEXT, ENVIRON)
    made = plan(of, model="oai/m")
    with caplog.at_level(logging.INFO, logger="headrace"):
        of.next(failure("transport", token=made.token, phase="connect", message="connecting failed: refused"))
        of.next(failure("overloaded", token=made.token, attempt=2, status=503, message="your prompt was: hush"))
    assert "endpoint, connecting failed: refused, no mark" in caplog.text
    assert "overloaded (status 503)" in caplog.text
    assert "hush" not in caplog.text


def test_a_conversation_stays_with_its_credential_and_never_joins_another_keys():
    of = gateway(TEXT + TWO_KEYS.replace('models = ["mock-*"]\n', ""), ENVIRON)

    def used(session, key, cache_key=None):
        made = plan(of, model="oai/m", session=session, prompt_cache_key=cache_key, sent={"x-api-key": key})
        return dict(made.spec.headers)["authorization"]

    first = used("t1", "sk-team-a")
    assert used("t2", "sk-team-a") != first
    assert used("t1", "sk-team-a") == first
    assert used(None, "sk-team-a", "t1") == first  # the same words as a cache key are the same thread
    # For another key the same words are another thread: it takes its turn.
    assert [used("t1", "sk-team-b"), used("t9", "sk-team-a"), used("t1", "sk-team-b")].count(first) == 1


def test_a_conversation_that_the_provider_holds_stays_with_the_key_and_the_credential_that_have_it():
    of = gateway(TEXT + TWO_KEYS.replace('models = ["mock-*"]\n', ""), ENVIRON)

    def ask(key, previous=None, **more):
        refs = ("/previous_response_id",) if previous else ()
        facts = {"protocol": "openai_responses", "model": "oai/m", "sent": {"x-api-key": key}, **more}
        return of.decide(FakeRequest(previous_response_id=previous, state_refs=refs, **facts))

    first = ask("sk-team-a")
    used = dict(first.spec.headers)["authorization"]
    assert ask("sk-team-a", "resp_1").status == 400  # nobody has seen it yet
    of.settle(Settlement(token=first.token, attempts=1, status=200, finish="stop", response_id="resp_1"))
    again = [ask("sk-team-a", "resp_1", session="other") for _ in range(3)]
    assert [dict(plan.spec.headers)["authorization"] for plan in again] == [used] * 3
    assert ask("sk-team-b", "resp_1").status == 400
    both = of.decide(
        FakeRequest(
            protocol="openai_responses",
            model="oai/m",
            previous_response_id="resp_1",
            state_refs=("/previous_response_id", "/input/0/file_id"),
            sent={"x-api-key": "sk-team-a"},
        )
    )
    assert both.status == 400
    # An id that was made here, of a translated answer, is held nowhere.
    made = ask("sk-team-a", model="claude/m")
    of.settle(Settlement(token=made.token, attempts=1, status=200, finish="stop", response_id="resp_2"))
    assert ask("sk-team-a", "resp_2").status == 400


def test_the_model_list_has_both_shapes():
    of = gateway(TEXT, ENVIRON)
    answer = of.decide(FakeRequest(operation="models", protocol="openai_chat", method="GET"))
    assert isinstance(answer, Answer)
    listed = json.loads(answer.body)
    assert listed["object"] == "list"
    assert {"mock-fast", "primary", "demo/text", "demo/tools"} <= {one["id"] for one in listed["data"]}
    assert not any("*" in one["id"] for one in listed["data"])
    assert all(
        one["object"] == "model" and one["owned_by"] and isinstance(one["created"], int) for one in listed["data"]
    )
    other = json.loads(of.decide(FakeRequest(operation="models", protocol="anthropic_messages")).body)
    assert [one["id"] for one in other["data"]] == [one["id"] for one in listed["data"]]
    assert all(one["type"] == "model" and one["display_name"] and one["created_at"] for one in other["data"])
    assert (other["has_more"], other["first_id"]) == (False, other["data"][0]["id"])


def test_the_vendors_sdks_read_the_model_list():
    from anthropic.types import ModelInfo
    from openai.types import Model

    of = gateway(TEXT, ENVIRON)
    for protocol, shape in (("openai_chat", Model), ("anthropic_messages", ModelInfo)):
        listed = json.loads(of.models(protocol).body)["data"]
        assert listed, "an empty list is read by anybody"
        for one in listed:
            shape.model_validate(one)


def test_an_empty_gateway_has_an_empty_list():
    assert json.loads(gateway("").models("anthropic_messages").body)["first_id"] is None


def test_tokens_are_counted_by_the_provider_or_estimated_in_so_many_words():
    of = gateway(TEXT, ENVIRON)
    facts = {"operation": "count_tokens", "protocol": "anthropic_messages", "body_size": 4000, "stream": False}
    made = plan(of, model="claude/m", **facts)
    assert made.relay == "opaque"
    assert made.spec.url == "https://api.anthropic.com/v1/messages/count_tokens"
    for model in ("acme/m", "demo/text"):
        answer = of.decide(FakeRequest(model=model, **facts))
        assert json.loads(answer.body) == {"input_tokens": 1000}
        assert answer.headers == (("x-headrace-estimate", "true"),)
    assert of.decide(FakeRequest(model="gpt-9", **facts)).code == "unknown_model_selector"


def test_a_reload_takes_the_new_names_and_keeps_what_was_learnt():
    clock = Clock()
    of = gateway(TEXT, ENVIRON, clock=clock)
    made = plan(of, model="oai/m")
    of.next(failure("overloaded", token=made.token, status=503, retry_after_s=20.0))
    text = TEXT.replace('primary = "acme/big"', 'primary = "oai/new"')
    of.reload(configured(text, ENVIRON))
    after = plan(of, model="primary")
    assert after.spec.provider == "oai"
    # What ran goes on as it was planned, and still marks the members that the new table has.
    step = of.next(failure("overloaded", token=made.token, attempt=2, status=503, retry_after_s=20.0))
    assert isinstance(step, Refusal)
    of.settle(Settlement(token=made.token, attempts=2, status=503, error=FakeError("overloaded", 503)))
    assert of.decide(FakeRequest(model="oai/m")).code == "server_is_overloaded"
    of.reload(configured(text.replace("KEY_4", "TEAM_A"), ENVIRON))
    assert dict(plan(of, model="oai/m").spec.headers)["authorization"] == "Bearer sk-team-a"
    clock.pass_(20)
    assert {dict(plan(of, model="oai/m").spec.headers)["authorization"] for _ in range(2)} == {
        "Bearer sk-up-3",
        "Bearer sk-team-a",
    }


def test_what_was_prepared_serves_those_requests_alone_that_are_alike():
    of = gateway(TEXT, ENVIRON)
    first = [plan(of, model="mock-fast")]
    # The edge keeps what it reads of one that is given again; of one that may be given once, nothing.
    assert first[0].spec.sealed is False
    first += [plan(of, model="mock-fast", id=f"req_{n}") for n in range(2)]
    assert first[0].spec is first[1].spec is first[2].spec
    assert len({one.token for one in first}) == 3
    assert first[0].spec.sealed is True
    others = [
        plan(of, model="mock-fast", stream=False),
        plan(of, model="mock-fast", include_usage=True),
        plan(of, model="mock-fast", protocol="anthropic_messages"),
        plan(of, model="mock-fast", protocol="openai_responses"),
        plan(of, model="mock-fast", sent={"openai-beta": "one"}),
        plan(of, model="mock-fast", sent={"openai-beta": "two"}),
        plan(of, model="acme/other"),
    ]
    specs = [first[0].spec, *(one.spec for one in others)]
    assert len({id(one) for one in specs}) == len(specs)
    assert [dict(one.headers).get("openai-beta") for one in specs[5:7]] == ["one", "two"]
    assert [dict(one.headers)["accept"] for one in specs[:2]] == ["text/event-stream", "application/json"]
    assert [one.usage_asked for one in specs[:3]] == [True, False, False]
    assert [one.body.model for one in specs[-2:]] == ["mock-fast", "other"]
    assert [one.relay for one in others[1:4]] == ["verbatim", "normalised", "normalised"]
    # A count goes elsewhere, though all else is the same.
    claude = plan(of, model="claude/m", protocol="anthropic_messages")
    count = plan(of, model="claude/m", protocol="anthropic_messages", operation="count_tokens")
    assert (count.relay, count.spec.url) == ("opaque", claude.spec.url + "/count_tokens")
    assert plan(of, model="claude/m", protocol="anthropic_messages").spec is claude.spec


def test_each_credential_has_an_attempt_of_its_own_and_a_second_attempt_is_never_a_first():
    of = gateway(TEXT, ENVIRON)
    specs = [plan(of, model="oai/m").spec for _ in range(6)]
    shown = [dict(one.headers)["authorization"] for one in specs]
    assert shown == ["Bearer sk-up-3", "Bearer sk-up-4"] * 3
    assert len({id(one) for one in specs}) == 2
    assert all(one.secrets == (dict(one.headers)["authorization"].removeprefix("Bearer "),) for one in specs)
    made = plan(of, model="oai/m")
    again = of.next(failure("overloaded", token=made.token, status=503))
    assert (again.attempt, again.sealed) == (2, False)
    assert dict(again.headers)["authorization"] != dict(made.spec.headers)["authorization"]
    # A new secret is another credential.
    of.reload(configured(TEXT, {**ENVIRON, "KEY_3": "sk-new-3", "KEY_4": "sk-new-4"}))
    after = {dict(plan(of, model="oai/m").spec.headers)["authorization"] for _ in range(3)}
    assert after <= {"Bearer sk-new-3", "Bearer sk-new-4"}


def test_headers_that_differ_with_each_client_fill_no_memory():
    of = gateway(TEXT, ENVIRON)
    for n in range(200):
        made = plan(of, model="mock-fast", sent={"openai-beta": f"kind {n}"})
        assert dict(made.spec.headers)["openai-beta"] == f"kind {n}"
        assert len(of.way(made.token).runtime.kept) <= ALIKE_KEPT
    # Nor long ones, of which even a few would, times the models that a client can name.
    long = {"openai-beta": "x" * KEPT_HEADERS}
    for _ in range(2):
        made = plan(of, model="acme/fresh", sent=long)
        assert dict(made.spec.headers)["openai-beta"] == long["openai-beta"]
        assert (made.spec.sealed, of.way(made.token).runtime.kept) == (False, {})


def test_a_decision_reads_no_prompt_and_is_quick():
    import time

    of = gateway(TEXT, ENVIRON)
    request = FakeRequest(model="mock-fast")
    best = min(_timed(of, request, time.perf_counter) for _ in range(20))
    assert best < 1e-3  # of a budget of 60 us; this bound only finds what runs per byte or per row


def _timed(of, request, clock):
    start = clock()
    made = of.decide(request)
    of.settle(Settlement(token=made.token, attempts=1, status=200, finish="stop"))
    return clock() - start
