"""The synchronous drive of one capability's call: the calling thread polls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from headrace.calls import Own
from headrace.capabilities import ReadError
from headrace.requests import AttemptSpec
from headrace.runtime._calling import ImageItem, raised
from headrace.runtime._tokens import Pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from headrace._bridge import BlockingAttemptRef, KernelRef
    from headrace.runtime._calling import Calling

__all__ = ["SyncImageStream", "whole"]


def whole(kernel: KernelRef, calling: Calling) -> Any:
    """Make a call and give its result."""
    with _Items(kernel, calling) as items:
        result = None
        while (batch := items.next_items()) is not None:
            result = batch[-1] if batch else result
        return result


class _Items:
    """The typed items of one call, in batches."""

    def __init__(self, kernel: KernelRef, calling: Calling) -> None:
        self._kernel = kernel
        self._calling = calling
        self._attempt: BlockingAttemptRef | None = None
        self._next: AttemptSpec | Own | None = None
        self._ended = False

    def __enter__(self) -> Self:
        begun = self._calling.begin()
        self._next = begun.wait() if isinstance(begun, Pending) else begun
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._calling.leave(self._attempt)
        if self._attempt is not None:
            self._attempt.cancel()

    def next_items(self) -> list[Any] | None:
        """Give the next items, at least one; None after the last."""
        while not self._ended:
            if isinstance(self._next, Own):
                self._ended = True
                return [_own(self._next)]
            if self._next is not None:
                self._begin(self._next)
            attempt = self._attempt
            if attempt is None:
                return None
            batch = attempt.next_batch()
            if batch is None:
                self._ended = True
                self._calling.end(attempt)
            else:
                taken = self._calling.take(batch, attempt)
                if isinstance(taken, Pending):
                    taken = taken.wait()
                if isinstance(taken, AttemptSpec):
                    self._next = taken
                elif taken:
                    return taken
        return None

    def _begin(self, spec: AttemptSpec) -> None:
        if spec.delay > 0:
            time.sleep(spec.delay)
        calling = self._calling
        self._attempt = self._kernel.blocking(spec, turn_id=calling.turn_id, model=calling.model, raw=True)
        self._next = None


def _own(call: Own) -> Any:
    """Do it in a thread with an event loop of its own: the calling thread may have one that runs."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        try:
            return portal.call(call.result)
        except ReadError as error:
            raise raised(error) from None


class SyncImageStream:
    """Pictures as they are made. See `ImageStream`."""

    def __init__(self, kernel: KernelRef, calling: Calling) -> None:
        self._items = _Items(kernel, calling)
        self._rest: Iterator[ImageItem] = iter(())

    def __enter__(self) -> Self:
        """Decide whom to ask.

        Raises `RefusedError` or `UnsupportedFeature` before anything is sent.
        """
        self._items.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: if the pictures are not all there, the connection is closed now."""
        self._items.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[ImageItem]:
        """Give the pictures one by one."""
        yield from self._rest
        while (batch := self._items.next_items()) is not None:
            self._rest = iter(batch)
            yield from self._rest
