"""The executor in each tier: limits, output, and that nothing is left running (T1, C4).

What a command cannot reach is tried by the escape suite of the crate.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.tools.execution import Command, Limits, allowed_environment
from headrace.tools.pids import ProcessGroup, beside_us, sweep
from headrace.tools.sandbox import Found, SandboxExecutor, probe

FAST = Limits(wall_s=10, grace_s=0.3)
FOUND = probe()
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture(params=["A", "B", "C"])
def executor(request):
    if request.param in FOUND.missing:
        pytest.skip(f"tier {request.param} is not to be had here: {FOUND.missing[request.param]}")
    return SandboxExecutor(request.param, found=FOUND)


def run(executor, script, *, limits=FAST, tier=None, env=None, sink=None, cwd="/", writable=()):
    taken = bytearray()
    command = Command(
        argv=("/bin/sh", "-c", script),
        cwd=cwd,
        env=env or PATH,
        tier=tier or executor.tier,
        limits=limits,
        writable=writable,
    )
    done = asyncio.run(executor.run(command, sink or taken.extend))
    return done, bytes(taken)


def holders(file):
    """The processes that have a file open."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if any(fd.is_file() and fd.samefile(file) for fd in (folder / "fd").iterdir()):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def test_output_comes_as_one_stream_and_the_exit_code_is_kept(executor):
    done, output = run(executor, "echo one; echo two >&2; exit 3")
    assert (done.end, done.exit_code, done.ok, done.tier, done.executor) == (
        "exited",
        3,
        False,
        executor.tier,
        executor.name,
    )
    assert output == b"one\ntwo\n"
    assert done.output_bytes == len(output)


def test_nothing_of_our_environment_is_inherited(executor, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "sk-canary-in-the-environment")
    _, output = run(executor, "env", env=allowed_environment(os.environ))
    assert b"sk-canary" not in output
    assert b"PATH=" in output


