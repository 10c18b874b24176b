"""What crosses between the gateway's edge and its control plane, as plain values.

1. `Gateway.decide(request)` answers with a `Plan` or a `Refusal`; `Gateway.next(failure)` with another
   `AttemptSpec` or a `Refusal`; `Gateway.read(gathered)` with an `Answer` or a `Refusal`;
   `Gateway.settle(settlement)` with nothing. Each runs once per request or
   once per failed attempt, never per chunk.
2. Values are frozen; those of which every request makes one (`PreparedRequest`, `AttemptSpec`, `Plan`) only to a type
   checker, for to make a frozen object takes three times as long. A secret stands only in `AttemptSpec.headers`, whose
   repr is withheld.
3. `Failure` and `Settlement` show what the native handles of the same shape carry; policy code reads
   their attributes and cannot tell the two apart, so that tests need no socket.

4. Times are seconds; an instant is seconds since the Unix epoch.

No I/O, no provider's field names.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

__all__ = [
    "REMOVE",
    "Answer",
    "AttemptSpec",
    "AwsKeys",
    "BodyRecipe",
    "ClientProtocol",
    "Deadlines",
    "Deferred",
    "Failure",
    "Gathered",
    "Headers",
    "Hedge",
    "Lane",
    "Operation",
    "Plan",
    "Policy",
    "PreparedRequest",
    "Refusal",
    "Relay",
    "Removed",
    "Request",
    "RuntimeMap",
    "Secret",
    "Settlement",
    "SigV4",
    "Signing",
]

T = TypeVar("T")
Deferred: TypeAlias = T | Coroutine[Any, Any, T]
"""A value, or a coroutine for it: the caller takes the value at once and makes a task only where there is none yet."""


def quick(cls: type[T]) -> type[T]:
    """Let the values of a frozen dataclass be made like those of a plain one; they are not guarded then."""
    given = fields(cls)  # type: ignore[arg-type]  # it is one
    made = [(one.name, Any, field(default=one.default, init=one.init, kw_only=one.kw_only)) for one in given]
    cls.__init__ = make_dataclass(cls.__name__, made, slots=True).__init__  # type: ignore[misc, method-assign]
    del cls.__setattr__, cls.__delattr__
    return cls


Headers: TypeAlias = tuple[tuple[str, str], ...]
ClientProtocol = Literal["openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "ollama_chat"]
Relay = Literal["verbatim", "normalised", "opaque", "gathered", "gathered_verbatim"]
"""`opaque`: the bytes pass and nobody reads them, as the answer is no model's (a token count, a stream of pictures).
`gathered`: the whole answer comes to `Policy.read`, which says what the client gets; `gathered_verbatim`: likewise, and
an error of the client's own passes as it came."""


Lane: TypeAlias = Literal["first", "second", "neither"]
"""Of an attempt and its hedge, which one. `neither`, of a settlement: both were under way when the client left."""

Operation = Literal[
    "generate",
    "count_tokens",
    "models",
    "model",
    "embeddings",
    "rerank",
    "images",
    "image_edits",
    "web_search",
    "web_fetch",
    "metrics",
]
"""What a path of the gateway stands for."""


class Removed:
    """The type of `REMOVE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "REMOVE"


REMOVE: Final = Removed()
"""As the value of an edit: take this key out of the body."""


class Secret:
    """A secret that shows itself to nobody by accident; `reveal()` is the only way to its text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the text. To be called where a header is written or a key compared, and nowhere else."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


