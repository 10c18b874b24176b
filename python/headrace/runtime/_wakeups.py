"""How a coroutine learns that its attempt has something, on asyncio and on trio.

1. asyncio: one descriptor for all attempts of a runtime, watched once by the loop; its callback wakes those that
   have something. Watching a descriptor anew for each wait would cost as much as the rest of a wake-up.
2. Elsewhere: a descriptor per attempt, waited for through anyio.
3. No wake-up is lost: an attempt signals again after each `take`, and nothing runs between an empty one and the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

    from headrace._bridge import BackgroundAttemptRef, KernelRef

__all__ = ["Wakeups", "wakeups"]


CLOSED: Final = "the runtime is closed"


class Wakeups(Protocol):
    """Waiting for attempts."""

    #: Whether each attempt needs a descriptor of its own.
    own_signal: bool

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        """Wait until the attempt has something. If cancelled: nothing is lost.

        - Raises `RuntimeError`: closed.
        """

    def wake(self, attempt: BackgroundAttemptRef) -> None:
        """Let who waits for this attempt look again."""

    def close(self) -> None:
        """Stop watching, and wake everybody who waits."""


class _Asyncio:
    own_signal = False

    def __init__(self, kernel: KernelRef, loop: asyncio.AbstractEventLoop) -> None:
        #: None once closed: whoever holds on to a stream must not hold the kernel's idle connections with it.
        self._kernel: KernelRef | None = kernel
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(kernel.fileno(), self._wake)

    def _wake(self) -> None:
        for number in self._kernel.ready() if self._kernel is not None else ():
            self._tell(number)

    def _tell(self, number: int) -> None:
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        if self._kernel is None:
            raise RuntimeError(CLOSED)
        future = self._waiting[attempt.id] = self._loop.create_future()
        try:
            await future
        finally:
            self._waiting.pop(attempt.id, None)

    def wake(self, attempt: BackgroundAttemptRef) -> None:
        self._tell(attempt.id)

    def close(self) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fileno())
        self._kernel = None
        for number in list(self._waiting):
            self._tell(number)


class _Anyio:
    own_signal = True

    def __init__(self) -> None:
        self._waiting: dict[int, BackgroundAttemptRef] = {}
        self._closed = False

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        import anyio

        if self._closed:
            raise RuntimeError(CLOSED)
        self._waiting[attempt.id] = attempt
        try:
            await anyio.wait_readable(attempt.fileno())
        except anyio.ClosedResourceError:
            return  # that is how `wake` is heard
        finally:
            self._waiting.pop(attempt.id, None)
        attempt.clear()

    def wake(self, attempt: BackgroundAttemptRef) -> None:
        import anyio

        if attempt.id in self._waiting:
            anyio.notify_closing(attempt.fileno())

    def close(self) -> None:
        self._closed = True
        for attempt in list(self._waiting.values()):
            self.wake(attempt)


def wakeups(kernel: KernelRef) -> Wakeups:
    """Choose by the event loop that runs."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _Anyio()
    return _Asyncio(kernel, loop)
