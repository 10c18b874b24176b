"""The embedded store: SQLite by apsw, one writer, readers beside it.

1. Until its first write a transaction reads on a reader's connection, each statement what is committed; from its first
   write on it has the writer's turn, and reads there too.
2. Named locks are held outside the database, so that who waits for the world under one stops nobody's writes.
3. Notices are rows. Listeners of this process are woken by its commits; others hear that the log of writes (`-wal`) was
   written to, and read: an idle process must cost nothing, and a look is a turn of a thread.

Never here: SQL of a domain.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from headrace.store import _face
from headrace.store._face import LOCK_WAIT_S, StoreError, StoreUnavailable, check_notice
from headrace.store._heard import Ears
from headrace.store._locks import NameLocks
from headrace.store._threads import ConnectionThread, connect
from headrace.store._writer import Writer
from headrace.store._written import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import apsw

    from headrace.store._face import Dialect, Schema, Transaction, Value

__all__ = ["SqliteStore"]

#: Connections that read at the same time, at most; each has a thread.
READERS: Final = 4
#: Seconds after a look that failed.
RETRY_S: Final = 1.0
#: Seconds that a notice stays for others to see.
KEPT_S: Final = 60

T = TypeVar("T")

_READS: Final = re.compile(
    r"\s*(?:SELECT|VALUES|EXPLAIN|WITH(?!.*\b(?:INSERT|UPDATE|DELETE|REPLACE)\b))\b", re.IGNORECASE | re.DOTALL
)
#: A row lock is the writer's turn here.
_ROW_LOCK: Final = re.compile(
    r"\s+FOR\s+(?:NO\s+KEY\s+)?UPDATE(?:\s+SKIP\s+LOCKED|\s+NOWAIT)?\s*;?\s*\Z", re.IGNORECASE
)
#: The places of one row's values.
_PLACES: Final = re.compile(r"\bVALUES\s*(\((?:\s*\?\s*,?)+\))", re.IGNORECASE)
#: Rows of one statement, the most first. Each statement is a way through apsw and a turn of the interpreter's lock;
#: more rows at once save little.
WIDE: Final = (32, 4)
_COUNTS: Final = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|WITH)\b", re.IGNORECASE)

_NOTICES: Final = """CREATE TABLE IF NOT EXISTS headrace_notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, text TEXT NOT NULL, at INTEGER NOT NULL)"""


@lru_cache(maxsize=512)
def _read(sql: str) -> tuple[str, bool, bool]:
    """Give the statement as SQLite takes it, whether it only reads, and whether it counts rows."""
    plain = _ROW_LOCK.sub("", sql)
    return plain, plain == sql and _READS.match(sql) is not None, _COUNTS.match(sql) is not None


@lru_cache(maxsize=64)
def _wide(sql: str) -> tuple[tuple[int, str], ...]:
    """Give an INSERT of one row as statements of many, with how many that are; nothing for any other statement."""
    found = _PLACES.search(sql)
    if found is None or found[1].count("?") != sql.count("?"):
        return ()
    head, places, tail = sql[: found.start(1)], found[1], sql[found.end(1) :]
    return tuple((many, head + ", ".join([places] * many) + tail) for many in WIDE)


def _execute_rows(connection: apsw.Connection, sql: str, rows: Sequence[Sequence[Value]]) -> None:
    """Carry out a statement for each row."""
    at = 0
    for many, wide in _wide(sql) if len(rows) >= WIDE[-1] else ():
        while len(rows) - at >= many:
            connection.execute(wide, tuple(chain.from_iterable(rows[at : at + many])))
            at += many
    if at < len(rows):
        connection.executemany(sql, rows[at:] if at else rows)


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)


class SqliteStore:
    """An open SQLite store. `await SqliteStore.open(path)`; None is in memory."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path | None, *, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._write = ConnectionThread(self._for_writing, name="headrace-store")
        self._readers: list[ConnectionThread] = []
        self._free: list[ConnectionThread] = []
        self._reading = asyncio.Semaphore(READERS)
        self.writer = Writer(self._write, grouped=path is not None)
        self.locks = NameLocks(None if path is None else path.with_name(path.name + "-locks"))
        self._ears = Ears()
        self._watch: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._written: Written | None = None
        self._listening = asyncio.Lock()
        self._notices: Notices | None = None
        self._closed = False

    @classmethod
    async def open(cls, path: Path | None, *, synchronous: str = "full") -> SqliteStore:
        """Open or make a database.

        Raises `StoreUnavailable`: it cannot be made or is none.
        """
        if path is not None:
            try:
                # What it holds is the user's alone; SQLite gives its other files the same mode.
                await asyncio.to_thread(_make, path)
            except OSError as error:
                raise StoreUnavailable(f"{path}: {error.strerror}") from None
        store = cls(path, synchronous=synchronous)
        try:
            await store._write.run(lambda connection: connection.execute("PRAGMA schema_version").fetchall())
        except BaseException as error:
            await store._write.close()
            if isinstance(error, StoreError) and path is not None:
                raise StoreUnavailable(f"{path}: {error}") from None
            raise
        return store

    def transaction(self, *, read_only: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction, as the contract says."""
        return _Snapshot(self) if read_only and self._path is not None else _Transaction(self, read_only=read_only)

    async def at_once(self, guard: tuple[str, Sequence[Value]], *rest: tuple[str, Sequence[Sequence[Value]]]) -> bool:
        """Carry out a whole transaction with one turn of the writing thread."""
        first, args = _read(guard[0])[0], guard[1]
        others = [(_read(sql)[0], rows) for sql, rows in rest]

        def job(connection: apsw.Connection) -> bool:
            connection.execute(first, args).fetchall()
            if not connection.changes():
                return False
            for sql, rows in others:
                _execute_rows(connection, sql, rows)
            return True

        await self.writer.acquire()
        return await self.writer.whole(job)

    async def write(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        """Carry out statements in a transaction of their own, with one turn of the writing thread."""
        plain = [(_read(sql)[0], rows) for sql, rows in statements]

        def job(connection: apsw.Connection) -> bool:
            for sql, rows in plain:
                _execute_rows(connection, sql, rows)
            return True

        await self.writer.acquire()
        await self.writer.whole(job)

    @contextlib.asynccontextmanager
    async def listen(self, channel: str) -> Any:
        """Hear what is notified on a channel from now on."""
        check_notice(channel, "")
        if self._path is not None:
            async with self._listening:
                await self._listen_to_file(self._path)
        with self._ears.listener(channel) as listener:
            yield listener

    async def migrate(self, *schemas: Schema) -> None:
        """Bring tables up to date."""
        await _face.migrate(self, schemas)

    async def versions(self) -> dict[str, int]:
        """Give each component's version."""
        return await _face.versions(self)

    async def close(self) -> None:
        """Close every connection."""
        if self._closed:
            return
        self._closed = True
        if self._written is not None:
            self._written.close()
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        self._ears.close()
        for thread in (*self._readers, self._write):
            await thread.close()
        self.locks.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def in_memory(self) -> bool:
        """Whether there is one connection and no file."""
        return self._path is None

    async def reader(self) -> ConnectionThread:
        """Take a reading connection; give it back with `give_back`."""
        await self._reading.acquire()
        if self._free:
            return self._free.pop()
        thread = ConnectionThread(self._for_reading, name=f"headrace-store-reader-{len(self._readers)}")
        self._readers.append(thread)
        return thread

    def give_back(self, reader: ConnectionThread) -> None:
        """Let others read with it."""
        self._free.append(reader)
        self._reading.release()

    def run(self, job: Any) -> asyncio.Future[Any]:
        """Run a job on the writing connection."""
        return self._write.run(job)

    def committed(self, notices: Sequence[tuple[str, str]]) -> None:
        """Let this process's listeners hear at once."""
        if self._path is None:
            for channel, text in notices:
                self._ears.hear(channel, text)
        elif notices:
            self._woken.set()

    def _for_writing(self) -> apsw.Connection:
        return connect(self._path, synchronous=self._synchronous)

    def _for_reading(self) -> apsw.Connection:
        return connect(self._path, synchronous=self._synchronous, read_only=True)

    async def _listen_to_file(self, path: Path) -> None:
        if self._notices is None:
            async with self.transaction() as tx:
                await tx.execute(_NOTICES)
            reader = ConnectionThread(self._for_reading, name="headrace-store-watch")
            self._readers.append(reader)
            self._notices = Notices(reader)
            loop = asyncio.get_running_loop()
            self._watch = loop.create_task(self._watching(self._notices))
            self._written = Written(loop, path.with_name(path.name + "-wal"), self._wake)
        if not self._ears.anybody:
            await self._notices.skip()

    def _wake(self) -> None:
        if self._ears.anybody:
            self._woken.set()

    async def _watching(self, notices: Notices) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not self._ears.anybody:
                continue
            try:
                found = await notices.look()
            except StoreError:
                self._ears.missed()
                await asyncio.sleep(RETRY_S)
                self._woken.set()
                continue
            for channel, text in found:
                self._ears.hear(channel, text)


class Notices:
    """Reads the rows that were notified since the last look.

    - `reader`: a connection that nobody else uses: what it has seen changes with every statement.
    """

    def __init__(self, reader: ConnectionThread) -> None:
        self._reader = reader
        self._version = -1
        self._last = 0

    async def skip(self) -> None:
        """Pass over what is there."""

        def job(connection: apsw.Connection) -> None:
            rows: list[Any] = connection.execute("SELECT coalesce(max(id), 0) FROM headrace_notices").fetchall()
            self._last = max(self._last, rows[0][0])

        await self._reader.run(job)

    async def look(self) -> list[tuple[str, str]]:
        """Give what is new, as (channel, text)."""

        def job(connection: apsw.Connection) -> list[Any]:
            version = connection.pragma("data_version")
            if version == self._version:
                return []
            self._version = version
            sql = "SELECT id, channel, text FROM headrace_notices WHERE id > ? ORDER BY id"
            return connection.execute(sql, (self._last,)).fetchall()

        found = await self._reader.run(job)
        if found:
            self._last = found[-1][0]
        return [(channel, text) for _, channel, text in found]


def _nothing(_connection: apsw.Connection) -> None:
    """Read nothing yet."""


class _Transaction:
    """A transaction that may write."""

    def __init__(self, store: SqliteStore, *, read_only: bool) -> None:
        self._store = store
        self._read_only = read_only
        self._locks: list[str] = []
        self._notices: list[tuple[str, str]] = []
        self._writing = False
        self._failed: BaseException | None = None
        self._left = False

    async def __aenter__(self) -> Self:
        if self._read_only:
            # In memory there is one connection: one state for all reads is the writer's turn.
            try:
                await self._begin(_nothing)
            except BaseException as error:
                await self.__aexit__(type(error), error, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        keep = kind is None and self._failed is None
        if not self._writing:
            self._free_locks()
            if keep:
                self._store.committed(self._notices)
        else:
            self._writing = False
            ended = self._store.writer.end(keep=keep, alone=bool(self._locks))
            if keep:
                ended.add_done_callback(self._told)
            elif self._locks:
                ended.add_done_callback(lambda _: self._free_locks())
            # Whoever is cancelled here leaves; the commit goes on.
            await asyncio.shield(ended)
        if kind is None and self._failed is not None:
            raise StoreError(
                "an error within this transaction was passed over; nothing of it was kept"
            ) from self._failed

    async def execute(self, sql: str, *args: Value) -> int:
        plain, _, counts = _read(sql)

        def job(connection: apsw.Connection) -> int:
            connection.execute(plain, args).fetchall()
            return connection.changes() if counts else 0

        return int(await self._run(job))

    async def execute_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        await self.execute_batch((sql, rows))

    async def execute_batch(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        plain = [(_read(sql)[0], rows) for sql, rows in statements]

        def job(connection: apsw.Connection) -> None:
            for sql, rows in plain:
                _execute_rows(connection, sql, rows)

        await self._run(job)

    async def fetch(self, sql: str, *args: Value) -> list[tuple[Any, ...]]:
        plain, reads, _ = _read(sql)

        def job(connection: apsw.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(plain, args).fetchall()

        if not reads:
            return list(await self._run(job))
        if self._writing:
            self._check()
            return list(await self._guard(self._store.run(job)))
        self._check()
        store = self._store
        if store.in_memory:
            await store.writer.acquire()
            try:
                return list(await self._guard(store.run(job)))
            finally:
                store.writer.release()
        reader = await store.reader()
        try:
            return list(await self._guard(reader.run(job)))
        finally:
            store.give_back(reader)

    async def lock(self, name: str, *, wait: float = LOCK_WAIT_S) -> None:
        self._check()
        if self._writing:
            raise ValueError("a lock comes before the transaction's first write")
        if name not in self._locks:
            await self._store.locks.acquire(name, wait=wait)
            self._locks.append(name)

    async def notify(self, channel: str, text: str) -> None:
        check_notice(channel, text)
        if not self._store.in_memory:

            def job(connection: apsw.Connection) -> None:
                connection.execute(_NOTICES)
                connection.execute(
                    "INSERT INTO headrace_notices (channel, text, at) VALUES (?, ?, unixepoch())", (channel, text)
                )
                connection.execute("DELETE FROM headrace_notices WHERE at < unixepoch() - ?", (KEPT_S,))

            await self._run(job)
        self._notices.append((channel, text))

    async def _run(self, job: Any) -> Any:
        self._check()
        if self._read_only:
            raise StoreError("this transaction only reads")
        if self._writing:
            return await self._guard(self._store.run(job))
        return await self._begin(job)

    async def _begin(self, job: Callable[[apsw.Connection], T]) -> T:
        """Take the turn, with its first job on the same way."""
        writer = self._store.writer
        await writer.acquire()
        began, future = writer.begin(job)
        try:
            result = await future
        except BaseException as error:
            # Cancelled, it may have begun or will: what is rolled back behind it may be nothing.
            if began or isinstance(error, asyncio.CancelledError):
                self._writing = True
                self._failed = error
            else:
                writer.release()
            raise
        self._writing = True
        return result

    async def _guard(self, future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except BaseException as error:
            self._failed = error
            raise

    def _check(self) -> None:
        if self._left:
            raise StoreError("the transaction has ended")
        if self._failed is not None:
            raise StoreError("the transaction has failed, and nothing more can be done with it") from self._failed

    def _told(self, ended: asyncio.Future[bool]) -> None:
        self._free_locks()
        if not ended.cancelled() and ended.exception() is None:
            self._store.committed(self._notices)

    def _free_locks(self) -> None:
        for name in reversed(self._locks):
            self._store.locks.release(name)
        self._locks.clear()


class _Snapshot:
    """A transaction that reads one state, on a connection of its own."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._reader: ConnectionThread | None = None

    async def __aenter__(self) -> Self:
        reader = await self._store.reader()
        try:
            await asyncio.shield(reader.run(lambda connection: connection.execute("BEGIN").fetchall()))
        except BaseException:
            self._end(reader)
            raise
        self._reader = reader
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._end(reader)

    async def fetch(self, sql: str, *args: Value) -> list[tuple[Any, ...]]:
        if self._reader is None:
            raise StoreError("the transaction has ended")
        plain, reads, _ = _read(sql)
        if not reads:
            raise StoreError("this transaction only reads")
        return list(await self._reader.run(lambda connection: connection.execute(plain, args).fetchall()))

    async def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise StoreError("this transaction only reads")

    execute = execute_many = execute_batch = lock = notify = _refuse

    def _end(self, reader: ConnectionThread) -> None:
        # Behind whatever statement still runs there.
        done = reader.run(
            lambda connection: connection.execute("ROLLBACK").fetchall() if connection.in_transaction else []
        )
        done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self._store.give_back(reader)
