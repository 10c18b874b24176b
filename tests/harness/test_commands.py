"""`headrace run` and its siblings: exit statuses, JSON lines, questions, limits. Each H item has its test."""

import asyncio
import base64
import json
import os
import re
import resource
import subprocess
import sys

import pytest

from headrace.config import load
from headrace.doctor import examine
from headrace.harness import exits
from headrace.log.eventlog import EventLog
from headrace.registry import Registry
from headrace.store import open_store
from headrace.testing import Reply, Upstream
from tests.support.harness import calls, says
from tests.support.hosts import KEY, Home, events

WRITE = {"path": "note.txt", "content": "written\n"}


def write(**more):
    return calls({**WRITE, **more}, tool="write_file")


def failing(status, message="no"):
    return Reply.json({"error": {"message": message}}, status=status)


@pytest.fixture
def home(tmp_path):
    made = []

    def make(*replies, **more):
        made.append(Home(tmp_path, *replies, **more))
        return made[0]

    yield make
    for one in made:
        one.upstream.close()


def test_a_run_tells_its_text_and_what_it_cost(home):
    at = home(says("It is done."), more='[catalogue."acme/big"]\nprice_input = 10\nprice_output = 100')
    done = at("run", "mend it", "--project", str(at.workspace))
    assert done.exit_code == exits.DONE
    assert done.stdout == "It is done.\n"
    assert "finished: completed" in done.stderr
    assert "110 tokens" in done.stderr
    assert "$0.0020" in done.stderr


def test_what_a_model_writes_does_not_move_the_terminals_cursor(home):
    at = home(says("ok \x1b[2J\x9b31m \u202egnp.exe"))
    done = at("run", "mend it", "--project", str(at.workspace))
    assert done.stdout == "ok \u241b[2J\ufffd31m \ufffdgnp.exe\n"


# --- H1, H2, H3


def test_h1_doctor_and_run_find_the_same_model_by_the_same_resolver(home):
    at = home(says("Done."), more='coding = "acme/coder"\n[models]\nswift = "acme/quick"')
    config = load(at.config, environ=at.environ)
    told = {one.about: one.told for one in examine(config, Registry())}
    for selector, wanted in ((None, "coding"), ("primary", "primary"), ("swift", "swift")):
        code, lines = at.run(*(("--model", selector) if selector else ()))
        assert code == 0
        target = told[wanted] if wanted in told else told[f"{wanted}.default"]
        assert target.startswith("acme/")
        asked = at.upstream.facts().requests[-1].json()["model"]
        assert target.startswith(f"acme/{asked} ")
        assert [one["provider"] for one in events(lines, "model.attempt.started")] == ["acme"]
    code, lines = at.run("--model", "nobody/x")
    assert code == exits.MISUSE
    assert "nobody" in lines[-1]["message"]


def test_h1_doctor_tells_of_sandbox_store_and_policy_as_well(home):
    at = home()
    (at.workspace / ".headrace").mkdir()
    (at.workspace / ".headrace" / "policy.toml").write_text('modes = ["plan"]\n')
    done = at("doctor", "--project", str(at.workspace))
    assert done.exit_code == 0
    assert "sandbox tier C" in done.stdout
    assert "store: sqlite:" in done.stdout
    assert "policy of the project" in done.stdout
    (at.workspace / ".headrace" / "policy.toml").write_text('modes = "plan"\n')
    done = at("doctor", "--project", str(at.workspace))
    assert done.exit_code == 1
    assert "FAIL policy" in done.stdout


@pytest.mark.parametrize(
    ("replies", "words", "wanted"),
    [
        ([says("Done.")], [], exits.DONE),
        ([says("Done.")], ["--check", "true"], exits.DONE),
        ([says("Done.")], ["--check", "false"], exits.UNVERIFIED),
        ([failing(400)], [], exits.FAILED),
        ([failing(401)], [], exits.PROVIDER),
        ([write(), says("Done.")], [], exits.ASKED),
        ([write(), says("Done.")], ["--mode", "headless"], exits.DONE),
        ([write(), says("Done.")], ["--mode", "plan", "--max-steps", "1"], exits.BUDGET),
        ([write(), says("Done.")], ["--mode", "plan", "--max-tokens", "50"], exits.BUDGET),
        ([], ["--model", "nobody/x"], exits.MISUSE),
        ([], ["--max-cost", "1"], exits.MISUSE),
        ([], ["--config", "not-there.toml"], exits.MISUSE),
        ([], ["--store", "nothing:"], exits.MISUSE),
        ([], ["--project", "not-there"], exits.MISUSE),
    ],
)
def test_h2_json_mode_prints_nothing_but_json_whatever_happens(home, replies, words, wanted):
    at = home(*replies)
    code, lines = at.run(*words)  # parses every line
    assert code == wanted, lines[-1]
    assert lines[-1]["line"] == ("error" if wanted == exits.MISUSE else "end")
    assert lines[-1]["exit"] == wanted
    assert all(line["line"] in ("run", "delta", "event", "note", "error", "end") for line in lines)


