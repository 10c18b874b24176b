"""Prompts of 1 MiB beside nginx: verbatim against one that holds bodies in memory, translated against one that streams.

The answer is read and compared first. The upstream answers nothing before it has the whole prompt.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile

from benches.gateway import NGINX, Loader, Subject, check, gateway, tools, upstream
from benches.measure import Row

SIZE = 1 << 20
CONNECTIONS = 4

_BUFFERED = NGINX.replace("access_log off;", "access_log off; client_max_body_size 8m; client_body_buffer_size 2m;")
_STREAMED = NGINX.replace("access_log off;", "access_log off; client_max_body_size 8m; proxy_request_buffering off;")
#: Name, gateway, nginx's configuration.
SUBJECTS = (
    ("nginx, in memory", Subject("nginx"), _BUFFERED),
    ("verbatim", Subject("headrace"), NGINX),
    ("nginx, request buffering off", Subject("nginx"), _STREAMED),
    ("translated", Subject("headrace", "anthropic_messages"), NGINX),
)


def prompt(subject: Subject) -> bytes:
    """A request with a conversation of 1 MiB: messages of some kilobytes, with what JSON escapes in them."""
    request = json.loads(subject.body("fast"))
    text = 'The race carries the water to the wheel.\n\t"So it does", said the miller. Fünf Räder. ' * 48
    count = SIZE // (len(json.dumps(text, ensure_ascii=False).encode()) + 40)
    roles = ("user", "assistant")
    request["messages"] = [{"role": roles[n % 2], "content": text} for n in range(count | 1)]
    return json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode()


def run(rounds: int) -> list[Row]:
    """All subjects in turns; a row for each pair."""
    built = tools()
    taken: dict[str, list[float]] = {name: [] for name, _, _ in SUBJECTS}
    with tempfile.TemporaryDirectory() as name, upstream(built) as provider:
        folder = pathlib.Path(name)
        for _ in range(rounds):
            for work, subject, nginx in SUBJECTS:
                with gateway(subject, provider, folder, nginx=nginx) as (process, port, _):
                    check(subject, port)
                    body = prompt(subject)
                    load = Loader(subject, built, folder, process.pid, port).put
                    load("fast", CONNECTIONS, "--requests", "20", body=body)
                    result, cpu = load("fast", CONNECTIONS, "--seconds", "3", body=body)
                    taken[work].append(cpu / result["good"] * 1e3)

    def row(ours: str, anchor: str, must: float) -> Row:
        a, b = statistics.median(taken[ours]), statistics.median(taken[anchor])
        work = f"gateway, prompt of 1 MiB, {ours}"
        return Row(work, anchor, a / b, must, "at most", f"{a:.2f} against {b:.2f} ms CPU")

    return [row("verbatim", "nginx, in memory", 1.5), row("translated", "nginx, request buffering off", 2.5)]
