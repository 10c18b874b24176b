"""Work that blocks, done in a thread, and ended when nobody wants it any more."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Stopped", "Stopper", "in_thread"]

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - no error: the work is not wanted any more
    """The work was cancelled."""


class Stopper:
    """Tells work in a thread that it is to stop."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def stop(self) -> None:
        """Ask it to stop."""
        self._event.set()

    def check(self) -> None:
        """Stop here if that was asked. To be called in every loop.

        Raises `Stopped`: it was.
        """
        if self._event.is_set():
            raise Stopped


async def in_thread(work: Callable[[Stopper], T]) -> T:
    """Do work in a thread.

    If cancelled: the work is asked to stop, and has stopped when the cancellation goes on.
    """
    stopper = Stopper()
    task = asyncio.ensure_future(asyncio.to_thread(work, stopper))
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        stopper.stop()
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                continue
        task.exception()
        raise
    return task.result()
