"""A run in small, with real parts: a scripted upstream that speaks Chat Completions, and a tool that does something.

`Tools` has one tool, `note`, which appends a line to a file: whoever counts the lines knows how often it ran. It
records each fact where the real tool runtime does.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import Any, Self

from headrace.config import Config, Provider
from headrace.log import payloads as p
from headrace.log.eventlog import EventLog
from headrace.log.menus import Menu, MenuEntry
from headrace.log.state import State
from headrace.loop import Ask, Opened, RecordFact, Run, Settings, start
from headrace.messages import Tool
from headrace.runtime import Runtime
from headrace.store import open_store
from headrace.testing import Act, Reply, Upstream

SCHEMA = '{"type":"object","properties":{"line":{"type":"string"}},"required":["line"]}'
NOTE = Tool("note", "Append a line to the notes.", SCHEMA)


def config(url: str, *names: str) -> Config:
    """A configuration whose providers all stand at one upstream."""
    rows = [Provider(id=name, kind="openai_compatible", base_url=f"{url}/{name}") for name in names or ("acme",)]
    return Config(providers=tuple(rows))


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One event of the stream."""
    body = {"id": "r1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def usage(tokens: int = 100) -> bytes:
    """The chunk with the totals, and the end."""
    told = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    return b"data: " + json.dumps({"id": "r1", "choices": [], "usage": told}).encode() + b"\n\ndata: [DONE]\n\n"


def says(text: str, *, tokens: int = 100) -> Reply:
    """An answer of text."""
    return Reply.stream(chunk({"content": text}), chunk({}, "stop"), usage(tokens))


def calls(*inputs: dict[str, Any] | str, text: str = "", tool: str = "note", acts: tuple[Act, ...] = ()) -> Reply:
    """An answer that calls a tool, once for each input. `acts` come before the calls are closed."""
    pieces: list[Act] = [chunk({"content": text})] if text else []
    for index, given in enumerate(inputs):
        arguments = given if isinstance(given, str) else json.dumps(given)
        call = {"index": index, "id": f"call_{index}", "function": {"name": tool, "arguments": arguments}}
        pieces.append(chunk({"tool_calls": [call]}))
    return Reply.stream(*pieces, *acts, chunk({}, "tool_calls"), usage())


class Tools:
    """A small tool runtime.

    - `permit`: "allow", "deny" or "ask".
    - `before`: called with the name of each point that is reached: "spawn" before the effect, "end" after it.
    """

    def __init__(
        self, folder: pathlib.Path, *, permit: str = "allow", before: Callable[[str], Any] = lambda _: None
    ) -> None:
        self.file = folder / "notes.txt"
        self.permit = permit
        self.sandbox = "none"
        self.before = before
        self.ran: list[str] = []

    def menu(self) -> Menu:
        return Menu((MenuEntry(NOTE, "1"),))

    async def run(self, intent: p.ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> p.ToolObserved:
        name = intent.intent_id
        line = intent.input.get("line")
        if intent.tool_name != "note":
            return p.ToolObserved(intent_id=name, phase="lookup", code="unknown_tool", text="no such tool")
        if not isinstance(line, str):
            return p.ToolObserved(intent_id=name, phase="schema", code="schema_invalid", text="line is a string")
        normalised = json.dumps({"line": line})
        digest = hashlib.sha256(f"note {normalised}".encode()).hexdigest()
        await record(
            p.ToolValidated(
                intent_id=name, ok=True, phase="schema", normalised=normalised, intent_digest=digest, tool_version="1"
            )
        )
        if not await self._permitted(intent, digest, state, record, ask):
            return p.ToolObserved(intent_id=name, phase="policy", code="permission_denied", text="it was denied")
        execution = f"{name}/{state.intents[name].executions + 1}"
        await record(
            p.ExecutionStarted(
                intent_id=name,
                execution_id=execution,
                tool_name="note",
                executor="file",
                cwd=str(self.file.parent),
                intent_digest=digest,
                tool_version="1",
                effects=("write",),
                sandbox=self.sandbox,
            )
        )
        outcome = await self._execute(name, execution, line, record)
        return p.ToolObserved(
            intent_id=name,
            phase="observe",
            code="ok" if outcome == "ok" else "tool_error",
            text=f"noted {line}" if outcome == "ok" else "the line is poison",
            execution_id=execution,
        )

    async def _permitted(self, intent: p.ToolIntent, digest: str, state: State, record: RecordFact, ask: Ask) -> bool:
        name, decision, by = intent.intent_id, self.permit, "policy"
        if any(grant.intent_digest in ("", digest) for grant in state.grants):
            decision, by = "allow", "grant"
        grant = None
        if decision == "ask":
            request = p.PermissionRequested(
                intent_id=name, tool_name="note", intent_digest=digest, summary="write a line", effects=("write",)
            )
            await record(request)
            answer = await ask(request)
            decision, by = answer.decision, "person"
            grant = p.Grant(intent_digest=digest, scope=answer.scope)
        await record(
            p.PermissionDecided.from_dict(
                {"intent_id": name, "decision": decision, "by": by}
                | ({"grant": grant.to_dict()} if grant is not None else {})
            )
        )
        return decision == "allow"

    async def _execute(self, name: str, execution: str, line: str, record: RecordFact) -> str:
        outcome = "ok"
        try:
            self.before("spawn")
            if line == "wait":
                await asyncio.Event().wait()
            outcome = "tool_error" if line == "poison" else "ok"
            if outcome == "ok":
                await self.write(line)
            self.ran.append(line)
            self.before("end")
        except asyncio.CancelledError:
            await record(p.ExecutionFinished(intent_id=name, execution_id=execution, outcome="cancelled"))
            raise
        await record(p.ExecutionFinished.from_dict({"intent_id": name, "execution_id": execution, "outcome": outcome}))
        return outcome

    async def write(self, line: str) -> None:
        """Have the effect."""
        with self.file.open("a") as file:
            file.write(f"{line}\n")

    @property
    def lines(self) -> list[str]:
        """What was written."""
        return self.file.read_text().splitlines() if self.file.exists() else []


class Led:
    """A run over a scripted upstream and a store in memory, and everything that a test asks of it."""

    def __init__(self, folder: pathlib.Path, *replies: Reply, names: tuple[str, ...] = ("acme",), **tools: Any) -> None:
        self.folder = folder
        self.upstream = Upstream({"*": list(replies)})
        self.config = config(self.upstream.url, *names)
        self.tools = Tools(folder, **tools)
        self.run: Run | None = None
        self.waits: list[float] = []

    async def __aenter__(self) -> Self:
        self.store = await open_store("memory:")
        self.log = await EventLog.over(self.store)
        self.models = await Runtime(self.config).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.models.__aexit__(None, None, None)
        await self.store.close()
        self.upstream.close()

    async def begin(self, *, goal: str = "note it", model: str = "acme/m", **started: Any) -> Opened:
        begun = p.RunStarted(goal=goal, model=model, cwd=str(self.folder), instructions="Be brief.", **started)
        return await start(self.log, begun, run_id="r1")

    def lead(self, opened: Opened, **parts: Any) -> Run:
        self.run = opened.run(**{"models": self.models, "tools": self.tools, "sleep": self._sleep} | parts)
        return self.run

    async def go(self, *, settings: Settings | None = None, ask: Any = None, **started: Any) -> State:
        parts = {"settings": settings} | ({"ask": ask} if ask is not None else {})
        return await self.lead(await self.begin(**started), **parts).go()

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def values(self, *types: str) -> list[Any]:
        """What the log holds of these types."""
        records = await self.log.read("r1")
        return [record.value() for record in records if not types or record.type in types]

    async def types(self) -> list[str]:
        """The types of all events."""
        return [record.type for record in await self.log.read("r1")]

    @property
    def asked(self) -> list[Any]:
        """The bodies that the upstream has seen."""
        return [seen.json() for seen in self.upstream.facts().requests]
