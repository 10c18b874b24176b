"""The executor without a sandbox, tier C: a process group, resource limits, an end to everything, and no isolation.

1. It promises no more than it holds. A command sees every file and every socket that this user can reach; so nothing
   runs here without a person's word (`headrace.tools.permission`).
2. Limits are set by the shell's `ulimit` before the program starts, so that no moment is without them, and no Python
   runs between fork and exec.
3. What leaves the process group is found by a mark in its environment, as far as the system shows it. A program that
   clears its environment and leaves its session escapes: only tiers A and B hold it.

Never here: isolation by half measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.tools.execution import TIERS, Command, End, Execution, Sink

if TYPE_CHECKING:
    import resource
    from collections.abc import Iterator, Mapping

__all__ = ["PlainExecutor"]

MARK: Final = "HEADRACE_EXECUTION"
READ: Final = 64 * 1024
"""A pipe's usual size."""
DRAIN_S: Final = 1.0
"""How long output may still come after everything was killed: who else holds the pipe open must not hold us."""
ROUNDS: Final = 200
"""Of looking for what is left. Something that forks faster than that needs a tier that can hold it."""
LIMITED: Final = 'ulimit -c 0 && ulimit -t "$1" && ulimit -v "$2" && ulimit -f "$3" && shift 3 && exec "$@"'


class PlainExecutor:
    """Runs commands with limits and without isolation."""

    __slots__ = ()

    name: Final = "plain"
    tier: Final = "C"

    def describe(self) -> Mapping[str, Any]:
        """Tell what it holds."""
        return {"executor": self.name, "tier": self.tier, "limits": ["wall", "cpu", "memory", "file", "output"]}

    async def run(self, command: Command, sink: Sink) -> Execution:
        """Run one command to its end, with its output to `sink`.

        If cancelled: its group, and what left it with our mark, is killed before the cancellation goes on.
        """
        if TIERS.index(command.tier) < TIERS.index(self.tier):
            reason = f"tier {command.tier} was asked for, and this executor holds tier {self.tier} only"
            return Execution(end="refused", tier=self.tier, executor=self.name, reason=reason)
        mark = secrets.token_hex(16)
        limits = command.limits
        wrapped = (
            *("/bin/sh", "-c", LIMITED, "sh"),
            *(str(limits.cpu_s), str(limits.memory_bytes // 1024), str(limits.file_bytes // 512)),
            *command.argv,
        )
        try:
            # Not asyncio's own: it calls a process ended only when its pipes are closed, and a background process may
            # hold them for hours.
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - commands are what this is for; a fork takes 1 ms
                wrapped,
                cwd=command.cwd,
                env={**command.env, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return Execution(end="failed", tier=self.tier, executor=self.name, reason=reason)
        run = _Run(process, command, sink, mark)
        try:
            return await run.to_the_end()
        finally:
            await run.clear()


class _Run:
    """One started command."""

    __slots__ = (
        "_began",
        "_command",
        "_ended",
        "_eof",
        "_loop",
        "_mark",
        "_out",
        "_over",
        "_pidfd",
        "_process",
        "_sink",
        "_usage",
        "_written",
    )

    def __init__(self, process: subprocess.Popen[bytes], command: Command, sink: Sink, mark: str) -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        self._began = time.monotonic()
        self._process = process
        self._command = command
        self._sink = sink
        self._mark = mark
        self._written = 0
        self._usage: resource.struct_rusage | None = None
        self._ended, self._over, self._eof = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._out = process.stdout.fileno()
        self._pidfd = os.pidfd_open(process.pid)
        os.set_blocking(self._out, False)
        self._loop.add_reader(self._out, self._read)
        self._loop.add_reader(self._pidfd, self._reap)

    async def to_the_end(self) -> Execution:
        """Wait for its end, or for the limit of its output or of its time; leave nothing running."""
        limits = self._command.limits
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._ended, self._over)]
        try:
            await asyncio.wait(waiting, timeout=limits.wall_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        by_itself, too_much = self._ended.is_set(), self._over.is_set()
        await self.kill(patience=0 if by_itself else limits.grace_s)
        code = self._process.returncode
        end: End = "exited" if code >= 0 else "signalled"
        reason = None if code >= 0 else f"it was ended by {_name(-code)}"
        if too_much or self._written > limits.output_bytes:
            end, reason = "output_limit", f"it wrote more than {limits.output_bytes} bytes"
        elif not by_itself:
            end, reason = "timeout", f"it ran longer than {limits.wall_s:g} s"
        return Execution(
            end=end,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            output_bytes=self._written,
            wall_s=round(time.monotonic() - self._began, 6),
            cpu_s=None if self._usage is None else round(self._usage.ru_utime + self._usage.ru_stime, 6),
            peak_memory_bytes=None if self._usage is None else self._usage.ru_maxrss * 1024,
            tier="C",
            executor="plain",
            reason=reason,
        )

    async def kill(self, *, patience: float) -> None:
        """End the group and what left it, and take the last of the output. `patience`: seconds to end by itself."""
        if patience and not self._ended.is_set():
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), patience)
        # What forks while it is being killed is found in the next round.
        for _ in range(ROUNDS):
            if not self._signal(signal.SIGKILL):
                break
            await asyncio.sleep(0.005)
        await self._ended.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._eof.wait(), DRAIN_S)

    async def clear(self) -> None:
        """Leave nothing of it, whatever happened: a cancelled call comes here with everything still running."""
        while not self._ended.is_set():
            self._signal(signal.SIGKILL)
            # Not awaited where a second cancellation could break it off: the kernel needs a moment only.
            if select.select([self._pidfd], [], [], 0.05)[0]:
                self._reap()
        for _ in range(ROUNDS):
            if not self._signal(signal.SIGKILL):
                break
            time.sleep(0.001)  # noqa: ASYNC251 - as above
        self._loop.remove_reader(self._out)
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _reap(self) -> None:
        if self._process.returncode is None:
            _, status, self._usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
        self._loop.remove_reader(self._pidfd)
        self._ended.set()

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the group and to marked processes. False if there is nobody left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
        found = not self._ended.is_set()
        for pid in _marked(self._mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                found = True
        return found

    def _read(self) -> None:
        try:
            data = os.read(self._out, READ)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._out)
            self._eof.set()
            return
        limit = self._command.limits.output_bytes
        room = max(0, limit - self._written)
        self._written += len(data)
        if room:
            self._sink(data[:room])
        if self._written > limit:
            self._over.set()


def _marked(mark: str) -> Iterator[int]:
    """Find the live processes that carry a mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0") and _alive(folder):
                yield int(folder.name)
        except OSError:
            continue  # gone, or another user's


def _alive(folder: Path) -> bool:
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
