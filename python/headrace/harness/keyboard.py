"""Lines that somebody types, without holding up the event loop, so that Ctrl-C is heard meanwhile."""

from __future__ import annotations

import asyncio
import os

__all__ = ["Lines"]

READ = 4096


class Lines:
    """Reads lines of a descriptor.

    If cancelled: what was typed is kept for the next call.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._typed = b""
        self._ended = False

    async def next(self) -> str | None:
        """Give the next line without its end; None after the last."""
        while b"\n" not in self._typed and not self._ended:
            await self._readable()
            try:
                more = os.read(self._descriptor, READ)
            except OSError:
                more = b""  # the terminal is gone
            self._typed += more
            self._ended = not more
        line, _, self._typed = self._typed.partition(b"\n")
        if self._ended and not line and not self._typed:
            return None
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:
            return  # a regular file: it never makes anybody wait
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
