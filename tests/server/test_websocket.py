"""Responses over a WebSocket: the vendor's own SDK and a plain client as clients of the gateway."""

from __future__ import annotations

import contextlib
import json
import signal
import socket as socketlib
import threading
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from openai.lib.responses_websocket import (
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
    ResponsesWebSocketSession,
)
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.http11 import Response
from websockets.sync.client import connect
from websockets.sync.server import serve

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


LIMITS = ResponsesWebSocketLimits(
    max_lanes=8, max_events_per_lane=512, max_events=2048, max_bytes_per_lane=1 << 24, max_bytes=1 << 25
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


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    with served(tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


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


def test_another_family_answers_over_it_too(demo):
    with connect(ws_url(demo)) as socket:
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


def test_a_second_request_in_a_named_lane_waits_for_the_first(tmp_path):
    script = [(200, SSE, answer(n)) for n in (1, 2)]
    with upstream(*script) as up, served(tmp_path, config(up.url)) as gateway, connect(ws_url(gateway)) as socket:
        for text in ("one", "two"):
            create = {"type": "response.create", "model": "up/m", "input": text, "store": False, "stream_id": "a"}
            socket.send(json.dumps(create))
        ids = [[one["response"]["id"] for one in rest(socket) if "response" in one] for _ in range(2)]
        assert ids == [["resp_up1"] * 2, ["resp_up2"] * 2]
        assert [seen.body["input"] for seen in up.seen] == ["one", "two"]


def test_a_second_request_without_a_lane_is_refused_while_the_first_is_answered(demo):
    with connect(ws_url(demo)) as socket:
        for _ in range(2):
            socket.send(json.dumps({"type": "response.create", "model": "demo/slow", "input": "hi"}))
        heard = []
        while not heard or heard[-1]["type"] != "response.completed":
            heard.append(json.loads(socket.recv(timeout=20)))
        errors = [one for one in heard if one["type"] == "error"]
        assert [(one["status"], one["error"]["code"]) for one in errors] == [(409, "response_in_progress")]
        # The first answer went on undisturbed.
        assert turn(socket, model="demo/text", input="hi")[-1]["type"] == "response.completed"


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
def test_the_sdks_lanes_hold_conversations_of_their_own_and_fork(tmp_path):
    """The vendor's session: a lane goes on, another forks from it, and both are told apart by the SDK itself."""
    first, second, third = answer(1), answer(2), answer(3)
    with (
        upstream((200, SSE, first), (200, SSE, second), (200, SSE, third)) as up,
        served(tmp_path, config(up.url)) as gateway,
    ):
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with (
            client.responses.connect(max_retries=0) as connection,
            ResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            source, fork = session.lane("source"), session.lane("fork.1")

            def ask(lane, text, previous=None):
                create = {"type": "response.create", "model": "up/m", "input": [message(text)], "store": False}
                lane.send({**create, **({"previous_response_id": previous} if previous else {})})
                return lane.get_final_response(timeout=20)

            one = ask(source, "one")
            ask(fork, "two", one.id)
            three = ask(source, "three", one.id)
            assert (one.output_text, three.output_text) == ("answer 1", "answer 3")
            # What only the default lane can be told.
            source.send({"type": "response.steer", "previous_response_id": three.id, "input": "more"})
            told = session.default.recv(timeout=20)
            assert (told.type, told.error.code) == ("response.steer.failed", "response_already_completed")
            assert (told.steer.input, told.steer.previous_response_id) == ("more", three.id)
            fork.send({"type": "response.create", "model": "nobody/x", "input": "hi"})
            with pytest.raises(ResponsesWebSocketError) as refused:
                fork.get_final_response(timeout=20)
            assert (refused.value.event.status, refused.value.event.stream_id) == (422, "fork.1")
    kinds = [[item.get("content", item["type"]) for item in seen.body["input"]] for seen in up.seen]
    assert [len(items) for items in kinds] == [1, 4, 4]
    assert (kinds[1][-1], kinds[2][-1]) == ("two", "three")
    assert not any("stream_id" in seen.body for seen in up.seen)


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
def test_the_sdks_lanes_are_answered_at_the_same_time(demo):
    client = openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0)
    with (
        client.responses.connect(max_retries=0) as connection,
        ResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        slow, quick = session.lane("slow"), session.lane("quick")
        slow.send({"type": "response.create", "model": "demo/slow", "input": "hi"})
        assert slow.recv(timeout=20).type == "response.created"
        quick.send({"type": "response.create", "model": "demo/text", "input": "hi"})
        assert quick.get_final_response(timeout=20).status == "completed"
        # It goes on, and had not ended when the other one had.
        assert slow.recv(timeout=20).type != "response.completed"


def events(number):
    return [line.removeprefix("data: ") for line in answer(number).decode().splitlines() if line.startswith("data")]


class Provider:
    """A provider that speaks over WebSockets, by a script of what it does with each message; and over HTTP."""

    def __init__(self, *script):
        self.script = list(script)
        self.handshakes, self.messages, self.posts = [], [], []

    def serve(self, socket):
        self.handshakes.append(dict(socket.request.headers.raw_items()))
        for text in socket:
            self.messages.append(json.loads(text))
            act = self.script.pop(0)
            if act == "hang up":
                socket.socket.shutdown(2)
                return
            if act == "farewell":
                socket.close(1001)
                return
            for event in events(act) if isinstance(act, int) else [act]:
                socket.send(event)

    def refuse(self, _, request):
        if self.script and self.script[0] == "refuse":
            self.handshakes.append(dict(request.headers.raw_items()))
            return Response(426, "Upgrade Required", Headers({"content-length": "0"}), b"")
        return None


@contextlib.contextmanager
def provider(*script):
    told = Provider(*script)
    with serve(told.serve, "127.0.0.1", 0, process_request=told.refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        told.url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


WEBSOCKET = "settings = { websocket = true }"


def test_upstream_websockets_are_used_again_and_http_clients_see_none_of_it(tmp_path):
    with provider(1, 2, 3) as up, served(tmp_path, config(up.url, WEBSOCKET)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        for number in (1, 2):
            with client.responses.stream(model="up/m", input="hi", store=False) as stream:
                assert stream.get_final_response().output_text == f"answer {number}"
        chat = client.chat.completions.create(model="up/m", messages=[{"role": "user", "content": "hi"}], stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chat if chunk.choices) == "answer 3"
    assert len(up.handshakes) == 1
    assert [(one["type"], "stream" in one, one["model"]) for one in up.messages] == [
        ("response.create", False, "m")
    ] * 3


def test_what_is_asked_whole_goes_over_http(tmp_path):
    whole = json.loads(events(1)[-1])["response"]
    with upstream((200, {}, json.dumps(whole).encode())) as up:
        with served(tmp_path, config(up.url, WEBSOCKET)) as gateway:
            client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
            assert client.responses.create(model="up/m", input="hi").output_text == "answer 1"
        assert up.seen[0].body == {"model": "m", "input": "hi"}


@pytest.mark.parametrize("fault", ["refuse", "hang up"])
def test_without_a_websocket_the_request_goes_over_http_and_the_next_ones_at_once(tmp_path, fault):
    with (
        provider(fault, fault) as up,
        upstream((200, SSE, answer(7))) as plain,
        Split(up.url, plain.url) as split,
        served(tmp_path, config(split.url, WEBSOCKET)) as gateway,
    ):
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        for _ in range(2):
            with client.responses.stream(model="up/m", input="hi") as stream:
                assert stream.get_final_response().output_text == "answer 7"
    assert len(up.handshakes) == 1
    assert [one.body["stream"] for one in plain.seen] == [True, True]


class Split:
    """One address for both: a request to switch goes to the one, every other to the other."""

    def __init__(self, websocket, plain):
        self._targets = [urlsplit(url) for url in (websocket, plain)]
        self._listener = socketlib.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socketlib.SHUT_RDWR)
            one.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1 << 16)
        target = self._targets[0 if b"upgrade: websocket" in head.lower() else 1]
        other = socketlib.create_connection((target.hostname, target.port))
        self._open += [client, other]
        other.sendall(head)
        for source, sink in ((client, other), (other, client)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socketlib.SHUT_WR)


def test_a_connection_on_which_an_error_came_is_not_used_again(tmp_path):
    error = {"type": "error", "status": 400, "error": {"type": "invalid_request_error", "code": "x", "message": "no"}}
    with provider(json.dumps(error), 2) as up, served(tmp_path, config(up.url, WEBSOCKET)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.BadRequestError), client.responses.stream(model="up/m", input="hi") as stream:
            stream.get_final_response()
        with client.responses.stream(model="up/m", input="hi") as stream:
            assert stream.get_final_response().output_text == "answer 2"
    assert len(up.handshakes) == 2


LIFE_OVER = {
    "type": "error",
    "status": 400,
    "error": {"code": "websocket_connection_limit_reached", "message": "60 min"},
}


@pytest.mark.parametrize("end", ["farewell", "hang up", json.dumps(LIFE_OVER)])
def test_a_websocket_whose_time_is_up_is_opened_anew_and_the_client_sees_nothing_of_it(tmp_path, end):
    # Over HTTP nothing would answer.
    with provider(1, end, 2, 3) as up, served(tmp_path, config(up.url, WEBSOCKET)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        for number in (1, 2, 3):
            with client.responses.stream(model="up/m", input="hi") as stream:
                assert stream.get_final_response().output_text == f"answer {number}"
    assert (len(up.handshakes), len(up.messages)) == (2, 4)


@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
def test_lanes_go_over_upstream_websockets_that_are_used_again(tmp_path):
    with provider(1, 2, 3, 4) as up, served(tmp_path, config(up.url, WEBSOCKET)) as gateway:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with (
            client.responses.connect(max_retries=0) as connection,
            ResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            lanes = [session.lane("a"), session.lane("b")]
            for _ in range(2):
                for lane in lanes:
                    lane.send({"type": "response.create", "model": "up/m", "input": "hi", "store": False})
                    assert lane.get_final_response(timeout=20).status == "completed"
    assert (len(up.handshakes), len(up.messages)) == (1, 4)
    assert not any("stream_id" in message for message in up.messages)


@pytest.mark.parametrize(
    ("frame", "status", "code", "param"),
    [
        ("{", 400, "invalid_json", None),
        ('{"type": "response.steer"}', 400, "invalid_request", "previous_response_id"),
        ('{"type": "response.cancel"}', 400, "invalid_request", "type"),
        ('{"type": "response.create", "input": "hi"}', 400, None, "model"),
        ('{"type": "response.create", "model": "nobody/x", "input": "hi"}', 422, "unknown_model_selector", "model"),
        ('{"type": "response.create", "model": 1}', 400, "invalid_request", "model"),
        ('{"type": "response.create", "model": "demo/text", "stream_id": ""}', 400, "invalid_stream_id", "stream_id"),
        (
            '{"type": "response.create", "model": "demo/text", "store": false, "previous_response_id": "resp_x"}',
            400,
            "previous_response_not_found",
            "previous_response_id",
        ),
        ('{"type": "response.create", "model": "demo/error-429", "input": "hi"}', 429, None, None),
    ],
)
def test_a_bad_frame_is_told_and_the_connection_stays(demo, frame, status, code, param):
    with connect(ws_url(demo)) as socket:
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


def test_a_foreign_page_is_refused_and_an_old_version_too(demo):
    with pytest.raises(InvalidStatus) as refused:
        connect(ws_url(demo), origin="https://evil.example")
    assert refused.value.response.status_code == 403
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "8"}
    assert httpx.get(f"{demo.url}/v1/responses", headers=upgrade).status_code == 426


def test_pings_are_answered_also_during_an_answer(demo):
    with connect(ws_url(demo), ping_interval=None) as socket:
        assert socket.ping().wait(10)
        socket.send(json.dumps({"type": "response.create", "model": "demo/slow", "input": "hi"}))
        first = json.loads(socket.recv(timeout=20))
        assert socket.ping().wait(10)
        assert first["type"] == "response.created"
        # It goes on.
        assert json.loads(socket.recv(timeout=20))["type"] not in {"response.completed", "error"}


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


@pytest.mark.parametrize(
    ("asked", "frame"),
    [
        # A ping with 125 bytes, each of which comes back.
        (None, b"\x89\xfd\0\0\0\0" + b"x" * 125),
        # Ten bytes, and some 250 of a refusal.
        ({"model": "demo/slow", "input": "hi"}, b"\x81\x82\0\0\0\0{}"),
    ],
)
def test_a_client_that_sends_and_takes_nothing_is_not_listened_to(demo, asked, frame):
    where = urlsplit(demo.url)
    # A library would read in a thread of its own.
    with socketlib.create_connection((where.hostname, where.port), timeout=20) as socket:
        head = "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        key = "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
        socket.sendall((head + key).encode())
        assert socket.recv(4096).startswith(b"HTTP/1.1 101 ")
        if asked:
            text = json.dumps({"type": "response.create", **asked}).encode()
            socket.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        socket.settimeout(1)
        # The kernel's buffers of both sides take some megabytes.
        with pytest.raises(TimeoutError):
            socket.sendall(frame * ((64 << 20) // len(frame)))
        # Another one is served meanwhile.
        with connect(ws_url(demo)) as other:
            assert turn(other, model="demo/text", input="hi")[-1]["type"] == "response.completed"
