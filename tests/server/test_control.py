"""The control plane over real sockets: `headrace serve`, a client, and an upstream that answers by a script."""

import json
import signal
import socket

import pytest
from support.gateway import HANG_UP, served, upstream

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
ASK = {"model": "acme/m", "messages": [{"role": "user", "content": "hi"}]}
GOOD = (
    200,
    {},
    json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode(),
)


def no(status, **headers):
    body = {"error": {"message": f"no {status}", "type": "t", "code": None}}
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode()


ENVIRON = {"KEY_1": "sk-up-1", "KEY_2": "sk-up-2", "TEAM_A": "sk-team-a", "TEAM_B": "sk-team-b"}


def row(url, *credentials, extra="", name="acme"):
    text = f'[[providers]]\nid = "{name}"\nkind = "openai_compatible"\nbase_url = "{url}/v1"\n{extra}\n'
    for at in credentials:
        text += f'[[providers.credentials]]\nid = "c{at}"\nsecret = "env:KEY_{at}"\n'
    return text


KEYS = '[[keys]]\nid = "a"\nsecret = "env:TEAM_A"\n[[keys]]\nid = "b"\nsecret = "env:TEAM_B"\n'


@pytest.fixture
def start(tmp_path):
    """Write a configuration and serve it."""

    def begin(text):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return served(path, **ENVIRON)

    return begin


def test_a_limited_credential_is_followed_by_the_next_and_left_alone(start):
    with upstream(no(429, retry_after="60"), GOOD) as far, start(row(far.url, 1, 2)) as near:
        assert near.ask(CHAT, ASK)[2]["choices"][0]["message"]["content"] == "yes"
        assert near.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1", "Bearer sk-up-2", "Bearer sk-up-2"]
        assert far.seen[0].body == far.seen[1].body == {**ASK, "model": "m"}


def test_a_failed_attempt_leaves_evidence_and_no_secret(tmp_path):
    with upstream(no(429, retry_after="60"), GOOD) as far:
        path = tmp_path / "headrace.toml"
        path.write_text(row(far.url, 1, 2))
        with served(path, "--log-level", "info", **ENVIRON) as near:
            assert near.ask(CHAT, ASK)[0] == 200
            line = near.line("attempt 1")
    assert "at acme/c1: rate_limit (status 429), credential cooling, again at once" in line
    assert "sk-up" not in line


def test_a_lone_credential_is_asked_once_more(start):
    with upstream(no(503), GOOD) as far, start(row(far.url, 1)) as near:
        assert near.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1"] * 2


def test_a_connection_that_died_in_the_pool_is_no_failure_of_the_credential(start):
    gone = (HANG_UP, {}, b"")
    with upstream(GOOD, gone, GOOD) as far, start(row(far.url, 1, 2)) as near:
        assert near.ask(CHAT, ASK)[0] == 200
        assert near.ask(CHAT, ASK)[0] == 200
        assert near.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1"] * 4


def test_a_fresh_connection_that_dies_is_one(start):
    gone = (HANG_UP, {}, b"")
    with upstream(gone, GOOD) as far, start(row(far.url, 1, 2)) as near:
        assert near.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1", "Bearer sk-up-2"]


def test_an_exhausted_pool_is_429_with_a_time_and_touches_nobody(start):
    with upstream(no(429, retry_after="600")) as far, start(row(far.url, 1)) as near:
        for path, name in [(CHAT, "error"), (MESSAGES, "error")]:
            status, headers, body = near.ask(path, {**ASK, "max_tokens": 5})
            assert status == 429
            assert "credential_pool_exhausted" in json.dumps(body[name])
            assert "c1 cooling (rate_limit)" in body["error"]["message"]
            assert 590 <= int(headers["retry-after"]) <= 600
            assert headers["x-should-retry"] == "false"
        assert len(far.seen) == 1


def test_a_dead_credential_is_not_used_again(start):
    with upstream(no(401), GOOD) as far, start(row(far.url, 1, 2)) as near:
        assert near.ask(CHAT, ASK)[0] == 200
        assert near.ask(CHAT, ASK)[0] == 200
        assert far.keys() == ["Bearer sk-up-1", "Bearer sk-up-2", "Bearer sk-up-2"]


