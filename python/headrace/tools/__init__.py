"""Tools: one intent in, one observation out. Each name is loaded where it is first used.

`runtime` is the pipeline, `definition` what a tool is, `toolbox` the tools of a run, `builtin` our own, `execution` the
seam to executors, `permission` decides what may run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.tools.builtin import builtin_tools
    from headrace.tools.definition import (
        Change,
        Handler,
        Manifest,
        Outcome,
        Output,
        Prepared,
        RefusedError,
        ToolSource,
        ToolSpec,
    )
    from headrace.tools.execution import Command, Execution, Executor, Limits
    from headrace.tools.redact import Redactor
    from headrace.tools.runtime import ToolRuntime
    from headrace.tools.sandbox import SandboxExecutor
    from headrace.tools.toolbox import Toolbox
    from headrace.tools.workspace import Workspace

_HOME: Final = {
    **dict.fromkeys(("Command", "Execution", "Executor", "Limits"), "execution"),
    **dict.fromkeys(
        (
            *("Change", "Handler", "Manifest", "Outcome", "Output", "Prepared", "RefusedError", "ToolSource"),
            "ToolSpec",
        ),
        "definition",
    ),
    "Redactor": "redact",
    "SandboxExecutor": "sandbox",
    "ToolRuntime": "runtime",
    "Toolbox": "toolbox",
    "Workspace": "workspace",
    "builtin_tools": "builtin",
}

__all__ = [
    "Change",
    "Command",
    "Execution",
    "Executor",
    "Handler",
    "Limits",
    "Manifest",
    "Outcome",
    "Output",
    "Prepared",
    "Redactor",
    "RefusedError",
    "SandboxExecutor",
    "ToolRuntime",
    "ToolSource",
    "ToolSpec",
    "Toolbox",
    "Workspace",
    "builtin_tools",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
