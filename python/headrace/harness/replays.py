"""`headrace replay`: a run once more, in one of four modes, without what the world would see of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headrace.harness import exits
from headrace.harness.commands import Wanted, _config, _place, _script_at
from headrace.harness.host import MisuseError, open_host, open_log
from headrace.log.state import fold
from headrace.loop import Again, replay_dry, replay_model, replay_sandbox, replay_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.log.records import Record

__all__ = ["again"]


async def again(wanted: Wanted, run_id: str, mode: str, tell: Callable[[dict[str, Any]], None]) -> int:
    """Replay. `tell` gets what came of it, one thing at a time; the exit status is 1 where something differs."""
    config = _config(wanted)
    async with open_log(wanted.store or config.store.url) as log:
        records = await log.read(run_id)
        if mode == "trace":
            return _traced(records, tell)
        if mode in ("dry-run", "sandbox"):
            return await _once_more(wanted, records, mode, tell, log)
    scripted = _script_at(fold(records), []) if wanted.model is None else None
    async with open_host(config, store=wanted.store, scripted_from=scripted) as host, open_log("memory:") as into:
        model = host.selector(wanted.model) if wanted.model else None
        state, opened = await replay_model(host.log, run_id, into=into, models=host.runtime, model=model)
        before, now = fold(records), state
        told = {
            "model": now.model,
            "status": now.status,
            "reason": now.reason,
            "steps": now.steps,
            "steps_then": before.steps,
            "tokens": now.tokens,
            "tokens_then": before.tokens,
            "events": len(await into.read(opened.state.run_id)),
        }
        tell(told)
        return exits.DONE if now.status == "finished" else exits.FAILED


def _traced(records: Sequence[Record], tell: Callable[[dict[str, Any]], None]) -> int:
    replayed = replay_trace(records)
    state, intents = replayed.state, replayed.trace.intents
    tell(
        {
            "run_id": state.run_id,
            "status": state.status,
            "reason": state.reason,
            "events": len(records),
            "projections": replayed.projections,
            "intents": len(intents),
            "executions": sum(one.started > 0 for one in intents.values()),
            "observations": sum(one.observed > 0 for one in intents.values()),
            "differing": list(replayed.differing),
        }
    )
    return exits.FAILED if replayed.differing else exits.DONE


async def _once_more(
    wanted: Wanted, records: Sequence[Record], mode: str, tell: Callable[[dict[str, Any]], None], log: Any
) -> int:
    state = fold(records)
    place = _place(wanted, _config(wanted), state.cwd, wanted.mode or state.mode)
    copy: str | None = None
    try:
        if mode == "sandbox":
            if place.executor.tier != "A":
                raise MisuseError(f"--mode sandbox needs tier A, and this machine gives {place.executor.tier}")
            copy = tempfile.mkdtemp(prefix="headrace-replay-")
            folder = Path(copy) / "workspace"
            shutil.copytree(state.cwd, folder, symlinks=True)
            place = _place(replace(wanted, tier="A"), _config(wanted), str(folder), wanted.mode or state.mode)
        tools = place.tools(log, state.run_id, environ=os.environ)
        replay = replay_dry if mode == "dry-run" else replay_sandbox
        made = await replay(cast("list[Record]", records), tools)
    finally:
        if copy is not None:
            shutil.rmtree(copy, ignore_errors=True)
    for one in made:
        tell(_told(one))
    return exits.FAILED if any(one.then != one.now for one in made) else exits.DONE


def _told(one: Again) -> dict[str, Any]:
    told: dict[str, Any] = {"intent_id": one.intent_id, "tool": one.tool_name, "then": one.then, "now": one.now}
    if one.then != one.now and one.why:
        told["why"] = one.why
    if one.now_text is not None:
        told["same_output"] = one.then_text == one.now_text
    return told
