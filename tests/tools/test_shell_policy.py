"""T4 and the evasion corpus: a line that cannot be read is never allowed by itself, and deny beats ask beats allow."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.tools.permission import Query, line_acts, parse_layer
from headrace.tools.permission.policy import ORDER, Policy
from headrace.tools.permission.shell import COMMANDS, DEPTH, LONGEST, read_line
from tests.conftest import ROOT

FOLDER = ROOT / "tests/fixtures/policy"
POLICY = Policy((parse_layer((FOLDER / "policy.toml").read_text(encoding="utf-8"), "user"),), "/home/me")


def corpus():
    for number, line in enumerate((FOLDER / "evasions.txt").read_text(encoding="utf-8").split("\n"), 1):
        found = re.fullmatch(r"(allow|ask|deny)  (.+)", line)
        if found:
            text = found[2].replace(r"\n", "\n").replace(r"\t", "\t").replace(r"\x01", "\x01")
            yield pytest.param(text, found[1], id=f"{number}:{found[2][:40]}")
        else:
            assert not line or line.startswith("#"), f"evasions.txt:{number}"


CORPUS = list(corpus())


def decide(line, mode="default", tier="A", policy=POLICY):
    acts, doubts = line_acts(line, root="/project", cwd="/project", home="/home/me")
    return policy.decide(Query(tool="bash", acts=acts, doubts=doubts, root="/project", tier=tier), mode)


@pytest.mark.parametrize(("line", "expected"), CORPUS)
def test_each_line_of_the_corpus_is_decided_as_it_says(line, expected):
    decision = decide(line)
    assert decision.effect == expected, decision
    assert decision.why


def test_the_corpus_is_long_enough():
    assert len(CORPUS) >= 80
    assert {param.values[1] for param in CORPUS} == {"allow", "ask", "deny"}


@pytest.mark.parametrize(("line", "expected"), CORPUS)
def test_t4_what_is_asked_or_denied_is_so_inside_any_other_line(line, expected):
    if expected == "allow" or "<<" in line or '"' in line or "(" in line or line.startswith("#") or "\n" in line:
        return
    for around in ("git status; {}", "ls && {{ {}\n}}", "if true; then {}\nfi", "git log | ( {}\n)"):
        assert ORDER[decide(around.format(line)).effect] >= ORDER[expected], around.format(line)


def test_a_doubtful_line_is_not_allowed_by_any_mode_but_the_sandboxed_and_the_dangerous():
    for line in ("git status )", "bash -c $X", "eval $X", "f() { ls; }; f"):
        assert decide(line, "default").effect == "ask"
        assert decide(line, "accept-edits").effect == "ask"
        assert decide(line, "auto", tier="C").effect == "ask"
        assert decide(line, "headless").effect == "deny"
        assert decide(line, "plan").effect == "deny"
        assert decide(line, "auto", tier="A").effect == "allow"


def test_reading_is_bounded():
    assert read_line("ls " * LONGEST).doubts == (f"it is longer than {LONGEST} characters",)
    many = read_line("ls;" * (COMMANDS + 10))
    assert len(many.commands) == COMMANDS
    assert many.doubts == (f"it has more than {COMMANDS} commands",)
    deep = "ls"
    for _ in range(DEPTH + 1):
        deep = "eval " + "'" + deep.replace("'", "'\\''") + "'"
    assert "shells in shells" in read_line(deep).doubts


@given(st.text(st.sampled_from("rm -xf'\"$`(){};|&<>\\\n=*#~ab "), max_size=40))
def test_no_line_breaks_the_reader(line):
    decision = decide(line)
    assert decision.effect in ORDER
    assert decide(line) == decision


@given(st.text(st.sampled_from("ab'\" $`(){};|&<>\\\n=*#"), max_size=30))
def test_what_follows_a_denied_command_cannot_hide_it(rest):
    assert decide("rm -rf x\n" + rest).effect == "deny"
