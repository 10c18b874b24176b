"""The gateway beside nginx: the same upstream, the same load generator, the same minute.

1. Every kind of answer is read and compared once per gateway before any load is put on it.
2. The load generator counts an answer as bad where its status, framing or number of events differs; one
   bad answer fails the bench.
3. CPU is that of the gateway's whole process tree. nginx parses nothing and is the limit, not a peer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import headrace
from benches.measure import Row, tree_cpu, tree_memory

EVENTS = 200
COMPLETION = "Water runs along the race and turns the wheel."
HELD_STREAMS = 200
#: A gateway that has not answered by then never will.
START_LIMIT_S = 30.0

NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 10000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream provider {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""

HEADRACE = """
[server]
port = {port}
[[providers]]
id = "bench"
kind = "openai_compatible"
base_url = "http://127.0.0.1:{upstream}/v1"
[models]
"bench-*" = "bench/{{model}}"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A gateway under test and the protocol that its client speaks."""

    name: str
    protocol: str = "openai_chat"
    #: Further headers of every request.
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        """Where the client asks."""
        return "/v1/messages" if self.protocol == "anthropic_messages" else "/v1/chat/completions"

    def body(self, kind: str) -> bytes:
        """What the client asks; `kind` picks the upstream's pace."""
        request: dict[str, Any] = {
            "model": f"bench-{kind}",
            "messages": [{"role": "user", "content": "How does the water run?"}],
        }
        if self.protocol == "anthropic_messages":
            request["max_tokens"] = 1024
        if kind != "fast":
            request["stream"] = True
        return json.dumps(request, separators=(",", ":")).encode()


SUBJECTS = (Subject("nginx"), Subject("headrace verbatim"), Subject("headrace normalised", "anthropic_messages"))


def run(rounds: int) -> list[Row]:
    """All loads on all subjects, interleaved; one row per demand."""
    built = tools()
    taken: dict[str, dict[str, list[float]]] = {subject.name: {} for subject in SUBJECTS}
    with tempfile.TemporaryDirectory() as folder, upstream(built) as port:
        for _ in range(rounds):
            for subject in SUBJECTS:
                for figure, value in _measure(subject, built, port, pathlib.Path(folder)).items():
                    taken[subject.name].setdefault(figure, []).append(value)
    return _rows(taken)


def _rows(taken: dict[str, dict[str, list[float]]]) -> list[Row]:
    anchor, verbatim, normalised = (taken[s.name] for s in SUBJECTS)

    def against(work: str, subject: dict[str, list[float]], figure: str, must: float, unit: str) -> Row:
        ours, theirs = statistics.median(subject[figure]), statistics.median(anchor[figure])
        return Row(work, "nginx", ours / theirs, must, "at most", f"{ours:.3f} against {theirs:.3f} {unit}")

    def alone(work: str, figure: str, must: float, unit: str) -> Row:
        ours = statistics.median(verbatim[figure])
        return Row(
            work,
            "none: an absolute figure",
            ours,
            must,
            "at most",
            f"{unit}; nginx {statistics.median(anchor[figure]):.2f}",
        )

    cpu = "CPU s per million events"
    return [
        *(against(f"gateway, burst c={c}, verbatim", verbatim, f"burst{c}", 1.5, cpu) for c in (16, 64)),
        *(against(f"gateway, burst c={c}, normalised", normalised, f"burst{c}", 2.0, cpu) for c in (16, 64)),
        against("gateway, paced, verbatim", verbatim, "paced", 1.15, cpu),
        against("gateway, paced, normalised", normalised, "paced", 1.3, cpu),
        against("gateway, completion with Python policy, c=1", verbatim, "completion1", 3.5, "CPU s per 1,000"),
        against("gateway, completion with Python policy, c=16", verbatim, "completion16", 2.0, "CPU s per 1,000"),
        against("gateway, completion with Python policy, c=64", verbatim, "completion64", 2.0, "CPU s per 1,000"),
        _delay("gateway, delay of a paced event p50, over nginx's", verbatim, anchor, "delay_p50", 40.0),
        _delay("gateway, delay of a paced event p99, over nginx's", verbatim, anchor, "delay_p99", 100.0),
        alone("gateway, memory per open stream, verbatim (KiB)", "held", 8.0, "KiB"),
        alone("gateway, memory at idle (MiB)", "idle", 40.0, "MiB"),
        alone("gateway, start to first answer (s)", "start", 0.5, "s"),
    ]


