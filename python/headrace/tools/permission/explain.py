"""Say in words what policy would decide of a shell line, act by act: for `headrace policy check --explain`."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from headrace.tools.permission.acts import Act, Connect, Mention, Open, Other, Query, Run
from headrace.tools.permission.questions import line_acts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.tools.permission.policy import Mode, Policy

__all__ = ["explain_line"]


def explain_line(policy: Policy, line: str, *, root: str, mode: Mode, tier: str) -> Iterator[str]:
    """Explain a line of the tool `bash`: the decision first, then what led to it, without words that decide nothing.

    - `root`: the workspace, where the line would run.
    - `tier`: of the sandbox that would hold it.
    """
    acts, doubts = line_acts(line, root=root, cwd=root, home=policy.home, real=os.path.realpath)
    query = Query(tool="bash", acts=acts, doubts=doubts, root=root, tier=tier)
    decision = policy.decide(query, mode)
    yield _row(decision.effect, decision.rule or decision.by, decision.why)
    for at, verdict in enumerate(decision.verdicts):
        act = acts[at] if at < len(acts) else None
        dull = isinstance(act, (Mention, Connect)) and verdict.effect == "allow"
        if not dull:
            yield "  " + _row(verdict.effect, verdict.rule or verdict.by, f"{_words(act)}: {verdict.why}")


def _row(effect: str, source: str, words: str) -> str:
    return f"{effect:<5}  {source:<9}  {words}"


def _words(act: Act | None) -> str:
    if isinstance(act, Run):
        return "run " + " ".join(word.text if word.known else f"<{word.text or '?'}>" for word in act.command.argv)
    if isinstance(act, Open):
        return f"{act.kind} {act.path}"
    if isinstance(act, Mention):
        return f"name {act.path}"
    if isinstance(act, Connect):
        return f"reach {act.host}"
    return act.kind if isinstance(act, Other) else "in doubt"
