"""The conformance corpus: our decoder holds to it at every cut, and the judge and the runner are held to it too."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from headrace.conform import CorpusError, default_corpus, engines_of, judge, load, outcome_of, read, run
from headrace.conform.corpus import FAMILIES, FEATURES, digest_list
from headrace.conform.report import BEGIN, END, cell, table, version_of, write_page
from headrace.conform.run import Run

EVERY_CUT = "1" in (os.environ.get("HEADRACE_LONG"), os.environ.get("HEADRACE_EVERY_CUT"))
CUTS = 12
"""Two-way cuts of a case in a daily run; HEADRACE_EVERY_CUT=1 takes every one, as CI does, and HEADRACE_LONG=1."""

CASES = load(default_corpus())


def of_family(family):
    return [case for case in CASES if case.family == family]


@pytest.mark.parametrize("family", FAMILIES)
def test_our_decoder_is_right_in_every_case_at_every_cut(family):
    cases = of_family(family)
    assert len(cases) >= 12
    wrong = []
    for number, case in enumerate(cases):
        events = [event.to_json() for event in read(case)]
        verdict = judge(case, outcome_of(read(case)), strict=True)
        if verdict.status != "right":
            wrong.append((case.id, verdict.why))
        if case.is_websocket:
            continue
        (body,) = case.pieces
        stride = 1 if EVERY_CUT else max(1, len(body) // CUTS)
        ways = [[bytes([byte]) for byte in body]]
        ways += [[body[:at], body[at:]] for at in range(1 + number % stride, len(body), stride)]
        wrong += [(case.id, "cut") for pieces in ways if [event.to_json() for event in read(case, pieces)] != events]
    assert not wrong, wrong


def test_the_corpus_has_every_family_and_feature():
    assert len(CASES) >= 120
    assert {case.family for case in CASES} == set(FAMILIES)
    assert {case.feature for case in CASES} == set(FEATURES)
    faults = {"cut", "cut_call", "stream_error", "status_error"}
    for family in FAMILIES:
        missing = faults - {case.feature for case in of_family(family)}
        assert not missing, (family, missing)


def test_no_two_cases_are_the_same():
    assert not [
        pieces for pieces, times in Counter((c.pieces, c.protocol, c.status) for c in CASES).items() if times > 1
    ]


def test_the_judge_finds_every_kind_of_mistake():
    """Each case with an outcome that is wrong in one field that the case expects."""
    found = Counter()
    for case in CASES:
        right = outcome_of(read(case))
        for field, value in spoilt(case, right):
            outcome = right | {field: value}
            verdict = judge(case, outcome, strict=True)
            assert verdict.status in ("wrong", "silent"), (case.id, field, verdict)
            found[field] += 1
    assert set(found) == {"text", "reasoning", "refusal", "calls", "usage", "finish", "error", "continuations",
                          "annotations", "media"}  # fmt: skip
    assert all(count >= 1 for count in found.values())


def spoilt(case, right):
    for field in ("text", "reasoning", "refusal"):
        yield field, right[field] + "!"
    for field in ("continuations", "annotations", "media"):
        yield field, [*right[field], "more"]
    if "error" in case.expect:
        yield "error", None
        yield "error", case.expect["error"] | {"retryable": not case.expect["error"]["retryable"]}
        yield "error", case.expect["error"] | {"kind": "aborted"}
        return
    yield "finish", "nonsense"
    yield "error", {"type": "ValueError"}
    yield "usage", None if right["usage"] else {"input": 0, "output": 0}
    yield "calls", [*right["calls"], {"name": "more", "arguments": {}}]
    for at, call in enumerate(right["calls"]):
        yield "calls", [*right["calls"][:at], call | {"name": "other"}, *right["calls"][at + 1 :]]
        changed = {"input": "other"} if "input" in call else {"arguments": {"other": 1}}
        yield "calls", [*right["calls"][:at], call | changed, *right["calls"][at + 1 :]]


def test_what_an_engine_has_no_place_for_is_not_offered():
    case = next(one for one in CASES if one.id == "anthropic_messages/redacted-thinking")
    assert judge(case, {"text": "Six.", "calls": [], "finish": "end_turn"}).status == "not_offered"
    assert judge(case, {"not_offered": "no such wire"}).status == "not_offered"


def test_an_end_without_a_reason_is_silent_and_one_with_a_reason_wrong():
    case = next(one for one in CASES if one.id == "openai_chat/cut-after-whole-arguments")
    said = {"text": "", "calls": []}
    assert judge(case, said | {"finish": None}).status == "silent"
    assert judge(case, said | {"finish": "stop"}).status == "wrong"
    assert judge(case, said | {"finish": None, "calls": [{"name": "open_lock"}]}).status == "wrong"
    assert judge(case, said | {"error": {"type": "APIError"}}).status == "right"


def test_an_exception_of_the_language_is_right_by_accident_and_said_so(tmp_path):
    case = next(one for one in CASES if one.id == "openai_chat/cut-after-whole-arguments")
    found = judge(case, {"error": {"type": "KeyError"}})
    assert (found.status, found.why) == ("accident", "an error by accident: KeyError")
    # Where none is due it is as wrong as any.
    good = next(one for one in CASES if "finish" in one.expect)
    assert judge(good, {"error": {"type": "KeyError"}}).status == "wrong"
    peer = Run("peer", "Peer", verdicts={case.id: found})
    assert cell(peer, [case]) == "1/1 (1 by accident)"
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}{END}")
    write_page(page, [peer], [case], default_corpus())
    assert f"Right by accident, with `KeyError`: `{case.id}`." in page.read_text()


def headrace(*arguments):
    command = [sys.executable, "-m", "headrace.cli", "conform", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_a_table_and_json():
    done = headrace("--family", "ollama_chat")
    assert done.returncode == 0, done.stderr
    count = len(of_family("ollama_chat"))
    assert done.stdout.splitlines()[-1].split() == ["all", f"{count}/{count}"]
    done = headrace("--family", "ollama_chat", "--json")
    (engine,) = json.loads(done.stdout)["engines"]
    assert (engine["name"], len(engine["cases"])) == ("headrace", count)
    assert {verdict["status"] for verdict in engine["cases"].values()} == {"right"}


def test_a_mistake_is_one_line(tmp_path):
    for arguments, word in [
        (("--family", "latin"), "no such family: latin; there are openai_chat"),
        (("--engine", "latin"), "no such engine: latin; there are headrace"),
        (("--corpus", str(tmp_path)), "no cases in"),
    ]:
        done = headrace(*arguments)
        assert done.returncode == 2
        assert word in done.stderr.splitlines()[-1]


def test_where_no_corpus_lies_beside_the_package_the_message_says_what_to_do(tmp_path, monkeypatch):
    module = sys.modules["headrace.conform.corpus"]
    monkeypatch.setattr(module, "__file__", str(tmp_path / "site-packages" / "headrace" / "conform" / "corpus.py"))
    with pytest.raises(CorpusError, match="name it with --corpus"):
        default_corpus()


GOOD = """about = "x"
feature = "text"
basis = "house"
family = "ollama_chat"
protocol = "ollama_chat"
headers = { "content-type" = "application/x-ndjson" }
body = '''
{"message":{"content":"Up"},"done":true,"done_reason":"stop"}
'''
[expect]
text = "Up"
finish = "stop"
"""


def corpus(folder, text=GOOD):
    (folder / "cases" / "ollama_chat").mkdir(parents=True, exist_ok=True)
    (folder / "cases" / "ollama_chat" / "text.toml").write_text(text)
    (folder / "DIGESTS").write_text(digest_list(folder))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("finish", "finnish", "unknown key expect.finnish"),
        ('feature = "text"', 'feature = "latin"', "no such feature: latin"),
        ('finish = "stop"', "", "one of finish and error"),
        ('protocol = "ollama_chat"', 'protocol = "openai_chat"', "protocol not the family's"),
        ('basis = "house"', "", "no basis"),
        ("body = '''", "frames = [{event='a'}]\nbody = '''", "not what frames say"),
    ],
)
def test_a_broken_case_is_named(tmp_path, old, new, word):
    folder = corpus(tmp_path, GOOD.replace(old, new))
    with pytest.raises(CorpusError, match=word):
        load(folder)


def test_digests_are_the_corpus_s_version(tmp_path):
    folder = corpus(tmp_path)
    assert [case.id for case in load(folder)] == ["ollama_chat/text"]
    (folder / "cases" / "ollama_chat" / "text.toml").write_text(GOOD + "\n")
    with pytest.raises(CorpusError, match="DIGESTS"):
        load(folder)


ADAPTER = """
import json, sys, urllib.request
print(json.dumps({"versions": {"mine": "1.0"}}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    body = urllib.request.urlopen(job["url"] + "/api/chat", data=b"{}").read()
    said = json.loads(body)
    WHAT
    outcome = {"text": said["message"]["content"], "calls": [], "finish": said["done_reason"]}
    print(json.dumps({"case": job["case"], "outcome": outcome}), flush=True)
"""


def with_engine(folder, what, requirement="nothing"):
    """A corpus of one case with an engine that is installed already."""
    corpus(folder)
    engines = folder / "engines"
    engines.mkdir(exist_ok=True)
    (engines / "mine.py").write_text(ADAPTER.replace("WHAT", what))
    row = f'[mine]\nlabel = "Mine"\nlanguage = "python"\nfile = "mine.py"\nrequirements = ["{requirement}"]\n'
    (engines / "engines.toml").write_text(row)
    home = folder / "cache" / "mine"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    if not (home / "bin" / "python").exists():
        (home / "bin" / "python").symlink_to(sys.executable)
    return folder, home


def run_mine(folder):
    (done,) = run(["mine"], load(folder), corpus=folder, cache=folder / "cache")
    return done


@pytest.mark.parametrize(
    ("what", "status", "why"),
    [
        ("pass", "right", ""),
        ("said['message']['content'] = 'Down'", "wrong", "text is 'Down', not 'Up'"),
        ("sys.exit()", "wrong", "its process ends as it reads"),
        ("import time; time.sleep(60)", "wrong", "hangs: nothing for 1 s as it reads"),
        ("job['case'] = 'other'", "wrong", "answers another case: other"),
    ],
)
def test_an_engine_runs_in_a_process_of_its_own(tmp_path, monkeypatch, what, status, why):
    monkeypatch.setattr(sys.modules["headrace.conform.run"], "CASE_S", 1.0 if "sleep" in what else 20.0)
    monkeypatch.setattr(sys.modules["headrace.conform.run"], "_install", installed)
    done = run_mine(with_engine(tmp_path, what)[0])
    assert (done.failure, done.versions) == ("", {"mine": "1.0"})
    assert {name: (verdict.status, verdict.why) for name, verdict in done.verdicts.items()} == {
        "ollama_chat/text": (status, why)
    }


def installed(engine, cache, _):
    return [str(cache / engine.name / "bin" / "python"), str(engine.file)], dict(os.environ)


def test_an_engine_that_cannot_be_installed_is_told(tmp_path, monkeypatch):
    folder, home = with_engine(tmp_path, "pass")
    installing = [sys.executable, "-c", "import sys; sys.exit('no matching distribution')"]
    monkeypatch.setattr(sys.modules["headrace.conform.run"], "_installing", lambda *_: [installing])
    done = run_mine(folder)
    assert done.failure == "not installed: no matching distribution"
    assert not done.verdicts
    assert done.failure in table([done], load(folder))
    assert not list(home.glob(".installed-*"))


def test_what_is_installed_is_not_installed_again(tmp_path, monkeypatch):
    folder, home = with_engine(tmp_path, "pass")
    rounds = []

    def installing(_, target):
        rounds.append(target)
        (target / "bin").mkdir()
        return [["ln", "-s", sys.executable, str(target / "bin" / "python")]]

    monkeypatch.setattr(sys.modules["headrace.conform.run"], "_installing", installing)
    for _ in range(2):
        done = run_mine(folder)
        assert (done.failure, [verdict.status for verdict in done.verdicts.values()]) == ("", ["right"])
    assert rounds == [home]


def test_a_page_gets_its_results_between_its_marks(tmp_path):
    folder = corpus(tmp_path)
    cases = load(folder)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    write_page(page, run(["headrace"], cases, corpus=folder, cache=tmp_path), cases, folder)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}Corpus ")
    assert text.endswith(f"{END}after\n")
    assert "| text | 1/1 |" in text
    assert "old" not in text
    page.write_text("no marks\n")
    with pytest.raises(CorpusError, match="between which the results go"):
        write_page(page, [], cases, folder)


def test_an_engine_that_hands_on_pieces_is_not_held_to_complete_calls():
    case = next(one for one in CASES if one.id == "cohere_chat/cut-in-arguments")
    said = {"text": "", "calls": [{"name": "open_lock", "arguments": {}}], "finish": None}
    assert judge(case, said).status == "wrong"
    assert judge(case, said | {"pieces": True}).status == "silent"
    case = next(one for one in CASES if one.id == "cohere_chat/limit-in-arguments")
    assert judge(case, said | {"pieces": True, "finish": "MAX_TOKENS"}).status == "not_offered"


def test_the_provider_s_own_word_for_a_failure_tells_it():
    case = next(one for one in CASES if one.id == "cohere_chat/ends-in-timeout")
    said = {"text": "The lo", "calls": []}
    assert judge(case, said | {"finish": "TIMEOUT"}).status == "right"
    assert judge(case, said | {"finish": "MAX_TOKENS"}).status == "wrong"


def test_every_engine_of_the_repository_has_its_adapter():
    engines = engines_of(default_corpus())
    assert len(engines) >= 12
    for engine in engines.values():
        assert engine.file.is_file()
        assert engine.requirements


def test_the_page_explains_every_feature_and_has_this_corpus_s_results(root):
    text = (root / "docs" / "CONFORMANCE.md").read_text()
    assert [line for name, what in FEATURES.items() if (line := f"| {name} | {what} |") not in text] == []
    _, _, results = text.partition(BEGIN)
    first = f"Corpus {version_of(default_corpus())}: {len(CASES)} cases."
    assert results.startswith(first), "run `headrace conform --engine all --write docs/CONFORMANCE.md` again"


def test_what_is_said_of_others_is_what_was_found(root):
    """Each case that COMPARE.md names beside an engine: not right in CONFORMANCE.md, or right where it says so."""
    results = (root / "docs" / "CONFORMANCE.md").read_text().partition("## What is not right")[2]
    sections = {part.split("\n")[0]: part for part in results.split("\n### ")[1:]}
    known = {case.id for case in CASES}
    said, engine = 0, ""
    text = " ".join((root / "docs" / "COMPARE.md").read_text().split())
    names = "|".join(re.escape(name) for name in sections)
    for word in re.finditer(rf"\b({names})\b|`(\w+/[\w-]+)`(: right)?", text):
        if word[1]:
            engine = word[1]
        elif word[2] in known:
            assert (f"`{word[2]}`" not in sections[engine]) == bool(word[3]), (engine, word[0])
            said += 1
    assert said >= 30
