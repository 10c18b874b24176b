"""Routes, redaction, redirects and web pages over real sockets."""

import http.client
import json
import socket
import sqlite3
import threading
import time

import pytest
from support.gateway import served, upstream
from test_control import ASK, CHAT, ENVIRON, GOOD, no, row

from headrace.testing import Gate, Reply, Upstream

ANTHROPIC = (
    200,
    {},
    json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": "from the other"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    ).encode(),
)


@pytest.fixture
def start(tmp_path):
    """Write a configuration and serve it."""

    def begin(text, *arguments):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return served(path, *arguments, **ENVIRON)

    return begin


def other(url):
    return (
        f'[[providers]]\nid = "other"\nkind = "anthropic"\nbase_url = "{url}"\n'
        '[[providers.credentials]]\nid = "o"\nsecret = "env:KEY_2"\n'
        '[profiles]\nprimary = "acme/m"\n[[routes]]\nprofile = "primary"\nto = ["other/claude-x"]\n'
    )


def test_another_provider_of_another_protocol_answers_in_the_clients_own(start):
    with upstream(no(503)) as near, upstream(ANTHROPIC) as far, start(row(near.url, 1) + other(far.url)) as gateway:
        status, headers, body = gateway.ask(CHAT, {**ASK, "model": "primary"})
        assert (status, body["choices"][0]["message"]["content"]) == (200, "from the other")
        assert headers["x-headrace-model"] == "other/claude-x"
        assert headers["x-headrace-fallback"] == (
            "acme/m -> other/claude-x; reason=overloaded; capability=language_model"
        )
        assert near.keys() == ["Bearer sk-up-1"] * 2
        (seen,) = far.seen
        assert (seen.path, seen.headers["x-api-key"], seen.body["model"]) == ("/v1/messages", "sk-up-2", "claude-x")
        assert "authorization" not in seen.headers
        # The client's own mistake is no reason to ask anybody else.
        near.script[:] = [no(400)]
        near.seen.clear()
        assert gateway.ask(CHAT, {**ASK, "model": "acme/m"})[0] == 503  # it cools, and a plain name has no route
        assert near.seen == []


def test_after_the_commit_nobody_else_is_asked(start):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    text = {
        **chunk,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "half"}, "finish_reason": None}],
    }
    broken = {"error": {"message": "over capacity", "type": "server_error", "code": None}}
    # More than one read takes, so that the answer has begun to go out when the failure comes.
    events = f"data: {json.dumps(text)}\n\n" * 4000 + f"data: {json.dumps(broken)}\n\n"
    cut = (200, {"content-type": "text/event-stream"}, events.encode())
    with upstream(cut) as near, upstream(ANTHROPIC) as far, start(row(near.url, 1) + other(far.url)) as gateway:
        told = gateway.ask(CHAT, {**ASK, "model": "primary", "stream": True})[2]
        assert "half" in told
        assert "from the other" not in told
        assert (len(near.seen), len(far.seen)) == (1, 0)


def test_which_model_answered_is_told_in_a_header(start):
    with upstream(GOOD) as far, start(row(far.url, 1)) as gateway:
        headers = gateway.ask(CHAT, ASK)[1]
        assert headers["x-headrace-model"] == "acme/m"
        assert "x-headrace-fallback" not in headers


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_body_that_repeats_the_providers_key_reaches_the_client_without_it(start, status):
    words = "no: Bearer sk-up-1 may not ask for this; key=sk-up-1sk-up-1"
    body = {"error": {"message": words, "type": "invalid_request_error", "code": None}}
    with (
        upstream((status, {}, json.dumps(body).encode())) as far,
        start(row(far.url, 1), "--log-level", "debug") as gateway,
    ):
        for path in (CHAT, "/v1/messages"):
            told = gateway.ask(path, {**ASK, "max_tokens": 5})
            assert told[0] == status
            assert "sk-up-1" not in json.dumps(told[2])
            assert "no: Bearer *** may not" in json.dumps(told[2])
        assert not any("sk-up-1" in line for line in gateway.lines)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_the_operators_to_mend(start, status):
    with (
        upstream((status, {"location": "https://elsewhere.example/?key=1"}, b"")) as far,
        start(row(far.url, 1)) as gateway,
    ):
        told = gateway.ask(CHAT, ASK)
        assert (told[0], told[2]["error"]["code"]) == (502, "upstream_response_failed")
        assert "base_url" in told[2]["error"]["message"]
        assert told[1]["x-should-retry"] == "false"
        assert "location" not in told[1]
        assert len(far.seen) == 1
        told = gateway.ask("/v1/messages", {**ASK, "max_tokens": 5, "stream": True})
        assert (told[0], told[2]["error"]["type"]) == (502, "api_error")
        told = gateway.ask("/v1/embeddings", {"model": "acme/m", "input": "a"})
        assert (told[0], "base_url" in told[2]["error"]["message"]) == (502, True)
        assert len(far.seen) == 3
        page = gateway.ask("/metrics")[2]
        assert 'headrace_attempts_total{provider="acme",cause="redirected"} 3' in page
        assert "bad_request" not in page


