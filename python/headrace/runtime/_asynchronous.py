"""The asynchronous face, on asyncio and trio. One thread of the kernel's drives all connections of a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from headrace._bridge import KernelRef
from headrace.calls import Call
from headrace.requests import AttemptSpec
from headrace.runtime._call import Call as ModelCall
from headrace.runtime._call import ModelResult, Policies, gather
from headrace.runtime._call_async import ImageStream, whole
from headrace.runtime._calling import Calling, images_call
from headrace.runtime._tokens import Pending
from headrace.runtime._wakeups import Wakeups, wakeups

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from headrace._bridge import BackgroundAttemptRef
    from headrace.capabilities import (
        EmbedRequest,
        EmbedResult,
        FetchRequest,
        FetchResult,
        ImageRequest,
        ImageResult,
        RerankRequest,
        RerankResult,
        SearchRequest,
        SearchResult,
    )
    from headrace.events import ModelEvent
    from headrace.messages import ModelRequest
    from headrace.routes import Hop
    from headrace.runtime._call import Source, Step
    from headrace.runtime._facts import AttemptFacts, RouteFacts

__all__ = ["Runtime", "Stream"]


class Runtime:
    """Ask models and read their answers, on asyncio or trio.

    - `config`: a checked `Config`, the path of a configuration file, or None for what `headrace serve` would take.
    - `extra_ca`: PEM text of certificates to trust beside the platform's.

    Used as an asynchronous context manager, in one event loop. At its end every stream is cancelled and every
    connection closed.

    Raises `ConfigurationError`: something in the configuration is wrong.
    """

    def __init__(self, config: Source = None, *, extra_ca: bytes | None = None) -> None:
        self._policies = Policies(config)
        self._extra_ca = extra_ca
        self._kernel: KernelRef | None = None
        self._wakeups: Wakeups | None = None

    async def __aenter__(self) -> Self:
        """Start the kernel's thread. Connections are made when they are needed."""
        if self._kernel is not None:
            raise RuntimeError("the runtime is open already")
        self._kernel = KernelRef(background=True, extra_ca=self._extra_ca)
        self._wakeups = wakeups(self._kernel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what runs and close what is open. Does not wait."""
        if self._wakeups is not None:
            self._wakeups.close()
        if self._kernel is not None:
            self._kernel.close()
        self._kernel = self._wakeups = None
        self._policies.close()

    def stream(self, request: ModelRequest) -> Stream:
        """Ask. Nothing is sent before the stream is entered."""
        if self._kernel is None or self._wakeups is None:
            raise RuntimeError("the runtime is not open: use it in `async with`")
        return Stream(self._kernel, self._wakeups, ModelCall(self._policies, request))

    async def embed(self, request: EmbedRequest) -> EmbedResult:
        """Turn texts into vectors.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        If cancelled: the connection is closed, and nothing is left.
        """
        result: EmbedResult = await self._whole(Call("embeddings", request))
        return result

    async def rerank(self, request: RerankRequest) -> RerankResult:
        """Order documents by what they say to a question.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        If cancelled: the connection is closed, and nothing is left.
        """
        result: RerankResult = await self._whole(Call("rerank", request))
        return result

    async def search(self, request: SearchRequest) -> SearchResult:
        """Look for pages.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        If cancelled: the connection is closed, and nothing is left.
        """
        result: SearchResult = await self._whole(Call("web_search", request))
        return result

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """Read a page.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        If cancelled: the connection is closed, and nothing is left.
        """
        result: FetchResult = await self._whole(Call("web_fetch", request))
        return result

    async def images(self, request: ImageRequest) -> ImageResult:
        """Make pictures, or edit those of the request.

        Raises as `embed`, and `ContentFilterError` where the provider keeps every picture back.
        If cancelled: the connection is closed, and nothing is left.
        """
        result: ImageResult = await self._whole(images_call(request, streams=False))
        return result

    def image_stream(self, request: ImageRequest) -> ImageStream:
        """Make pictures and see them become. Used in an `async with` block; nothing is sent before it is entered."""
        if self._kernel is None or self._wakeups is None:
            raise RuntimeError("the runtime is not open: use it in `async with`")
        return ImageStream(self._kernel, self._wakeups, Calling(self._policies, images_call(request, streams=True)))

    async def _whole(self, call: Call) -> Any:
        if self._kernel is None or self._wakeups is None:
            raise RuntimeError("the runtime is not open: use it in `async with`")
        return await whole(self._kernel, self._wakeups, Calling(self._policies, call))

    def route(self, selector: str) -> RouteFacts:
        """Say whom a selector leads to. Touches nobody.

        - Raises `RefusedError`: it leads nowhere.
        """
        return self._policies.route(selector)

    def __repr__(self) -> str:
        return f"Runtime({'closed' if self._kernel is None else 'open'})"


class Stream:
    """One answer. Iterate it for events, `batches()` for lists of them, `result()` for the whole."""

    def __init__(self, kernel: KernelRef, wakeups: Wakeups, call: ModelCall) -> None:
        #: Until it is left: an idle connection must not outlive its runtime in a stream that somebody keeps.
        self._kernel: KernelRef | None = kernel
        self._wakeups = wakeups
        self._call = call
        self._attempt: BackgroundAttemptRef | None = None
        #: Decided and not begun: a wait before it may be interrupted.
        self._next: AttemptSpec | None = None
        #: What follows is not known before a token was got. That wait may be interrupted, too.
        self._later: Pending[Step] | None = None
        self._ended = False
        #: A task waits for the next batch. A second one would take its wake-up from it.
        self._reading = False
        #: Of the last batch, what an iteration has not given yet.
        self.rest: Iterator[ModelEvent] = iter(())

    async def __aenter__(self) -> Self:
        """Send the request.

        Raises `RefusedError` or `UnsupportedFeature` before anything is sent.
        """
        begun = self._call.begin()
        if isinstance(begun, Pending):
            pending = begun
            try:
                begun = await pending.wait_async()
            finally:
                pending.close()
        self._next = begun
        await self._begin_next()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: if the answer is not over, its connection is closed now. Does not wait, so it is never cancelled."""
        self._ended = True
        if self._later is not None:
            self._later.close()
        self._call.leave(self._attempt)
        self._kernel = None
        if self._attempt is not None:
            self._attempt.cancel()
            self._wakeups.wake(self._attempt)

    def batches(self) -> AsyncIterator[list[ModelEvent]]:
        """Give events in the lists in which they came, each of at least one.

        If cancelled: nothing is lost, the iteration may be begun again.
        """
        return _Batches(self)

    def __aiter__(self) -> AsyncIterator[ModelEvent]:
        """Give the events one by one. A failure is the last of them, and is not raised.

        If cancelled or left by `break`: nothing is lost, another iteration goes on where this one was.
        """
        return _Events(self)

    async def next_batch(self) -> list[ModelEvent] | None:
        """Give the next events, at least one; None after the last. If cancelled: nothing is lost."""
        if rest := list(self.rest):
            return rest
        if self._attempt is None and self._next is None:
            raise RuntimeError("enter the stream first: `async with runtime.stream(request) as stream`")
        if self._reading:
            raise RuntimeError("another task is reading this stream")
        self._reading = True
        try:
            return await self._read()
        finally:
            self._reading = False

    async def _read(self) -> list[ModelEvent] | None:
        while not self._ended:
            if self._next is not None:
                await self._begin_next()
            attempt = self._attempt
            if attempt is None:
                return None
            taken: Step | Pending[Step] | None
            if self._later is not None:
                later = self._later
                try:
                    taken = await later.wait_async()
                finally:
                    self._later = None if later.done else later
            elif (batch := attempt.take()) is None:
                self._ended = True
                break
            elif not batch:
                await self._wakeups.wait(attempt)
                continue
            else:
                taken = self._call.take(batch, attempt)
            if isinstance(taken, Pending):
                self._later = taken
            elif isinstance(taken, AttemptSpec):
                self._next = taken
            elif taken:
                return taken
        return None

    async def result(self) -> ModelResult:
        """Read to the end and gather.

        Raises the class of the error's kind where the answer ends in one (`RateLimitError`, `OverloadedError`, ...).
        """
        events: list[ModelEvent] = []
        while batch := await self.next_batch():
            events += batch
        return gather(events)

    async def _begin_next(self) -> None:
        spec, kernel = self._next, self._kernel
        if spec is None or kernel is None:
            return
        if spec.delay > 0:
            import anyio

            await anyio.sleep(spec.delay)
        own = self._wakeups.own_signal
        self._attempt = kernel.background(spec, turn_id=self._call.turn_id, model=self._call.model, own_signal=own)
        self._next = None

    @property
    def attempts(self) -> tuple[AttemptFacts, ...]:
        """Who was asked so far, and what came of it."""
        return self._call.attempts.listed

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Why another model was asked than the one that the selector leads to first."""
        return self._call.attempts.hops

    def __repr__(self) -> str:
        return f"Stream({self._call.model!r})"


# Classes and no asynchronous generators: one that is left by `break` would wait for the collector to end it,
# and trio warns of that.


class _Batches:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> _Batches:
        return self

    async def __anext__(self) -> list[ModelEvent]:
        batch = await self._stream.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch


class _Events:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> ModelEvent:
        stream = self._stream
        for event in stream.rest:
            return event
        batch = await stream.next_batch()
        if batch is None:
            raise StopAsyncIteration
        stream.rest = iter(batch)
        return next(stream.rest)
