"""The gateway over a TLS upstream beside nginx with `proxy_ssl`: bursts, paced streams, completions.

The upstream is another nginx with a certificate in front of the bench upstream; its CPU is not counted, and it is the
same for both. Answers are read and compared over TLS before any load.
"""

from __future__ import annotations

import contextlib
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator

from benches.gateway import (
    HEADRACE,
    NGINX,
    Loader,
    Subject,
    check,
    free_port,
    gateway,
    nginx_program,
    tools,
    upstream,
)
from benches.measure import Row

SUBJECTS = (Subject("nginx"), Subject("headrace"))

_FRONT = NGINX.replace(
    "listen 127.0.0.1:{port} backlog=4096;",
    (
        "listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {folder}/../upstream.pem; "
        "ssl_certificate_key {folder}/../upstream.key; ssl_session_cache shared:bench:1m;"
    ),
)
_NGINX = NGINX.replace(
    "proxy_pass http://provider;",
    (
        "proxy_pass https://provider; proxy_ssl_verify on; proxy_ssl_trusted_certificate {folder}/../upstream.pem; "
        "proxy_ssl_name localhost; proxy_ssl_server_name on;"
    ),
)
_HEADRACE = HEADRACE.replace("http://127.0.0.1:", "https://localhost:")


def run(rounds: int) -> list[Row]:
    """Both gateways in turns; one row per demand."""
    built = tools()
    taken: dict[str, dict[str, list[float]]] = {subject.name: {} for subject in SUBJECTS}
    with tempfile.TemporaryDirectory() as name, upstream(built) as port, _front(pathlib.Path(name), port) as secured:
        folder = pathlib.Path(name)
        for _ in range(rounds):
            for subject in SUBJECTS:
                for figure, value in _measure(subject, built, secured, folder).items():
                    taken[subject.name].setdefault(figure, []).append(value)

    def row(work: str, figure: str, must: float, unit: str) -> Row:
        theirs, ours = (statistics.median(taken[subject.name][figure]) for subject in SUBJECTS)
        work = f"gateway over a TLS upstream, {work}"
        return Row(
            work, "nginx with proxy_ssl", ours / theirs, must, "at most", f"{ours:.3f} against {theirs:.3f} {unit}"
        )

    return [
        row("burst c=16", "burst16", 1.0, "CPU s per million events"),
        row("paced", "paced", 0.9, "CPU s per million events"),
        row("completion with Python policy, c=1", "completion1", 2.0, "CPU s per 1,000"),
        row("completion with Python policy, c=16", "completion16", 1.5, "CPU s per 1,000"),
    ]


def _measure(subject: Subject, built: pathlib.Path, provider: int, folder: pathlib.Path) -> dict[str, float]:
    trusted = folder / "upstream.pem"
    started = gateway(subject, provider, folder, nginx=_NGINX, headrace=_HEADRACE, trusted=trusted)
    with started as (process, port, _):
        check(subject, port)
        figures = {}

        load = Loader(subject, built, folder, process.pid, port).put
        load("fast", 16, "--seconds", "1")
        for connections in (1, 16):
            result, cpu = load("fast", connections, "--seconds", "2")
            figures[f"completion{connections}"] = cpu / result["good"] * 1e3
        result, cpu = load("burst", 16, "--seconds", "2")
        figures["burst16"] = cpu / result["events"] * 1e6
        result, cpu = load("paced", 16, "--requests", "16")
        figures["paced"] = cpu / result["events"] * 1e6
        return figures


@contextlib.contextmanager
def _front(folder: pathlib.Path, provider: int) -> Iterator[int]:
    """An nginx that ends TLS in front of the upstream; its port."""
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    named = ("-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE")
    files = ("-keyout", folder / "upstream.key", "-out", folder / "upstream.pem")
    subprocess.run(["openssl", *made.split(), *named, *files], check=True, capture_output=True)
    here = pathlib.Path(tempfile.mkdtemp(dir=folder))
    port = free_port()
    config = here / "nginx.conf"
    config.write_text(_FRONT.format(folder=here, upstream=provider, port=port))
    with subprocess.Popen([nginx_program(), "-p", here, "-c", config], stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(0.5)
            if process.poll() is not None:
                raise RuntimeError("the upstream's nginx does not start")
            yield port
        finally:
            process.terminate()
