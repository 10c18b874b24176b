"""Calls of the capabilities beside the language model: from a client's body to a typed request, and back.

1. Python runs as often for such a call as for a model's stream: it decides once, follows up each failed attempt, reads
   the whole answer once, and takes note of the end. The edge makes the attempts and collects the answer, so that
   credentials, deadlines, retries and a client that leaves are nobody's second implementation.
2. An answer in the client's own form passes as it came, byte for byte. Of it only the cost is looked at, and only the
   part of the body that tells it.
3. A picture's stream in the client's own form passes unread, as it comes.
4. What a wire has no place for is refused where it changes what is asked, by the wire; else it is told in
   `x-headrace-loss`.

Never here: a provider's field names, the choice of a provider, I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.capabilities import ReadError, changed, embeddings, fetch, forms, images, rerank, search
from headrace.errors import BadRequestError, ProviderError, UnsupportedFeature
from headrace.requests import Answer, Deferred, Gathered, PreparedRequest, Refusal, Relay, Request, RuntimeMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.plugins import Capability, Run

__all__ = ["CLIENT", "OPERATIONS", "Call", "Opened", "Operation", "Own", "opened_by"]

#: Whose form errors are told in on all these paths.
CLIENT: Final = "openai_chat"
#: Of a header that names what was lost.
LOSS_LIMIT: Final = 1024
#: Where an OpenAI-like body tells its cost: near its end, and never longer.
USAGE_TAIL: Final = 2048
#: Bytes of a body from which on reading it is another thread's: the event loop decides for everybody.
LARGE: Final = 128 << 10
#: More tokens than any answer can have cost: the codec's own bound for a model's.
MAX_TOKENS: Final = 1 << 40
#: What a client is told of an answer that says no, by its kind.
_TOLD: Final[Mapping[str, tuple[int, str]]] = {
    "content_filter": (400, "content_policy_violation"),
    "bad_request": (400, "invalid_request"),
    "timeout": (504, "upstream_timeout"),
    "overloaded": (503, "server_is_overloaded"),
}
#: A request's fields that are no provider's: whom to ask, and how the client wants the answer.
_OURS: Final = frozenset({"model", "stream", "encoding", "return_documents", "extra"})


@dataclass(frozen=True, slots=True)
class Operation:
    """What a path stands for.

    - `wire`: the provider's wire whose answers are in the client's own form. None: the form is ours alone.
    """

    capability: str
    parse: Callable[[Any], Any]
    render: Callable[[Any, Any, int], bytes]
    wire: str | None = None


def _images(_: Any, result: Any, now: int) -> bytes:
    return images.render(result, now=now)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "embeddings": Operation(
        "embeddings", embeddings.parse, lambda asked, result, _: embeddings.render(asked, result), "openai_embeddings"
    ),
    "rerank": Operation("rerank", rerank.parse, lambda asked, result, _: rerank.render(asked, result), "jina_rerank"),
    "images": Operation("image_generate", images.parse, _images, "openai_images"),
    "image_edits": Operation("image_generate", lambda body: images.parse(body, edit=True), _images, "openai_images"),
    "web_search": Operation("web_search", search.parse, lambda asked, result, _: search.render(asked, result)),
    "web_fetch": Operation("web_fetch", fetch.parse, lambda asked, result, _: fetch.render(asked, result)),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what is asked, and by which path.

    - `streams`: partial results are wanted as they come.
    """

    operation: str
    request: Any
    streams: bool = False

    @property
    def capability(self) -> str:
        """What a provider must have."""
        return OPERATIONS[self.operation].capability

    @property
    def selector(self) -> str:
        """Whom the client named; empty for the configured default."""
        selector: str = self.request.model
        return selector


def opened_by(request: Request) -> Call | Refusal:
    """Read a client's request."""
    import orjson

    operation = request.operation
    content_type = request.header("content-type") or ""
    try:
        boundary = forms.boundary_of(content_type)
        if boundary is not None:
            asked: Any = images.parse_form(forms.read_form(request.body(), boundary))
        elif forms.is_form(content_type):
            return _refused(BadRequestError("the form's content-type names no boundary"))
        else:
            asked = OPERATIONS[operation].parse(orjson.loads(request.body()))
    except orjson.JSONDecodeError:
        return Refusal(status=400, code="invalid_json", message="the body is not JSON")
    except BadRequestError as error:
        return _refused(error)
    return Call(operation, asked, streams=getattr(asked, "stream", False))


def _refused(error: ProviderError) -> Refusal:
    code = "unsupported_parameter" if isinstance(error, UnsupportedFeature) else "invalid_request"
    return Refusal(status=400, code=code, message=str(error), param=error.param)


