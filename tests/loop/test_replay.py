"""Replay: the same events give the same run again, and nothing is touched on the way."""

import asyncio
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest

from headrace.log import payloads as p
from headrace.log.eventlog import EventLog
from headrace.log.jsonl import export_run, import_run, parse
from headrace.log.state import fold
from headrace.log.trace import LANES, trace
from headrace.loop import (
    EffectError,
    GateClosed,
    Settings,
    bombs,
    fork,
    replay_dry,
    replay_model,
    replay_sandbox,
    replay_trace,
    resume,
)
from headrace.store import open_store
from headrace.testing import Cut, Reply
from tests.support import harness as h
from tests.support import runs as made
from tests.support import seccomp
from tests.support.harness import Led


def runs(scenario):
    """Run a scenario in an event loop."""

    def test(tmp_path):
        asyncio.run(scenario(tmp_path))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


async def led_through(led):
    """A run in which most things happen."""
    await led.go(settings=Settings(keep_tokens=150))
    return await led.log.read("r1")


def busy_run(tmp_path):
    return Led(
        tmp_path,
        h.calls({"line": "a"}, {"row": 1}, text="Let me."),
        Reply.stream(h.chunk({"content": "half"}), Cut()),
        h.calls({"line": "poison"}),
        h.says("Done."),
    )


@runs
async def test_r1_replay_reproduces_everything_and_asks_nobody(tmp_path):
    async with busy_run(tmp_path) as led:
        records = await led_through(led)
        asked, lines = len(led.asked), led.tools.lines
        replayed = replay_trace(records)
        assert replayed.state.to_json() == fold(records).to_json() == led.run.state.to_json()
        assert replayed.projections == [record.type for record in records].count("context.projected") == 4
        assert replayed.differing == ()
        assert [step.seq for step in replayed.trace.steps] == [record.seq for record in records]
        assert (len(led.asked), led.tools.lines) == (asked, lines)


@runs
async def test_r1_a_changed_projection_would_be_seen(tmp_path):
    async with busy_run(tmp_path) as led:
        records = await led_through(led)
        payloads = [record.value() for record in records]
        at = next(n for n, one in enumerate(payloads) if one.type == "tool.observed")
        payloads[at] = p.ToolObserved.from_dict(payloads[at].to_dict() | {"text": "something else"})
        assert replay_trace(made.records(payloads)).differing != ()


@runs
async def test_r4_a_trace_says_who_did_what_about_an_intent(tmp_path):
    async with busy_run(tmp_path) as led:
        records = await led_through(led)
        found = trace(records)
        types = {record.seq: record.type for record in records}
        one = found.intents["t0.0"]
        assert one.proposed_by[:2] == ("acme", "m")
        assert (one.translated_by, one.approved_by, one.executed_by) == ("openai_chat", "policy", "file (none)")
        links = {
            "goal": "user.message",
            "projection": "context.projected",
            "request": "model.requested",
            "recorded": "tool_intent.proposed",
            "decision": "model.finished",
            "validated": "tool.validated",
            "approved": "permission.decided",
            "started": "tool.execution.started",
            "finished": "tool.execution.finished",
            "observed": "tool.observed",
            "fed_back": "model.requested",
        }
        assert {name: types[getattr(one, name)] for name in links} == links
        assert one.fed_back > one.observed
        refused = found.intents["t0.1"]
        assert (refused.code, refused.started, refused.approved) == ("schema_invalid", 0, 0)
        assert {step.lane for step in found.steps} == set(LANES) - {"verification"}
        everything = trace(made.records(made.everything()))
        assert {step.lane for step in everything.steps} == set(LANES)
        assert everything.intents["t0.0"].verification == 44
        assert everything.intents["t0.1"].in_doubt == 29


