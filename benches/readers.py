"""Readers of 4 KiB a second, 2,000 at once: what they cost in the process, and in the kernel towards them.

Each must have got what it asked for by the end. The figures of nginx are taken in the same run, with as many readers.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import resource
import socket
import subprocess
import tempfile
import time

from benches.gateway import Subject, gateway, tools, upstream
from benches.measure import Row, tree_memory

READERS = 2000
RATE = 4096
SECONDS = 12
#: Of one stream: more than anybody reads here.
EVENTS = 30_000
SUBJECTS = (Subject("nginx"), Subject("headrace"))


def run(rounds: int) -> list[Row]:
    """Each gateway once: the figures are memory, which does not vary as times do."""
    del rounds
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    readers = min(READERS, (most - 100) // 2)
    built = tools()
    taken = {}
    with tempfile.TemporaryDirectory() as folder, upstream(built, "--events", str(EVENTS)) as provider:
        for subject in SUBJECTS:
            with gateway(subject, provider, pathlib.Path(folder)) as (process, port, _):
                taken[subject.name] = _read(subject, process.pid, port, readers)
    (their_own, their_kernel, their_share), (own, kernel, share) = (taken[subject.name] for subject in SUBJECTS)
    if share < 1:
        raise AssertionError(f"a reader of headrace got {share:.0%} of what it asked for")
    of = f"MB for {readers:,} readers of 4 KiB/s"
    note = f"{of}; nginx {their_own:.0f}"
    told = f"{of}; nginx {their_kernel:.0f}, its slowest reader got {min(their_share, 1):.0%}"
    return [
        Row("slow readers, memory over idle", "none: an absolute figure", own, 50.0, "at most", note),
        Row(
            "slow readers, memory in the kernel towards them",
            "none: an absolute figure",
            kernel,
            100.0,
            "at most",
            told,
        ),
    ]


def _read(subject: Subject, pid: int, port: int, readers: int) -> tuple[float, float, float]:
    """Memory of the process and of the kernel in MB, and the share that the slowest reader got."""
    before = tree_memory(pid)
    body = subject.body("burst")
    head = (
        f"POST {subject.path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(readers):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RATE)
            client.connect(("127.0.0.1", port))
            client.sendall(head.encode() + body)
            client.setblocking(False)
            clients.append(client)
        got = [0] * readers
        own, kernel = 0.0, 0.0
        began = time.monotonic()
        for second in range(1, SECONDS + 1):
            time.sleep(max(0.0, began + second - time.monotonic()))
            for n, client in enumerate(clients):
                # What it missed before, it may take now.
                while got[n] < second * RATE:
                    try:
                        piece = client.recv(second * RATE - got[n])
                    except BlockingIOError:
                        break
                    if not piece:
                        raise AssertionError(f"{subject.name} ended a slow reader's stream")
                    if not got[n] and not piece.startswith(b"HTTP/1.1 200"):
                        raise AssertionError(f"{subject.name} refused a slow reader: {piece[:80]!r}")
                    got[n] += len(piece)
            own, kernel = max(own, tree_memory(pid) - before), max(kernel, _queued(port))
        return own, kernel, min(got) / (SECONDS * RATE)


def _queued(port: int) -> float:
    """Megabytes that the kernel holds for sending from this port."""
    done = subprocess.run(["ss", "-tmnH", f"sport = :{port}"], check=True, capture_output=True, text=True)
    return sum(int(found) for found in re.findall(r"\bskmem:\([^)]*,w(\d+)", done.stdout)) / 1e6
