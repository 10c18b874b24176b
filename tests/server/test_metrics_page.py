"""The page of metrics over real sockets, read by the parsers of Prometheus' own client."""

import json
import threading
import time

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from support.gateway import served, upstream
from test_control import ASK, CHAT, ENVIRON, GOOD, MESSAGES, no, row
from test_failover import ANTHROPIC, raw_answer

import headrace
from headrace.testing import Gate, Reply, Upstream

ACCEPT = {"accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"}
KEYS = '[[keys]]\nid = "a"\nsecret = "env:TEAM_A"\n'
PRICES = '[catalogue."acme/m"]\nprice_input = 3.0\nprice_output = 15.0\n'


@pytest.fixture
def start(tmp_path):
    """Write a configuration and serve it."""

    def begin(text):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return served(path, WATCH="sk-watch", **ENVIRON)

    return begin


def figures(gateway, headers=None):
    """Read the page in both formats, which must say the same, and give its samples."""
    status, told, text = gateway.ask("/metrics", headers=headers)
    assert (status, told["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8"), text
    plain = read(text_string_to_metric_families(text))
    status, told, text = gateway.ask("/metrics", headers={**ACCEPT, **(headers or {})})
    assert told["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("# EOF\n")
    assert not [secret for secret in ENVIRON.values() if secret in text]
    # What the page itself moves: the processor's time, descriptors, the count of jobs.
    strict = read(openmetrics.text_string_to_metric_families(text))
    assert {name for name, _ in strict} == {name for name, _ in plain}
    assert {one: value for one, value in strict.items() if one[0].startswith("headrace_attempts")} == {
        one: value for one, value in plain.items() if one[0].startswith("headrace_attempts")
    }
    return plain


def read(families):
    found = {}
    for family in families:
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def one(found, name, **labels):
    return found.get((name, tuple(sorted(labels.items()))))


def settled(gateway, count):
    """Wait until so many requests are in the store: a settlement comes after its answer."""
    until = time.monotonic() + 10
    while (one(found := figures(gateway), "headrace_ledger_committed_total") or 0) < count:
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


def test_a_good_answer_is_counted_with_its_tokens_its_cost_and_its_time(start):
    with upstream(GOOD) as far, start(row(far.url, 1) + PRICES) as gateway:
        for path, more in [(CHAT, {}), (MESSAGES, {"max_tokens": 5})]:
            assert gateway.ask(path, {**ASK, **more})[0] == 200
        found = settled(gateway, 2)
    to = {"provider": "acme", "model": "m"}
    for client in ("openai_chat", "anthropic_messages"):
        labels = {"client": client, "capability": "language_model", "provider": "acme", "outcome": "ok"}
        assert one(found, "headrace_requests_total", **labels) == 1
    assert one(found, "headrace_attempts_total", provider="acme", cause="answered") == 2
    tokens = {kind: one(found, "headrace_tokens_total", **to, kind=kind) for kind in ("input", "output", "reasoning")}
    assert tokens == {"input": 2, "output": 2, "reasoning": 0}
    assert one(found, "headrace_cost_usd_total", **to) == pytest.approx(2 * 18e-6)
    assert one(found, "headrace_cost_unknown_total", **to, missing="price") == 0
    assert one(found, "headrace_bytes_total", **to, direction="from_provider") == 2 * len(GOOD[2])
    for direction in ("to_provider", "to_client"):
        assert one(found, "headrace_bytes_total", **to, direction=direction) > 100
    for name in ("headrace_first_byte_seconds", "headrace_answer_seconds"):
        assert one(found, f"{name}_count", provider="acme") == 2
        assert one(found, f"{name}_bucket", provider="acme", le="+Inf") == 2
        assert 0 < one(found, f"{name}_sum", provider="acme") < 5
    assert one(found, "headrace_decide_seconds_count") == 2
    assert one(found, "headrace_ledger_waiting") == one(found, "headrace_ledger_journal") == 0
    assert one(found, "headrace_store_away") == one(found, "headrace_store_errors_total") == 0
    assert one(found, "headrace_open_connections") >= 1
    assert one(found, "headrace_connections_total") >= 4
    assert not [name for name, _ in found if name.startswith("headrace_key_")]
    assert one(found, "headrace_build_info", version=headrace.__version__) == 1
    assert 10e6 < one(found, "process_resident_memory_bytes") < 1e9
    assert one(found, "process_open_fds") > 5
    assert abs(one(found, "process_start_time_seconds") - time.time()) < 60


def test_failures_marks_fallbacks_and_refusals_are_counted_by_cause(start):
    text = (
        '[[providers]]\nid = "other"\nkind = "anthropic"\nbase_url = "{}"\n'
        '[[providers.credentials]]\nid = "o"\nsecret = "env:KEY_2"\n'
        '[profiles]\nprimary = "acme/m"\n[[routes]]\nprofile = "primary"\nto = ["other/claude-x"]\n'
    )
    with (
        upstream(no(429, retry_after="60"), no(401)) as near,
        upstream(ANTHROPIC) as far,
        start(row(near.url, 1, 2) + text.format(far.url)) as gateway,
    ):
        assert gateway.ask(CHAT, {**ASK, "model": "primary"})[0] == 200
        for _ in range(3):
            assert gateway.ask(CHAT, {**ASK, "model": "nobody/knows"})[0] == 422
        found = settled(gateway, 1)
    labels = {"client": "openai_chat", "capability": "language_model", "outcome": "ok"}
    assert one(found, "headrace_requests_total", **labels, provider="other") == 1
    attempts = {
        (provider, cause)
        for name, labels in found
        if name == "headrace_attempts_total"
        for provider, cause in [(dict(labels)["provider"], dict(labels)["cause"])]
    }
    assert attempts == {("acme", "rate_limit"), ("acme", "unauthorized"), ("other", "answered")}
    hop = {"from": "acme", "to": "other", "reason": "auth"}
    assert one(found, "headrace_fallbacks_total", **hop) == 1
    assert one(found, "headrace_refused_total", client="openai_chat", code="unknown_model_selector") == 3
    assert one(found, "headrace_credential_marks_total", provider="acme", state="cooling") == 1
    assert one(found, "headrace_credential_state", provider="acme", credential="c2", state="dead") == 1
    assert one(found, "headrace_credential_state", provider="acme", credential="c1", state="ready") == 1
    assert one(found, "headrace_credential_models_tired", provider="acme", credential="c1") == 1
    assert one(found, "headrace_cost_unknown_total", provider="other", model="claude-x", missing="price") == 1
    assert one(found, "headrace_cost_usd_total", provider="other", model="claude-x") == 0


def test_an_open_breaker_and_a_request_under_way_are_seen(start):
    waits = Reply((Gate("late"), raw_answer(GOOD[2])), is_raw=True)
    with Upstream(waits) as slow, upstream(no(503)) as broken:
        text = row(slow.url, 1) + row(broken.url, extra="[providers.breaker]\nfailures = 1\n", name="bad")
        with start(text + '[models]\nworse = "bad/m"\n') as gateway:
            asking = threading.Thread(target=gateway.ask, args=(CHAT, ASK))
            asking.start()
            slow.wait(lambda facts: facts.request_count == 1)
            assert gateway.ask(CHAT, {**ASK, "model": "bad/m"})[0] == 503
            found = settled(gateway, 1)
            assert one(found, "headrace_in_flight", client="openai_chat", provider="acme") == 1
            assert one(found, "headrace_breakers_open", provider="bad", model="m") == 1
            slow.open("late")
            asking.join()
            found = settled(gateway, 2)
            assert not [name for name, _ in found if name == "headrace_in_flight"]


def test_no_label_is_a_clients_word(start):
    with upstream(GOOD) as far, start(row(far.url, 1) + '[models]\n"x-*" = "acme/{model}"\n') as gateway:
        names = [f'acme/made-up-{at}"}}\n' for at in range(20)] + [f"x-{at}" for at in range(20)]
        names += [f"nobody-{at}" for at in range(20)]
        for name in names:
            assert gateway.ask(CHAT, {**ASK, "model": name})[0] in {200, 422}
        found = settled(gateway, 40)
    models = {dict(labels).get("model") for _, labels in found} - {None}
    assert models == {"other"}
    assert one(found, "headrace_tokens_total", provider="acme", model="other", kind="input") == 40
    assert len(found) < 150


@pytest.mark.parametrize(
    ("text", "sent", "status"),
    [
        ("", None, 200),
        (KEYS, None, 403),
        (KEYS, "sk-team-a", 403),
        ('[metrics]\nsecret = "env:WATCH"\n', None, 401),
        ('[metrics]\nsecret = "env:WATCH"\n', "sk-watch", 200),
        (KEYS + '[metrics]\nsecret = "env:WATCH"\n', "sk-watch", 200),
        (KEYS + '[metrics]\nsecret = "env:WATCH"\n', "sk-team-a", 401),
    ],
)
def test_who_may_read_them(start, text, sent, status):
    with start(row("http://127.0.0.1:9", extra="list_models = false") + text) as gateway:
        headers = {"authorization": f"Bearer {sent}"} if sent else {}
        got, _, body = gateway.ask("/metrics", headers=headers)
        assert got == status
        if status != 200:
            assert "[metrics]" in body["error"]["message"]
        if sent == "sk-watch" and KEYS in text:
            # It opens nothing else.
            assert gateway.ask(CHAT, ASK, headers)[0] == 401
        # A page in the user's browser reads none either.
        assert gateway.ask("/metrics", headers={**headers, "origin": "https://evil.example"})[0] == (
            status if KEYS in text else 403
        )


def test_a_stream_of_many_chunks_is_counted_once(start):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    parts = [{**chunk, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}] * 500
    parts += [{**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    body = b"".join(b"data: %b\n\n" % json.dumps(part).encode() for part in parts) + b"data: [DONE]\n\n"
    with upstream((200, {"content-type": "text/event-stream"}, body)) as far, start(row(far.url, 1)) as gateway:
        before = figures(gateway)
        assert gateway.ask(CHAT, {**ASK, "stream": True})[0] == 200
        found = settled(gateway, 1)
    jobs = {kind: one(found, "headrace_policy_jobs_total", kind=kind) for kind in ("decides", "nexts", "settles")}
    pages = jobs["decides"] - one(before, "headrace_policy_jobs_total", kind="decides")
    assert (jobs["nexts"], jobs["settles"]) == (0, 1)
    assert pages < 500  # the request and the pages that were asked for
    assert one(found, "headrace_cost_unknown_total", provider="acme", model="other", missing="price") == 1


def test_each_key_has_its_share_and_what_is_wrong_in_itself_is_counted_by_status(start):
    watch = '[metrics]\nsecret = "env:WATCH"\n'
    with upstream(GOOD) as far, start(row(far.url, 1) + PRICES + KEYS + watch) as gateway:
        headers = {"authorization": "Bearer sk-team-a"}
        for _ in range(2):
            assert gateway.ask(CHAT, ASK, headers)[0] == 200
        assert gateway.ask(CHAT, ASK)[0] == 401
        assert gateway.ask(CHAT, [], headers)[0] == 400
        assert gateway.ask("/v1/nothing", headers=headers)[0] == 404
        assert gateway.ask("/v1/elsewhere", headers=headers)[0] == 404
        watching = {"authorization": "Bearer sk-watch"}
        until = time.monotonic() + 10
        while one(found := figures(gateway, watching), "headrace_key_requests_total", key="a") != 2:
            assert time.monotonic() < until, found
    assert one(found, "headrace_key_tokens_total", key="a", kind="input") == 2
    assert one(found, "headrace_key_cost_usd_total", key="a") == pytest.approx(2 * 18e-6)
    refused = {
        dict(labels)["status"]: count
        for (name, labels), count in found.items()
        if name == "headrace_edge_refused_total"
    }
    assert refused == {"400": 1, "404": 2}
    assert one(found, "headrace_refused_total", client="openai_chat", code="invalid_api_key") == 1
