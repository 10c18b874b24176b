"""A scripted upstream over real sockets, for tests of what talks to a provider.

    with Upstream({"/v1/chat/completions": Reply.stream(FIRST, Gate("go"), REST)}) as upstream:
        ...  # point a gateway or a client at upstream.url
        upstream.wait(lambda facts: facts.request_count == 1)
        upstream.open("go")

1. It listens on loopback, in a thread of its own, and does what the script says: bytes in pieces, at a pace, behind
   gates; it cuts, resets, stalls, drips, and lies about lengths.
2. It reports facts. A test waits for a fact, and never for a time.

Policy, and anything that a real provider would have to be asked for, must not be added here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace._bridge import ScriptedRef

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "Act",
    "ConnectionFacts",
    "Cut",
    "Drip",
    "Facts",
    "Gate",
    "Pause",
    "Reply",
    "Reset",
    "Seen",
    "Stall",
    "Upstream",
]

RECORDED = 1024
"""Requests that are kept with their bodies: a test's worth. Later ones are counted only."""

SLICE_S = 0.5
"""Longest wait in one piece, so that an interrupt is heard."""


@dataclass(frozen=True, slots=True)
class Drip:
    """Send bytes in pieces of `size`, with `pause` seconds after each."""

    data: bytes
    size: int = 1
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait `seconds`. A gate is better: it waits for the test and not for the clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gate:
    """Wait until the test opens the gate of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Stall:
    """Say nothing more until the client leaves."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Close in order: what was written arrives, then the end."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection: what is still under way may be lost."""


Act: TypeAlias = bytes | Drip | Pause | Gate | Stall | Cut | Reset
"""One act of a reply; bytes are one piece of the body, in one write."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    - `acts`: what is done, in order.
    - `framing`: "length" (the true one), "chunked" (each piece a chunk), "close" (until the end), or a number that
      `content-length` says whatever the body has.
    - `close`: end the connection afterwards, and say so.
    - `is_raw`: the acts are all there is: no status, no headers, whatever bytes.
    """

    acts: tuple[Act, ...] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    framing: Literal["length", "chunked", "close"] | int = "length"
    close: bool = False
    is_raw: bool = False

    @classmethod
    def stream(cls, *acts: Act, headers: Sequence[tuple[str, str]] = ()) -> Self:
        """Answer 200 with an event stream in chunks."""
        return cls(acts, headers=(("content-type", "text/event-stream"), *headers), framing="chunked")

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Self:
        """Answer with a JSON body of its true length."""
        return cls((json.dumps(value).encode(),), status, (("content-type", "application/json"), *headers))

    @classmethod
    def raw(cls, *acts: Act, close: bool = True) -> Self:
        """Answer with bytes that may be HTTP or not."""
        return cls(acts, close=close, is_raw=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came. Header names are in lower case."""

    connection: int
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for known, value in self.headers if known == name.lower()), None)

    def json(self) -> Any:
        """Read the body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """One connection.

    - `closed_by_client`: the client ended it; otherwise the script did.
    - `reset`: it ended with an error rather than an orderly close.
    - `written`: bytes that the operating system took.
    - `blocked`: the client reads too slowly: the last write has to wait.
    - `waiting`: the reply waits at a gate, or stalls.
    """

    open: bool
    closed_by_client: bool
    reset: bool
    requests: int
    written: int
    blocked: bool
    waiting: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What the upstream has seen so far.

    - `requests`: the first ones, as many as are recorded; `request_count` counts all.
    - `malformed`: what was no HTTP, and handshakes that failed.
    - `replies`: those that were played to their end.
    """

    connections: tuple[ConnectionFacts, ...]
    requests: tuple[Seen, ...]
    request_count: int
    malformed: int
    replies: int

    @property
    def open_connections(self) -> int:
        """Connections that are open now."""
        return sum(connection.open for connection in self.connections)


Routes: TypeAlias = Mapping[str, Reply | Sequence[Reply]]
"""Path (without query; "*" for any) -> replies in turn, the last one again and again."""


class Upstream:
    """A running upstream. Leaving the `with` block closes every connection.

    - `script`: one reply for everything, or routes.
    - `tls`: a certificate chain and its key in PEM; then the address is `https://localhost:PORT`.
    - `record`: keep the first so many requests in the facts.
    """

    def __init__(
        self, script: Reply | Routes, *, tls: tuple[bytes, bytes] | None = None, record: int = RECORDED
    ) -> None:
        routes: Routes = {"*": script} if isinstance(script, Reply) else script
        listed = [
            (path, [_spec(reply) for reply in ([replies] if isinstance(replies, Reply) else replies)])
            for path, replies in routes.items()
        ]
        self._ref = ScriptedRef.start(listed, record=record, tls=tls)

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return self._ref.url

    def open(self, gate: str) -> None:
        """Open a gate: every reply that waits or will wait at it goes on."""
        self._ref.open(gate)

    def facts(self) -> Facts:
        """Return what has been seen so far."""
        return self._look()[1]

    def wait(self, wanted: Callable[[Facts], bool], limit: float = 10.0) -> Facts:
        """Wait until the facts are as wanted, and return them.

        Raises `TimeoutError` after `limit` seconds, with the facts.
        """
        end = time.monotonic() + limit
        while True:
            state, facts = self._look()
            if wanted(facts):
                return facts
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not within {limit} s; the facts are {facts}")
            self._ref.wait_change(state, min(left, SLICE_S))

    async def until(self, wanted: Callable[[Facts], bool], limit: float = 10.0) -> Facts:
        """Wait as `wait` does, without holding up the event loop.

        If cancelled: the waiting goes on in its thread until `limit`, and its outcome is dropped.
        """
        from anyio import to_thread

        return await to_thread.run_sync(self.wait, wanted, limit, abandon_on_cancel=True)

    def close(self) -> None:
        """End it."""
        self._ref.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Upstream({self.url})"

    def _look(self) -> tuple[int, Facts]:
        state, connections, requests, count, malformed, replies = self._ref.facts()
        seen = tuple(Seen(at, method, target, tuple(headers), body) for at, method, target, headers, body in requests)
        return state, Facts(tuple(ConnectionFacts(*c) for c in connections), seen, count, malformed, replies)


_Spec: TypeAlias = tuple[int, list[tuple[str, str]], str | int, list[tuple[Any, ...]], bool, bool]


def _spec(reply: Reply) -> _Spec:
    acts = [_act(act) for act in reply.acts]
    return (reply.status, list(reply.headers), reply.framing, acts, reply.close, reply.is_raw)


def _act(act: Act) -> tuple[Any, ...]:
    match act:
        case bytes():
            return ("send", act)
        case Drip(data, size, pause):
            return ("drip", data, size, pause)
        case Pause(seconds):
            return ("pause", seconds)
        case Gate(name):
            return ("gate", name)
        case _:
            return (type(act).__name__.lower(),)
