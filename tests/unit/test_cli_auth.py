"""`headrace auth`, as a person calls it: logging in, looking, renewing, taking out; and never a token on the screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.credentials.vault import new_key
from tests.support.tokens import ACCOUNT, token_server

KEY = new_key()


class Desk:
    """A configuration with four credentials, and the command."""

    def __init__(self, folder, server):
        self.folder = folder
        self.server = server
        self.file = folder / "headrace.toml"
        self.store = f"sqlite:{folder}/store.db"
        self.write()

    def write(self, store=None):
        text = f'[store]\nurl = "{store or self.store}"\nkey = "env:HEADRACE_TEST_KEY"\n'
        text += '[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "http://127.0.0.1:9/v1"\n'
        for name, more in (
            ("plan", 'oauth = "chatgpt"'),
            ("claude", 'oauth = "anthropic"\nclient_id = "client-9"'),
            ("robot", 'oauth = "azure"\ntenant = "t"\nclient_id = "c-1"\nclient_secret = "env:SECRET"'),
            ("machine", 'oauth = "azure_identity"'),
        ):
            text += f'[[providers.credentials]]\nid = "{name}"\n{more}\nissuer = "{self.server.url}"\n'
        self.file.write_text(text)

    def run(self, *arguments):
        """Call the command in this process."""
        env = {"HEADRACE_TEST_KEY": KEY, "SECRET": "secret-canary"}
        done = CliRunner().invoke(main, ["auth", *arguments, "--config", str(self.file)], env=env)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "canary" not in done.output
        return done

    def start(self, *arguments, **environ):
        """Call the command in a process of its own."""
        command = [sys.executable, "-I", "-m", "headrace.cli", "auth", *arguments, "--config", str(self.file)]
        env = {**os.environ, "HEADRACE_TEST_KEY": KEY, "SECRET": "secret-canary", **environ}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)

    def listed(self):
        return {one["name"]: one for one in map(json.loads, self.run("list", "--json").stdout.splitlines())}


@pytest.fixture
def desk(tmp_path):
    with token_server() as server:
        yield Desk(tmp_path, server)


def test_a_plan_is_logged_in_looked_at_renewed_and_taken_out(desk):
    done = desk.run("login", "acme/plan", "--no-browser")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"Open {desk.server.url}/codex/device and type ABCD-1234",
        f"logged in: acme/plan, account {ACCOUNT}",
    ]
    row = desk.listed()["acme/plan"]
    assert (row["kind"], row["account"], row["state"]) == ("chatgpt", ACCOUNT, "ready")
    assert row["expires"].endswith("Z")
    done = desk.run("refresh", "acme/plan", "--json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (0, "ready")
    assert desk.server.issued == 2
    # The refresh token was exchanged; the next refresh needs the new one.
    assert desk.run("refresh", "acme/plan").exit_code == 0
    assert desk.server.reused == 0
    assert desk.run("remove", "acme/plan").exit_code == 0
    done = desk.run("remove", "acme/plan")
    assert (done.exit_code, done.stderr) == (1, "there is no login 'acme/plan'\n")
    assert desk.listed()["acme/plan"]["state"] == "nobody is logged in"


def test_a_code_is_pasted(desk):
    process = desk.start("login", "acme/claude", "--no-browser")
    assert process.stdout
    url = process.stdout.readline().removeprefix("Open ").strip()
    state = parse_qs(urlsplit(url).query)["state"][0]
    out, err = process.communicate(f"code-canary#{state}\n", timeout=25)
    assert (process.returncode, out) == (0, "logged in: acme/claude\n")
    assert "access-canary" not in err
    assert "Traceback" not in err
    assert desk.server.asked[0].values["code"] == "code-canary"
    assert desk.listed()["acme/claude"]["state"] == "ready"


def test_a_browser_comes_back_with_the_code(desk, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable} -I\nimport sys, urllib.request as r\n"
        "r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=20).read()\n"
    )
    browser.chmod(0o700)
    process = desk.start("login", "acme/claude", BROWSER=f"{browser} %s")
    out, err = process.communicate(timeout=25)
    assert (process.returncode, out.splitlines()[-1]) == (0, "logged in: acme/claude")
    assert "canary" not in out + err
    assert desk.server.asked[-1].values["redirect_uri"].startswith("http://localhost:")


def test_the_list_tells_what_is_not_there_too(desk):
    rows = desk.listed()
    assert {name: one["state"] for name, one in rows.items()} == {
        "acme/plan": "nobody is logged in",
        "acme/claude": "nobody is logged in",
        "acme/robot": "not used yet",
        "acme/machine": "each process asks for itself",
    }
    assert "acme/plan\tchatgpt\t-\t-\tnobody is logged in" in desk.run("list").stdout.splitlines()


def test_a_refresh_of_all_says_who_failed(desk):
    done = desk.run("refresh", "--json")
    rows = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert done.exit_code == 1
    assert {name: one["state"] for name, one in rows.items()} == {
        "acme/plan": "dead",
        "acme/claude": "dead",
        "acme/robot": "ready",
        "acme/machine": "ready",
    }
    assert rows["acme/plan"]["reason"] == "nobody is logged in: `headrace auth login acme/plan`"
    assert desk.listed()["acme/robot"]["account"] == "c-1"


@pytest.mark.parametrize(
    ("answer", "told", "state"),
    [
        ((400, {}, {"error": "invalid_grant", "error_description": "canary"}), "invalid_grant (status 400)", "dead"),
        ((503, {}, {"error": "canary"}), "status 503", "failed"),
    ],
)
def test_a_refresh_that_is_refused(desk, answer, told, state):
    assert desk.run("login", "acme/plan", "--no-browser", "--json").exit_code == 0
    desk.server.script[:] = [answer]
    done = desk.run("refresh", "acme/plan", "--json")
    assert done.exit_code == 1
    row = json.loads(done.stdout)
    assert told in row["reason"]
    assert row["state"] == state
    assert desk.listed()["acme/plan"]["state"] == ("dead" if state == "dead" else "ready")


def test_a_login_that_is_denied_ends_with_1_and_leaves_nothing(desk):
    desk.server.script[:] = [
        (200, {}, {"device_auth_id": "d", "user_code": "X-1", "interval": 0}),
        (400, {}, {"error": "access_denied"}),
    ]
    done = desk.run("login", "acme/plan", "--no-browser")
    assert (done.exit_code, done.stderr) == (1, "headrace: the login was denied\n")
    assert desk.listed()["acme/plan"]["state"] == "nobody is logged in"


def test_what_cannot_be_is_one_line_and_2(desk):
    done = desk.run("login")
    assert done.exit_code == 2
    assert done.stderr == ("headrace: name a credential that a person logs in for; there are: acme/plan, acme/claude\n")
    done = desk.run("login", "acme/robot")
    assert done.exit_code == 2
    assert "'acme/robot' is no credential that a person logs in for" in done.stderr
    assert desk.run("refresh", "acme/nobody").exit_code == 2
    desk.write(store="memory:")
    done = desk.run("login", "acme/plan")
    assert done.exit_code == 2
    assert "would forget the login at once" in done.stderr


def test_the_store_holds_no_token_that_could_be_read(desk):
    assert desk.run("login", "acme/plan", "--no-browser").exit_code == 0
    env = {"HEADRACE_TEST_KEY": KEY, "SECRET": "secret-canary"}
    where = ["--config", str(desk.file)]
    file = desk.folder / "export.jsonl"
    done = CliRunner().invoke(main, ["store", "export", *where, str(file)], env=env)
    assert done.exit_code == 0
    export = file.read_bytes()
    assert b"acct-7" in export
    raw = b"".join(path.read_bytes() for path in desk.folder.glob("store.db*"))
    assert b"canary" not in export + raw
    # Nothing opens under another key, and the right one opens all.
    done = CliRunner().invoke(main, ["store", "check", *where], env=env | {"HEADRACE_TEST_KEY": new_key()})
    assert "oauth/acme/plan" in done.output
    assert "oauth/acme/plan" not in CliRunner().invoke(main, ["store", "check", *where], env=env).output


def test_a_list_without_any_says_so(tmp_path):
    file = tmp_path / "headrace.toml"
    file.write_text('[store]\nurl = "sqlite:store.db"\n')
    done = CliRunner().invoke(main, ["auth", "list", "--config", str(file)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "none has oauth" in done.stderr
    assert (tmp_path / "store.db").is_file()
