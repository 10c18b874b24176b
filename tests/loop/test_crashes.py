"""Killed at every append, fsync, spawn and rename: nothing happens twice, and nothing that was told is lost."""

import json
import os
import signal
import subprocess
import sys

import pytest

from headrace.testing import Upstream
from tests.support import harness as h
from tests.support.postgres import running

MOST = 120
"""More points than a run has."""
STEP = 1 if os.environ.get("HEADRACE_LONG") else 4
"""Of the points, the usual run takes each fourth, others on each store."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/log.db"
        return
    pytest.importorskip("asyncpg", reason="NO ASYNCPG: pip install 'headrace[postgres]'")
    with running() as server:
        if server is None:
            pytest.skip("NO POSTGRESQL: neither /usr/lib/postgresql/*/bin nor the path has initdb")
        yield server.database()


@pytest.mark.timeout(300)
def test_a_run_that_is_killed_at_any_point_goes_on_and_does_nothing_twice(store_url, tmp_path, root):
    replies = [h.calls({"line": "a"}, text="Let me."), h.says("Done.")]
    routes = {f"/p{n}/acme/chat/completions": replies for n in range(MOST)}
    with Upstream(routes) as upstream:
        command = [sys.executable, "-m", "tests.support.crash", store_url, upstream.url, str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": f"{root}:{root}/python"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=root, text=True
        ) as server:

            def ask(words):
                server.stdin.write(f"{words}\n")
                server.stdin.flush()
                return json.loads(server.stdout.readline())

            assert ask("resume p0")["status"] == "none"  # and the tables are there
            whole = ask("run p0 0")
            assert whole["ended"] == 0
            points = whole["points"]
            assert {"before spawn", "after rename", "before append tool.execution.started"} <= set(points)
            assert ("before fsync" in points) == store_url.startswith("sqlite")
            assert len(points) < MOST
            in_doubt = 0
            first = 1 if store_url.startswith("sqlite") else 2
            for number in range(first, len(points) + 1, STEP):
                name = f"p{number}"
                killed = ask(f"run {name} {number}")
                where = f"killed at point {number}, {killed['points'][-1]}"
                assert killed["ended"] == signal.SIGKILL, where
                assert len(killed["points"]) == number, where
                after = ask(f"resume {name}")
                told = (tmp_path / name / "told").read_text().split("\n")[:-1]
                # No acknowledged event is lost, nor was it another.
                assert all(after["chains"][seq] == chain for seq, chain in map(str.split, told)), where
                # No second effect.
                assert len(after["lines"]) <= 1, where
                if after["status"] == "none":
                    assert not told, where
                    continue
                assert after["status"] == "finished", where
                assert after["ok"], where
                # One observation for each intent.
                assert after["observed"] == after["intents"], where
                if "ok" in after["codes"]:
                    assert after["lines"] == ["a"], where
                in_doubt += "in_doubt" in after["codes"]
            assert in_doubt >= 4 / STEP
            server.stdin.close()
