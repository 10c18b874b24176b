"""Tools: one intent in, one observation out. Each name is loaded where it is first used.

`headrace.tools.execution` is the seam to the sandbox, `headrace.tools.permission` decides what may run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.tools.execution import Command, Execution, Executor, Limits
    from headrace.tools.sandbox import SandboxExecutor

_HOME: Final = {
    "Command": "execution",
    "Execution": "execution",
    "Executor": "execution",
    "Limits": "execution",
    "SandboxExecutor": "sandbox",
}

__all__ = ["Command", "Execution", "Executor", "Limits", "SandboxExecutor"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
