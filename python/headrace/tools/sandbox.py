"""The executor of all three tiers: a command under bubblewrap, under Landlock, or with limits only.

1. The tier is found once, by running something in it (`probe`), and recorded with every execution. Nothing falls back
   to a lesser tier by itself.
2. A supervisor of our own (no Python in it) stands over each command and kills what it leaves behind, in every tier.
3. In tiers A and B the file system holds what programs need, what the command was granted, and a temporary folder of
   its own, which is its `HOME` and `TMPDIR` too and goes away with it.
4. What the kernel's limits cannot see is watched from here: memory and processes of the whole tree, time, output.
   Root's processes, which no limit of the kernel's counts, are held by a control group where one can be made.

Never here: what a tool does with the output, who may run what.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace._bridge import SandboxedRef, sandbox_probe
from headrace.tools.execution import TIERS, Command, End, Execution, Sink, Tier
from headrace.tools.pids import ProcessGroup, beside_us, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Found", "SandboxExecutor", "probe"]

READ: Final = 64 * 1024
"""A pipe's usual size."""
BUBBLEWRAP: Final = 2
"""Processes of its own that bubblewrap has beside the command."""
DRAIN_S: Final = 1.0
WATCH_S: Final = 0.2
"""How often the whole tree is looked at: what grows faster meets the kernel's limit on each process."""

SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/mime.types"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/gitconfig"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/usr/share/ca-certificates"),
)
"""What programs need to run, and nothing that holds a secret."""
NETWORK: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/protocols", "/run/systemd/resolve")

_NAMES: Final[Mapping[Tier, str]] = {"A": "bubblewrap", "B": "landlock", "C": "plain"}


@dataclass(frozen=True, slots=True)
class Found:
    """What this machine can give.

    - `missing`: per tier that is not to be had, why.
    - `landlock`: its version, 0 for none; `gaps`: what tier B leaves open on this kernel.
    """

    missing: Mapping[Tier, str]
    landlock: int
    gaps: tuple[str, ...]

    @property
    def best(self) -> Tier:
        """The strongest tier that is to be had."""
        return next(tier for tier in TIERS if tier not in self.missing)


def probe() -> Found:
    """Run something in each tier. Takes some tens of milliseconds, and blocks."""
    said = sandbox_probe()
    missing: dict[Tier, str] = {tier: said[tier] for tier in ("A", "B") if said[tier] is not None}
    return Found(missing, said["landlock"], tuple(said["gaps"]))


class SandboxExecutor:
    """Runs commands in one tier.

    - `tier`: `A`, `B` or `C`; None for the strongest that this machine can give.
    - `found`: what `probe` found; None asks it now.
    - `groups`: folders in which a control group may be made; None finds them, for root.

    Raises `ValueError`: the machine cannot give the tier; it says why.
    """

    __slots__ = ("_found", "_groups", "_tier")

    def __init__(
        self, tier: Tier | None = None, *, found: Found | None = None, groups: tuple[Path, ...] | None = None
    ) -> None:
        self._found = probe() if found is None else found
        self._tier: Tier = self._found.best if tier is None else tier
        if self._tier in self._found.missing:
            raise ValueError(f"tier {self._tier} is not to be had on this machine: {self._found.missing[self._tier]}")
        if groups is None:
            # Others are held by the kernel's own count of a user's processes.
            groups = beside_us() if os.geteuid() == 0 and self._tier != "C" else ()
            sweep(groups)
        self._groups = groups

    @property
    def name(self) -> str:
        """For the record."""
        return _NAMES[self._tier]

    @property
    def tier(self) -> Tier:
        """What it holds."""
        return self._tier

    def describe(self) -> Mapping[str, Any]:
        """Tell what was probed."""
        found = self._found
        described: dict[str, Any] = {"executor": self.name, "tier": self._tier, "landlock": found.landlock}
        if self._tier == "B" and found.gaps:
            described["gaps"] = list(found.gaps)
        if found.missing:
            described["missing"] = dict(found.missing)
        return described

    async def run(self, command: Command, sink: Sink) -> Execution:
        """Run one command to its end, with its output to `sink`.

        If cancelled: the command and all that it started are gone when the cancellation goes on.
        """
        if TIERS.index(command.tier) < TIERS.index(self._tier):
            return self._not_run("refused", f"tier {command.tier} was asked for, and this executor holds {self._tier}")
        private = await asyncio.to_thread(tempfile.mkdtemp, prefix="headrace-")
        group = None
        try:
            try:
                running, group = self._started(command, private)
            except (OSError, ValueError) as error:
                return self._not_run("failed", str(error))
            run = _Run(running, command, sink, group)
            try:
                return await run.to_the_end(self._tier, self.name)
            finally:
                run.close()
        finally:
            if group is not None:
                group.remove()
            shutil.rmtree(private, ignore_errors=True)

    def _started(self, command: Command, private: str) -> tuple[SandboxedRef, ProcessGroup | None]:
        most = command.limits.processes + (BUBBLEWRAP if self._tier == "A" else 0)
        group = ProcessGroup.make(self._groups, most) if self._groups else None
        if group is not None:
            try:
                return SandboxedRef(self._spec(command, private, group)), group
            except BaseException as error:
                group.remove()
                if not isinstance(error, OSError) or "control group" not in str(error):
                    raise
                # It can be made and not be entered: then the command is watched, as where none can be made.
                self._groups = ()
        return SandboxedRef(self._spec(command, private, None)), None

    def _not_run(self, end: End, reason: str) -> Execution:
        return Execution(end=end, tier=self._tier, executor=self.name, reason=reason)

    def _spec(self, command: Command, private: str, group: ProcessGroup | None) -> dict[str, Any]:
        limits = command.limits
        environment = {**command.env, "TMPDIR": private}
        if self._tier != "C":
            environment["HOME"] = private
        return {
            "tier": self._tier,
            "argv": list(command.argv),
            "environment": list(environment.items()),
            "directory": command.cwd,
            "read": [*_readable(command), *command.readable],
            "write": [private, *command.writable],
            "read_only": list(command.protected) if self._tier == "A" else [],
            "network": command.network,
            "cpu_seconds": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "processes": None if self._tier == "C" else limits.processes,
            "open_files": None,
            "group": None if group is None else group.entry,
        }


