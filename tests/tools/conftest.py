"""A workspace, a log in a list, and somebody who answers."""

import asyncio
import hashlib
import itertools
import json
import os

import pytest

from headrace.log.payloads import ArtifactRef, PermissionAnswer, ToolIntent
from headrace.tools.builtin import builtin_tools
from headrace.tools.definition import Outcome, Prepared, ToolSpec
from headrace.tools.permission import Other
from headrace.tools.redact import Redactor
from headrace.tools.runtime import ToolRuntime
from headrace.tools.sandbox import Found, SandboxExecutor
from headrace.tools.shell import environment_for
from headrace.tools.toolbox import Toolbox
from headrace.tools.workspace import Workspace

FOUND = Found({}, 0, ())
"""Nothing is probed for tier C."""


class Bench:
    """A runtime with everything it needs, and what it recorded."""

    def __init__(
        self, root, *, handlers=(), answer="allow", scope="once", secrets=(), executor=None, tools=True, **more
    ):
        self.root = root
        self.workspace = Workspace(root, durable=False)
        self.executor = executor or SandboxExecutor("C", found=FOUND)
        self.facts, self.artifacts, self.questions = [], {}, []
        self.answer = answer
        self.scope = scope
        environment = environment_for(os.environ)
        built_in = builtin_tools(self.workspace, executor=self.executor, environment=environment) if tools else []
        self.toolbox = Toolbox([*built_in, *handlers])
        numbers = itertools.count(1)
        self.intents = itertools.count(1)
        self.runtime = ToolRuntime(
            toolbox=self.toolbox,
            record=self.record,
            ask=self.ask,
            keep=self.keep,
            root=self.workspace.root,
            tier=more.pop("tier", self.executor.tier),
            redactor=Redactor(secrets),
            new_id=lambda: f"x{next(numbers)}",
            now_ms=lambda: 1_000_000,
            **more,
        )

    async def record(self, payload):
        await asyncio.sleep(0)
        payload.to_json()  # what cannot be written was never recorded
        self.facts.append(payload)

    async def ask(self, question):
        self.questions.append(question)
        answer = self.answer(question) if callable(self.answer) else self.answer
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, PermissionAnswer) else PermissionAnswer(decision=answer, scope=self.scope)

    async def keep(self, data):
        digest = hashlib.sha256(data).hexdigest()
        self.artifacts[digest] = data
        return ArtifactRef(digest=digest, size=len(data))

    def intent(self, tool, arguments, **more):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return ToolIntent(
            turn_id="t0",
            intent_id=more.pop("id", None) or f"t0.{next(self.intents)}",
            tool_name=tool,
            raw_input_text=text,
            **more,
        )

    async def call(self, tool, **arguments):
        return await self.runtime.run(self.intent(tool, arguments))

    def run(self, tool, **arguments):
        return asyncio.run(self.call(tool, **arguments))

    @property
    def types(self):
        return [fact.type for fact in self.facts]

    def last(self, type_):
        return [fact for fact in self.facts if fact.type == type_][-1]

    def all_bytes(self):
        """All that was ever recorded, kept or asked."""
        return b"\n".join(
            [*(fact.to_json() for fact in self.facts), *self.artifacts.values(), *(q.to_json() for q in self.questions)]
        )


class Spy:
    """A tool that does what it is told, and counts."""

    def __init__(self, *, name="spy__it", run=None, prepare=None, effects=("execute",), timeout_s=5.0, acts=None):
        self.spec = ToolSpec(
            name=name,
            description="Does what a test wants.",
            schema='{"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": false}',
            effects=effects,
            executor="spy",
            timeout_s=timeout_s,
        )
        self.acts = (Other(effects[0]),) if acts is None else acts
        self.prepared, self.runs = 0, 0
        self._run, self._prepare = run, prepare

    async def prepare(self, value):
        self.prepared += 1
        if self._prepare is not None:
            self._prepare()

        async def run(output):
            self.runs += 1
            if self._run is not None:
                return await self._run(output)
            output.write(b"done")
            return Outcome()

        return Prepared(normalised=value, acts=self.acts, run=run, summary="spy")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/main.py").write_text("def main():\n    print('hello')\n\n\nmain()\n")
    (root / "README.md").write_text("# Project\n")
    (root / ".env").write_text("KEY=canary-in-the-env-file\n")
    return root


@pytest.fixture
def bench(project):
    return Bench(project)
