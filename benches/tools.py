"""What a tool call costs beside the tool: the pipeline from intent to observation, with the log in memory and no fsync.

Three calls: a tool that does nothing, `read_file` of a small file, and the decision alone for a shell line of three
commands. Each checks its answer first.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import pathlib
import statistics
import tempfile
import time
from typing import Any

from benches.measure import Row, process_cpu
from headrace.log.payloads import ArtifactRef, Payload, PermissionAnswer, PermissionRequested, ToolIntent
from headrace.tools.builtin import builtin_tools
from headrace.tools.definition import Outcome, Output, Prepared, ToolSpec
from headrace.tools.permission import Layer, Other, Policy, Query, Rule, line_acts
from headrace.tools.redact import Redactor
from headrace.tools.runtime import ToolRuntime
from headrace.tools.toolbox import Toolbox
from headrace.tools.workspace import Workspace

CALLS = 200
LINE = "git status --short && git log --oneline | head -n 3"
SECRETS = {f"key/{at}": f"sk-{at:032x}" for at in range(8)}


class Nothing:
    """A tool that does nothing."""

    spec = ToolSpec(
        name="bench__nothing",
        description="Does nothing.",
        schema='{"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}',
        effects=("read",),
    )

    async def prepare(self, value: Any) -> Prepared:
        """Look at nothing."""

        async def run(output: Output) -> Outcome:
            output.write(b"done")
            return Outcome()

        return Prepared(normalised=value, acts=(Other("read"),), run=run, summary="nothing")


class Bench:
    """A runtime whose log is a list."""

    def __init__(self, root: str) -> None:
        self.facts: list[bytes] = []
        numbers = itertools.count()
        workspace = Workspace(root, durable=False)
        self.runtime = ToolRuntime(
            toolbox=Toolbox([Nothing(), *builtin_tools(workspace)]),
            record=self._record,
            ask=self._ask,
            keep=self._keep,
            root=workspace.root,
            redactor=Redactor(SECRETS),
            new_id=lambda: f"x{next(numbers)}",
        )
        self._turns = itertools.count()

    async def _record(self, payload: Payload) -> None:
        self.facts.append(payload.to_json())

    async def _ask(self, question: PermissionRequested) -> PermissionAnswer:
        raise AssertionError(question)  # nothing that is measured asks

    async def _keep(self, data: bytes) -> ArtifactRef:
        return ArtifactRef(digest=hashlib.sha256(data).hexdigest(), size=len(data))

    async def calls(self, name: str, arguments: str, count: int) -> list[str]:
        """Call a tool so many times."""
        turn = next(self._turns)
        return [
            (
                await self.runtime.run(
                    ToolIntent(turn_id=f"t{turn}", intent_id=f"t{turn}.{at}", tool_name=name, raw_input_text=arguments)
                )
            ).text
            for at in range(count)
        ]


def _decided(policy: Policy, root: str) -> str:
    acts, doubts = line_acts(LINE, root=root, cwd=root, home="/home/bench")
    return policy.decide(Query(tool="bash", acts=acts, doubts=doubts, root=root, tier="A")).effect


def run(rounds: int) -> list[Row]:
    """Milliseconds of CPU for each call."""
    with tempfile.TemporaryDirectory() as root:
        text = "".join(f"line {at}\n" for at in range(200))
        (pathlib.Path(root) / "small.txt").write_text(text, encoding="utf-8")
        bench = Bench(root)
        work = {
            "a tool that does nothing": ("bench__nothing", '{"x": "a"}', "done"),
            "read_file, 2 KB": ("read_file", '{"path": "small.txt"}', text),
        }
        rows = []
        for name, (tool, arguments, answer) in work.items():
            took, wall = [], []
            for _ in range(rounds):
                began = time.perf_counter()
                got = asyncio.run(bench.calls(tool, arguments, CALLS))
                wall.append((time.perf_counter() - began) / CALLS * 1e3)
                if got != [answer] * CALLS:
                    raise AssertionError(f"{tool} gave something else")

                def calls(tool: str = tool, arguments: str = arguments) -> None:
                    asyncio.run(bench.calls(tool, arguments, CALLS))

                took.append(process_cpu(calls) / CALLS * 1e3)
                bench.facts.clear()
            note = f"5 facts a call, 8 known secrets, no fsync; {statistics.median(wall):.2f} ms wall"
            rows.append(
                Row(
                    f"tool call, {name} (ms CPU)",
                    "none: an absolute figure",
                    statistics.median(took),
                    1.0,
                    "at most",
                    note,
                )
            )
        policy = Policy(
            (
                Layer(
                    "user",
                    tuple(Rule(effect="allow", tool="bash", argv=(word,), why="bench") for word in ("git", "head")),
                ),
            )
        )
        if _decided(policy, root) != "allow":
            raise AssertionError("the line is decided otherwise")
        decided = [process_cpu(lambda: _decided(policy, root)) * 1e3 for _ in range(rounds)]
        rows.append(
            Row(
                "policy for a shell line of three commands (ms CPU)",
                "none: an absolute figure",
                statistics.median(decided),
                1.0,
                "at most",
                "parsed, unwrapped, decided",
            )
        )
    return rows
