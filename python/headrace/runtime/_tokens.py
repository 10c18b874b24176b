"""Tokens for a runtime: the keeper on a thread of its own, and decisions that wait for it on any face.

1. A runtime without a credential that gets its tokens itself has no such thread.
2. A decision that waits gives the event that it waits for. Whoever drives it may be called off and go on later.
3. A refresh under way is not lost at the runtime's end: its thread ends when it has been written.

Never here: what is done with a token.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Generator, Iterable

    from headrace.config import Store
    from headrace.credentials import Pool
    from headrace.credentials.oauth import Keeper, TokenError
    from headrace.requests import Secret

__all__ = ["Pending", "TokenThread"]

T = TypeVar("T")

#: Seconds that closing waits for the thread; a refresh under way goes on behind it.
CLOSE_S: Final = 1.0


class Pending(Generic[T]):
    """A decision that waits for a token.

    - `deciding`: gives events to wait for, and at its end what was decided.
    - `then`: what is made of that.
    """

    def __init__(self, deciding: Coroutine[Any, Any, Any], then: Callable[[Any], T]) -> None:
        self._deciding = deciding
        self._then = then
        #: It has been decided.
        self.done: bool = False

    def wait(self) -> T:
        """Wait in this thread."""
        while True:
            try:
                event = self._deciding.send(None)
            except StopIteration as end:
                self.done = True
                return self._then(end.value)
            event.wait()

    async def wait_async(self) -> T:
        """Wait on asyncio or trio. If cancelled: it may be called again, and goes on."""
        import anyio

        while True:
            try:
                event = self._deciding.send(None)
            except StopIteration as end:
                self.done = True
                return self._then(end.value)
            if not event.is_set():
                await anyio.to_thread.run_sync(event.wait, abandon_on_cancel=True)

    def close(self) -> None:
        """Forget it."""
        self._deciding.close()


class _Answer:
    """Gives an event until something is there, and then that."""

    def __init__(self, asked: Any) -> None:
        self._asked = asked
        self._event = threading.Event()
        asked.add_done_callback(lambda _: self._event.set())

    def __await__(self) -> Generator[threading.Event, None, TokenError | None]:
        while not self._event.is_set():
            yield self._event
        answer: TokenError | None = self._asked.result()
        return answer


class TokenThread:
    """A `TokenKeeper` beside whatever loop the caller has, or none."""

    def __init__(self, store: Store) -> None:
        self._settings = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper: Keeper | None = None
        self._thread: threading.Thread | None = None

    def watch(self, pools: Iterable[Pool], /) -> None:
        """Keep the tokens of these pools' members; starts the thread if there are any."""
        own = [pool for pool in pools if pool.grants()]
        if not own or self._thread is not None:
            return
        import asyncio
        import random

        from headrace.credentials.oauth import Keeper
        from headrace.credentials.vault import vault_of

        store = self._settings
        self._keeper = Keeper(
            store.url,
            vault=lambda: vault_of(store.key, store.url, os.environ),
            clock=time.time,
            random=random.SystemRandom().random,
        )
        self._keeper.watch(own)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="headrace-tokens")
        self._thread.start()
        self._start(self._keeper.start(), self._loop)

    async def renew(self, provider: str, credential: str, refused: Secret | None) -> TokenError | None:
        """See `Keeper.renew`. Gives events while it waits."""
        if self._keeper is None or self._loop is None or self._loop.is_closed():
            from headrace.credentials.oauth import TokenError

            return TokenError("the runtime is closed")
        return await _Answer(self._start(self._keeper.renew(provider, credential, refused), self._loop))

    @staticmethod
    def _start(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
        """Begin work on the thread's loop, and give its future."""
        import asyncio
        import contextvars

        # Of the caller's context nothing is taken along: it may say that trio runs here.
        return contextvars.Context().run(lambda: asyncio.run_coroutine_threadsafe(work, loop))

    def close(self) -> None:
        """End the thread, once what is under way has been written. Waits a moment at most."""
        loop, keeper, thread = self._loop, self._keeper, self._thread
        if loop is None or keeper is None or thread is None or not thread.is_alive():
            return
        stopping = self._start(keeper.stop(), loop)
        stopping.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        thread.join(CLOSE_S)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
