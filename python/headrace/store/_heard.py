"""Listeners within a process: who hears what, and what happens to one that is slow.

Never here: where notices come from.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from headrace.store._face import QUEUE_LIMIT, Heard, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["Ears"]


class _Ear:
    """One listener. Bounded: what it is too slow for becomes one None."""

    def __init__(self) -> None:
        self._queue: deque[Heard] = deque()
        self._more = asyncio.Event()
        self._closed = False

    def put(self, text: Heard) -> None:
        if len(self._queue) >= QUEUE_LIMIT:
            self._queue.clear()
            text = None
        if text is None and self._queue and self._queue[-1] is None:
            return
        self._queue.append(text)
        self._more.set()

    def close(self) -> None:
        self._closed = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[Heard]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._more.clear()
            await self._more.wait()


class Ears:
    """All listeners of one store."""

    def __init__(self) -> None:
        self._by_channel: dict[str, list[_Ear]] = {}

    @property
    def anybody(self) -> bool:
        """Whether somebody listens."""
        return bool(self._by_channel)

    @property
    def channels(self) -> list[str]:
        """The channels that somebody listens on."""
        return list(self._by_channel)

    @contextlib.contextmanager
    def listener(self, channel: str) -> Iterator[_Ear]:
        """Listen within the block."""
        ear = _Ear()
        self._by_channel.setdefault(channel, []).append(ear)
        try:
            yield ear
        finally:
            ears = self._by_channel.get(channel, [])
            if ear in ears:
                ears.remove(ear)
            if not ears:
                self._by_channel.pop(channel, None)

    def hear(self, channel: str, text: Heard) -> None:
        """Pass a notice to those who listen on its channel."""
        for ear in self._by_channel.get(channel, ()):
            ear.put(text)

    def missed(self) -> None:
        """Tell everybody that something may have been missed."""
        for channel in self._by_channel:
            self.hear(channel, None)

    def close(self) -> None:
        """End every listener."""
        for ears in self._by_channel.values():
            for ear in ears:
                ear.close()
