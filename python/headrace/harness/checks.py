"""Checking what a model claims with a command that the user named: its exit status is the word that counts (T6).

1. What the model itself ran last, in the workspace's root and with nothing changed since, is not run again.
2. Otherwise the command is run once more, in the run's sandbox.
3. What the command writes goes nowhere: it is a tool's word, and no model is told it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.log import payloads as p

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.harness.host import Place
    from headrace.log.records import Record

__all__ = ["Check"]

_SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
_HARMLESS: Final = frozenset({"read", "network", "none"})
"""Effects of an execution that leave the workspace as it was."""


class Check:
    """A command that has to end with 0."""

    def __init__(self, command: str, place: Place, environ: Mapping[str, str]) -> None:
        self._command, self._place, self._environ = command, place, environ

    async def __call__(self, records: Sequence[Record]) -> p.VerificationRecorded:
        """Check."""
        claim = self._place.redactor.text(f"`{self._command}` passes")[0]
        known = self._known(records)
        if known is not None:
            started, ended = known
            return p.VerificationRecorded(
                claim=claim,
                method="tool",
                passed=ended.exit_code == 0 and ended.outcome == "ok",
                detail=f"exit code {ended.exit_code}",
                intent_id=started.intent_id,
                execution_id=started.execution_id,
            )
        passed, detail = await self._run()
        return p.VerificationRecorded(claim=claim, method="command", passed=passed, detail=detail)

    def _known(self, records: Sequence[Record]) -> tuple[p.ExecutionStarted, p.ExecutionFinished] | None:
        ended: dict[str, p.ExecutionFinished] = {}
        for record in reversed(records):
            value = record.value()
            if isinstance(value, p.RunResumed):
                return None  # somebody was away: the world may be another
            if isinstance(value, p.ExecutionFinished):
                ended[value.execution_id] = value
            elif isinstance(value, p.ExecutionStarted) and not set(value.effects) <= _HARMLESS:
                end = ended.get(value.execution_id)
                is_it = value.argv == (*_SHELL, self._command) and value.cwd == self._place.root
                return (value, end) if is_it and end is not None and end.exit_code is not None else None
        return None

    async def _run(self) -> tuple[bool, str]:
        from headrace.tools.execution import Command
        from headrace.tools.shell import environment_for

        place = self._place
        command = Command(
            argv=(*_SHELL, self._command),
            cwd=place.root,
            env=environment_for(self._environ),
            tier=place.executor.tier,
            readable=(place.root,),
            writable=(place.root,),
            network=place.network,
        )
        done = await place.executor.run(command, lambda _: None)
        return done.ok, f"exit code {done.exit_code}" if done.end == "exited" else f"{done.end}: {done.reason}"