def _delay(work: str, ours: dict[str, list[float]], theirs: dict[str, list[float]], figure: str, must: float) -> Row:
    a, b = statistics.median(ours[figure]), statistics.median(theirs[figure])
    return Row(work, "nginx", a - b, must, "at most", f"µs; {a:.0f} against {b:.0f}")


def _measure(subject: Subject, built: pathlib.Path, provider: int, folder: pathlib.Path) -> dict[str, float]:
    with gateway(subject, provider, folder) as (process, port, start):
        time.sleep(1.0)  # memory at idle, not at start: the allocator has settled by then
        figures = {"start": start, "idle": tree_memory(process.pid)}
        check(subject, port)

        load = Loader(subject, built, folder, process.pid, port).put
        load("fast", 16, "--seconds", "1")
        load("burst", 16, "--seconds", "1")
        for connections in (1, 16, 64):
            result, cpu = load("fast", connections, "--seconds", "2")
            figures[f"completion{connections}"] = cpu / result["good"] * 1e3
        for connections in (16, 64):
            result, cpu = load("burst", connections, "--seconds", "2")
            figures[f"burst{connections}"] = cpu / result["events"] * 1e6
        result, cpu = load("paced", 16, "--requests", "16")
        figures["paced"] = cpu / result["events"] * 1e6
        if result["event_us"]:
            figures["delay_p50"], figures["delay_p99"] = result["event_us"]["p50"], result["event_us"]["p99"]
        figures["held"] = _held(subject, process.pid, port)
        return figures


