"""The synchronous face. The calling thread itself drives the connection; there is no other thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from headrace._bridge import KernelRef
from headrace.calls import Call
from headrace.requests import AttemptSpec
from headrace.runtime._call import Call as ModelCall
from headrace.runtime._call import ModelResult, Policies, gather
from headrace.runtime._call_sync import SyncImageStream, whole
from headrace.runtime._calling import Calling, images_call
from headrace.runtime._tokens import Pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from headrace._bridge import BlockingAttemptRef
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
    from headrace.runtime._call import Source
    from headrace.runtime._facts import AttemptFacts, RouteFacts

__all__ = ["SyncRuntime", "SyncStream"]


class SyncRuntime:
    """Ask models and read their answers, without `async`.

    - `config`: a checked `Config`, the path of a configuration file, or None for what `headrace serve` would take.
    - `extra_ca`: PEM text of certificates to trust beside the platform's.

    Used as a context manager; what it holds open is closed at its end. Threads may share it, a stream belongs to one.

    Raises `ConfigurationError`: something in the configuration is wrong.
    """

    def __init__(self, config: Source = None, *, extra_ca: bytes | None = None) -> None:
        self._policies = Policies(config)
        self._kernel: KernelRef | None = KernelRef(background=False, extra_ca=extra_ca)

    def __enter__(self) -> Self:
        """Begin. Connections are made when they are needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open."""
        self.close()

    def close(self) -> None:
        """Close idle connections and end the demo upstream. A stream that is still read is not disturbed."""
        self._kernel = None
        self._policies.close()

    def stream(self, request: ModelRequest) -> SyncStream:
        """Ask. Nothing is sent before the stream is entered."""
        if self._kernel is None:
            raise RuntimeError("the runtime is closed")
        return SyncStream(self._kernel, ModelCall(self._policies, request))

    def embed(self, request: EmbedRequest) -> EmbedResult:
        """Turn texts into vectors.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        """
        result: EmbedResult = self._whole(Call("embeddings", request))
        return result

    def rerank(self, request: RerankRequest) -> RerankResult:
        """Order documents by what they say to a question.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        """
        result: RerankResult = self._whole(Call("rerank", request))
        return result

    def search(self, request: SearchRequest) -> SearchResult:
        """Look for pages.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        """
        result: SearchResult = self._whole(Call("web_search", request))
        return result

    def fetch(self, request: FetchRequest) -> FetchResult:
        """Read a page.

        Raises `RefusedError` before anything is sent; the class of the error's kind where the provider fails.
        """
        result: FetchResult = self._whole(Call("web_fetch", request))
        return result

    def images(self, request: ImageRequest) -> ImageResult:
        """Make pictures, or edit those of the request.

        Raises as `embed`, and `ContentFilterError` where the provider keeps every picture back.
        """
        result: ImageResult = self._whole(images_call(request, streams=False))
        return result

    def image_stream(self, request: ImageRequest) -> SyncImageStream:
        """Make pictures and see them become. Used in a `with` block; nothing is sent before it is entered."""
        if self._kernel is None:
            raise RuntimeError("the runtime is closed")
        return SyncImageStream(self._kernel, Calling(self._policies, images_call(request, streams=True)))

    def _whole(self, call: Call) -> Any:
        if self._kernel is None:
            raise RuntimeError("the runtime is closed")
        return whole(self._kernel, Calling(self._policies, call))

    def route(self, selector: str) -> RouteFacts:
        """Say whom a selector leads to. Touches nobody.

        - Raises `RefusedError`: it leads nowhere.
        """
        return self._policies.route(selector)

    def __repr__(self) -> str:
        return f"SyncRuntime({'closed' if self._kernel is None else 'open'})"


class SyncStream:
    """One answer. Iterate it for events, `batches()` for lists of them, `result()` for the whole."""

    def __init__(self, kernel: KernelRef, call: ModelCall) -> None:
        #: Until it is left: an idle connection must not outlive its runtime in a stream that somebody keeps.
        self._kernel: KernelRef | None = kernel
        self._call = call
        self._attempt: BlockingAttemptRef | None = None
        #: Decided and not begun: a wait before it may be interrupted.
        self._next: AttemptSpec | None = None
        self._ended = False
        self._rest: Iterator[ModelEvent] = iter(())

    def __enter__(self) -> Self:
        """Send the request.

        Raises `RefusedError` or `UnsupportedFeature` before anything is sent.
        """
        begun = self._call.begin()
        self._next = begun.wait() if isinstance(begun, Pending) else begun
        self._begin_next()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: if the answer is not over, its connection is closed now."""
        self.close()

    def close(self) -> None:
        """Close the connection if the answer is not over, and settle.

        - Raises `RuntimeError`: another thread is reading; nothing is changed.
        """
        self._call.leave(self._attempt)
        self._ended = True
        self._kernel = None
        if self._attempt is not None:
            self._attempt.cancel()

    def batches(self) -> Iterator[list[ModelEvent]]:
        """Give events in the lists in which they came, each of at least one."""
        while batch := self.next_batch():
            yield batch

    def __iter__(self) -> Iterator[ModelEvent]:
        """Give the events one by one. A failure is the last of them, and is not raised.

        Left by `break`, nothing is lost: another iteration goes on where this one was.
        """
        yield from self._rest
        while batch := self.next_batch():
            self._rest = iter(batch)
            yield from self._rest

    def next_batch(self) -> list[ModelEvent] | None:
        """Give the next events, at least one; None after the last.

        A `KeyboardInterrupt` while it waits loses nothing.
        """
        if rest := list(self._rest):
            return rest
        if self._attempt is None and self._next is None:
            raise RuntimeError("enter the stream first: `with runtime.stream(request) as stream`")
        while not self._ended:
            if self._next is not None:
                self._begin_next()
            attempt = self._attempt
            if attempt is None:
                return None
            batch = attempt.next_batch()
            if batch is None:
                self._ended = True
            else:
                taken = self._call.take(batch, attempt)
                if isinstance(taken, Pending):
                    taken = taken.wait()
                if isinstance(taken, AttemptSpec):
                    self._next = taken
                elif taken:
                    return taken
        return None

    def result(self) -> ModelResult:
        """Read to the end and gather.

        Raises the class of the error's kind where the answer ends in one (`RateLimitError`, `OverloadedError`, ...).
        """
        return gather([event for batch in self.batches() for event in batch])

    def _begin_next(self) -> None:
        spec, kernel = self._next, self._kernel
        if spec is None or kernel is None:
            return
        if spec.delay > 0:
            time.sleep(spec.delay)
        self._attempt = kernel.blocking(spec, turn_id=self._call.turn_id, model=self._call.model)
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
        return f"SyncStream({self._call.model!r})"