@runs
async def test_r2_another_model_gets_the_same_observations(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done.")) as led:
        await led.go()
        (tmp_path / "other").mkdir()
        again = [h.calls({"line": "a"}, text="I would too."), h.says("Noted.")]
        async with Led(tmp_path / "other", *again) as other:
            state, opened = await replay_model(led.log, "r1", into=other.log, models=other.models, model="acme/m9")
            assert (state.status, state.model) == ("finished", "acme/m9")
            records = await other.log.read(opened.log.run_id)
            seen = [record.value() for record in records if record.type == "tool.observed"]
            assert [(one.code, one.text) for one in seen] == [("ok", "noted a")]
            assert other.tools.lines == []
            assert led.tools.lines == ["a"]
            assert other.asked[0]["tools"] == led.asked[0]["tools"]
        (tmp_path / "third").mkdir()
        async with Led(tmp_path / "third", h.calls({"line": "never"})) as third:
            state, _ = await replay_model(led.log, "r1", into=third.log, models=third.models)
            assert (state.status, state.reason) == ("paused", "asked")


@runs
async def test_r2_a_dry_run_validates_and_permits_again_and_starts_nothing(tmp_path):
    async with busy_run(tmp_path) as led:
        records = await led_through(led)
        before = led.tools.lines
        same = await replay_dry(records, led.tools)
        assert [(one.then, one.now) for one in same] == [
            ("allow", "allow"),
            ("schema_invalid", "schema_invalid"),
            ("allow", "allow"),
        ]
        assert not any(one.differs for one in same)
        stricter = await replay_dry(records, h.Tools(tmp_path, permit="deny"))
        assert [one.now for one in stricter] == ["deny", "schema_invalid", "deny"]
        asking = await replay_dry(records, h.Tools(tmp_path, permit="ask"))
        assert [one.now for one in asking] == ["ask", "schema_invalid", "ask"]
        assert led.tools.lines == before


@runs
async def test_r2_execution_again_only_in_a_sandbox(tmp_path):
    async with busy_run(tmp_path) as led:
        records = await led_through(led)
        copy = tmp_path / "copy"
        copy.mkdir()
        tools = h.Tools(copy)
        refused = await replay_sandbox(records, tools)
        assert tools.lines == []
        assert all(one.now_text is None for one in refused)
        tools.sandbox = "A"
        again = await replay_sandbox(records, tools)
        assert tools.lines == ["a"]
        assert [(one.now_text, one.differs) for one in again] == [
            ("noted a", False),
            (None, False),
            ("the line is poison", False),
        ]


def test_every_effect_in_a_replay_is_a_bomb(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("x")
    effects = [
        lambda: (tmp_path / "made").write_text("x"),
        lambda: kept.open("r+"),
        lambda: os.open(kept, os.O_RDWR),
        kept.unlink,
        lambda: kept.rename(tmp_path / "moved"),
        (tmp_path / "folder").mkdir,
        lambda: subprocess.run(["true"], check=False),
        lambda: os.system("true"),  # noqa: S605
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        socket.socket,
        os.fork,
    ]
    for effect in effects:
        with bombs(), pytest.raises(EffectError):
            effect()
    with bombs():
        assert kept.read_text() == "x"
        other = threading.Thread(target=(tmp_path / "elsewhere").write_text, args=("y",))
        other.start()
        other.join()
    assert (tmp_path / "elsewhere").read_text() == "y"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["elsewhere", "kept"]


def purely(root, path, *more, seed="0"):
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root}/python"}
    command = [sys.executable, "-m", "tests.support.pure", str(path), *more]
    return subprocess.run(command, env=environment, cwd=path.parent, check=False, capture_output=True)


STORES = ("memory", "sqlite", "postgresql")


@pytest.fixture(params=STORES)
def store_url(request, tmp_path):
    """The URL of an empty store, of each kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").database()
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/replay.db"


@pytest.mark.skipif(not seccomp.supported(), reason="NO SECCOMP TEST: the filter is written for x86-64 Linux")
def test_a_replay_is_pure_under_a_system_call_filter_and_traps(tmp_path, root, request):
    async def exported():
        files = []
        async with busy_run(tmp_path) as led:
            await led_through(led)
            lines = await export_run(led.log, "r1")
            for number, url in enumerate(("memory:", f"sqlite:{tmp_path}/other.db")):
                store = await open_store(url)
                log = await EventLog.over(store)
                await import_run(log, lines)
                files.append(tmp_path / f"{number}.jsonl")
                files[-1].write_bytes(b"".join(await export_run(log, "r1")))
                await store.close()
        return files

    files = asyncio.run(exported())
    told = set()
    for path, seed in ((files[0], "0"), (files[0], "1"), (files[1], "4711")):
        done = purely(root, path, seed=seed)
        assert done.returncode == 0, done.stderr.decode()
        told.add(done.stdout)
    assert len(told) == 1
    same = told.pop()
    assert json.loads(same)["differing"] == []
    # What a process has read of PostgreSQL itself, before the door was shut.
    url = request.getfixturevalue("postgres").database()

    async def kept():
        store = await open_store(url)
        await import_run(await EventLog.over(store), files[0].read_bytes().splitlines(keepends=True))
        await store.close()

    asyncio.run(kept())
    (tmp_path / "url").write_text(url)
    done = purely(root, tmp_path / "url", "", "r1", seed="99")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == same
    for effect in ("socket", "exec", "write", "rename", "random"):
        assert purely(root, files[0], effect).returncode == -signal.SIGSYS, effect


GOLDEN = pathlib.Path(__file__).parent.parent / "fixtures" / "logs"


def test_golden_logs_of_every_schema_version_fold_for_ever():
    """Their files are written once and never again: a release that reads one otherwise is wrong."""
    found = sorted(GOLDEN.glob("v*.jsonl"))
    assert [path.name for path in found] == ["v1.jsonl"]
    for path in found:
        records, _ = parse(path.read_bytes().splitlines(keepends=True))
        assert {record.type for record in records} == set(p.CLASSES)
        assert fold(records).to_json() == path.with_suffix(".state.json").read_bytes().rstrip(b"\n"), path.name
        trace(records)


def test_a_golden_log_goes_through_every_store_as_the_same_bytes_and_folds_the_same(store_url):
    """Read from the store itself, and not only from what it exports."""
    lines = (GOLDEN / "v1.jsonl").read_bytes().splitlines(keepends=True)

    async def act():
        store = await open_store(store_url)
        log = await EventLog.over(store)
        await import_run(log, lines)
        assert await export_run(log, made.RUN) == lines
        records = await log.read(made.RUN)
        assert records == parse(lines)[0]
        assert fold(records).to_json() == (GOLDEN / "v1.state.json").read_bytes().rstrip(b"\n")
        assert trace(records) == trace(parse(lines)[0])
        with pytest.raises(GateClosed, match="artifacts_missing"):
            await resume(log, made.RUN)
        await store.close()

    asyncio.run(act())


def test_a_run_that_a_store_keeps_replays_from_it_as_it_was_led(store_url, tmp_path):
    async def act():
        async with busy_run(tmp_path) as led:
            await led.store.close()
            led.store = await open_store(store_url)
            led.log = await EventLog.over(led.store)
            records = await led_through(led)
            replayed = replay_trace(records)
            assert replayed.state.to_json() == led.run.state.to_json()
            assert replayed.differing == ()
            assert replayed.projections == 4
            assert (await led.log.verify("r1")).ok
            again = await replay_dry(records, led.tools)
            assert not [one for one in again if one.differs]
            branched = await fork(led.log, "r1", at=len(records) - 1)
            read = await led.log.read(branched.state.run_id)
            assert [one.payload for one in read[: len(records) - 1]] == [one.payload for one in records[:-1]]
            assert replay_trace(read).differing == ()

    asyncio.run(act())