@dataclass(frozen=True, slots=True)
class Opened:
    """A call whose wire is found: it prepares what is sent and reads what comes."""

    call: Call
    wire: Capability
    model: str

    @property
    def _own(self) -> bool:
        """Whether the provider's answer is in the client's form."""
        return self.wire.protocol == OPERATIONS[self.call.operation].wire

    @property
    def relay(self) -> Relay:
        """How the answer reaches a client."""
        if not self._own:
            return "gathered"
        return "opaque" if self.call.streams else "gathered_verbatim"

    def prepare(self, runtime: RuntimeMap) -> PreparedRequest | Refusal:
        """Make what is sent."""
        try:
            return self.wire.prepare(runtime, self.call.request)
        except (BadRequestError, UnsupportedFeature) as error:
            return _refused(error)

    def result(self, body: bytes) -> Any:
        """Read a whole good answer.

        - Raises `ReadError`: it is a refusal, or no answer.
        """
        read = self.wire.read
        if read is None:
            raise ReadError("unknown", f"the wire {self.wire.protocol!r} has nothing that reads its answers")
        return _guarded(read, self.call.request, body)

    def event(self, data: bytes) -> Any:
        """Read one event of a stream: a partial result, the result, or None.

        - Raises `ReadError`: as `result`.
        """
        return None if self.wire.read_event is None else _guarded(self.wire.read_event, self.call.request, data)

    def answer(self, gathered: Gathered, *, now: int) -> Deferred[Answer | Refusal]:
        """Make a client's answer of the provider's.

        - `now`: seconds since the Unix epoch.
        """
        body = gathered.body
        if self._own and not self.call.streams:
            tokens = _tail_usage(body)
            return Answer(body=body, headers=self._losses(), input_tokens=tokens[0], output_tokens=tokens[1])
        return self._read(body, now) if len(body) < LARGE else self._read_aside(body, now)

    async def _read_aside(self, body: bytes, now: int) -> Answer | Refusal:
        import asyncio

        return await asyncio.to_thread(self._read, body, now)

    def _read(self, raw: bytes, now: int) -> Answer | Refusal:
        call = self.call
        try:
            result = self.result(raw)
            if call.streams:
                edit = call.operation == "image_edits"
                body, kind = images.render_stream(result, now=now, edit=edit), "text/event-stream"
            else:
                body, kind = OPERATIONS[call.operation].render(call.request, result, now), "application/json"
        except BadRequestError as error:
            return _refused(error)
        except ReadError as error:
            return _unread(error)
        usage = result.usage
        return Answer(
            body=body,
            content_type=kind,
            headers=self._losses(),
            input_tokens=_believed(usage.input_tokens),
            output_tokens=_believed(usage.output_tokens),
        )

    def _losses(self) -> tuple[tuple[str, str], ...]:
        request = self.call.request
        lost = [name for name in changed(request) if name not in self.wire.carries and name not in _OURS]
        if "extra" not in self.wire.carries:
            lost += [name for name in request.extra if name.isascii() and name.isidentifier()]
        value = ""
        for name in lost:
            more = f"{', ' if value else ''}{name};dropped"
            if len(value) + len(more) <= LOSS_LIMIT:
                value += more
        return (("x-headrace-loss", value),) if value else ()


def _guarded(read: Callable[[Any, bytes], Any], request: Any, body: bytes) -> Any:
    """Turn whatever a parser stumbles over into one error that holds nothing of the body."""
    try:
        return read(request, body)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise ReadError("unknown", "the provider's answer is not what its documentation says") from None


def _unread(error: ReadError) -> Refusal:
    status, code = _TOLD.get(error.kind, (502, "upstream_response_failed"))
    return Refusal(status=status, code=code, message=error.message)


def _believed(tokens: Any) -> int | None:
    """Give a provider's number of tokens; None where no answer can have cost that."""
    return tokens if type(tokens) is int and 0 <= tokens <= MAX_TOKENS else None


def _tail_usage(body: bytes) -> tuple[int | None, int | None]:
    """Find what an OpenAI-like body tells of its cost, without reading the vectors before it."""
    import orjson

    at = body.rfind(b'"usage"', max(0, len(body) - USAGE_TAIL))
    start = body.find(b"{", at)
    if at < 0 or start < 0:
        return None, None
    # The object's end is the first closing brace after which it reads as one.
    end = start
    while (end := body.find(b"}", end)) >= 0:
        end += 1
        try:
            usage = orjson.loads(body[start:end])
        except orjson.JSONDecodeError:
            continue
        given = [usage.get("prompt_tokens", usage.get("input_tokens", usage.get("total_tokens")))]
        given.append(usage.get("output_tokens"))
        return _believed(given[0]), _believed(given[1])
    return None, None


@dataclass(frozen=True, slots=True)
class Own:
    """A call that this package does itself, with no provider: our own fetch."""

    call: Call
    run: Run
    runtime: RuntimeMap

    async def result(self) -> Any:
        """Do it.

        - Raises `ReadError`, `BadRequestError`: it failed.
        """
        return await self.run(self.runtime, self.call.request)

    async def answer(self) -> Answer | Refusal:
        """Do it for a client."""
        try:
            result = await self.result()
        except (BadRequestError, UnsupportedFeature) as error:
            return _refused(error)
        except ReadError as error:
            return _unread(error)
        return Answer(body=OPERATIONS[self.call.operation].render(self.call.request, result, 0))
