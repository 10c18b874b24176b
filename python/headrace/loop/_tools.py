"""The tools of `headrace.tools`, as the loop drives them.

One tool runtime serves one run and one leader of it: what it remembers (which intents it has carried out, what was
allowed for the session) it takes up from the log when another leads the run on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.log.menus import Menu, MenuEntry
from headrace.log.records import uuid7

if TYPE_CHECKING:
    from headrace.log.eventlog import EventLog
    from headrace.log.payloads import ArtifactRef, ToolIntent, ToolObserved
    from headrace.log.state import State
    from headrace.loop._ports import Ask, RecordFact
    from headrace.tools.runtime import ToolRuntime
    from headrace.tools.toolbox import Toolbox

__all__ = ["BoxedTools"]


class BoxedTools:
    """Carries intents out by a toolbox.

    - `log`, `run_id`: where large contents are kept, and for which run.
    - `options`: what the tool runtime takes beside the toolbox and what the loop gives it: `policy`, `mode`, `root`,
      `tier`, `redactor`, `before`, `after`, `view_bytes`.
    - `reads`: the workspace's, to be filled with what the run read before: an edit after a resume needs it.
    """

    def __init__(
        self, toolbox: Toolbox, *, log: EventLog, run_id: str, reads: dict[str, str] | None = None, **options: Any
    ) -> None:
        self._toolbox = toolbox
        self._log = log
        self._run_id = run_id
        self._reads = reads
        self._options = options
        self._runtime: ToolRuntime | None = None
        self._record: RecordFact | None = None

    def menu(self) -> Menu:
        """Offer what the toolbox shows."""
        versions = dict(self._toolbox.versions())
        return Menu(tuple(MenuEntry(tool, versions[tool.name]) for tool in self._toolbox.menu()))

    def may_share(self, intent: ToolIntent) -> bool:
        """Ask the tool's declaration."""
        entry = self._toolbox.get(intent.tool_name)
        return entry is not None and entry.executable and entry.handler.spec.side_by_side

    async def run(self, intent: ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> ToolObserved:
        """Bring one intent to its observation, which is recorded when this returns."""
        if self._runtime is None or self._record != record:
            self._runtime, self._record = self._made(state, record, ask), record
        try:
            return await self._runtime.run(intent)
        except Exception:
            self._runtime = None  # it would give this failure again
            raise

    def _made(self, state: State, record: RecordFact, ask: Ask) -> ToolRuntime:
        from headrace.tools.permission.grants import Grants
        from headrace.tools.runtime import ToolRuntime

        grants = Grants()
        runtime = ToolRuntime(
            toolbox=self._toolbox,
            record=record,
            ask=ask,
            keep=self._keep,
            grants=grants,
            new_id=self._new_id,
            now_ms=self._now_ms,
            **self._options,
        )
        if self._reads is not None:
            self._reads.update(state.read_hashes)
        grants.restore(state.grants, runtime.policy.hash, self._now_ms())
        return runtime

    async def _keep(self, content: bytes) -> ArtifactRef:
        return await self._log.artifacts.put(self._run_id, content)

    def _now_ms(self) -> int:
        return int(self._log.clock() * 1000)

    def _new_id(self) -> str:
        return uuid7(self._now_ms(), self._log.randomness(10))