def test_h2_other_commands_too(home):
    at = home()
    for words in (
        ("resume", "none"),
        ("approve", "none", "--allow", "once"),
        ("fork", "none"),
        ("replay", "none"),
        ("replay", "none", "--mode", "model"),
    ):
        code, [line] = at.json(*words)
        assert (code, line["line"], line["exit"]) == (exits.MISUSE, "error", exits.MISUSE)
        assert "none" in line["message"]


def test_h2_a_mistake_in_the_options_writes_nothing_to_standard_output(home):
    done = home()("run", "--json")
    assert (done.exit_code, done.stdout) == (exits.MISUSE, "")


def test_h3_a_projects_own_files_can_only_tighten(home):
    at = home(write(), says("Done."))
    policy = at.workspace / ".headrace" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text('[[rules]]\neffect = "allow"\ntool = "*"\nwhy = "mine"\n')
    code, lines = at.run()
    assert code == exits.MISUSE
    assert "policy.toml" in lines[-1]["message"]
    policy.write_text(
        'modes = ["plan", "default"]\n[[rules]]\neffect = "deny"\ntool = "write_file"\nwhy = "no"\npath = "**"\n'
    )
    code, lines = at.run("--mode", "danger-bypass")
    assert code == exits.MISUSE
    assert "danger-bypass" in lines[-1]["message"]
    # No configuration is read there either: keys would go where a cloned repository wants them.
    (at.workspace / "headrace.toml").write_text("no TOML at all")
    code, lines = at.run()
    assert code == exits.DONE
    assert [one["code"] for one in events(lines, "tool.observed")] == ["permission_denied"]
    assert not (at.workspace / "note.txt").exists()


# --- questions


def test_a_question_pauses_a_headless_run_and_approve_answers_it_once(home):
    at = home(write(), write(path="second.txt"), says("Done."))
    code, lines = at.run("--headless")
    assert code == exits.ASKED
    run_id = lines[-1]["run_id"]
    [question] = events(lines, "permission.requested")
    assert "note.txt" in question["summary"]
    shown = at("approve", run_id)
    assert shown.exit_code == exits.MISUSE
    assert "may it? write_file" in shown.stderr
    assert "--allow once" in shown.stderr
    code, [told, error] = at.json("approve", run_id)
    assert (told["line"], told["data"]["tool_name"], error["line"]) == ("question", "write_file", "error")
    code, lines = at.json("approve", run_id, "--allow", "once")
    assert code == exits.ASKED  # for the second file
    assert (at.workspace / "note.txt").read_text() == "written\n"
    assert [one["by"] for one in events(lines, "permission.decided")] == ["person"]
    assert not (at.workspace / "second.txt").exists()
    code, lines = at.json("approve", run_id, "--deny", "one is enough")
    assert code == exits.DONE
    assert not (at.workspace / "second.txt").exists()
    assert "one is enough" in json.dumps(at.upstream.facts().requests[-1].json())
    assert at("approve", run_id, "--allow", "once").exit_code == exits.MISUSE


def test_an_answer_holds_for_what_was_shown_and_nothing_else(home):
    read = calls({"path": "note.txt"}, tool="read_file")
    at = home(read, calls({"path": "note.txt", "old": "a", "new": "b"}, tool="edit"), says("Done."))
    (at.workspace / "note.txt").write_text("a\n")
    code, lines = at.run()
    assert code == exits.ASKED
    run_id = lines[-1]["run_id"]
    (at.workspace / "note.txt").write_text("a\nand more\n")
    code, lines = at.json("approve", run_id, "--allow", "once")
    assert code == exits.GATE
    assert "workspace_changed" in lines[-1]["message"]
    code, lines = at.json("approve", run_id, "--allow", "once", "--accept", "workspace_changed")
    assert code == exits.DONE
    assert (at.workspace / "note.txt").read_text() == "a\nand more\n"
    assert [one["code"] for one in events(lines, "tool.observed")] == ["precondition_failed"]


# --- going on


