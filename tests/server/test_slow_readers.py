"""Clients that read slowly, and clients that leave, against `headrace serve`: what they cost, and whom they hold up."""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Reply, Stall, Upstream
from tests.support.clients import clients
from tests.support.edge import Served, served
from tests.support.replay import PATHS, PROTOCOLS, asking

READERS = 500
PER_SECOND = 1024
SECONDS = 8
STREAM = 20 << 20
MOST_EACH = 40 << 10
"""Of the gateway's memory, for a client that does not take what it is given: a connection on each side, the request,
and what the socket did not take of a read of 16 KiB. Measured: 31 KiB, half of it for any open stream."""
MOST_GROWTH = 2 << 20
"""Of all readers together, between the first second and the last."""

CHUNK = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"%s"},"finish_reason":null}]}\n\n'
)


def resident(process: int) -> int:
    """Bytes of its own memory that a process has in use."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no RssAnon in /proc")


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """Allow a connection for each reader on both sides of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * READERS
    if soft < wanted:
        assert hard == resource.RLIM_INFINITY or hard >= wanted, f"this test opens {wanted} files; the limit is {hard}"
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def gateway(upstream: Upstream, tmp_path: Path) -> Iterator[Served]:
    rows = "".join(
        f'[[providers]]\nid = "{protocol}"\nkind = "openai_compatible"\nprotocol = "{protocol}"\n'
        f'base_url = "{upstream.url}/v1"\n'
        for protocol in PROTOCOLS
    )
    with served(tmp_path, rows) as running:
        yield running


def post(url: str, client: str, model: str) -> socket.socket:
    """Ask for a stream from a socket that holds little."""
    host, port = url.removeprefix("http://").split(":")
    asker = socket.socket()
    asker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asker.connect((host, int(port)))
    body = json.dumps(asking(client, model, stream=True)).encode()
    head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    asker.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
    return asker


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", ["openai_chat", "anthropic_messages"], ids=["verbatim", "normalised"])
def test_500_slow_readers_of_long_streams_cost_a_bounded_buffer_each(client, tmp_path):
    event = CHUNK % (b"b" * 2000)
    stream = Reply.stream(event * (STREAM // len(event)))
    with many_files(), Upstream(stream, record=0) as upstream, gateway(upstream, tmp_path) as running:
        process = running.process.pid
        # The first stream brings in what is only needed once.
        with post(running.url, client, "openai_chat/m") as first:
            first.recv(PER_SECOND)
        upstream.wait(lambda facts: facts.request_count == 1 and facts.open_connections == 0)
        idle = resident(process)
        readers = [post(running.url, client, "openai_chat/m") for _ in range(READERS)]
        # Nearly all: where the kernel is short of memory for sockets, the last few go on by trickles for minutes.
        upstream.wait(lambda facts: sum(one.blocked for one in facts.connections) >= READERS * 9 // 10, limit=60)
        sizes, got = [], dict.fromkeys(readers, 0)
        start = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for reader in readers:
                reader.setblocking(False)
                selector.register(reader, selectors.EVENT_READ)
            for second in range(1, SECONDS + 1):
                for key, _ in selector.select(0):
                    got[key.fileobj] += len(key.fileobj.recv(PER_SECOND))
                sizes.append(resident(process))
                time.sleep(max(0.0, start + second - time.monotonic()))
        # Everyone got what it was ready to read, or nearly so on a busy machine: no reader waits for another.
        assert min(got.values()) >= PER_SECOND * SECONDS // 2, sorted(got.values())[:5]
        written = [one.written for one in upstream.facts().connections]
        # What the kernel takes between the two is not the gateway's: up to 4 MiB to send and 6 to receive.
        assert max(written) < STREAM / 2
        assert (max(sizes) - idle) / READERS < MOST_EACH, (idle, sizes)
        assert sizes[-1] - sizes[0] < MOST_GROWTH, (idle, sizes)
        for reader in readers:
            reader.close()
        upstream.wait(lambda facts: facts.open_connections == 0)


STARTS = {
    "openai_chat": CHUNK % b"hello",
    "openai_responses": b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":'
    b'{"id":"r1","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":1,'
    b'"output_index":0,"item":{"type":"message","id":"m1","role":"assistant","status":"in_progress","content":[]}}\n\n'
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","sequence_number":2,'
    b'"item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":3,'
    b'"item_id":"m1","output_index":0,"content_index":0,"delta":"hello"}\n\n',
    "anthropic_messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","type":"message",'
    b'"role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":'
    b'{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
    b'{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"text_delta","text":"hello"}}\n\n',
}


def leave(sdk, client: str, model: str) -> None:
    """Take a stream's first text, and go."""
    body = asking(client, model, stream=True)
    create = {
        "openai_chat": sdk.openai.chat.completions.create,
        "openai_responses": sdk.openai.responses.create,
        "anthropic_messages": sdk.anthropic.messages.create,
    }[client]
    with create(**body) as stream:
        for event in stream:
            if "hello" in event.model_dump_json():
                return
    raise AssertionError("no text came")


@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_sdk_that_leaves_its_loop_closes_the_upstream(client, tmp_path):
    routes = {
        "/v1/chat/completions": Reply.stream(STARTS["openai_chat"], Stall()),
        "/v1/responses": Reply.stream(STARTS["openai_responses"], Stall()),
        "/v1/messages": Reply.stream(STARTS["anthropic_messages"], Stall()),
    }
    with (
        Upstream(routes) as upstream,
        gateway(upstream, tmp_path) as running,
        clients(running.url) as sdk,
    ):
        for at, provider in enumerate(PROTOCOLS):
            leave(sdk, client, f"{provider}/m")
            facts = upstream.wait(lambda facts, at=at: facts.connections[at].closed_by_client)
            assert facts.connections[at].waiting or not facts.connections[at].open


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_client_that_gives_up_before_the_first_byte_closes_the_upstream(client, tmp_path):
    with Upstream(Reply.raw(Stall())) as upstream, gateway(upstream, tmp_path) as running:
        for at, provider in enumerate(PROTOCOLS):
            asker = post(running.url, client, f"{provider}/m")
            upstream.wait(lambda facts, at=at: facts.request_count == at + 1)
            asker.close()
            facts = upstream.wait(lambda facts, at=at: facts.connections[at].closed_by_client)
            assert facts.request_count == at + 1, "nobody is left to ask again for"