class Request(Protocol):
    """What a client sent, as policy sees it: a native handle that builds no Python objects of the prompt."""

    @property
    def id(self) -> str:
        """Ours, told to the client."""

    @property
    def method(self) -> str:
        """As the client wrote it."""

    @property
    def path(self) -> str:
        """Without the query."""

    @property
    def protocol(self) -> str | None:
        """The client's protocol; None where the path has none (`/v1/models`)."""

    @property
    def operation(self) -> str:
        """What the path stands for: `generate`, `models`, `embeddings`, ... (`Operation`)."""

    @property
    def model(self) -> str | None:
        """The name that the client asked for."""

    @property
    def stream(self) -> bool:
        """Whether the client asked for a stream."""

    @property
    def include_usage(self) -> bool:
        """Chat: whether the client asked for the usage chunk."""

    @property
    def body_size(self) -> int:
        """Of the client's body, in bytes, after content decoding."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The declared tools' names, in their order."""

    @property
    def has_images(self) -> bool:
        """Whether any message holds a picture."""

    @property
    def state_refs(self) -> tuple[str, ...]:
        """JSON pointers of ids of state held upstream (`previous_response_id`, `conversation`, files)."""

    @property
    def prompt_cache_key(self) -> str | None:
        """The client's own hint of what shares a prefix."""

    @property
    def previous_response_id(self) -> str | None:
        """The answer that this request goes on from, which a provider holds."""

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

    def headers_named(self, names: Sequence[str], prefix: str | None = None) -> list[tuple[str, str]]:
        """Those of `headers()` with one of these names, or that begin with `prefix`."""

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
    def protocol(self) -> str:
        """Of the body it makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds, None for no limit: to connect, to the head, without any byte, without content, in all."""

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    idle: float | None = 120.0
    content: float | None = None
    total: float | None = None


