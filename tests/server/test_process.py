"""`headrace serve` as a process: its start, its reloads, its end."""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from tests.support.edge import served

DEMO = '[[providers]]\nid = "demo"\nkind = "demo"\n'
HI = [{"role": "user", "content": "hi"}]


def ask(url: str, model: str, **more: object) -> httpx.Response:
    headers = more.pop("headers", None)
    body = {"model": model, "messages": HI, **more}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=20)


def until_refused(url: str) -> None:
    """Wait until nobody listens any more."""
    end = time.monotonic() + 10
    while True:
        assert time.monotonic() < end
        try:
            httpx.get(f"{url}/readyz")
        except httpx.ConnectError:
            return


def test_it_takes_as_many_descriptors_as_it_may(tmp_path):
    with served(tmp_path) as running:
        soft, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_it_says_where_it_listens_and_ends_by_a_signal(tmp_path):
    for number in (signal.SIGTERM, signal.SIGINT):
        with served(tmp_path) as running:
            assert httpx.get(f"{running.url}/readyz").status_code == 200
            running.signal(number)
            assert running.wait() == 0
            (line,) = running.lines
            assert line.rstrip().endswith(" (providers: demo; keys: none)")


@pytest.mark.parametrize("again", [False, True])
def test_a_stop_lets_an_answer_end_and_a_second_one_does_not(tmp_path, again):
    body = {"model": "demo/slow" if again else "demo/text", "messages": HI, "stream": True}
    with served(tmp_path) as running:
        with httpx.stream("POST", f"{running.url}/v1/chat/completions", json=body, timeout=20) as response:
            lines = iter(response.iter_lines())
            assert next(lines).startswith("data: ")
            running.signal(signal.SIGTERM)
            until_refused(running.url)
            if again:
                running.signal(signal.SIGTERM)
                with pytest.raises(httpx.RemoteProtocolError):
                    list(lines)
            else:
                assert [line for line in lines if line][-1] == "data: [DONE]"
        assert running.wait() == 0


def test_a_changed_file_is_taken_and_a_wrong_one_is_not(tmp_path):
    with served(tmp_path, DEMO + '[models]\n"one" = "demo/text"\n') as running:
        file = tmp_path / "config.toml"
        assert ask(running.url, "one").status_code == 200
        assert ask(running.url, "two").status_code == 422
        # By the watch.
        file.write_text(DEMO + '[models]\n"two" = "demo/text"\n', encoding="utf-8")
        running.said(re.compile("took the new configuration"))
        assert ask(running.url, "two").status_code == 200
        assert ask(running.url, "one").status_code == 422
        # A fault keeps the old one, by the signal.
        file.write_text(DEMO + "[models]\nthree = 5\n", encoding="utf-8")
        running.signal(signal.SIGHUP)
        running.said(re.compile("is refused, the old one stays"))
        running.said(re.compile(r"config\.toml:5:"))
        assert ask(running.url, "two").status_code == 200
        # The listener itself stays as it was started.
        file.write_text(DEMO + '[models]\n"four" = "demo/text"\n[server]\nthreads = 2\n', encoding="utf-8")
        running.said(re.compile(r"but for \[server\] and \[store\]: those need a restart"))
        assert ask(running.url, "four").status_code == 200


def test_keys_are_asked_for_and_a_reload_does_not_take_them_away(tmp_path):
    keys = '[[keys]]\nid = "team"\nsecret = "env:TEAM_KEY"\n'
    with served(tmp_path, DEMO + keys, TEAM_KEY="sesame-1234567890") as running:
        assert ask(running.url, "demo/text").status_code == 401
        assert ask(running.url, "demo/text", headers={"x-api-key": "wrong"}).status_code == 401
        good = {"authorization": "Bearer sesame-1234567890"}
        assert ask(running.url, "demo/text", headers=good).status_code == 200
        # With keys any Host will do: the key is the guard.
        assert ask(running.url, "demo/text", headers={**good, "host": "box.lan"}).status_code == 200
        (tmp_path / "config.toml").write_text(DEMO, encoding="utf-8")
        running.said(re.compile("changes who may reach the gateway"))
        assert ask(running.url, "demo/text").status_code == 401
        assert "sesame" not in "".join(running.lines)


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", "serve", "--port", port],
            capture_output=True,
            text=True,
            timeout=20,
            cwd=tmp_path,
            env={"HOME": str(tmp_path)},
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("headrace: cannot listen on 127.0.0.1 port")
    assert done.stderr.count("\n") == 1
