"""Responses over a WebSocket: the vendor's own SDK and a plain client as clients of the gateway."""

from __future__ import annotations

import json
import signal

import httpx
import openai
import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import connect

from tests.support.edge import served
from tests.support.gateway import upstream

KEY = "hr-canary-of-team-a"


def message(text: str) -> dict[str, object]:
    return {"type": "message", "role": "user", "content": text}


def answer(number: int, *, cut: bool = False) -> bytes:
    """A whole answer as OpenAI streams it, with reasoning that only its maker can read."""
    response = {"id": f"resp_up{number}", "object": "response", "created_at": 1, "model": "m", "output": []}
    reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"sealed{number}"}
    said = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": f"answer {number}", "annotations": []}],
    }
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.added", "output_index": 1, "item": {**said, "content": []}},
        {
            "type": "response.content_part.added",
            "item_id": said["id"],
            "output_index": 1,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        },
        {
            "type": "response.output_text.delta",
            "item_id": said["id"],
            "output_index": 1,
            "content_index": 0,
            "delta": f"answer {number}",
        },
        {"type": "response.output_item.done", "output_index": 1, "item": said},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [reasoning, said]}},
    ]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events[: 6 if cut else None]
    )


SSE = {"content-type": "text/event-stream"}


def config(url: str, more: str = "") -> str:
    return f"""
[[providers]]
id = "up"
kind = "openai_compatible"
base_url = "{url}/v1"
protocol = "openai_responses"
{more}
"""


def ws_url(gateway) -> str:
    return gateway.url.replace("http", "ws", 1) + "/v1/responses"


def turn(socket, **body):
    """Asks, and gives the messages of the answer up to its end."""
    socket.send(json.dumps({"type": "response.create", **body}))
    return rest(socket)


def rest(socket):
    heard = []
    while not heard or heard[-1]["type"] not in {"response.completed", "response.failed", "error"}:
        heard.append(json.loads(socket.recv(timeout=20)))
    return heard


# The SDK has not yet followed the library that it opens sockets with.
@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
def test_the_sdk_holds_a_conversation(tmp_path):
    script = [(200, SSE, answer(n)) for n in (1, 2)]
    with upstream(*script) as up, served(tmp_path, config(up.url)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with client.responses.connect(max_retries=0) as connection:
            texts, previous = [], None
            for question in ("one", "two"):
                more = {"previous_response_id": previous} if previous else {}
                connection.response.create(model="up/m", input=[message(question)], store=False, **more)
                for event in connection:
                    if event.type == "response.completed":
                        previous = event.response.id
                        texts.append(event.response.output_text)
                        break
        assert texts == ["answer 1", "answer 2"]
    first, second = (one.body for one in up.seen)
    assert first["input"] == [message("one")]
    # The second turn carries the first one whole: question, sealed reasoning and answer, as they were.
    assert [item["type"] for item in second["input"]] == ["message", "reasoning", "message", "message"]
    assert second["input"][1]["encrypted_content"] == "sealed1"
    assert second["input"][3] == message("two")
    assert (first["stream"], second["stream"]) == (True, True)
    assert not {"type", "previous_response_id"} & (first.keys() | second.keys())


def test_another_family_answers_over_it_too(tmp_path):
    with served(tmp_path) as gateway, connect(ws_url(gateway)) as socket:
        heard = turn(socket, model="demo/tools", input="hi", tools=[{"type": "function", "name": "weather"}])
        assert heard[0]["type"] == "response.created"
        calls = [item for item in heard[-1]["response"]["output"] if item["type"] == "function_call"]
        output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "rain"}
        again = turn(socket, model="demo/text", input=[output], previous_response_id=heard[-1]["response"]["id"])
        assert again[-1]["type"] == "response.completed"


def test_a_warm_up_costs_no_request(tmp_path):
    with upstream((200, SSE, answer(1))) as up, served(tmp_path, config(up.url)) as gateway:
        with connect(ws_url(gateway)) as socket:
            start = {"type": "message", "role": "developer", "content": "be brief"}
            heard = turn(socket, model="up/m", input=[start], generate=False, stream=True)
            end = heard[-1]
            assert (end["type"], end["response"]["output"]) == ("response.completed", [])
            assert up.seen == []
            turn(socket, model="up/m", input=[message("hi")], previous_response_id=end["response"]["id"], store=False)
        assert up.seen[0].body["input"] == [start, message("hi")]
        assert "generate" not in up.seen[0].body


