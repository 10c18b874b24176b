"""A thread that owns one SQLite connection, and what it answers to an event loop.

1. Jobs run in the order in which they were given, each to its end; who no longer waits for one changes nothing.
2. SQLite's errors become ours here.

Never here: transactions, an order between threads.
"""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.store._face import ConstraintViolated, StoreConflict, StoreError, StoreUnavailable, ValueRefused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import apsw

__all__ = ["BUSY_S", "ConnectionThread", "connect", "our_error"]

#: Seconds that a statement waits for another process's write: longer than any transaction should write.
BUSY_S: Final = 10.0
#: Bytes of a WAL file that is kept between checkpoints.
WAL_KEPT: Final = 16 * 1024 * 1024

T = TypeVar("T")


class ConnectionThread:
    """Runs jobs on a connection of its own.

    - `connect`: opens the connection, on that thread, before the first job.
    """

    def __init__(self, connect: Callable[[], apsw.Connection], *, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[Any], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._connect = connect
        self._closed = False
        # A daemon: a program that ends without closing its store loses nothing that was promised.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, job: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Queue a job. If its future is cancelled, the job runs all the same."""
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreUnavailable("the store is closed"))
        else:
            self._jobs.put((job, future))
        return future

    async def close(self) -> None:
        """Let the queued jobs end, then close the connection."""
        if not self._closed:
            self._closed = True
            done: asyncio.Future[None] = self._loop.create_future()
            self._jobs.put((_close, done))
            self._jobs.put(None)
            await done

    def _work(self) -> None:
        connection: apsw.Connection | None = None
        while (entry := self._jobs.get()) is not None:
            job, future = entry
            try:
                if connection is None and job is not _close:
                    connection = self._connect()
                result = job(connection)
            except Exception as error:  # noqa: BLE001 - it goes to whoever waits for the job
                self._tell(future, None, our_error(error))
            else:
                self._tell(future, result, None)

    def _tell(self, future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            return  # the loop is closed, and nobody waits


def _close(connection: apsw.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _settle(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def connect(path: Path | None, *, synchronous: str, read_only: bool = False) -> apsw.Connection:
    """Open a connection with the settings that all have."""
    import apsw

    if path is None:
        connection = apsw.Connection(":memory:")
    else:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
        connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(int(BUSY_S * 1000))
    if path is not None and not read_only:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT}").fetchall()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only and path is not None:
        connection.execute("PRAGMA query_only = ON")
    return connection


def our_error(error: Exception) -> Exception:
    """Give our class of a job's error: of SQLite's and of what it cannot take. Others stay what they are.

    A message names tables and columns, never values.
    """
    import apsw

    if isinstance(error, apsw.Error):
        return _in_our_words(error)
    return ValueRefused(str(error)) if isinstance(error, (OverflowError, TypeError, UnicodeError)) else error


def _in_our_words(error: Exception) -> StoreError:
    import apsw

    if isinstance(error, apsw.ConstraintError):
        return ConstraintViolated(str(error))
    if isinstance(error, (apsw.TooBigError, apsw.MismatchError)):
        return ValueRefused(str(error))
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreConflict(f"another process has been writing for {BUSY_S:g} s")
    away = (apsw.CantOpenError, apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError, apsw.ReadOnlyError)
    if isinstance(error, (*away, apsw.PermissionsError, apsw.ConnectionClosedError)):
        return StoreUnavailable(str(error))
    return StoreError(str(error))
