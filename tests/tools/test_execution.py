"""The executor of tier C: limits, output, and that nothing is left running (T1, C4)."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from headrace.tools.execution import Command, Limits, allowed_environment
from headrace.tools.plain import PlainExecutor

FAST = Limits(wall_s=10, grace_s=0.3)


def run(script, *, limits=FAST, tier="C", env=None, sink=None):
    taken = bytearray()
    command = Command(
        argv=("/bin/sh", "-c", script), cwd="/", env=env or {"PATH": os.environ["PATH"]}, tier=tier, limits=limits
    )
    done = asyncio.run(PlainExecutor().run(command, sink or taken.extend))
    return done, bytes(taken)


def alive(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def test_output_comes_as_one_stream_and_the_exit_code_is_kept():
    done, output = run("echo one; echo two >&2; exit 3")
    assert (done.end, done.exit_code, done.ok, done.tier, done.executor) == ("exited", 3, False, "C", "plain")
    assert output == b"one\ntwo\n"
    assert done.output_bytes == len(output)


def test_nothing_of_our_environment_is_inherited(monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "sk-canary-in-the-environment")
    _, output = run("env", env=allowed_environment(os.environ))
    assert b"sk-canary" not in output
    assert b"PATH=" in output


def test_the_environment_is_an_allow_list():
    source = {"LC_ALL": "C", "PATH": "/bin", "PATHOLOGY": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    assert allowed_environment(source) == {"LC_ALL": "C", "PATH": "/bin"}
    assert allowed_environment(source, ()) == {}


def test_a_stronger_tier_than_it_holds_is_refused_and_starts_nothing(tmp_path):
    done, output = run(f"touch {tmp_path}/started", tier="A")
    assert (done.end, done.exit_code, output) == ("refused", None, b"")
    assert not (tmp_path / "started").exists()


def test_a_program_that_is_not_there_is_an_execution_and_no_exception():
    done, _ = run("exec /nowhere/at/all")
    assert done.end == "exited"
    assert done.exit_code == 127
    nowhere = Command(argv=("true",), cwd="/nowhere/at/all", env={}, tier="C")
    done = asyncio.run(PlainExecutor().run(nowhere, bytearray().extend))
    assert done.end == "failed"
    assert "No such file" in done.reason


def test_time_is_limited_even_if_the_request_to_end_is_ignored():
    began = time.monotonic()
    done, output = run("trap '' TERM; echo deaf; while :; do sleep 0.05; done", limits=Limits(wall_s=0.5, grace_s=0.2))
    assert done.end == "timeout"
    assert output == b"deaf\n"
    assert time.monotonic() - began < 5


def test_output_is_limited_and_what_was_beyond_is_counted():
    done, output = run("exec cat /dev/zero", limits=Limits(wall_s=20, output_bytes=100_000, grace_s=0.2))
    assert done.end == "output_limit"
    assert output == bytes(100_000)
    assert done.output_bytes > 100_000


def test_processor_time_and_file_size_are_limited(tmp_path):
    done, _ = run("while :; do :; done", limits=Limits(wall_s=20, cpu_s=1, grace_s=0.2))
    assert done.end == "signalled"
    assert done.reason in ("it was ended by SIGXCPU", "it was ended by SIGKILL")
    run(f"exec dd if=/dev/zero of={tmp_path}/big bs=1024 count=1024", limits=Limits(wall_s=20, file_bytes=65536))
    assert (tmp_path / "big").stat().st_size == 65536


def test_memory_is_limited():
    code = "x = bytearray(1 << 30); print(len(x))"
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", code), cwd="/", env={}, tier="C", limits=Limits(memory_bytes=512 << 20)
    )
    done = asyncio.run(PlainExecutor().run(command, bytearray().extend))
    assert done.exit_code == 1


@pytest.mark.parametrize("how", ["sleep 300 & echo $!", "setsid sleep 300 & sleep 0.2; pgrep -n -f 'sleep 300'"])
def test_what_was_put_in_the_background_does_not_outlive_its_command(how):
    began = time.monotonic()
    done, output = run(how)
    assert done.ok
    assert not alive(int(output.split()[-1]))
    assert time.monotonic() - began < 8


def test_cancelling_leaves_nothing_running():
    async def main():
        seen, started = bytearray(), asyncio.Event()

        def sink(data):
            seen.extend(data)
            if seen.count(b"\n") >= 2:
                started.set()

        script = "trap '' TERM; echo $$; setsid sh -c 'echo $$; sleep 300' ; sleep 300"
        command = Command(argv=("/bin/sh", "-c", script), cwd="/", env={"PATH": os.environ["PATH"]}, tier="C")
        task = asyncio.ensure_future(PlainExecutor().run(command, sink))
        await asyncio.wait_for(started.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [int(line) for line in seen.split()]

    pids = asyncio.run(main())
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(pid)]
