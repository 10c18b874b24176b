"""How soon an upstream sees that a client has left in mid-stream: through the gateway, and by itself."""

from __future__ import annotations

import pathlib
import socket
import statistics
import tempfile
import time

from benches.gateway import SUBJECTS, gateway
from benches.measure import Row
from headrace.testing import Reply, Stall, Upstream

LEAVERS = 200
EVENT = b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
#: Milliseconds beside the direct connection: a client that left must not be paid for a moment longer.
MUST = 10.0


def run(rounds: int) -> list[Row]:
    """One row: the p99 through the gateway, over that of a client that asks the upstream itself."""
    through, direct = [], []
    verbatim = next(subject for subject in SUBJECTS if subject.name == "headrace verbatim")
    for _ in range(rounds):
        with Upstream(Reply.stream(EVENT, Stall()), record=0) as upstream, tempfile.TemporaryDirectory() as folder:
            port = int(upstream.url.rpartition(":")[2])
            direct.append(_p99(upstream, port, verbatim.path, verbatim.body("hold")))
            with gateway(verbatim, port, pathlib.Path(folder), answers=False) as (_, served, _):
                through.append(_p99(upstream, served, verbatim.path, verbatim.body("hold")))
    ours, theirs = statistics.median(through), statistics.median(direct)
    note = f"ms; {ours:.2f} against {theirs:.2f} of a client that asks directly"
    return [Row("gateway, upstream sees a client leave, p99", "no gateway", ours - theirs, MUST, "at most", note)]


def _p99(upstream: Upstream, port: int, path: str, body: bytes) -> float:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    took = []
    before = len(upstream.facts().connections)
    for number in range(before, before + LEAVERS):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
            while b"Hello" not in client.recv(4096):
                pass
            left = time.perf_counter()
        upstream.wait(lambda facts, number=number: facts.connections[number].closed_by_client)
        took.append((time.perf_counter() - left) * 1e3)
    return sorted(took)[LEAVERS * 99 // 100 - 1]
