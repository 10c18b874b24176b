"""The gateway for tests: as a process, and as a listener in this process with a policy of the test's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace._bridge import GatewayConfig, GatewayRef
from headrace.server import Hands

LISTENING = re.compile(r"headrace: listening on (http://\S+)")


class Served:
    """A running `headrace serve`."""

    url: str

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._heard:
                self.lines.append(line)
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def said(self, pattern: re.Pattern[str], after: int = 0) -> re.Match[str]:
        """Wait until a line of standard error matches; lines before `after` do not count."""

        def found() -> re.Match[str] | None:
            return next(filter(None, map(pattern.search, self.lines[after:])), None)

        with self._heard:
            self._heard.wait_for(lambda: found() or self.process.poll() is not None, timeout=15)
            match = found()
            assert match, "".join(self.lines)
            return match

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(timeout=15)

    def end(self) -> None:
        """Kill it if it still runs, and hear it out."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def served(tmp_path: Path, config: str | None = None, **environ: str) -> Iterator[Served]:
    """Run `headrace serve` on a free port, with this configuration or none, in an environment without keys."""
    file = tmp_path / "config.toml"
    command = [sys.executable, "-m", "headrace.cli", "serve", "--port", "0"]
    if config is not None:
        file.write_text(config, encoding="utf-8")
        command += ["--config", str(file)]
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LD_LIBRARY_PATH"}}
    environment = {**kept, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), **environ}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    running = Served(process)
    try:
        running.url = running.said(LISTENING)[1]
        yield running
    finally:
        running.end()


@contextlib.contextmanager
def listener(policy: Any, **settings: Any) -> Iterator[GatewayRef]:
    """Run the edge with this policy, whose event loop runs in a thread."""
    defaults: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "threads": 1,
        "body_limit": 1 << 20,
        "header_limit": 16 << 10,
        "header_timeout": 5.0,
        "loopback_only": False,
        "roots": "bundled",
    }
    edge = GatewayRef.start(GatewayConfig(**{**defaults, **settings}))
    loop = asyncio.new_event_loop()
    hands = Hands(edge, policy)
    loop.call_soon(hands.attach, loop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield edge
    finally:
        edge.stop(0.0)
        edge.join()
        loop.call_soon_threadsafe(hands.detach)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
