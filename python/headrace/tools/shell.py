"""The tool `bash`: one shell line, run by the executor, in its tier."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from headrace.tools.definition import Outcome, Output, Prepared, RefusedError, ToolSpec
from headrace.tools.execution import Command, Execution, Executor, Limits, allowed_environment
from headrace.tools.files import number, schema, text
from headrace.tools.permission.questions import line_acts
from headrace.tools.permission.special_files import GUARDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.tools.workspace import Workspace

__all__ = ["Bash"]

LONGEST_S: Final = 600
USUAL_S: Final = 120


class Bash:
    """Runs a shell line.

    - `environment`: what commands get of it is the allow-list's business, see `allowed_environment`.
    - `network`: whether commands may reach it, where the tier can tell.
    """

    spec: Final = ToolSpec(
        name="bash",
        description="Run a line in bash, in the workspace. Its output and errors come as one text. It has no input, and"
        " what it leaves in the background is ended with it.",
        schema=schema(
            ("command",),
            command=text("The line.", minLength=1),
            cwd=text("Where to run it, from the workspace's root."),
            timeout_s=number("After how many seconds it is ended; 120 if not given.", 1, LONGEST_S),
        ),
        effects=("read", "write", "execute", "network"),
        executor="process",
        timeout_s=LONGEST_S + 30.0,
    )

    def __init__(
        self,
        workspace: Workspace,
        executor: Executor,
        *,
        environment: Mapping[str, str],
        limits: Limits = Limits(),  # noqa: B008 - frozen
        network: bool = False,
    ) -> None:
        self._workspace, self._executor = workspace, executor
        self._environment = dict(environment)
        self._home = environment.get("HOME")
        self._limits, self._network = limits, network

    async def prepare(self, value: Any) -> Prepared:
        """Read the line."""
        line: str = value["command"]
        if "\0" in line:
            raise RefusedError("command: has a NUL in it")
        relative = self._workspace.path(value.get("cwd", "."))
        with self._workspace.folder(relative):
            cwd = self._workspace.absolute(relative)
        seconds = value.get("timeout_s", min(USUAL_S, self._limits.wall_s))
        acts, doubts = line_acts(line, root=self._workspace.root, cwd=cwd, home=self._home, real=os.path.realpath)
        given = self._limits
        limits = Limits(
            wall_s=float(min(seconds, LONGEST_S)),
            cpu_s=given.cpu_s,
            memory_bytes=given.memory_bytes,
            processes=given.processes,
            output_bytes=given.output_bytes,
            file_bytes=given.file_bytes,
            grace_s=given.grace_s,
        )
        command = Command(
            argv=("/bin/bash", "--noprofile", "--norc", "-c", line),
            cwd=cwd,
            env=self._environment,
            tier=self._executor.tier,
            limits=limits,
            readable=(self._workspace.root,),
            writable=(self._workspace.root,),
            protected=self._guarded(),
            network=self._network,
        )

        async def run(output: Output) -> Outcome:
            return _outcome(await self._executor.run(command, output.write))

        return Prepared(
            normalised={"command": line, "cwd": relative, "timeout_s": seconds},
            acts=acts,
            doubts=doubts,
            run=run,
            summary=line,
            argv=command.argv,
            cwd=cwd,
            environment=tuple(sorted(self._environment)),
            limits=limits,
        )

    def _guarded(self) -> tuple[str, ...]:
        """List what of the workspace runs by itself, outside of the sandbox: a command in it may not write there."""
        places = (self._workspace.absolute(relative) for relative in GUARDED)
        return tuple(place for place in places if os.path.lexists(place) and os.path.realpath(place) == place)


def environment_for(source: Mapping[str, str], more: tuple[str, ...] = ()) -> dict[str, str]:
    """Take what a command may see of an environment: the allow-list, and the names that a configuration adds."""
    from headrace.tools.execution import DEFAULT_ENVIRONMENT

    return allowed_environment(source, (*DEFAULT_ENVIRONMENT, *more))


def _outcome(done: Execution) -> Outcome:
    """Say how it ended."""
    if done.ok:
        message = ""
    elif done.end == "exited":
        message = f"Exit code {done.exit_code}."
    else:
        words = {"timeout": "It was ended", "output_limit": "It was ended", "signalled": "It failed"}
        message = f"{words.get(done.end, 'It was not started')}: {done.reason}."
    return Outcome(
        code="ok" if done.ok else "timeout" if done.end == "timeout" else "tool_error",
        message=message,
        exit_code=done.exit_code,
        signal=done.signal,
        cpu_ms=None if done.cpu_s is None else int(done.cpu_s * 1000),
        peak_memory_bytes=done.peak_memory_bytes,
    )
