"""`headrace policy check`, and that what policy allows is what bash then runs."""

import itertools
import os
import random
import re
import subprocess
import typing

import pytest
from click.testing import CliRunner

from headrace.cli import MODES, main
from headrace.tools.permission import Layer, Policy, Query, Rule, line_acts, parse_layer
from headrace.tools.permission.policy import Mode

RULES = """
[[rules]]
effect = "allow"
tool = "bash"
argv = ["git", "status"]
why = "reading"
match = ["git status -s"]

[[rules]]
effect = "deny"
tool = "bash"
argv = ["rm", "-rf"]
why = "nothing is removed whole"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/headrace").mkdir(parents=True)
    (tmp_path / "config/headrace/policy.toml").write_text(RULES)
    (tmp_path / "project/.headrace").mkdir(parents=True)
    return tmp_path


def check(*arguments):
    done = CliRunner().invoke(main, ["policy", "check", *map(str, arguments)])
    return done.exit_code, done.output


def test_files_are_checked_with_their_examples(home):
    file = home / "config/headrace/policy.toml"
    assert check(file) == (0, f"{file}: ok; user; rules: 2; examples: 1\n")
    code, output = check("--project", home / "project")
    assert (code, output.splitlines()[-1]) == (0, f"{file}: ok; user; rules: 2; examples: 1")
    (home / "project/.headrace/policy.toml").write_text(RULES)
    code, output = check("--project", home / "project")
    assert code == 1
    assert "policy.toml:3:" in output
    assert "rules[0].effect: a project's file can only tighten" in output


def test_a_line_is_explained(home):
    code, output = check("--project", home / "project", "--explain", 'git status; $X; sh -c "rm -rf /"')
    assert code == 0
    assert output.splitlines() == [
        "deny   user:2     nothing is removed whole",
        "  allow  user:1     run git status: reading",
        "  ask    default    run <?>: no rule lets it run",
        "  deny   user:2     run rm -rf /: nothing is removed whole",
        "  ask    default    name /: / is outside the workspace",
        "  ask    default    in doubt: which program it runs is not known",
    ]
    code, output = check("--project", home / "project", "--explain", "git status", "--tier", "C")
    assert output.splitlines()[0] == "ask    default    there is no sandbox to hold it"
    code, output = check("--project", home / "project", "--explain", "make", "--mode", "headless")
    assert output.startswith("deny   mode       nobody is there to be asked")


def test_the_command_lines_modes_are_policys():
    assert typing.get_args(Mode) == MODES


CALM = [*("ok", "evil", "ok", "evil", "evil", " ", " ", " ", "\n", ";", "&&", "|", "'", '"', "\\", "#", "a", "-", "$'")]
CALM += ["\\\n", "<<E", "<<'E'", "<<-E", "\nE\n", "\\x27", "\\047", "{", "}", "!", "A=", "[", "]", "=", "time", "env"]
CALM += ["command", "<<<", ">/dev/null", "2>&1", "&", "(", ")", "in", "case", "esac", "if", "then", "fi", "for", "do"]
CALM += ["done", "\t", "-c", "bash", "sh", "xargs", "--", "-x", "-n", "1", "exec", "eval", "echo", "printf", "%s", ":"]
WILD = [*("`", "$(", "$", "~", "*", "<(", ">(", "${", "((", "))", "[[", "]]", "x()", "function", "trap", "EXIT", "-v")]
WILD += [
    "test",
    "set",
    "builtin",
    "coproc",
    "@(",
    "!(",
    "let",
    "declare",
    "export",
    "alias",
    "\u00a0",
    "\x0b",
    "\r",
    "||",
]


def lines(seed, count):
    """Lines that mix what is allowed with what is not, in all that shells have for quoting and joining."""
    chance = random.Random(seed)
    tokens = CALM if seed % 2 else CALM + WILD
    for _ in range(count):
        words = [chance.choice(tokens) + chance.choice(("", "", " ")) for _ in range(chance.randint(2, 14))]
        line = ("ok " if chance.random() < 0.7 else "") + "".join(words)
        if "evil" in line:
            yield line


def test_t4_a_line_that_is_allowed_runs_nothing_but_what_is_allowed(tmp_path):
    programs, work, ran = tmp_path / "bin", tmp_path / "work", tmp_path / "ran"
    programs.mkdir()
    work.mkdir()
    (programs / "ok").write_text("#!/bin/sh\nexit 0\n")
    (programs / "evil").write_text(f"#!/bin/sh\n: > {ran}\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    policy = Policy((Layer("user", (Rule(effect="allow", tool="bash", argv=("ok",), why="it is"),)),))
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    allowed = 0
    count = 400_000 if os.environ.get("HEADRACE_LONG") == "1" else 3000
    for line in itertools.chain(lines(1, count), lines(2, count)):
        acts, doubts = line_acts(line, root=str(work), cwd=str(work), home="/nonexistent")
        if policy.decide(Query(tool="bash", acts=acts, doubts=doubts, root=str(work), tier="A")).effect != "allow":
            continue
        allowed += 1
        command = ["/bin/bash", "--noprofile", "--norc", "-c", line]
        subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
        )
        assert not ran.exists(), line
    assert allowed > 50


def test_the_documents_rules_are_read_and_their_examples_hold(root):
    text = (root / "docs/TOOLS.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [len(parse_layer(block, "user").rules) for block in blocks] == [4]