def test_r3_a_run_is_resumed_with_a_wider_budget_forked_and_continued_with_words(home):
    at = home(write(), says("Done."), says("Still done."), says("Otherwise."))
    code, lines = at.run("--mode", "accept-edits", "--max-steps", "1")
    assert code == exits.BUDGET
    run_id = lines[-1]["run_id"]
    code, lines = at.json("resume", run_id)
    assert (code, lines[-1]["line"]) == (exits.GATE, "error")
    code, lines = at.json("resume", run_id, "--max-steps", "5")
    assert (code, lines[-1]["text"]) == (exits.DONE, "Done.")
    assert at("resume", run_id).exit_code == exits.MISUSE
    code, lines = at.json("resume", run_id, "--say", "and now?")
    assert (code, lines[-1]["text"]) == (exits.DONE, "Still done.")
    assert "and now?" in json.dumps(at.upstream.facts().requests[-1].json())
    code, [forked] = at.json("fork", run_id, "--at", "2")
    assert (code, forked["from_seq"]) == (0, 2)
    # A fork takes no effect back, and says which those are.
    assert (forked["workspace"], forked["changed"], forked["commands"]) == ("kept", ["note.txt"], 0)
    assert (at.workspace / "note.txt").exists()
    said = at("fork", run_id, "--at", "2")
    assert "a fork takes back events and no effects. Since event 2 the run has changed 1 file (note.txt)" in said.stderr
    assert re.fullmatch(r"[0-9a-f-]{36}\n", said.stdout)
    assert "has changed" not in at("fork", run_id).stderr
    code, lines = at.json("resume", forked["run_id"])
    # It was begun under the budget of one step, and in the workspace as it was then.
    assert (code, lines[-1]["line"]) == (exits.GATE, "error")
    code, lines = at.json("resume", forked["run_id"], "--accept", "workspace_changed")
    assert (code, lines[-1]["text"]) == (exits.DONE, "Otherwise.")


def test_canaries_in_environment_files_arguments_and_outputs_are_in_no_log_artifact_or_prompt(home):
    inside, typed = "canary-7f3a9b2c4d5e", "canary-5e1d0c7b6a98"
    pieces = [word for secret in (KEY, inside) for word in (secret[:7], secret[7:])]
    line = "printf '%s%s\\n' {} {}; printf '%s%s' {} {} | base64; seq 30000".format(*pieces)
    at = home(
        calls({"command": line}, tool="bash"),
        calls({"path": "made.txt", "content": f"{inside}\n"}, tool="write_file"),
        says("Done."),
    )
    at.environ["MY_TOKEN"] = typed
    (at.workspace / ".env").write_text(f"TOKEN={inside}\n")
    _, lines = at.run("--mode", "danger-bypass", task=f"use {typed}")
    [bash, _] = events(lines, "tool.observed")
    assert bash["code"] == "ok"
    assert bash["redactions"] == 2
    exported = at("log", "export", lines[-1]["run_id"]).stdout
    artifacts = [json.loads(one) for one in exported.splitlines() if '"artifact"' in one]
    contents = b"".join(base64.b64decode(one["data"]) for one in artifacts if "data" in one)
    assert b"30000" in contents  # the whole output is kept, and was looked through
    prompts = b"".join(seen.body for seen in at.upstream.facts().requests)
    for secret in (KEY, inside, typed):
        for form in (secret.encode(), base64.b64encode(secret.encode())):
            for place in (json.dumps(lines).encode(), exported.encode(), contents, prompts):
                assert form not in place, secret


# --- budgets, the web, the model


def test_money_and_time_end_a_run_too(home):
    prices = '[catalogue."acme/big"]\nprice_input = 10\nprice_output = 100'
    at = home(calls({"path": "."}, tool="list_dir"), says("Done."), more=prices)
    code, lines = at.run("--max-cost", "0.001")
    assert (code, lines[-1]["cost_micros"]) == (exits.BUDGET, 2000)
    [over] = events(lines, "budget.exceeded")
    assert (over["which"], over["limit"], over["used"]) == ("money", 1000, 2000)


def test_web_tools_are_there_where_a_provider_for_them_is_bound(tmp_path):
    row = '[[providers]]\nid = "web"\nkind = "searxng"\nbase_url = "{url}"\n'
    found = {"results": [{"url": "https://example.org/a", "title": "A page", "content": "about mills"}]}
    with Upstream({"*": Reply.json(found)}) as web:
        more = 'web_search = "web/default"\n' + row.format(url=web.url)
        with Home(tmp_path, calls({"query": "mills"}, tool="web_search"), says("Done."), more=more) as at:
            code, lines = at.run("--mode", "danger-bypass")
            assert code == exits.DONE, lines[-1]
            [observed] = events(lines, "tool.observed")
            assert "https://example.org/a" in observed["text"]
            assert web.facts().request_count == 1


