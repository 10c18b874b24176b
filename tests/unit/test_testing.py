"""The scripted upstream's Python face, asked from bare sockets."""

import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
from urllib.parse import urlsplit

import pytest

from headrace.testing import Cut, Drip, Gate, Pause, Reply, Reset, Stall, Upstream


def connect(upstream):
    address = urlsplit(upstream.url)
    return socket.create_connection((address.hostname, address.port), timeout=10)


@pytest.fixture
def ask():
    """Send a request; what it opened is closed after the test."""
    with contextlib.ExitStack() as stack:

        def ask(upstream, path="/", body=b"{}"):
            connection = http.client.HTTPConnection(urlsplit(upstream.url).netloc, timeout=10)
            stack.callback(connection.close)
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            return stack.enter_context(contextlib.closing(connection.getresponse()))

        yield ask


def read_all(sock):
    return b"".join(iter(lambda: sock.recv(65536), b""))


def test_it_answers_by_path_and_in_turn_and_tells_what_it_saw(ask):
    script = {
        "/v1/models": [
            Reply.json({"data": []}),
            Reply.json({"error": "é"}, status=503, headers=[("retry-after", "1")]),
        ],
        "*": Reply(status=204),
    }
    with Upstream(script) as upstream:
        assert ask(upstream, "/v1/models?page=2").read() == b'{"data": []}'
        for _ in range(2):
            answer = ask(upstream, "/v1/models", b'{"n": 1}')
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert ask(upstream, "/else").status == 204
        facts = upstream.facts()
    assert facts.request_count == len(facts.requests) == 4
    first, second = facts.requests[:2]
    assert (first.method, first.target, first.path) == ("POST", "/v1/models?page=2", "/v1/models")
    assert second.json() == {"n": 1}
    assert second.header("Content-Type") == "application/json"
    assert second.header("x-other") is None


def test_a_gate_holds_a_stream_until_the_test_opens_it(ask):
    with Upstream(Reply.stream(b"data: 1\n\n", Gate("go"), b"data: 2\n\n")) as upstream:
        answer = ask(upstream)
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.read1(100) == b"data: 1\n\n"
        facts = upstream.wait(lambda facts: facts.connections[0].waiting)
        assert facts.replies == 0
        upstream.open("go")
        assert answer.read() == b"data: 2\n\n"
        assert upstream.wait(lambda facts: facts.replies == 1).open_connections == 1


@pytest.mark.parametrize(("act", "error"), [(Cut(), http.client.IncompleteRead), (Reset(), ConnectionResetError)])
def test_it_breaks_off(act, error, ask):
    with Upstream(Reply.stream(b"data: 1\n\n", Gate("go"), act)) as upstream:
        answer = ask(upstream)
        assert answer.read1(100) == b"data: 1\n\n"
        upstream.open("go")
        with pytest.raises(error):
            answer.read()
        facts = upstream.wait(lambda facts: facts.open_connections == 0)
        assert not facts.connections[0].closed_by_client


def test_it_drips_and_lies_and_says_anything(ask):
    with Upstream(
        {
            "/drip": Reply((Drip(b"abc", 2, 0.001), Pause(0.001), b"d"), framing="close"),
            "/lie": Reply((b"abc",), framing=10, close=True),
            "/raw": Reply.raw(b"not HTTP at all"),
        }
    ) as upstream:
        assert ask(upstream, "/drip").read() == b"abcd"
        with pytest.raises(http.client.IncompleteRead):
            ask(upstream, "/lie").read()
        with connect(upstream) as sock:
            sock.sendall(b"GET /raw HTTP/1.1\r\nhost: a\r\n\r\n")
            assert read_all(sock) == b"not HTTP at all"


def test_it_sees_a_client_leave():
    with Upstream(Reply.stream(b"data: 1\n\n", Stall())) as upstream:
        with connect(upstream) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            sock.recv(10)
            assert upstream.wait(lambda facts: facts.connections[0].waiting).open_connections == 1
        facts = upstream.wait(lambda facts: facts.open_connections == 0)
        assert facts.connections[0].closed_by_client


def test_waiting_ends_with_the_facts():
    with Upstream(Reply()) as upstream, pytest.raises(TimeoutError, match="request_count=0"):
        upstream.wait(lambda facts: facts.request_count > 0, limit=0.01)


def test_waiting_does_not_hold_up_an_event_loop(ask):
    import anyio

    async def main():
        with Upstream(Reply()) as upstream:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, ask, upstream)
                facts = await upstream.until(lambda facts: facts.request_count == 1)
        return facts.request_count

    assert anyio.run(main) == 1


def test_a_script_that_makes_no_sense_is_refused():
    for script in (
        {"/": []},
        Reply(headers=(("bad name", "x"),)),
        Reply(headers=(("x", "a\r\nb: c"),)),
        Reply(framing="morse"),
        Reply((Pause(-1),)),
        Reply(headers=(("connection", "close"),)),
        Reply(status=1000),
    ):
        with pytest.raises(ValueError, match=r"no reply|no such|framing"):
            Upstream(script)


def test_once_closed_it_says_so():
    upstream = Upstream(Reply())
    upstream.close()
    upstream.close()
    with pytest.raises(RuntimeError, match="stopped"):
        upstream.facts()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="NO OPENSSL: it makes the test's certificate")
def test_it_speaks_tls(tmp_path):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=tmp_path, capture_output=True, check=True)
    chain, key = (tmp_path / "cert.pem").read_bytes(), (tmp_path / "key.pem").read_bytes()
    with Upstream(Reply.json("ok"), tls=(chain, key)) as upstream:
        assert upstream.url.startswith("https://localhost:")
        context = ssl.create_default_context(cadata=chain.decode())
        connection = http.client.HTTPSConnection("localhost", urlsplit(upstream.url).port, context=context, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b'"ok"'
        connection.close()
        with connect(upstream) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            upstream.wait(lambda facts: facts.malformed == 1)