def test_the_clients_own_mistake_is_its_answer_at_once(start):
    with upstream(no(400)) as far, start(row(far.url, 1, 2)) as near:
        status, _, body = near.ask(CHAT, ASK)
        assert (status, body["error"]["message"]) == (400, "no 400")
        assert len(far.seen) == 1


def test_nobody_listens_is_502(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with start(row(url, 1) + row(url, name="bare")) as near:
            for model in ("acme/m", "bare/m"):
                status, _, body = near.ask(CHAT, {**ASK, "model": model})
                assert (status, body["error"]["code"]) == (502, "upstream_response_failed")


def test_keys_guard_every_door_in_each_format(start):
    with upstream(GOOD) as far, start(row(far.url, 1, extra="list_models = false") + KEYS) as near:
        status, _, body = near.ask(CHAT, ASK)
        assert (status, body["error"]["code"]) == (401, "invalid_api_key")
        status, _, body = near.ask(MESSAGES, {**ASK, "max_tokens": 5}, {"x-api-key": "sk-wrong"})
        assert (status, body["type"], body["error"]["type"]) == (401, "error", "authentication_error")
        assert near.ask("/v1/models")[0] == 401
        assert near.ask("/v1/models", headers={"x-api-key": "sk-team-b"})[0] == 200
        assert near.ask(CHAT, ASK, {"authorization": "Bearer sk-team-a", "cookie": "s=1"})[0] == 200
        assert far.keys() == ["Bearer sk-up-1"]
        assert "cookie" not in far.seen[0].headers
        status, _, body = near.ask(
            "/v1/responses",
            {"model": "acme/m", "input": "hi", "previous_response_id": "resp_1"},
            {"authorization": "Bearer sk-team-a"},
        )
        assert (status, body["error"]["param"]) == (400, "previous_response_id")
        assert len(far.seen) == 1


def test_a_familys_headers_pass_to_its_own_and_the_clients_key_does_not(start):
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "yes"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    text = row("URL", 1, extra='protocol = "anthropic_messages"')
    with upstream((200, {}, json.dumps(answer).encode())) as far, start(text.replace("URL", far.url)) as near:
        sent = {"anthropic-version": "2026-10-21", "anthropic-beta": "b1", "x-api-key": "sk-client", "openai-beta": "x"}
        assert near.ask(MESSAGES, {**ASK, "max_tokens": 5}, sent)[2]["content"][0]["text"] == "yes"
        (seen,) = far.seen
        assert seen.path == "/v1/messages"
        assert (seen.headers["anthropic-version"], seen.headers["anthropic-beta"]) == ("2026-10-21", "b1")
        assert seen.headers["authorization"] == "Bearer sk-up-1"
        assert not {"x-api-key", "openai-beta"} & set(seen.headers)


def chunk(**facts):
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**base, **facts})}\n\n"


def test_usage_is_asked_for_and_the_client_does_not_see_it(start):
    stream = (
        chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "yes"}, "finish_reason": None}])
        + chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        + chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
        + "data: [DONE]\n\n"
    )
    events = (200, {"content-type": "text/event-stream"}, stream.encode())
    with upstream(events) as far, start(row(far.url, 1)) as near:
        told = near.ask(CHAT, {**ASK, "stream": True})[2]
        assert far.seen[0].body["stream_options"] == {"include_usage": True}
        assert "yes" in told
        assert "usage" not in told
        assert told.endswith("data: [DONE]\n\n")
        told = near.ask(CHAT, {**ASK, "stream": True, "stream_options": {"include_usage": True}})[2]
        assert '"total_tokens": 2' in told


def test_a_changed_file_is_taken_and_a_bad_one_refused(start, tmp_path):
    with upstream(GOOD) as far, start(row(far.url, 1)) as near:
        path = tmp_path / "headrace.toml"
        assert near.ask(CHAT, {**ASK, "model": "new"})[0] == 422
        path.write_text(row(far.url, 2) + '[models]\nnew = "acme/m"\n')
        near.process.send_signal(signal.SIGHUP)
        near.line("took the new configuration")
        assert near.ask(CHAT, {**ASK, "model": "new"})[0] == 200
        assert far.keys() == ["Bearer sk-up-2"]
        path.write_text(row(far.url, 2) + '[models]\nnew = "nobody/m"\n')
        near.line("refused, the old one stays")
        assert near.line("headrace.toml:").endswith("models.new: no provider 'nobody'; known: acme")
        assert near.ask(CHAT, {**ASK, "model": "new"})[0] == 200
