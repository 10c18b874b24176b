"""The commands of the harness, called as a user calls them, over a scripted upstream."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any, Self

from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.testing import Reply, Upstream

CONFIG = """
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "{url}/v1"
[[providers.credentials]]
id = "first"
secret = "env:ACME_KEY"
[profiles]
primary = "acme/big"
{more}
"""
KEY = "sk-acme-0123456789abcdef"


class Home:
    """A user's home: a configuration, a store, a workspace; and an upstream with these replies."""

    def __init__(self, folder: pathlib.Path, *replies: Reply, more: str = "") -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.upstream = Upstream({"*": list(replies) or [Reply()]})
        self.config = folder / "headrace.toml"
        self.config.write_text(CONFIG.format(url=self.upstream.url, more=more))
        self.environ = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "HEADRACE_CONFIG": str(self.config),
            "ACME_KEY": KEY,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.upstream.close()

    def __call__(self, *words: str, stdin: str = "") -> Result:
        """Run a command."""
        clean = dict.fromkeys((name for name in os.environ if name.endswith(("_KEY", "_TOKEN"))), None)
        return CliRunner(env={**clean, **self.environ}).invoke(main, list(words), input=stdin)

    def command(self, *words: str) -> list[str]:
        """Give a command for a process of its own."""
        return [sys.executable, "-m", "headrace.cli", *words]

    def run(self, *words: str, task: str = "mend it") -> tuple[int, list[dict[str, Any]]]:
        """Run a task with JSON lines. Gives the exit status and the lines."""
        return self.json("run", task, "--project", str(self.workspace), *words)

    def json(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        """Run a command with `--json`: whatever it writes has to be JSON."""
        done = self(*words, "--json")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def events(lines: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    """Give what events of these types say."""
    return [line["data"] for line in lines if line["line"] == "event" and line["type"] in types]
