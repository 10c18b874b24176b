"""What crosses between the gateway's edge and its control plane, as plain values.

1. `Gateway.decide(request)` answers with a `Plan` or a `Refusal`; `Gateway.next(failure)` with another
   `AttemptSpec` or a `Refusal`; `Gateway.settle(settlement)` with nothing. Each runs once per request or
   once per failed attempt, never per chunk.
2. Values are frozen. A secret stands only in `AttemptSpec.headers`, whose repr is withheld.
3. `Failure` and `Settlement` show what the native handles of the same shape carry; policy code reads
   their attributes and cannot tell the two apart, so that tests need no socket.

No I/O, no provider's field names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ClientProtocol = Literal["openai_chat", "openai_responses", "anthropic_messages"]
Relay = Literal["verbatim", "normalised"]


class Request(Protocol):
    """What a client sent, as policy sees it: a native handle that builds no Python objects of the prompt."""

    @property
    def id(self) -> str:
        """Ours, told to the client."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str:
        """Without the query."""

    @property
    def protocol(self) -> str | None:
        """The client's protocol; None where the path has none (`/v1/models`)."""

    @property
    def operation(self) -> str:
        """`generate`, `count_tokens` or `models`."""

    @property
    def model(self) -> str | None:
        """The name that the client asked for."""

    @property
    def stream(self) -> bool: ...

    @property
    def include_usage(self) -> bool:
        """Chat: whether the client asked for the usage chunk."""

    @property
    def body_size(self) -> int: ...

    @property
    def tool_names(self) -> tuple[str, ...]: ...

    @property
    def has_images(self) -> bool: ...

    @property
    def state_refs(self) -> tuple[str, ...]:
        """JSON pointers of ids of state held upstream (`previous_response_id`, `conversation`, files)."""

    @property
    def prompt_cache_key(self) -> str | None: ...

    @property
    def session(self) -> str | None:
        """The first of the client's session headers, for affinity."""

    @property
    def peer(self) -> str:
        """The client's address, `HOST:PORT`."""

    def header(self, name: str) -> str | None:
        """A request header's value; of several, the first."""

    def headers(self) -> list[tuple[str, str]]:
        """All request headers, names in lower case. They hold the client's secrets: never log them."""

    def body(self) -> bytes:
        """The body as it came: a copy."""

    def body_for(
        self,
        protocol: str,
        *,
        model: str,
        provider: str | None = None,
        edits: Mapping[str, Any] | None = None,
        target_flags: Sequence[str] = (),
    ) -> BodyRecipe:
        """Tell how the provider's body is to be made, without making it.

        - `edits`: JSON pointer -> value or `REMOVE`, on the target body.
        - `target_flags`: what the target needs besides its protocol.
        """


class BodyRecipe(Protocol):
    """How a provider's body is made of the client's. Carried out on the edge thread, without the GIL."""

    @property
    def protocol(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds, None for no limit: to connect, to the head, without any byte, without content, in all."""

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    idle: float | None = 120.0
    content: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """One attempt, ready to send. Holds no credential id."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: BodyRecipe | bytes = field(repr=False)
    protocol: str
    transport: str = "http"
    deadlines: Deadlines = Deadlines()
    provider: str | None = None
    """The provider row's id: stands in errors and wraps continuations."""
    think_tags: bool = False
    usage_asked: bool = False
    """The body asks for the usage chunk on the gateway's behalf, so the edge takes it out for a client who did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `decide` gives for a request that goes to a provider."""

    token: int
    """Names this request in `Failure` and `Settlement`; the control plane's own number."""
    spec: AttemptSpec
    client_protocol: str
    relay: Relay


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer of the gateway's own, told in the client's format."""

    code: str
    message: str
    status: int = 422
    param: str | None = None
    retry_at: float | None = None
    """Unix time; becomes `retry-after`."""
    error: Any = field(default=None, repr=False)
    """The provider's failure that this refusal reports: then the edge tells it (`error_reply`), not the fields above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer that Python made itself (`/v1/models`)."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt failed and nothing of it has reached the client."""

    token: int
    attempt: int
    """From 1."""
    error: Any
    """A `ProviderErrorEvent`."""
    headers: tuple[tuple[str, str], ...] = ()
    """The response headers that rule R18 lets pass."""
    bytes_sent: int = 0
    bytes_received: int = 0
    reused_socket: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a request that had a `Plan`. Exactly one per plan."""

    token: int
    attempts: int
    status: int
    """Told to the client; 0 if nothing was."""
    finish: str | None = None
    """A finish reason, or None where `error` says why there is none."""
    error: Any = None
    """A `ProviderErrorEvent`; a client that left is one of kind `aborted`."""
    model: str | None = None
    response_id: str | None = None
    request_id: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    intents: int = 0
    events: int = 0
    bytes_sent: int = 0
    """To the provider."""
    bytes_received: int = 0
    """From the provider, decoded."""
    bytes_to_client: int = 0
    decide_s: float = 0.0
    """From the request's last byte to the decision."""
    first_byte_s: float | None = None
    """From the decision to the first byte of the answer that was given to the client."""
    total_s: float = 0.0
    losses: tuple[tuple[str, str], ...] = ()
    """(path, action), request side first."""
