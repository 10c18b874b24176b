"""Named locks between processes on one machine: byte ranges of a file beside the database.

1. A lock is one byte at the position that its name hashes to, locked through an open file description: it ends with
   the process, however that ends, and two stores of one process exclude each other too.
2. Waiting is asking again: a thread that waits in the kernel could not be called off.

Never here: the database's own locks.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

from headrace.store._face import StoreConflict, StoreUnavailable, lock_number

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NameLocks"]

#: Seconds between two tries, from the first to the slowest.
FIRST_TRY_S: Final = 0.002
SLOWEST_TRY_S: Final = 0.05
#: `struct flock` of 64-bit Linux and macOS: (type, whence, start, length, pid) and (start, length, pid, type, whence).
_LINUX: Final = "hhqqi4x"
_MACOS: Final = "qqihh"


class NameLocks:
    """Locks by name.

    - `path`: the file; None: within this process only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._fd: int | None = None
        self._here: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    async def acquire(self, name: str, *, wait: float) -> None:
        """Wait until the name is free, and hold it.

        Raises `StoreConflict`: it was not free within `wait` seconds. If cancelled: it is not held.
        """
        lock = self._here.setdefault(name, asyncio.Lock())
        self._users[name] = self._users.get(name, 0) + 1
        try:
            async with asyncio.timeout(wait):
                await lock.acquire()
                try:
                    await self._from_others(name)
                except BaseException:
                    lock.release()
                    raise
        except TimeoutError:
            self._forget(name)
            raise StoreConflict(f"the lock {name!r} was not free within {wait:g} s") from None
        except BaseException:
            self._forget(name)
            raise

    def release(self, name: str) -> None:
        """Let others have it."""
        if self._fd is not None:
            self._set(fcntl.F_UNLCK, name)
        self._here[name].release()
        self._forget(name)

    def close(self) -> None:
        """Let everything go."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _forget(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name], self._here[name]

    async def _from_others(self, name: str) -> None:
        if self._path is None:
            return
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StoreUnavailable(f"{self._path}: {error.strerror}") from None
        pause = FIRST_TRY_S
        while not self._set(fcntl.F_WRLCK, name):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, SLOWEST_TRY_S)

    def _set(self, kind: int, name: str) -> bool:
        if self._fd is None:
            raise StoreUnavailable("the store is closed")
        where = lock_number(name)
        if os.uname().sysname == "Darwin":
            asked = struct.pack(_MACOS, where, 1, 0, kind, os.SEEK_SET)
        else:
            asked = struct.pack(_LINUX, kind, os.SEEK_SET, where, 1, 0)
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, asked)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from None
        return True