def _readable(command: Command) -> list[str]:
    """List what programs need: the system's, this Python's, and the folders of `PATH`."""
    folders = [*SYSTEM, sys.prefix, sys.base_prefix, *command.env.get("PATH", "").split(":")]
    if command.network:
        folders += NETWORK
    home = Path(command.env["HOME"]) if "HOME" in command.env else None
    # A link is granted with what it leads to; a home folder that stands in PATH is not granted whole.
    found = (Path(folder) for folder in dict.fromkeys(folders) if folder.startswith("/"))
    paths = [path for path in found if path not in (home, Path("/")) and path.exists()]
    return [str(path) for one in paths for path in dict.fromkeys((one, one.resolve()))]


class _Run:
    """One started command."""

    __slots__ = (
        "_began",
        "_command",
        "_done",
        "_eof",
        "_group",
        "_loop",
        "_over",
        "_peak",
        "_reports",
        "_running",
        "_sink",
        "_written",
    )

    def __init__(self, running: SandboxedRef, command: Command, sink: Sink, group: ProcessGroup | None) -> None:
        self._began = time.monotonic()
        self._running = running
        self._command = command
        self._group = group
        self._sink = sink
        self._written = 0
        self._peak = 0
        self._reports: dict[str, dict[str, Any]] = {}
        self._done, self._over, self._eof = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(running.output, False)
        self._loop.add_reader(running.output, self._read)
        self._loop.add_reader(running.report_fd, self._report)

    async def to_the_end(self, tier: Tier, name: str) -> Execution:
        """Wait for its end, or for the first limit that it meets; leave nothing running."""
        limits = self._command.limits
        end: End = "exited"
        reason = await self._until(self._began + limits.wall_s)
        if reason is not None:
            end = "output_limit" if self._over.is_set() else reason[0]
            self._running.terminate()
            if await self._until(time.monotonic() + limits.grace_s) is not None:
                self._running.kill()
            await self._done.wait()
        with contextlib.suppress(TimeoutError):
            # At once, but where the supervisor was killed and something of the command still holds the pipe.
            await asyncio.wait_for(self._eof.wait(), DRAIN_S)
        return self._execution(tier, name, end, None if reason is None else reason[1])

    async def _until(self, deadline: float) -> tuple[End, str] | None:
        """Wait until nothing is left of it. Else say what it has used up."""
        limits = self._command.limits
        while not self._done.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout", f"it ran longer than {limits.wall_s:g} s"
            if self._over.is_set():
                return "output_limit", f"it wrote more than {limits.output_bytes} bytes"
            processes, resident = self._running.usage()
            self._peak = max(self._peak, resident)
            if resident > limits.memory_bytes:
                return "resource_limit", f"it held more than {limits.memory_bytes} bytes of memory"
            if processes > limits.processes or (self._group is not None and self._group.refused()):
                return "resource_limit", f"it had more than {limits.processes} processes"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), min(WATCH_S, left))
        return None

    def _execution(self, tier: Tier, name: str, end: End, reason: str | None) -> Execution:
        ended = self._reports.get("ended", {})
        code, by = ended.get("code"), ended.get("signal")
        if end == "exited" and self._written > self._command.limits.output_bytes:
            end, reason = "output_limit", f"it wrote more than {self._command.limits.output_bytes} bytes"
        elif end == "exited" and "not_started" in self._reports:
            end, reason = "failed", "the sandbox could not be made; its output says why"
        elif end == "exited" and not ended:
            end, reason = "failed", "its supervisor was killed"
        elif end == "exited" and by is not None:
            end, reason = "signalled", f"it was ended by {_name(by)}"
        return Execution(
            end=end,
            exit_code=code,
            signal=by,
            output_bytes=self._written,
            wall_s=round(time.monotonic() - self._began, 6),
            cpu_s=round(ended["processor_us"] / 1e6, 6) if ended else None,
            peak_memory_bytes=self._peak or None,
            tier=tier,
            executor=name,
            reason=reason,
        )

    def close(self) -> None:
        """Leave nothing of it, whatever happened: a cancelled call comes here with everything still running."""
        self._loop.remove_reader(self._running.output)
        self._loop.remove_reader(self._running.report_fd)
        self._running.close()

    def _report(self) -> None:
        report = self._running.report()
        if report is None:
            return
        self._reports[report["what"]] = report
        if report["what"] in ("done", "lost"):
            self._loop.remove_reader(self._running.report_fd)
            self._done.set()

    def _read(self) -> None:
        try:
            data = os.read(self._running.output, READ)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._running.output)
            self._eof.set()
            return
        limit = self._command.limits.output_bytes
        room = max(0, limit - self._written)
        self._written += len(data)
        if room:
            self._sink(data[:room])
        if self._written > limit and not self._over.is_set():
            self._over.set()
            # Whoever has written that much is not asked to end.
            self._running.kill()


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
