"""The built-in tools of a run, made with what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.tools.edits import ApplyPatch, Edit, WriteFile
from headrace.tools.files import Glob, Grep, ListDir, ReadFile
from headrace.tools.shell import Bash
from headrace.tools.web import WebFetch, WebSearch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from headrace.tools.definition import Handler
    from headrace.tools.execution import Executor, Limits
    from headrace.tools.web import Hits, Page
    from headrace.tools.workspace import Workspace

__all__ = ["builtin_tools"]


def builtin_tools(
    workspace: Workspace,
    *,
    executor: Executor | None = None,
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    network: bool = False,
    search: Callable[[str, int], Awaitable[Hits]] | None = None,
    fetch: Callable[[str], Awaitable[Page]] | None = None,
) -> list[Handler]:
    """Make the tools. What something is missing for is left out.

    - `environment`: all that commands see (`headrace.tools.shell.environment_for`).
    - `search`, `fetch`: the runtime's capabilities.
    """
    from headrace.tools.execution import Limits

    tools: list[Handler] = [
        *(ReadFile(workspace), ListDir(workspace), Glob(workspace), Grep(workspace)),
        *(WriteFile(workspace), Edit(workspace), ApplyPatch(workspace)),
    ]
    if executor is not None:
        tools.append(
            Bash(workspace, executor, environment=environment or {}, limits=limits or Limits(), network=network)
        )
    if search is not None:
        tools.append(WebSearch(search))
    if fetch is not None:
        tools.append(WebFetch(fetch))
    return tools