def test_another_provider_serves_where_one_redirects(start):
    with (
        upstream((308, {"location": "https://elsewhere.example/"}, b"")) as near,
        upstream(ANTHROPIC) as far,
        start(row(near.url, 1) + other(far.url)) as gateway,
    ):
        told = gateway.ask(CHAT, {**ASK, "model": "primary"})
        assert (told[0], told[2]["choices"][0]["message"]["content"]) == (200, "from the other")
        assert "reason=unknown" in told[1]["x-headrace-fallback"]


def test_a_bot_challenge_is_named_and_marks_nobody(start):
    page = (
        403,
        {"cf-mitigated": "challenge", "cf-ray": "ray-1", "content-type": "text/html"},
        b"<html>Just a moment</html>",
    )
    with upstream(page, GOOD) as far, start(row(far.url, 1, 2)) as gateway:
        told = gateway.ask(CHAT, ASK)
        assert told[0] == 502
        assert "Cloudflare challenge, cf-ray ray-1" in told[2]["error"]["message"]
        assert len(far.seen) == 1
        assert gateway.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1"] * 2


@pytest.mark.parametrize("wait", ["inf", "nan", "-5", "1e400", "soon"])
def test_a_wait_that_is_none_does_not_reach_the_client(start, wait):
    with (
        upstream((400, {"retry-after": wait, "retry-after-ms": wait}, no(400)[2])) as far,
        start(row(far.url, 1)) as gateway,
    ):
        headers = gateway.ask(CHAT, ASK)[1]
        assert "retry-after" not in headers
        assert "retry-after-ms" not in headers


def test_limits_are_heeded_before_a_429_comes(start):
    low = (200, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "60s"}, GOOD[2])
    with upstream(low, GOOD) as far, start(row(far.url, 1, 2)) as gateway:
        for _ in range(3):
            assert gateway.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1", "Bearer sk-up-2", "Bearer sk-up-2"]


def raw(gateway, method, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    try:
        body = json.dumps(ASK) if method == "POST" else None
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


PAGE = "https://app.example"


@pytest.mark.parametrize("keys", ["", '[[keys]]\nid = "a"\nsecret = "env:TEAM_A"\n'])
def test_a_listed_page_may_ask_and_read_and_another_may_not(start, keys):
    text = f'[server]\norigins = ["{PAGE}"]\n'
    with upstream(GOOD) as far, start(text + row(far.url, 1) + keys) as gateway:
        asks = {
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization",
        }
        status, headers = raw(gateway, "OPTIONS", CHAT, asks)
        assert (status, headers["access-control-allow-origin"]) == (200, PAGE)
        assert "POST" in headers["access-control-allow-methods"]
        assert "authorization" in headers["access-control-allow-headers"]
        json_type = {"content-type": "application/json", "authorization": "Bearer sk-team-a"}
        status, headers = raw(gateway, "POST", CHAT, {**json_type, "origin": PAGE})
        assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, PAGE, "origin")
        assert "access-control-allow-credentials" not in headers
        # A page reads why it was refused, too.
        status, headers = raw(gateway, "POST", CHAT, {"content-type": "text/plain", "origin": PAGE})
        assert (status, headers["access-control-allow-origin"]) == (415, PAGE)
        for method in ("OPTIONS", "POST"):
            status, headers = raw(gateway, method, CHAT, {**json_type, "origin": "https://evil.example"})
            assert "access-control-allow-origin" not in headers
            assert status == 403 if not keys else status in {200, 405}
        assert "access-control-allow-origin" not in raw(gateway, "POST", CHAT, json_type)[1]


def test_providers_are_asked_for_their_lists_and_serve_on_when_they_fail(start):
    listed = (200, {}, json.dumps({"data": [{"id": "big"}, {"id": "small"}]}).encode())
    with upstream(listed) as far, start(row(far.url, 1)) as gateway:
        names = [one["id"] for one in gateway.ask("/v1/models")[2]["data"]]
        assert names == ["acme/big", "acme/small"]
        assert (far.seen[0].path, far.keys()) == ("/v1/models", ["Bearer sk-up-1"])
        far.script[:] = [no(500)]
        assert [one["id"] for one in gateway.ask("/v1/models")[2]["data"]] == names
        assert len(far.seen) == 1


