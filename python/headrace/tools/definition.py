"""What a tool is: a description that models see, and a handler that the runtime calls.

Two things, so that no description ever carries a callable.

1. A handler is asked twice. `prepare` looks and changes nothing: it says what would be done. `Prepared.run` does it,
   once, after it was allowed.
2. A handler says no by `RefusedError` in `prepare`, and by an `Outcome` that is not ok in `run`. Whatever
   else it raises is a tool error; none of it leaves the runtime.
3. Output goes through `Output.write` as it comes: it is redacted and cut on the way, for every tool alike.
4. A plug-in's tools are named `NAMESPACE__NAME`, and come by the entry-point group `headrace.tools` as a `Manifest`.
   What lists its tools at run time (an MCP server) is a `ToolSource`: the same door.

Never here: permission, the log.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from headrace.messages import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from headrace.codes import CallKind
    from headrace.log.payloads import Effect, ObservationCode
    from headrace.tools.execution import Limits
    from headrace.tools.permission.acts import Act

__all__ = [
    "ENTRY_POINT_GROUP",
    "Change",
    "Handler",
    "Manifest",
    "Outcome",
    "Output",
    "Prepared",
    "RefusedError",
    "ToolSource",
    "ToolSpec",
]

ENTRY_POINT_GROUP: Final = "headrace.tools"
NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z][a-z0-9]*(?:_[a-z0-9]+)*(?:__[A-Za-z0-9_-]+)?")
"""What every provider takes."""
NAMESPACE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as it is described. Holds no callable.

    - `schema`: JSON text of the input's JSON schema.
    - `effects`: what it may do at most; `prepare` says what one call does.
    - `version`: of what it does; the description's own digest is added to it.
    - `timeout_s`: of one execution.
    - `side_by_side`: calls of it may run beside each other, and beside those of other such tools. Only what reads may.
    """

    name: str
    description: str
    schema: str
    effects: tuple[Effect, ...]
    version: str = "1"
    executor: str = "file"
    kind: CallKind = "function"
    timeout_s: float = 60.0
    side_by_side: bool = False

    def __post_init__(self) -> None:
        if self.side_by_side and set(self.effects) - {"read", "none"}:
            raise ValueError(f"side_by_side: {self.name} does more than read; have its calls one after the other")
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name[:80]!r} cannot name a tool; use small letters, digits and _")
        json.loads(self.schema)

    @property
    def full_version(self) -> str:
        """The version, and a digest of what a model is told: who changes the text changes the tool."""
        told = "\0".join((self.name, self.description, self.schema, self.kind, *self.effects))
        return f"{self.version}+{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def describe(self) -> Tool:
        """Describe it for a provider."""
        return Tool(name=self.name, description=self.description, raw_schema=self.schema, kind=self.kind)


class RefusedError(Exception):
    """A call cannot be done as it stands: said before anything is done."""

    def __init__(self, message: str, code: ObservationCode = "precondition_failed") -> None:
        super().__init__(message)
        self.message = message
        self.code: ObservationCode = code


@dataclass(frozen=True, slots=True)
class Change:
    """A file that was changed. A digest is None where the file was, or is, not there."""

    path: str
    before: str | None
    after: str | None
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an execution, beside its output.

    - `message`: stands before the output, in what the model sees.
    - `read_hashes`: of files that were read whole.
    """

    code: Literal["ok", "tool_error", "timeout"] = "ok"
    message: str = ""
    retryable: bool = False
    exit_code: int | None = None
    signal: int | None = None
    cpu_ms: int | None = None
    peak_memory_bytes: int | None = None
    changes: tuple[Change, ...] = ()
    read_hashes: tuple[tuple[str, str], ...] = ()


class Output(Protocol):
    """Takes what a tool gives."""

    def write(self, data: bytes) -> None:
        """Take a piece. Never blocks."""


Run: TypeAlias = "Callable[[Output], Awaitable[Outcome]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call that could be done, told before it is.

    - `normalised`: the input as it will be used; the intent's digest is of it.
    - `acts`, `doubts`: what policy decides by.
    - `summary`: one line for a person.
    - `diff`: what would change, for the card.
    - `argv`, `cwd`, `environment`, `limits`: of what would be executed; names of variables only.
    """

    normalised: Mapping[str, Any]
    acts: tuple[Act, ...]
    run: Run = field(repr=False)
    summary: str
    doubts: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    cwd: str = ""
    diff: str = ""
    environment: tuple[str, ...] = ()
    limits: Limits | None = None


class Handler(Protocol):
    """A tool that can be called."""

    @property
    def spec(self) -> ToolSpec:
        """How it is described."""

    async def prepare(self, value: Any) -> Prepared:
        """Look at one call, and change nothing.

        Raises `RefusedError`: it cannot be done.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a plug-in offers.

    - `namespace`: stands before the name of each of its tools, with `__`.
    - `handlers`: their specs have the full names.
    """

    namespace: str
    version: str
    handlers: Sequence[Handler]

    def __post_init__(self) -> None:
        if not NAMESPACE.fullmatch(self.namespace):
            raise ValueError(f"namespace: {self.namespace[:40]!r} is not one; use small letters and digits")
        for handler in self.handlers:
            if not handler.spec.name.startswith(f"{self.namespace}__"):
                raise ValueError(f"handlers: {handler.spec.name} does not begin with {self.namespace}__")


class ToolSource(Protocol):
    """Something that lists its tools when it is asked: what an MCP server is to us."""

    @property
    def namespace(self) -> str:
        """Of all its tools."""

    async def manifest(self) -> Manifest:
        """List the tools that are there now."""