def _site(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeMap:
    """Who will be asked: the resolver's result, and the one credential that was chosen for it."""

    provider: str
    kind: str
    model: str
    """The upstream's own name."""
    base_url: str
    protocol: str
    transport: str = "http"
    credential: str | None = None
    settings: Any = None
    """As the kind's definition declares them."""
    deadlines: Deadlines = Deadlines()
    capability: str = "language_model"
    profile: str | None = None
    """The profile, with its binding, by which it was reached."""
    kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was prepared for it, by what of a request it depends on; the gateway's own."""


@dataclass(frozen=True, slots=True)
class Signing:
    """What a request's signature is for: the scope of AWS Signature Version 4."""

    region: str
    service: str


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """A key pair to sign with, and the session that it belongs to where it is a temporary one."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None

    def __repr__(self) -> str:
        return "AwsKeys(***)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SigV4:
    """How an attempt is signed. The kernel signs the very bytes that it sends, at the time that it sends them."""

    region: str
    service: str
    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None

    def __repr__(self) -> str:
        return f"SigV4({self.region}/{self.service})"


@quick
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedRequest:
    """A request to a provider before it is authorised: no secret is in it."""

    url: str
    headers: Headers
    body: BodyRecipe | bytes
    protocol: str
    method: str = "POST"
    transport: str = "http"
    deadlines: Deadlines = Deadlines()
    think_tags: bool = False
    usage_asked: bool = False
    signing: Signing | None = None
    """Where its credential is a key pair, what the signature is for."""
    normalise: bool = False
    """The answer is encoded anew also for a client of the same protocol, whose own SDK could not read it as it is."""
    otherwise: PreparedRequest | None = None
    """The same over HTTP, for a provider that will not switch to a WebSocket or loses it before an answer begins."""
    made: tuple[Any, AttemptSpec] | None = field(default=None, init=False, repr=False, compare=False)
    """The last first attempt that was made of it, authorised, and with which credential: it serves for the next too."""

    def with_headers(self, *headers: tuple[str, str]) -> PreparedRequest:
        """Give the same request with these headers, each in the place of one that has its name."""
        names = {name for name, _ in headers}
        return replace(self, headers=(*(one for one in self.headers if one[0] not in names), *headers))

    def __repr__(self) -> str:
        return f"PreparedRequest({self.method} {_site(self.url)}, {self.protocol})"


@quick
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AttemptSpec:
    """One attempt, ready to send. Holds no credential id."""

    method: str
    url: str
    headers: Headers
    body: BodyRecipe | bytes
    protocol: str
    transport: str = "http"
    deadlines: Deadlines = Deadlines()
    provider: str | None = None
    """The provider row's id: stands in errors and wraps continuations."""
    think_tags: bool = False
    usage_asked: bool = False
    """The body asks for the usage chunk on the gateway's behalf, so the edge takes it out for a client who did not."""
    attempt: int = 1
    """Which attempt of its request it is."""
    delay: float = 0.0
    """Seconds to wait before it begins; a client that leaves meanwhile ends it."""
    fresh_connection: bool = False
    """Not over a pooled connection: the last one had died in the pool."""
    signer: SigV4 | None = None
    """Signs the request, beside or instead of the headers' authorisation."""
    proxy: Secret | None = None
    """By way of whom: the proxy's address, with its credentials if it wants any."""
    http2: bool = False
    """Over HTTP/2, where an https endpoint speaks it."""
    relay: Relay | None = None
    """How the answer is relayed, where that is not the plan's: another provider may speak another protocol."""
    told: Headers = ()
    """For the client, with a good answer."""
    secrets: tuple[str, ...] = ()
    """What must not stand in an error that anybody reads."""
    hedge: Hedge | None = None
    """Another one, begun beside this one if it has no head by then. The gateway's edge alone heeds it."""
    sealed: Any = field(default=False, init=False, repr=False, compare=False)
    """True: it is given for one request after the other, and the edge keeps here what it has read of it."""

    def __repr__(self) -> str:
        return f"AttemptSpec(#{self.attempt} {self.method} {_site(self.url)}, {self.protocol}, delay={self.delay:g})"


@dataclass(frozen=True, slots=True)
class Hedge:
    """A second attempt at the same time: the first good head wins, and the other one is cancelled.

    - `after`: seconds.
    """

    after: float
    spec: AttemptSpec


@quick
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
    should_retry: bool | None = None
    """Becomes `x-should-retry`, which the vendors' SDKs obey."""
    error: Any = field(default=None, repr=False)
    """The provider's failure that this refusal reports; the edge then tells it (`error_reply`), not the fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer that Python made itself (`/v1/models`)."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Headers = ()
    """Beside the content type."""
    input_tokens: int | None = None
    """What a gathered answer told of its cost; goes into the settlement."""
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt failed and nothing of it has reached the client."""

    token: int
    attempt: int
    """From 1."""
    error: Any = field(repr=False)
    """A `ProviderErrorEvent`. Vendors write key fragments into messages, so it is not shown."""
    headers: tuple[tuple[str, str], ...] = ()
    """The response headers that rule R18 lets pass."""
    bytes_sent: int = 0
    bytes_received: int = 0
    reused_socket: bool = False
    lane: Lane | None = None
    """Which one failed last, if a hedge had begun; the other one is over, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A provider's whole answer to a plan whose relay is `gathered`. Its status is a good one."""

    token: int
    status: int
    body: bytes = field(repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    """The response headers that rule R18 lets pass. The client gets them beside the answer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a request that had a `Plan`. Exactly one per plan."""

    token: int
    attempts: int
    status: int
    """Told to the client; 0 if nothing was."""
    finish: str | None = None
    """A finish reason, or None where `error` says why there is none."""
    error: Any = field(default=None, repr=False)
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
    lane: Lane | None = None
    """Whose answer it is, if a hedge had begun."""


class Policy(Protocol):
    """What the edge asks: once when a request is whole, once per failed attempt, once of a gathered answer, once at the
    end.
    """

    def decide(self, request: Request) -> Deferred[Plan | Refusal | Answer]:
        """Say what is done with a request. Touches no provider."""

    def next(self, failure: Failure) -> Deferred[AttemptSpec | Refusal]:
        """Say what follows a failed attempt."""

    def read(self, gathered: Gathered) -> Deferred[Answer | Refusal]:
        """Say what the client gets of a gathered answer."""

    def settle(self, settlement: Settlement) -> None:
        """Take note of what a plan came to; exactly once for each, also when the client left."""

    def lapse(self) -> None:
        """Write what was settled: it has waited for others for long enough."""
