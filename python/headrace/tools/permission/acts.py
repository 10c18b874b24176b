"""What a call would do, in the words that policy decides by. A tool tells its acts before anybody is asked.

1. An act says what is certain. What is not certain is a doubt, and a doubt asks.
2. Acts are made of the intent alone, and of the workspace's shape: nothing that a tool ever printed is in them.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from headrace.tools.permission.shell import Simple

__all__ = ["Act", "ActKind", "Connect", "Mention", "Open", "Other", "Query", "Run"]

ActKind: TypeAlias = Literal["read", "write", "execute", "network", "none"]
"""The risk that an act is."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run a program."""

    command: Simple
    kind: ActKind = "execute"


@dataclass(frozen=True, slots=True)
class Open:
    """Read or write a file or directory.

    - `path`: absolute and without `..`.
    - `inside`: whether it is in the workspace.
    - `secret`: whether its name is one of those that hold secrets.
    """

    path: str
    kind: ActKind
    inside: bool = True
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """A word of a command that may be a path. It can be forbidden or asked about, and it allows nothing."""

    path: str
    inside: bool = True
    secret: bool = False
    kind: ActKind = "none"


@dataclass(frozen=True, slots=True)
class Connect:
    """Reach a host. `certain`: it is what the tool is for, and not only a word of a command."""

    host: str
    certain: bool = True
    kind: ActKind = "network"


@dataclass(frozen=True, slots=True)
class Other:
    """What a plug-in's tool says of itself, with no subject that a rule could name."""

    kind: ActKind


Act: TypeAlias = Run | Open | Mention | Connect | Other


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question to policy: all that a decision may depend on, beside the policy itself.

    - `tier`: of the executor that would run it; "" where nothing is executed.
    """

    tool: str
    acts: tuple[Act, ...]
    doubts: tuple[str, ...] = ()
    root: str = "/"
    tier: str = ""
    effects: tuple[ActKind, ...] = field(init=False)

    def __post_init__(self) -> None:
        order = ("read", "write", "execute", "network")
        kinds = {act.kind for act in self.acts}
        object.__setattr__(self, "effects", tuple(kind for kind in order if kind in kinds) or ("none",))

    def digest(self) -> str:
        """Give a hash of the whole question, for tests and traces."""
        return hashlib.sha256(repr(_plain(self)).encode("utf-8", "surrogatepass")).hexdigest()


def _plain(query: Query) -> Any:
    return (query.tool, [(type(act).__name__, asdict(act)) for act in query.acts], query.doubts, query.root, query.tier)
