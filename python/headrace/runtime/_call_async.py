"""The asynchronous drive of one capability's call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from headrace.calls import Own
from headrace.capabilities import ReadError
from headrace.requests import AttemptSpec
from headrace.runtime._calling import ImageItem, raised
from headrace.runtime._tokens import Pending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from headrace._bridge import BackgroundAttemptRef, KernelRef
    from headrace.runtime._calling import Calling
    from headrace.runtime._wakeups import Wakeups

__all__ = ["ImageStream", "whole"]


async def whole(kernel: KernelRef, wakeups: Wakeups, calling: Calling) -> Any:
    """Make a call and give its result. If cancelled: its connection is closed."""
    async with _Items(kernel, wakeups, calling) as items:
        result = None
        while (batch := await items.next_items()) is not None:
            result = batch[-1] if batch else result
        return result


class _Items:
    """The typed items of one call, in batches."""

    def __init__(self, kernel: KernelRef, wakeups: Wakeups, calling: Calling) -> None:
        self._kernel = kernel
        self._wakeups = wakeups
        self._calling = calling
        self._attempt: BackgroundAttemptRef | None = None
        self._next: AttemptSpec | Own | None = None
        self._later: Pending[AttemptSpec] | None = None
        self._ended = False

    async def __aenter__(self) -> Self:
        begun = self._calling.begin()
        if isinstance(begun, Pending):
            pending = begun
            try:
                begun = await pending.wait_async()
            finally:
                pending.close()
        self._next = begun
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._later is not None:
            self._later.close()
        self._calling.leave(self._attempt)
        if self._attempt is not None:
            self._attempt.cancel()
            self._wakeups.wake(self._attempt)

    async def next_items(self) -> list[Any] | None:
        """Give the next items, at least one; None after the last."""
        while not self._ended:
            if isinstance(self._next, Own):
                self._ended = True
                return [await _own(self._next)]
            if self._next is not None:
                await self._begin(self._next)
            attempt = self._attempt
            if attempt is None:
                return None
            taken: list[Any] | AttemptSpec | Pending[AttemptSpec]
            if self._later is not None:
                later = self._later
                try:
                    taken = await later.wait_async()
                finally:
                    self._later = None if later.done else later
            elif (batch := attempt.take()) is None:
                self._ended = True
                self._calling.end(attempt)
                break
            elif not batch:
                await self._wakeups.wait(attempt)
                continue
            else:
                taken = self._calling.take(batch, attempt)
            if isinstance(taken, Pending):
                self._later = taken
            elif isinstance(taken, AttemptSpec):
                self._next = taken
            elif taken:
                return taken
        return None

    async def _begin(self, spec: AttemptSpec) -> None:
        if spec.delay > 0:
            import anyio

            await anyio.sleep(spec.delay)
        calling, own = self._calling, self._wakeups.own_signal
        self._attempt = self._kernel.background(
            spec, turn_id=calling.turn_id, model=calling.model, own_signal=own, raw=True
        )
        self._next = None


async def _own(call: Own) -> Any:
    try:
        return await call.result()
    except ReadError as error:
        raise raised(error) from None


class ImageStream:
    """Pictures as they are made: `PartialImage` for each unfinished one, `ImageResult` for the finished.

    A provider that gives none but the finished one is no error. A stream that ends without it raises
    `StreamInterruptedError`. If cancelled: nothing is lost, another iteration goes on.
    """

    def __init__(self, kernel: KernelRef, wakeups: Wakeups, calling: Calling) -> None:
        self._items = _Items(kernel, wakeups, calling)
        self._rest: Iterator[ImageItem] = iter(())

    async def __aenter__(self) -> Self:
        """Decide whom to ask.

        Raises `RefusedError` or `UnsupportedFeature` before anything is sent.
        """
        await self._items.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave: if the pictures are not all there, the connection is closed now."""
        await self._items.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        """Give the pictures one by one."""
        return self

    async def __anext__(self) -> ImageItem:
        """Give the next."""
        for item in self._rest:
            return item
        batch = await self._items.next_items()
        if batch is None:
            raise StopAsyncIteration
        self._rest = iter(batch)
        return next(self._rest)
