"""The loop over the real tools: the boundary holds in a task on real files, with a real process."""

import asyncio
import json
import os

from headrace.log import payloads as p
from headrace.log.records import Record
from headrace.loop import AskLater, BoxedTools, replay_dry, replay_trace, resume
from headrace.tools.builtin import builtin_tools
from headrace.tools.sandbox import SandboxExecutor
from headrace.tools.shell import environment_for
from headrace.tools.toolbox import Toolbox
from headrace.tools.workspace import Workspace
from tests.support import harness as h
from tests.support.harness import Led


async def allow(_request):
    return p.PermissionAnswer(decision="allow", scope="session")


async def later(request):
    raise AskLater(request.summary)


def boxed(led, executor):
    workspace = Workspace(str(led.folder), durable=False)
    box = Toolbox(builtin_tools(workspace, executor=executor, environment=environment_for(os.environ)))
    return BoxedTools(box, log=led.log, run_id="r1", reads=workspace.reads, root=workspace.root, tier=executor.tier)


def task():
    return [
        h.calls({"command": "sh check.sh"}, tool="bash"),
        h.calls({"path": "answer.txt"}, tool="read_file"),
        h.calls({"path": "answer.txt", "old": "41", "new": "42"}, tool="edit"),
        h.calls({"command": "sh check.sh"}, tool="bash"),
        h.says("It is mended."),
    ]


def test_a_task_is_done_recorded_and_replayed_without_an_effect(tmp_path):
    (tmp_path / "answer.txt").write_text("the answer is 41\n")
    (tmp_path / "check.sh").write_text("grep -q 42 answer.txt && echo right || { echo wrong; exit 1; }\n")

    async def act():
        executor = SandboxExecutor("C")
        async with Led(tmp_path, *task()) as led:
            run = led.lead(await led.begin(), tools=boxed(led, executor), ask=allow)
            state = await run.go()
            assert state.status == "finished"
            observed = await led.values("tool.observed")
            assert [one.code for one in observed] == ["tool_error", "ok", "ok", "ok"], observed
            assert "wrong" in observed[0].text
            assert "right" in observed[3].text
            assert (tmp_path / "answer.txt").read_text() == "the answer is 42\n"
            menu = json.loads(await led.log.artifacts.get((await led.values("model.requested"))[0].menu))
            versions = {one["name"]: one["version"] for one in menu}
            intents = await led.values("tool_intent.proposed")
            assert all(one.tool_version == versions[one.tool_name] for one in intents)
            [bash, *_] = await led.values("tool.execution.started")
            assert bash.argv
            assert bash.environment
            records = await led.log.read("r1")
            (tmp_path / "answer.txt").write_text("untouched\n")
            assert replay_trace(records).differing == ()
            assert (tmp_path / "answer.txt").read_text() == "untouched\n"
            assert len(await replay_dry(records, boxed(led, executor))) == 4
            assert (tmp_path / "answer.txt").read_text() == "untouched\n"

    asyncio.run(act())


def test_a_question_outlives_its_process_and_a_cancelled_command_leaves_nothing(tmp_path):
    (tmp_path / "check.sh").write_text("sleep 60\n")

    async def act():
        executor = SandboxExecutor("C")
        async with Led(tmp_path, h.calls({"command": "sh check.sh"}, tool="bash"), h.says("I see.")) as led:
            state = await led.lead(await led.begin(), tools=boxed(led, executor), ask=later).go()
            assert (state.status, state.reason) == ("paused", "asked")
            started = asyncio.Event()

            def seen(event):
                if isinstance(event, Record) and event.type == "tool.execution.started":
                    started.set()

            run = led.lead(await resume(led.log, "r1"), tools=boxed(led, executor), ask=allow, seen=seen)
            leading = asyncio.ensure_future(run.go())
            await started.wait()
            run.cancel_step()
            assert (await leading).status == "finished"
            assert [one.code for one in await led.values("tool.observed")] == ["cancelled"]

    asyncio.run(act())


def test_t3_a_file_that_was_read_before_a_resume_may_be_edited_after_it(tmp_path):
    (tmp_path / "answer.txt").write_text("the answer is 41\n")
    script = [
        h.calls({"path": "answer.txt"}, tool="read_file"),
        h.calls({"path": "answer.txt", "old": "41", "new": "42"}, tool="edit"),
        h.says("It is mended."),
    ]

    async def act():
        executor = SandboxExecutor("C")
        async with Led(tmp_path, *script) as led:
            state = await led.lead(await led.begin(), tools=boxed(led, executor), ask=later).go()
            assert (state.status, state.reason) == ("paused", "asked")
            state = await led.lead(await resume(led.log, "r1"), tools=boxed(led, executor), ask=allow).go()
            assert state.status == "finished"
            assert [one.code for one in await led.values("tool.observed")] == ["ok", "ok"]
            assert (tmp_path / "answer.txt").read_text() == "the answer is 42\n"

    asyncio.run(act())