@dataclasses.dataclass(frozen=True, slots=True)
class Loader:
    """Puts load on one gateway.

    - `built`: where the load tools are; `folder`: for what they ask.
    - `pid`, `port`: the gateway's.
    """

    subject: Subject
    built: pathlib.Path
    folder: pathlib.Path
    pid: int
    port: int

    def put(self, kind: str, connections: int, *bound: str, body: bytes | None = None) -> tuple[dict[str, Any], float]:
        """Give what the load generator says, and the CPU seconds of the gateway's process tree.

        - `bound`: how long, in the load generator's words.
        - `body`: what is asked, where it is not the subject's own.
        """
        subject = self.subject
        asked = self.folder / f"{subject.protocol}-{kind}.json"
        asked.write_bytes(body or subject.body(kind))
        before = tree_cpu(self.pid)
        command = [self.built / "bench-load", "--port", str(self.port), "--path", subject.path, "--body", asked]
        command += ["--connections", str(connections), *bound]
        for name, value in subject.headers:
            command += ["--header", f"{name}: {value}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(done.stdout)
        if result["bad"] or not result["good"]:
            raise AssertionError(f"{subject.name} answered {kind} wrongly under load: {done.stdout}")
        return result, tree_cpu(self.pid) - before


def _held(subject: Subject, pid: int, port: int) -> float:
    """KiB of memory that one open stream costs: with many streams open, over what it was before them."""
    before = tree_memory(pid)
    body = subject.body("hold")
    head = (
        f"POST {subject.path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(HELD_STREAMS)]
        for client in clients:
            client.sendall(head.encode() + body)
        for client in clients:
            client.settimeout(20)
            if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"{subject.name} refused a stream that is to be held open")
        time.sleep(1.5)  # a second event on each stream: what is measured is a stream at work
        return (tree_memory(pid) - before) * 1024 / HELD_STREAMS


def check(subject: Subject, port: int) -> None:
    """Read one answer of each kind whole and compare what it says."""
    tokens = "".join(f" tok{i:06d}" for i in range(EVENTS))
    for kind, expected in (("fast", COMPLETION), ("burst", tokens)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", subject.path, subject.body(kind), _headers(subject))
        answer = connection.getresponse()
        decoder = headrace.Decoder(subject.protocol, status=answer.status, headers=answer.getheaders())
        events = [*decoder.feed(answer.read()), *decoder.finish("eof")]
        connection.close()
        text = "".join(event.text for event in events if isinstance(event, headrace.TextDelta))
        if text != expected or not isinstance(events[-1], headrace.ModelFinished):
            raise AssertionError(f"{subject.name} answers {kind} wrongly: {text[:80]!r}, {events[-1]!r}")


@contextlib.contextmanager
def gateway(
    subject: Subject,
    provider: int,
    folder: pathlib.Path,
    *,
    answers: bool = True,
    nginx: str = NGINX,
    headrace: str = HEADRACE,
    trusted: pathlib.Path | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], int, float]]:
    """A started gateway, its port, and the seconds from its start to its first answer.

    - `answers`: whether the upstream answers a completion; else it is waited for until it listens.
    - `nginx`, `headrace`: configurations, with places for folder, upstream and port.
    - `trusted`: the certificate that headrace trusts.
    """
    port = free_port()
    here = pathlib.Path(tempfile.mkdtemp(dir=folder))
    if subject.name == "nginx":
        config = here / "nginx.conf"
        config.write_text(nginx.format(folder=here, upstream=provider, port=port))
        command = [nginx_program(), "-p", str(here), "-c", str(config)]
    else:
        config = here / "headrace.toml"
        config.write_text(headrace.format(upstream=provider, port=port))
        command = [str(pathlib.Path(sys.executable).with_name("headrace")), "serve", "--config", str(config)]
    environment = {"XDG_STATE_HOME": str(here)}
    if trusted is not None:
        environment["SSL_CERT_FILE"] = str(trusted)
    with started(command, subject, port, here, environment, answers=answers) as (process, start):
        yield process, port, start


@contextlib.contextmanager
def started(
    command: list[str],
    subject: Subject,
    port: int,
    folder: pathlib.Path,
    environment: dict[str, str],
    *,
    answers: bool = True,
    limit_s: float = START_LIMIT_S,
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """Start a gateway; its process, and the seconds from its start to its first answer. It ends with the context.

    - `environment`: what is added to ours.
    - `answers`: as for `gateway`.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not (_answers(subject, port) if answers else _listens(port)):
            if process.poll() is not None or time.perf_counter() - began > limit_s:
                raise RuntimeError(f"{subject.name} does not start: {' '.join(command)}")
            time.sleep(0.005)
        yield process, time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _headers(subject: Subject) -> dict[str, str]:
    return {"content-type": "application/json", **dict(subject.headers)}


def _answers(subject: Subject, port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("POST", subject.path, subject.body("fast"), _headers(subject))
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def upstream(built: pathlib.Path, *arguments: str) -> Iterator[int]:
    """A started bench upstream; its port. It ends with the context."""
    command = [str(built / "bench-upstream"), "--events", str(EVENTS), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("no pipes to the upstream")
        yield int(process.stdout.readline().split()[1])
        process.stdin.close()


def tools() -> pathlib.Path:
    """Build the load tools and say where they are."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "headrace-benches"], check=True)
    target = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"], check=True, capture_output=True
    )
    return pathlib.Path(json.loads(target.stdout)["target_directory"]) / "release"


def nginx_program() -> str:
    """Where nginx is."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
    if found is None:
        raise RuntimeError("the gateway benches need nginx as their anchor: apt-get install nginx-light")
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