def test_a_list_that_is_refused_redirected_or_switched_off_is_left_out(start):
    moved = (302, {"location": "http://127.0.0.1:9/"}, b"")
    with upstream(moved) as far, upstream(GOOD) as quiet:
        text = (
            row(far.url, 1) + row(quiet.url, 2, extra="list_models = false", name="quiet") + '[models]\nm = "acme/m"\n'
        )
        with start(text) as gateway:
            assert [one["id"] for one in gateway.ask("/v1/models")[2]["data"]] == ["m"]
            assert (len(far.seen), len(quiet.seen)) == (1, 0)


def raw_answer(body):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize("slow", [True, False])
def test_a_hedge_is_asked_beside_a_model_that_does_not_answer(start, slow):
    waits = Reply((Gate("late"), raw_answer(GOOD[2])), is_raw=True)
    first = waits if slow else Reply((raw_answer(GOOD[2]),), is_raw=True)
    with Upstream(first) as near, upstream(ANTHROPIC) as far:
        text = row(near.url, 1) + other(far.url) + f"hedge = {0.05 if slow else 5}\n"
        with start(text) as gateway:
            status, headers, body = gateway.ask(CHAT, {**ASK, "model": "primary"})
            told = body["choices"][0]["message"]["content"]
            assert (status, told) == (200, "from the other" if slow else "yes")
            assert headers["x-headrace-model"] == ("other/claude-x" if slow else "acme/m")
            assert ("reason=hedge" in headers.get("x-headrace-fallback", "")) is slow
            assert (near.facts().request_count, len(far.seen)) == (1, 1 if slow else 0)
            if slow:
                near.wait(lambda facts: facts.open_connections == 0)  # the loser is cancelled


def test_a_hedge_that_fails_waits_for_the_first_and_two_that_fail_go_on(start):
    late = Reply((Gate("late"), raw_answer(GOOD[2])), is_raw=True)
    with (
        Upstream(late) as near,
        upstream(no(500)) as far,
        start(row(near.url, 1) + other(far.url) + "hedge = 0.05\n") as gateway,
    ):
        answers = []
        asking = threading.Thread(target=lambda: answers.append(gateway.ask(CHAT, {**ASK, "model": "primary"})))
        asking.start()
        near.wait(lambda facts: facts.request_count == 1)
        until = time.monotonic() + 10
        while not far.seen:
            assert time.monotonic() < until
            time.sleep(0.01)
        near.open("late")
        asking.join()
        ((status, headers, _),) = answers
        assert (status, headers["x-headrace-model"]) == (200, "acme/m")
        assert len(far.seen) == 1
    with (
        upstream(no(500)) as near,
        upstream(no(500)) as far,
        start(row(near.url, 1) + other(far.url) + "hedge = 0.001\n") as gateway,
    ):
        assert gateway.ask(CHAT, {**ASK, "model": "primary"})[0] in {502, 503}


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (["Bearer sk-team-a"] * 2, 200),
        (["Bearer sk-team-a", "Bearer sk-wrong"], 401),
        (["Bearer sk-wrong", "Bearer sk-team-a"], 401),
    ],
)
def test_of_two_authorization_headers_both_must_be_the_key(start, shown, status):
    with upstream(GOOD) as far, start(row(far.url, 1) + '[[keys]]\nid = "a"\nsecret = "env:TEAM_A"\n') as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
        try:
            body = json.dumps(ASK).encode()
            connection.putrequest("POST", CHAT)
            for value in shown:
                connection.putheader("Authorization", value)
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            assert connection.getresponse().status == status
        finally:
            connection.close()
        assert far.keys() == ["Bearer sk-up-1"] * (status == 200)


def test_a_client_that_leaves_in_a_hedges_race_leaves_both_attempts_in_the_ledger(start, tmp_path):
    late = Reply((Gate("late"), raw_answer(GOOD[2])), is_raw=True)
    body = json.dumps({**ASK, "model": "primary"}).encode()
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    with Upstream(late) as near, Upstream(late) as far:
        text = f'[store]\nurl = "sqlite:{tmp_path}/ledger.db"\n' + row(near.url, 1) + other(far.url) + "hedge = 0.05\n"
        with start(text) as gateway:
            with socket.create_connection(("127.0.0.1", gateway.port)) as client:
                client.sendall(head % (CHAT.encode(), len(body)) + body)
                for upstream_ in (near, far):
                    upstream_.wait(lambda facts: facts.request_count == 1)
            for upstream_ in (near, far):
                upstream_.wait(lambda facts: facts.open_connections == 0)
        # Stopped in order: all is written.
        with sqlite3.connect(tmp_path / "ledger.db") as store:
            attempts = store.execute(
                "SELECT attempt, provider, kind, status FROM node_attempts ORDER BY attempt"
            ).fetchall()
            ((count, kind, sent),) = store.execute("SELECT attempts, error, bytes_sent FROM node_requests").fetchall()
        store.close()
    assert attempts == [(1, "acme", "aborted", 0), (2, "other", "aborted", 0)]
    assert (count, kind) == (2, "aborted")
    assert sent > 2 * len(b'"messages"')