def test_a_fallback_that_leads_nowhere_is_refused_before_anything_begins(home):
    at = home()
    code, [line] = at.run("--fallback", "nobody/x")
    assert (code, "nobody" in line["message"]) == (exits.MISUSE, True)


def test_a_report_of_a_broken_chain_ends_with_1_and_of_no_run_with_2(home):
    at = home(says("Done."))
    run_id = at.run()[1][-1]["run_id"]
    done = at("trace", "report", run_id)
    assert done.exit_code == 0
    assert done.stdout.startswith("<!doctype html>")

    async def spoil():
        store = await open_store(f"sqlite:{at.folder}/state/headrace/headrace.db")
        async with store.transaction() as tx:
            await tx.execute("UPDATE log_events SET at_ms = at_ms + 1 WHERE seq = 3")
        await store.close()

    asyncio.run(spoil())
    done = at("trace", "report", run_id)
    assert done.exit_code == exits.FAILED
    assert '"bad_seq":3' in done.stdout
    assert at("trace", "report", "none").exit_code == exits.MISUSE
    assert at("replay", run_id).exit_code == exits.FAILED


# --- T6


def test_t6_no_success_is_claimed_without_a_recorded_verification(home):
    at = home(says("All tests pass, I promise."))
    code, lines = at.run()
    assert (code, lines[-1]["reason"]) == (exits.DONE, "completed")
    assert not events(lines, "verification.recorded")
    code, lines = at.run("--check", "test -e mended")
    assert (code, lines[-1]["reason"]) == (exits.UNVERIFIED, "completed")
    assert [one["passed"] for one in events(lines, "verification.recorded")] == [False, False, False]
    (at.workspace / "mended").touch()
    code, lines = at.run("--check", "test -e mended")
    assert (code, lines[-1]["reason"]) == (exits.DONE, "verified")
    [verification] = events(lines, "verification.recorded")
    assert (verification["method"], verification["passed"]) == ("command", True)


def test_t6_what_the_model_ran_last_is_not_run_again_unless_something_changed(home):
    count = "echo x >> count; test $(wc -l < count) -gt 0"
    bash = calls({"command": count}, tool="bash")
    at = home(bash, says("Done."), bash, write(), says("Done."))
    code, lines = at.run("--mode", "danger-bypass", "--check", count)
    assert code == exits.DONE
    assert [one["method"] for one in events(lines, "verification.recorded")] == ["tool"]
    assert (at.workspace / "count").read_text() == "x\n"
    code, lines = at.run("--mode", "danger-bypass", "--check", count)
    assert [one["method"] for one in events(lines, "verification.recorded")] == ["command"]
    assert (at.workspace / "count").read_text() == "x\nx\nx\n"


def test_t6_a_tool_that_fails_is_an_observation_and_the_run_goes_on(home):
    at = home(calls({"path": "../x"}, tool="read_file"), calls({"nonsense": 1}, tool="bash"), says("Done."))
    code, lines = at.run()
    assert code == exits.DONE
    assert [one["code"] for one in events(lines, "tool.observed")] == ["permission_denied", "schema_invalid"]


# --- help


def test_help_of_every_command_takes_less_than_a_tenth_of_a_second():
    from headrace.cli import main

    names = [(), *((name,) for name in sorted(main.commands))]
    names += [
        (name, sub) for name, one in sorted(main.commands.items()) for sub in sorted(getattr(one, "commands", ()))
    ]
    slow = {}
    for words in names:
        best = 1.0
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, "-m", "headrace.cli", *words, "--help"], capture_output=True, check=False
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert done.returncode == 0, words
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best = min(best, took)
            if best < 0.1:
                break
        if best >= 0.1:
            slow[words] = best
    assert not slow, f"processor time of the help of {slow}"


def test_every_led_run_is_sealed_with_the_users_key(home):
    at = home(says("Done."))
    _, lines = at.run()

    async def verdict():
        store = await open_store(f"sqlite:{at.folder}/state/headrace/headrace.db")
        try:
            return await (await EventLog.over(store)).verify(lines[-1]["run_id"])
        finally:
            await store.close()

    found = asyncio.run(verdict())
    assert found.ok
    assert found.sealed == found.events - 1
    assert os.stat(at.folder / "state" / "headrace" / "seal.key").st_mode & 0o077 == 0  # noqa: PTH116
