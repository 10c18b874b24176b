"""How a coroutine learns that its attempt has something, on asyncio and on trio.

1. asyncio: one descriptor for all attempts of a runtime, watched once by the loop; its callback wakes those that
   have something. Watching a descriptor anew for each wait would cost as much as the rest of a wake-up.
2. Elsewhere: a descriptor per attempt, waited for through anyio.
3. No wake-up is lost: an attempt signals again after each `take`, and nothing runs between an empty one and the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from headrace._bridge import BackgroundAttemptRef, KernelRef

__all__ = ["Wakeups", "wakeups"]


class Wakeups(Protocol):
    """Waiting for attempts."""

    #: Whether each attempt needs a descriptor of its own.
    own_signal: bool

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        """Wait until the attempt has something. If cancelled: nothing is lost."""

    def close(self) -> None:
        """Stop watching."""


class _Asyncio:
    own_signal = False

    def __init__(self, kernel: KernelRef, loop: asyncio.AbstractEventLoop) -> None:
        self._kernel = kernel
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(kernel.fileno(), self._wake)

    def _wake(self) -> None:
        for number in self._kernel.ready():
            future = self._waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        future = self._waiting[attempt.id] = self._loop.create_future()
        try:
            await future
        finally:
            self._waiting.pop(attempt.id, None)

    def close(self) -> None:
        self._loop.remove_reader(self._kernel.fileno())


class _Anyio:
    own_signal = True

    async def wait(self, attempt: BackgroundAttemptRef) -> None:
        import anyio

        await anyio.wait_readable(attempt.fileno())
        attempt.clear()

    def close(self) -> None:
        pass


def wakeups(kernel: KernelRef) -> Wakeups:
    """Choose by the event loop that runs."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _Anyio()
    return _Asyncio(kernel, loop)
