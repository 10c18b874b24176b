"""A gateway as users start it, and an upstream that answers by a script."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from tests.support.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: A test that waits longer for a line of the gateway's is stuck.
PATIENCE_S = 20


#: As a script's status: close the connection without a byte of an answer.
HANG_UP = 0


@dataclass
class Seen:
    """A request as the upstream saw it."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Upstream:
    """Answers with what the script says next: `(status, headers, body)`; the last one again and again."""

    url: str = ""
    script: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def keys(self) -> list[str | None]:
        return [one.headers.get("authorization") or one.headers.get("x-api-key") for one in self.seen]


@contextmanager
def upstream(*script: tuple[int, dict[str, str], bytes]) -> Iterator[Upstream]:
    told = Upstream(script=list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked = json.loads(body) if body else None
            told.seen.append(Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, asked))
            status, headers, answer = told.script.pop(0) if len(told.script) > 1 else told.script[0]
            if status == HANG_UP:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with listening(Handler) as told.url:
        yield told


class Served:
    """A gateway's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.line("listening on"))
        assert found
        self.port = int(found[1])

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self.lines.append("(ended)")
            self._more.notify_all()

    def line(self, words: str) -> str:
        """Wait for a line on standard error, and take it and those before it away."""
        with self._more:

            def there() -> bool:
                return any(words in line or line == "(ended)" for line in self.lines)

            assert self._more.wait_for(there, PATIENCE_S), self.lines
            for at, line in enumerate(self.lines):
                if words in line:
                    del self.lines[: at + 1]
                    return line
            raise AssertionError(self.lines)

    def ask(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any, Any]:
        """Ask, and give the status, the headers and the body (read as JSON if it is)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            if body is None:
                connection.request("GET", path, headers=headers or {})
            else:
                sent = {"content-type": "application/json", **(headers or {})}
                connection.request("POST", path, json.dumps(body), sent)
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        is_json = (response.getheader("content-type") or "").startswith("application/json")
        return response.status, response.headers, json.loads(raw) if is_json else raw.decode()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()
        return code


@contextmanager
def served(config: Path, *arguments: str, **environ: str) -> Iterator[Served]:
    """Start `headrace serve` on a free port, and stop it in order."""
    command = [sys.executable, "-I", "-m", "headrace.cli", "serve", "--config", str(config), "--port", "0", *arguments]
    # No test's store is another's, and none is the user's.
    environment = {**os.environ, "XDG_STATE_HOME": str(config.parent / "state"), **environ}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        gateway = Served(process)
        yield gateway
        assert gateway.stop() == 0
    finally:
        process.kill()
        process.wait()


@contextmanager
def bearers(takes: Callable[[str], bool], answer: bytes) -> Iterator[Bearers]:
    """An upstream that takes some bearer tokens, and answers 401 to others."""
    told = Bearers(takes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            token = self.headers.get("authorization", "").removeprefix("Bearer ")
            told.seen.append(token)
            good = told.takes(token)
            body = answer if good else b'{"error": {"message": "refused", "type": "t"}}'
            self.send_response(200 if good else 401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with listening(Handler) as told.url:
        yield told


@dataclass
class Bearers:
    """What such an upstream has seen; `takes` may be changed."""

    takes: Callable[[str], bool]
    url: str = ""
    seen: list[str] = field(default_factory=list)
