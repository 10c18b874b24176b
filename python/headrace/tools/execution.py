"""What a tool asks of an executor, and what it gets back. The seam that the sandbox's tiers plug into.

1. A `Command` is everything: nothing is inherited. Its environment is complete, its limits are explicit, its standard
   input is empty, and its two outputs come as one stream, in the order in which they were written.
2. An executor that cannot hold a command's tier refuses (`Execution.end == "refused"`) and starts nothing: the
   permission was given for that tier.
3. `Executor.run` returns when nothing of the command is left running: not its group, not what it put in the background.
   That holds for a cancelled call as well, before the cancellation goes on.
4. A command that fails is an `Execution`, never an exception.

Never here: what a tool does with the output, who may run what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "TIERS",
    "Command",
    "End",
    "Execution",
    "Executor",
    "Limits",
    "Sink",
    "Tier",
    "allowed_environment",
]

Tier: TypeAlias = Literal["A", "B", "C"]
"""How much holds a command: A namespaces and a system-call filter, B Landlock and the filter, C nothing but limits."""

TIERS: Final[tuple[Tier, ...]] = ("A", "B", "C")
"""The strongest first."""

End: TypeAlias = Literal["exited", "signalled", "timeout", "output_limit", "resource_limit", "refused", "failed"]
"""How it ended. `resource_limit`: all its processes together were too much; `refused`: the executor cannot hold the
tier; `failed`: it could not be started."""

Sink: TypeAlias = Callable[[bytes], None]
"""Takes the output as it comes. Called in the event loop: it must not block for long, and must not raise."""

DEFAULT_ENVIRONMENT: Final = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a command sees of our environment where nothing else is configured. No name in it ever holds a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command may use. Each number is there so that a mistake ends by itself."""

    wall_s: float = 120.0
    cpu_s: int = 120
    memory_bytes: int = 8 << 30
    """Private memory of one process, and what all of them hold together."""
    processes: int = 256
    output_bytes: int = 64 << 20
    file_bytes: int = 1 << 30
    """Of one file that it writes."""
    grace_s: float = 2.0
    """Between the request to end and the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run.

    - `argv`: the program and its arguments; no shell is put around it.
    - `cwd`: absolute.
    - `env`: all of the environment (see `allowed_environment`).
    - `tier`: the weakest tier that the permission was given for.
    - `readable`, `writable`: absolute directories, for the tiers that can hold them; system directories that programs
      need are the executor's business.
    - `protected`: below `writable`, and only to be read all the same. Tier A holds it; the others cannot.
    - `network`: whether it may open sockets, for the tiers that can tell.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    tier: Tier
    limits: Limits = Limits()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What came of a command.

    - `output_bytes`: how much it wrote before it ended, the sink's share and what was thrown away beyond the limit.
    - `reason`: in words, where `end` is not `exited`.
    - `cpu_s`, `peak_memory_bytes`: None where the executor cannot tell.
    """

    end: End
    exit_code: int | None = None
    signal: int | None = None
    output_bytes: int = 0
    wall_s: float = 0.0
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    tier: Tier
    executor: str
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with 0."""
        return self.end == "exited" and self.exit_code == 0


class Executor(Protocol):
    """Runs commands, each within its limits."""

    @property
    def name(self) -> str:
        """For the record: `plain`, `bubblewrap`, `landlock`."""

    @property
    def tier(self) -> Tier:
        """What it was found to hold when it was made."""

    def describe(self) -> Mapping[str, Any]:
        """Tell what was probed, as JSON values, for the record and `doctor`."""

    async def run(self, command: Command, sink: Sink) -> Execution:
        """Run one command to its end, with its output to `sink`.

        If cancelled: the command and all that it started are gone when the cancellation goes on.
        """


def allowed_environment(source: Mapping[str, str], names: tuple[str, ...] = DEFAULT_ENVIRONMENT) -> dict[str, str]:
    """Take the named variables and no others; a name may end with `*`."""
    pattern = re.compile(
        "|".join(re.escape(name[:-1]) + ".*" if name.endswith("*") else re.escape(name) for name in names)
    )
    return {name: value for name, value in source.items() if names and pattern.fullmatch(name)}
