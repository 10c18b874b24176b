"""What no provider should see: each row of `bad_requests.json`, over a real socket, in each client's protocol.

A row says what is wrong, and the answer's status, name and the field or the words that its message has:

- `raw`, or a good body with keys `set` or `drop`ped; FILL stands for more than any limit of this gateway.
- `headers` (null: not sent), `method`, `path` (after the protocol's own), `chunked`, `headless` (only half a head).
- `clients`: the protocols it is about, where not all; `translated`: the provider speaks another protocol.
"""

from __future__ import annotations

import http.client
import json
import pathlib
import socket
from typing import Any

import pytest

from headrace.testing import Reply, Upstream
from tests.support.edge import served
from tests.support.replay import PATHS, PROTOCOLS, asking

TABLE = json.loads(pathlib.Path(__file__).with_name("bad_requests.json").read_text(encoding="utf-8"))
ROWS = [
    pytest.param(row, client, id=f"{row['what']}, {client}")
    for row in TABLE
    for client in row.get("clients", PROTOCOLS)
]
LIMITS = "[server]\nbody_limit = 4096\nheader_limit = 2048\nheader_timeout = 0.5\n"
FILL = "x" * 5000
KEYS = {
    "what", "raw", "set", "drop", "headers", "method", "path", "chunked", "headless", "clients", "translated",
    "status", "code", "param", "says", "allow",
}  # fmt: skip


@pytest.fixture(scope="module")
def far():
    with Upstream(Reply.json({"error": {"message": "asked"}}, status=500)) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def near(far, tmp_path_factory):
    rows = "".join(
        f'[[providers]]\nid = "{protocol}"\nkind = "openai_compatible"\nprotocol = "{protocol}"\n'
        f'base_url = "{far.url}/v1"\n'
        for protocol in PROTOCOLS
    )
    with served(tmp_path_factory.mktemp("served"), LIMITS + rows) as running:
        yield running.url.removeprefix("http://")


def request(row: dict[str, Any], client: str, provider: str, address: str) -> bytes:
    """The bytes of a row's request."""
    body = asking(client, f"{provider}/m", stream=True)
    body.pop(row.get("drop", ""), None)
    text = json.dumps({**body, **row.get("set", {})}).replace("FILL", FILL)
    raw = row.get("raw", text).encode()
    method = row.get("method", "POST")
    headers = {"host": address, "content-type": "application/json", **row.get("headers", {})}
    if row.get("chunked"):
        headers["transfer-encoding"] = "chunked"
        raw = b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw)
    elif method == "POST":
        headers["content-length"] = str(len(raw))
    else:
        raw = b""
    lines = [f"{method} {PATHS[client]}{row.get('path', '')} HTTP/1.1"]
    lines += [f"{name}: {value.replace('FILL', FILL)}" for name, value in headers.items() if value is not None]
    if client == "anthropic_messages":
        lines.append("anthropic-version: 2023-06-01")
    head = "\r\n".join(lines).encode()
    return head if row.get("headless") else head + b"\r\n\r\n" + raw


def ask(address: str, sent: bytes) -> tuple[int, Any, dict[str, Any]]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as asker:
        asker.sendall(sent)
        with http.client.HTTPResponse(asker, method="POST") as response:
            response.begin()
            return response.status, response.headers, json.loads(response.read())


@pytest.mark.parametrize(("row", "client"), ROWS)
def test_it_is_refused_in_the_clients_format_and_reaches_nobody(row, client, near, far):
    assert set(row) <= KEYS
    providers = [one for one in PROTOCOLS if one != client] if row.get("translated") else [client]
    for provider in providers:
        status, headers, body = ask(near, request(row, client, provider, near))
        assert status == row["status"], body
        assert headers["content-type"] == "application/json"
        assert headers["allow"] == row.get("allow")
        # A field that is wrong is named in full, whatever format the client reads.
        words = row.get("param", row.get("says"))
        if client == "anthropic_messages":
            assert headers["request-id"].startswith("req_")
            assert set(body) <= {"type", "error", "request_id"}
            assert (body["type"], set(body["error"])) == ("error", {"type", "message"})
            assert body["error"]["message"].startswith(row["code"] + ": ")
        else:
            assert headers["x-request-id"].startswith("req_")
            assert set(body) == {"error"}
            assert set(body["error"]) == {"message", "type", "param", "code"}
            assert (body["error"]["code"], body["error"]["param"]) == (row["code"], row.get("param"))
        assert words in body["error"]["message"]
        assert row.get("says", "") in body["error"]["message"]
        assert FILL[:100] not in body["error"]["message"]
    assert far.facts().request_count == 0


def test_the_gateway_is_in_order_after_all_that(near, far):
    status, _, _ = ask(near, request({"what": "nothing"}, "openai_chat", "openai_chat", near))
    assert (status, far.facts().request_count) == (502, 1)