def test_the_environment_is_an_allow_list():
    source = {"LC_ALL": "C", "PATH": "/bin", "PATHOLOGY": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    assert allowed_environment(source) == {"LC_ALL": "C", "PATH": "/bin"}
    assert allowed_environment(source, ()) == {}


def test_a_stronger_tier_than_it_holds_is_refused_and_starts_nothing(tmp_path):
    done, output = run(SandboxExecutor("C", found=FOUND), f"touch {tmp_path}/started", tier="A")
    assert (done.end, done.exit_code, output) == ("refused", None, b"")
    assert not (tmp_path / "started").exists()


def test_a_tier_that_the_machine_cannot_give_is_an_error_that_says_why():
    none = Found({"A": "no bwrap", "B": "no Landlock"}, 0, ())
    with pytest.raises(ValueError, match="tier A is not to be had on this machine: no bwrap"):
        SandboxExecutor("A", found=none)
    assert SandboxExecutor(found=none).tier == "C"
    assert FOUND.best == min({"A", "B", "C"} - set(FOUND.missing))


def test_a_program_that_is_not_there_is_an_execution_and_no_exception(executor):
    done, _ = run(executor, "exec /nowhere/at/all")
    assert done.end == "exited"
    assert done.exit_code == 127
    done, _ = run(executor, "true", cwd="/nowhere/at/all")
    assert (done.end, done.reason) == ("failed", "/nowhere/at/all is not there")


def test_it_has_a_temporary_folder_of_its_own_that_goes_away(executor):
    done, output = run(executor, "echo x > $TMPDIR/x && cat $TMPDIR/x && echo $TMPDIR")
    assert done.ok
    assert output.startswith(b"x\n")
    assert not Path(output.split()[-1].decode()).exists()


def test_what_may_be_written_is_what_was_granted(executor, tmp_path):
    granted, other = tmp_path / "granted", tmp_path / "other"
    granted.mkdir()
    other.mkdir()
    run(executor, f"echo x > {granted}/x; echo x > {other}/x", writable=(str(granted),))
    assert (granted / "x").read_text() == "x\n"
    assert (other / "x").exists() is (executor.tier == "C")


def test_this_python_runs_in_it(executor):
    command = Command(argv=(sys.executable, "-c", "import json; print(1)"), cwd="/", env=PATH, tier=executor.tier)
    taken = bytearray()
    assert asyncio.run(executor.run(command, taken.extend)).ok, taken
    assert taken == b"1\n"


def test_all_processes_together_are_watched(executor):
    done, _ = run(
        executor,
        "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait",
        limits=Limits(wall_s=20, processes=5, grace_s=0.2),
    )
    # Tiers A and B may meet the kernel's own limit first, on a user that it counts.
    assert (done.end == "resource_limit" and "5 processes" in done.reason) or not done.ok


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT ROOT: the kernel holds everybody else by the user's own count")
def test_root_is_held_to_a_number_of_processes_by_the_kernel(executor, tmp_path):
    """Forty that are wanted at once are not there at once: also between two looks at the tree."""
    if executor.tier == "C":
        pytest.skip("tier C holds nobody")
    if (probe := ProcessGroup.make(beside_us(), 20)) is None:
        pytest.skip("NO CONTROL GROUP: none with a limit of processes can be made here")
    probe.remove()
    before = groups()
    started = tmp_path / "started"
    started.mkdir()
    script = f"""for i in $(seq 40); do (echo > {started}/$i; exec sleep 30) & done; wait"""
    done, output = run(executor, script, limits=Limits(wall_s=20, processes=20, grace_s=0.2), writable=(str(started),))
    assert 5 <= len(list(started.iterdir())) <= 20
    assert not done.ok or b"fork" in output, output
    assert groups() == before
    done, output = run(
        executor, "for i in $(seq 10); do sleep 0.05 & done; wait; echo all", limits=Limits(processes=20)
    )
    assert (done.ok, output) == (True, b"all\n")


def test_a_control_group_that_cannot_be_entered_is_done_without(executor, tmp_path):
    """A folder that is none takes the limit, as a file, and no process."""
    none = tmp_path / "cgroups"
    none.mkdir()
    again = SandboxExecutor(executor.tier, found=FOUND, groups=(none,))
    for _ in range(2):
        done, output = run(again, "echo ran")
        assert (done.ok, output) == (True, b"ran\n")
    # It was tried once.
    assert len(list(none.iterdir())) == 1


def groups():
    """The control groups that were made here and are there still."""
    return sorted(one for parent in beside_us() for one in parent.glob(f"headrace-{os.getpid()}-*"))


def test_where_a_control_group_can_be_made(tmp_path):
    first = "9:name=systemd:/a\n8:cpu,pids:/a/b\n0::/\n"
    assert beside_us(root=tmp_path, listed=first) == (tmp_path / "pids/a/b", tmp_path / "pids")
    for folder, controllers in (("", "cpu pids"), ("user", "cpu"), ("user/0", "memory pids"), ("user/0/own", "")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text(controllers + "\n")
    assert beside_us(root=tmp_path, listed="0::/user/0/own\n") == (tmp_path / "user/0", tmp_path)
    assert beside_us(root=tmp_path, listed="0::/user/0\n") == (tmp_path,)
    assert beside_us(root=tmp_path, listed="0::/\n") == (tmp_path,)
    assert beside_us(root=tmp_path / "nowhere", listed="0::/x\n") == ()
    assert ProcessGroup.make((tmp_path / "nowhere",), 5) is None
    # What is no control group takes the limit as a file, and a folder with a file in it stays.
    made = ProcessGroup.make((tmp_path / "nowhere", tmp_path), 5)
    assert made is not None
    assert made.refused() == 0


def test_control_groups_of_processes_that_are_gone_are_swept(tmp_path):
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    for name in (f"headrace-{gone.pid}-0", f"headrace-{gone.pid}-1", f"headrace-{os.getpid()}-0", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / f"headrace-{gone.pid}-1/holds").write_text("something")
    sweep((tmp_path,))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"headrace-{gone.pid}-1", f"headrace-{os.getpid()}-0", "other"}


def test_time_is_limited_even_if_the_request_to_end_is_ignored(executor):
    began = time.monotonic()
    done, output = run(
        executor, "trap '' TERM; echo deaf; while :; do sleep 0.05; done", limits=Limits(wall_s=0.5, grace_s=0.2)
    )
    assert done.end == "timeout"
    assert output == b"deaf\n"
    assert time.monotonic() - began < 5


def test_output_is_limited_and_what_was_beyond_is_counted(executor):
    done, output = run(executor, "exec cat /dev/zero", limits=Limits(wall_s=20, output_bytes=100_000, grace_s=0.2))
    assert done.end == "output_limit"
    assert output == bytes(100_000)
    assert done.output_bytes > 100_000


def test_processor_time_and_file_size_are_limited(executor, tmp_path):
    done, _ = run(executor, "while :; do :; done", limits=Limits(wall_s=20, cpu_s=1, grace_s=0.2))
    assert (done.signal or done.exit_code - 128) in (signal.SIGXCPU, signal.SIGKILL)
    dd = f"exec dd if=/dev/zero of={tmp_path}/big bs=1024 count=1024"
    run(executor, dd, limits=Limits(wall_s=20, file_bytes=65536), writable=(str(tmp_path),))
    assert (tmp_path / "big").stat().st_size == 65536


def test_memory_is_limited(executor):
    code = "x = bytearray(1 << 30); print(len(x))"
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", code),
        cwd="/",
        env=PATH,
        tier=executor.tier,
        limits=Limits(memory_bytes=512 << 20),
    )
    done = asyncio.run(executor.run(command, bytearray().extend))
    assert done.exit_code == 1


@pytest.mark.parametrize("how", ["", "setsid ", "env -i /usr/bin/setsid "])
def test_what_was_put_in_the_background_does_not_outlive_its_command(executor, how, tmp_path):
    # A fresh inode that it keeps open tells whether it lives, also from outside of a namespace.
    mark = tmp_path / "mark"
    mark.touch()
    began = time.monotonic()
    script = f"{how}/bin/sh -c 'exec 9<{mark}; echo up; exec /bin/sleep 300' & sleep 0.3"
    done, output = run(executor, script, writable=(str(tmp_path),))
    assert (done.ok, output) == (True, b"up\n")
    assert not holders(mark)
    assert time.monotonic() - began < 8


def test_cancelling_leaves_nothing_running(executor, tmp_path):
    mark = tmp_path / "mark"
    mark.touch()

    async def main():
        seen, started = bytearray(), asyncio.Event()

        def sink(data):
            seen.extend(data)
            if seen.count(b"\n") >= 2:
                started.set()

        script = f"trap '' TERM; exec 9<{mark}; echo up; setsid sh -c 'echo up; sleep 300' ; sleep 300"
        argv = ("/bin/sh", "-c", script)
        command = Command(argv=argv, cwd="/", env=PATH, tier=executor.tier, writable=(str(tmp_path),))
        task = asyncio.ensure_future(executor.run(command, sink))
        await asyncio.wait_for(started.wait(), 10)
        assert len(holders(mark)) >= 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not holders(mark)