def test_one_answer_at_a_time(tmp_path):
    with served(tmp_path) as gateway, connect(ws_url(gateway)) as socket:
        for _ in range(2):
            socket.send(json.dumps({"type": "response.create", "model": "demo/slow", "input": "hi"}))
        heard = []
        while not heard or heard[-1]["type"] != "response.completed":
            heard.append(json.loads(socket.recv(timeout=20)))
        errors = [one for one in heard if one["type"] == "error"]
        assert [(one["status"], one["error"]["code"]) for one in errors] == [(409, "response_in_progress")]
        # The first answer went on undisturbed.
        assert turn(socket, model="demo/text", input="hi")[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("frame", "status", "code", "param"),
    [
        ("{", 400, "invalid_json", None),
        ('{"type": "response.steer"}', 400, "invalid_request", "type"),
        ('{"type": "response.create", "input": "hi"}', 400, None, "model"),
        ('{"type": "response.create", "model": "nobody/x", "input": "hi"}', 422, "unknown_model_selector", "model"),
        ('{"type": "response.create", "model": 1}', 400, "invalid_request", "model"),
        ('{"type": "response.create", "model": "demo/text", "stream_id": "a"}', 400, "invalid_stream_id", "stream_id"),
        (
            '{"type": "response.create", "model": "demo/text", "store": false, "previous_response_id": "resp_x"}',
            400,
            "previous_response_not_found",
            "previous_response_id",
        ),
        ('{"type": "response.create", "model": "demo/error-429", "input": "hi"}', 429, None, None),
    ],
)
def test_a_bad_frame_is_told_and_the_connection_stays(tmp_path, frame, status, code, param):
    with served(tmp_path) as gateway, connect(ws_url(gateway)) as socket:
        socket.send(frame)
        told = json.loads(socket.recv(timeout=20))
        assert (told["type"], told["status"]) == ("error", status)
        assert code is None or told["error"]["code"] == code
        assert param is None or told["error"]["param"] == param
        assert turn(socket, model="demo/text", input="hi")[-1]["type"] == "response.completed"


def test_a_cut_answer_fails_and_is_not_taken_up(tmp_path):
    script = [(200, SSE, answer(1)), (200, SSE, answer(2, cut=True)), (200, SSE, answer(3))]
    with upstream(*script) as up, served(tmp_path, config(up.url)) as gateway, connect(ws_url(gateway)) as socket:
        previous = turn(socket, model="up/m", input="one", store=False)[-1]["response"]["id"]
        cut = turn(socket, model="up/m", input="two", store=False, previous_response_id=previous)
        # All of it came at once, and nothing had reached the client.
        assert (cut[-1]["type"], cut[-1]["status"]) == ("error", 502)
        # The client goes on from the last good answer.
        again = turn(socket, model="up/m", input="three", store=False, previous_response_id=previous)
        assert again[-1]["type"] == "response.completed"
        asked = json.dumps(up.seen[-1].body["input"])
        assert "answer 1" in asked
        assert "answer 2" not in asked


def test_keys_are_asked_for_before_the_switch(tmp_path):
    more = '[[keys]]\nid = "team-a"\nsecret = "env:TEAM_A"'
    with upstream((200, SSE, answer(1))) as up, served(tmp_path, config(up.url, more), TEAM_A=KEY) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            connect(ws_url(gateway))
        assert refused.value.response.status_code == 401
        headers = {"authorization": f"Bearer {KEY}"}
        with connect(ws_url(gateway), additional_headers=headers) as socket:
            assert turn(socket, model="up/m", input="hi")[-1]["type"] == "response.completed"
        assert KEY not in json.dumps([one.headers for one in up.seen])


def test_a_foreign_page_is_refused_and_an_old_version_too(tmp_path):
    with served(tmp_path) as gateway:
        with pytest.raises(InvalidStatus) as refused:
            connect(ws_url(gateway), origin="https://evil.example")
        assert refused.value.response.status_code == 403
        upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "8"}
        assert httpx.get(f"{gateway.url}/v1/responses", headers=upgrade).status_code == 426


def test_pings_are_answered_also_during_an_answer(tmp_path):
    with served(tmp_path) as gateway, connect(ws_url(gateway), ping_interval=None) as socket:
        assert socket.ping().wait(10)
        socket.send(json.dumps({"type": "response.create", "model": "demo/slow", "input": "hi"}))
        first = json.loads(socket.recv(timeout=20))
        assert socket.ping().wait(10)
        assert first["type"] == "response.created"
        assert rest(socket)[-1]["type"] == "response.completed"


def test_how_a_connection_ends(tmp_path):
    with served(tmp_path) as gateway:
        with connect(ws_url(gateway)) as socket:
            socket.send(b"binary")
            with pytest.raises(ConnectionClosedError) as closed:
                socket.recv(timeout=20)
            assert closed.value.rcvd.code == 1003
        with connect(ws_url(gateway)) as socket:
            socket.close(1000)
            assert socket.protocol.close_rcvd.code == 1000
        with connect(ws_url(gateway)) as socket:
            assert turn(socket, model="demo/text", input="hi")
            gateway.signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosedOK) as left:
                socket.recv(timeout=20)
            assert left.value.rcvd.code == 1001
        assert gateway.wait() == 0


def test_a_client_that_leaves_closes_the_upstream(tmp_path):
    with served(tmp_path) as gateway:
        with connect(ws_url(gateway)) as socket:
            socket.send(json.dumps({"type": "response.create", "model": "demo/slow", "input": "hi"}))
            assert json.loads(socket.recv(timeout=20))["type"] == "response.created"
            socket.close()
        # It serves on, and holds nothing open that would keep it from ending at once.
        assert httpx.get(f"{gateway.url}/healthz").status_code == 200
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
