"""The loop over the real tools: the boundary holds in a task on real files, with a real process."""

import asyncio
import base64
import json
import os

from headrace.log import payloads as p
from headrace.log.jsonl import export_run
from headrace.log.records import Record
from headrace.log.state import State
from headrace.loop import AskLater, BoxedTools, Settings, replay_dry, replay_trace, resume
from headrace.testing import Reply
from headrace.tools.builtin import builtin_tools
from headrace.tools.redact import Redactor
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


def boxed(led, executor, environment=None, **options):
    workspace = Workspace(str(led.folder), durable=False)
    environment = environment or environment_for(os.environ)
    box = Toolbox(builtin_tools(workspace, executor=executor, environment=environment))
    options = {"reads": workspace.reads, "root": workspace.root, "tier": executor.tier} | options
    return BoxedTools(box, log=led.log, run_id="r1", **options)


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


def test_t4_a_grant_by_rule_holds_after_a_resume_and_in_a_replay(tmp_path):
    script = [
        h.calls({"path": "a.txt", "content": "one"}, tool="write_file"),
        h.calls({"path": "b.txt", "content": "one"}, tool="write_file"),
        h.calls({"path": "a.txt", "content": "two"}, tool="write_file"),
        h.calls({"path": "c.txt", "content": "one"}, tool="write_file"),
        h.says("Written."),
    ]

    async def act():
        executor = SandboxExecutor("C")
        asked = []

        async def first_by_rule(question):
            asked.append(question.summary)
            if len(asked) == 1:
                return p.PermissionAnswer(decision="allow", scope="rule")
            raise AskLater(question.summary)

        async def once(question):
            asked.append(question.summary)
            return p.PermissionAnswer(decision="allow", scope="once")

        async with Led(tmp_path, *script) as led:
            state = await led.lead(await led.begin(), tools=boxed(led, executor, tier="B"), ask=first_by_rule).go()
            assert (state.status, state.reason) == ("paused", "asked")
            assert state.grants[0].rules == (p.GrantedRule(tool="write_file", path=str(tmp_path / "a.txt")),)
            state = await led.lead(await resume(led.log, "r1"), tools=boxed(led, executor, tier="B"), ask=once).go()
            assert state.status == "finished"
            assert (tmp_path / "a.txt").read_text() == "two"
            # The second of a.txt was not asked about; b.txt twice, as the process that asked first is gone.
            assert [one[-5:] for one in asked] == ["a.txt", "b.txt", "b.txt", "c.txt"]
            decided = await led.values("permission.decided")
            assert [one.by for one in decided] == ["person", "person", "grant", "person"]
            records = await led.log.read("r1")
            replayed = replay_trace(records)
            assert replayed.differing == ()
            assert replayed.state.to_json() == state.to_json()
            assert State.from_json(state.to_json()).grants == state.grants
            for name in ("a.txt", "b.txt", "c.txt"):
                (tmp_path / name).unlink()
            again = await replay_dry(records, boxed(led, executor, tier="B"))
            # A person's answer is none of today's rules; a grant that stood already is.
            assert [one.now for one in again] == ["ask", "ask", "allow", "ask"]

    asyncio.run(act())


CANARY = "sk-planted-canary-0123456789"


def test_canaries_in_environment_arguments_and_outputs_are_in_no_log_artifact_or_prompt(tmp_path):
    """Also where a tool writes them in base64, and where there is so much output that the whole is an artifact."""
    encoded = base64.b64encode(CANARY.encode()).decode()
    (tmp_path / "notes.txt").write_text(f"the key is {CANARY}\n{encoded}\n" + "and so on\n" * 20_000)
    redactor = Redactor({"planted": CANARY})
    calls = [
        h.calls({"command": "env; cat notes.txt"}, tool="bash"),
        h.calls({"path": "notes.txt"}, tool="read_file"),
        h.calls({"command": f"echo {CANARY}"}, tool="bash", text=f"I will say {CANARY}."),
        Reply.json({"error": {"message": f"no: {CANARY}"}}, status=400),
    ]

    async def act():
        executor = SandboxExecutor("C")
        async with Led(tmp_path, *calls) as led:
            environment = environment_for(os.environ) | {"PLANTED": CANARY}
            tools = boxed(led, executor, environment, redactor=redactor)
            settings = Settings(redact=lambda text: redactor.text(text)[0])
            await led.lead(await led.begin(), tools=tools, ask=allow, settings=settings).go()
            observed = await led.values("tool.observed")
            assert [one.code for one in observed] == ["ok", "ok", "ok"]
            assert observed[0].redactions >= 3
            kept = [await led.log.artifacts.get(digest) for digest in await led.log.artifacts.of_run("r1")]
            assert max(map(len, kept)) > 200_000
            lines = await export_run(led.log, "r1", with_artifacts=False)
            prompts = [seen.body for seen in led.upstream.facts().requests]
            for form in (CANARY.encode(), encoded.encode().rstrip(b"=")):
                assert not [one for one in (*lines, *kept, *prompts) if form in one], form

    asyncio.run(act())
