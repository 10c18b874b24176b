"""`headrace run --demo`: a whole task without a key, and its replay without an effect (R1, R2, T6)."""

import asyncio
import pathlib
import shutil
import subprocess
import sys

import pytest

from headrace.harness import demo
from headrace.tools.sandbox import probe
from tests.support import seccomp
from tests.support.hosts import Home, events

UNBOXED = probe().best == "C"


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path) as made:
        yield made


@pytest.mark.skipif(UNBOXED, reason="NO SANDBOX HERE: in tier C the demonstration asks a person")
def test_r1_the_demonstration_goes_the_whole_way_and_its_replay_touches_nothing(home, root):
    code, lines = home.json("run", "--demo")
    assert code == 0, lines[-1]
    assert (lines[-1]["status"], lines[-1]["reason"], lines[-1]["exit"]) == ("finished", "verified", 0)
    assert [one["tool_name"] for one in events(lines, "tool_intent.proposed")] == ["bash", "read_file", "edit", "bash"]
    assert [one["code"] for one in events(lines, "tool.observed")] == ["tool_error", "ok", "ok", "ok"]
    [verification] = events(lines, "verification.recorded")
    assert verification["passed"]
    assert verification["intent_id"] == "t3.0"
    assert {one["sandbox"] for one in events(lines, "tool.execution.started") if one.get("argv")} <= {"A", "B"}
    deltas = [line["event"] for line in lines if line["line"] == "delta"]
    assert sum(one["type"] == "model.text_delta" for one in deltas) > 20  # it streams
    assert not home.upstream.facts().request_count  # nobody else was asked
    run_id, folder = lines[-1]["run_id"], next(line["workspace"] for line in lines if line["line"] == "run")
    assert "width * depth * speed" in pathlib.Path(folder, "mill.py").read_text()

    shutil.rmtree(folder)  # whatever a replay did there would fail now
    code, [told] = home.json("replay", run_id)
    assert code == 0
    assert (told["reason"], told["differing"], told["executions"], told["projections"]) == ("verified", [], 4, 5)
    assert told["events"] == lines[-1]["events"]
    assert not pathlib.Path(folder).exists()

    # Once more where nothing can be started, connected or written, and clock and randomness are traps.
    assert seccomp.supported(), "NO SECCOMP: the filter of the tests is written for x86-64 Linux"
    exported = home.folder / "run.jsonl"
    assert home("log", "export", run_id, "-o", str(exported)).exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.pure", str(exported)],
        env={"PATH": home.environ["PATH"], "PYTHONPATH": f"{root}:{root}/python"},
        cwd=home.folder,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b'"verified"' in done.stdout

    # The scripted model once more, over the recorded observations: no tool is run.
    code, [told] = home.json("replay", run_id, "--mode", "model")
    assert (code, told["status"], told["steps"]) == (0, "finished", 5)


@pytest.mark.skipif(UNBOXED, reason="NO SANDBOX HERE: commands are asked about")
def test_r2_the_demonstrations_other_replays_judge_and_execute_on_a_copy(home):
    _, lines = home.json("run", "--demo")
    run_id, folder = lines[-1]["run_id"], next(line["workspace"] for line in lines if line["line"] == "run")
    before = pathlib.Path(folder, "mill.py").read_bytes()
    code, told = home.json("replay", run_id, "--mode", "dry-run")
    assert code == 1  # the file that was edited is another by now, and an edit needs what was read
    assert [one["now"] for one in told] == ["allow", "allow", "precondition_failed", "allow"]
    if "A" not in probe().missing:
        code, told = home.json("replay", run_id, "--mode", "sandbox")
        assert [one["now"] for one in told] == ["allow", "allow", "precondition_failed", "allow"]
        assert "same_output" in told[0]
    assert pathlib.Path(folder, "mill.py").read_bytes() == before
    shutil.rmtree(folder)


def test_the_same_command_with_a_configured_model_asks_that_model(tmp_path):
    from tests.support.harness import says

    with Home(tmp_path, says("I cannot see why.")) as home:
        code, lines = home.json("run", "--demo", "--model", "acme/big", "--max-steps", "1")
        assert home.upstream.facts().request_count == 1
        # The model gave up; the check is what counts, and the budget ends its trying.
        assert (code, lines[-1]["reason"]) == (4, "budget")
        assert [one["passed"] for one in events(lines, "verification.recorded")] == [False]
        shutil.rmtree(next(line["workspace"] for line in lines if line["line"] == "run"))


def test_the_script_reads_as_chat_completions_and_its_project_fails_its_tests():
    from headrace import Decoder

    proposed = []
    for reply in demo.answers():
        decoder = Decoder("openai_chat")
        made = [event for act in reply.acts for event in decoder.feed(act)] + decoder.finish("eof")
        proposed.append([event.tool_name for event in made if event.type == "tool_intent.proposed"])
    assert proposed == [["bash"], ["read_file"], ["edit"], ["bash"], []]
    folder = demo.project()
    done = asyncio.run(_checked(folder))
    assert done.exit_code == 1
    shutil.rmtree(folder)


async def _checked(folder):
    from headrace.tools.execution import Command
    from headrace.tools.sandbox import SandboxExecutor

    command = Command(argv=("/bin/sh", "-c", demo.CHECK), cwd=folder, env={}, tier="C")
    return await SandboxExecutor("C").run(command, lambda _: None)
