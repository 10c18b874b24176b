"""HTTP/2 towards a provider, through the whole gateway: nginx speaks it, before an upstream with a script."""

import json
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
from support.gateway import served, upstream
from support.proxies import proxy
from support.tls import issued
from test_control import ASK, CHAT, ENVIRON, GOOD, no, row

CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    log_format seen '$server_protocol $connection $connection_requests';
    access_log {folder}/access.log seen;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {chain}; ssl_certificate_key {key};
        location / {{ proxy_pass {url}; proxy_buffering off; proxy_http_version 1.1; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return issued(tmp_path_factory.mktemp("tls"))


@contextmanager
def nginx(folder, certificate, url):
    """Speak HTTP/2 in front of `url`. Gives the address, and what was seen: protocol, connection, request of it."""
    binary = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if binary is None:
        pytest.skip("NO NGINX: it is the server that speaks HTTP/2")
    _, chain, key = certificate
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port, chain=chain, key=key, url=url))
    command = [binary, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                continue

        def seen(count):
            # It writes a line once a request is over, perhaps after its client knows.
            while len(lines := (folder / "access.log").read_text().splitlines()) < count:
                time.sleep(0.005)
            return [line.split() for line in lines]

        yield f"https://localhost:{port}", seen
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def start(tmp_path, certificate):
    def begin(text, *arguments):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return served(path, *arguments, **ENVIRON, SSL_CERT_FILE=str(certificate[0]))

    return begin


def test_many_requests_share_one_connection(start, certificate, tmp_path):
    with upstream(GOOD) as far, nginx(tmp_path, certificate, far.url) as (url, seen):
        with start(row(url, 1, extra="http2 = true")) as gateway:
            assert gateway.ask(CHAT, ASK)[0] == 200
            answers = []
            together = [threading.Thread(target=lambda: answers.append(gateway.ask(CHAT, ASK))) for _ in range(20)]
            for one in together:
                one.start()
            for one in together:
                one.join()
            assert [(status, body["choices"][0]["message"]["content"]) for status, _, body in answers] == [
                (200, "yes")
            ] * 20
        assert far.keys() == ["Bearer sk-up-1"] * 21
        told = seen(21)
        assert {protocol for protocol, _, _ in told} == {"HTTP/2.0"}
        assert len({connection for _, connection, _ in told}) == 1


def test_streams_errors_and_retries_are_as_over_http1(start, certificate, tmp_path):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    text = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "streamed"}}]}
    end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = "".join(f"data: {json.dumps(one)}\n\n" for one in (text, end)) + "data: [DONE]\n\n"
    stream = (200, {"content-type": "text/event-stream"}, events.encode())
    with (
        upstream(no(429, retry_after="60"), stream, GOOD) as far,
        nginx(tmp_path, certificate, far.url) as (url, seen),
        start(row(url, 1, 2, extra="http2 = true")) as gateway,
    ):
        status, _, told = gateway.ask(CHAT, {**ASK, "stream": True})
        assert (status, told) == (200, events)
        assert far.keys() == ["Bearer sk-up-1", "Bearer sk-up-2"]
        assert gateway.ask(CHAT, ASK)[0] == 200
        assert len({connection for _, connection, _ in seen(3)}) == 1, "one connection serves every credential"


def test_it_goes_by_a_proxy_and_only_where_it_is_asked_for(start, certificate, tmp_path):
    with upstream(GOOD) as far, nginx(tmp_path, certificate, far.url) as (url, seen), proxy() as by:
        rows = row(url, 1, extra=f'http2 = true\nproxy = "{by.url}"') + row(url, 2, name="older")
        with start(rows) as gateway:
            for _ in range(2):
                assert gateway.ask(CHAT, ASK)[0] == 200
            assert gateway.ask(CHAT, {**ASK, "model": "older/m"})[0] == 200
        assert [protocol for protocol, _, _ in seen(3)] == ["HTTP/2.0", "HTTP/2.0", "HTTP/1.1"]
        assert len(by.heads) == 1
