"""The store of many machines: PostgreSQL, or what speaks its protocol and has row locks, by asyncpg.

1. READ COMMITTED; what must not change between a read and a write is locked, as the contract says.
2. A named lock is an advisory lock of the transaction.
3. A connection that was lost is an error of the transaction that it carried and of no other; the next takes another.

Never here: SQL of a domain.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.store import _face
from headrace.store._face import (
    LOCK_WAIT_S,
    ConstraintViolated,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    ValueRefused,
    check_notice,
    lock_number,
)
from headrace.store._heard import Ears
from headrace.store._locks import NameLocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from headrace.store._face import Dialect, Schema, Transaction, Value

__all__ = ["PostgresStore"]

#: Connections of one process, at most: a server has 100 by default, for all nodes.
CONNECTIONS: Final = 8
#: Of them, those that transactions with named locks never take.
SPARE: Final = 2
#: Seconds to connect, and to wait for a free connection.
CONNECT_S: Final = 5.0
#: Seconds that one statement may take.
STATEMENT_S: Final = 90.0
#: Seconds between two looks whether the connection that listens still has a peer.
ASK_S: Final = 5.0
#: Seconds between two tries to listen again.
RETRY_S: Final = 0.5

_COUNTED: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")


@lru_cache(maxsize=512)
def _numbered(sql: str) -> str:
    """Write `?` as `$1`, `$2`, ...; not within quotes."""
    if "?" not in sql:
        return sql
    out: list[str] = []
    quote = ""
    count = 0
    for char in sql:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "?":
            count += 1
            out.append(f"${count}")
            continue
        out.append(char)
    return "".join(out)


@contextlib.contextmanager
def _in_our_words() -> Any:
    """Give asyncpg's errors our classes. Details are left out: they hold values of rows."""
    import asyncpg

    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        raise ConstraintViolated(str(error.args[0])) from None
    except (
        asyncpg.DeadlockDetectedError,
        asyncpg.SerializationError,
        asyncpg.LockNotAvailableError,
        asyncpg.UniqueViolationError,
    ) as error:
        raise StoreConflict(str(error.args[0])) from None
    except (
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.ReadOnlySQLTransactionError,
    ) as error:
        raise StoreUnavailable(f"PostgreSQL: {error.args[0]}") from None
    except asyncpg.DataError as error:
        raise ValueRefused(str(error.args[0]).partition(":")[0]) from None
    except asyncpg.PostgresError as error:
        raise StoreError(str(error.args[0])) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(f"PostgreSQL: {error}") from None
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {type(error).__name__}") from None


class PostgresStore:
    """An open PostgreSQL store. `await PostgresStore.open(url)`."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: str, pool: Any) -> None:
        self._url = url
        self.pool = pool
        self.names = NameLocks(None)
        #: Who holds a lock may wait for the world with its connection; the others go on with those that are left.
        self.slots = asyncio.Semaphore(CONNECTIONS - SPARE)
        self._ears = Ears()
        self._hearing: asyncio.Task[None] | None = None
        self._ear: Any = None
        self._listening = asyncio.Lock()
        self._heard: set[str] = set()
        self._closed = False

    @classmethod
    async def open(cls, url: str) -> PostgresStore:
        """Connect.

        Raises `StoreUnavailable`: it cannot be reached. `StoreError`: asyncpg is not installed.
        """
        try:
            import asyncpg
        except ImportError:
            raise StoreError("a postgresql:// store needs asyncpg: pip install 'headrace[postgres]'") from None
        with _in_our_words():
            try:
                pool = asyncpg.create_pool(
                    url,
                    min_size=0,
                    max_size=CONNECTIONS,
                    timeout=CONNECT_S,
                    command_timeout=STATEMENT_S,
                    reset=_no_reset,
                    server_settings={"application_name": "headrace"},
                )
                await pool
                await pool.release(await pool.acquire(timeout=CONNECT_S))
            except ValueError:
                # Its words may hold a piece of the password.
                raise StoreError(
                    "the store's URL cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                    "with %40 for an @ and %2F for a / in the password"
                ) from None
        return cls(url, pool)

    def transaction(self, *, read_only: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction, as the contract says."""
        return _Transaction(self, read_only=read_only)

    async def at_once(self, guard: tuple[str, Sequence[Value]], *rest: tuple[str, Sequence[Sequence[Value]]]) -> bool:
        """Carry out a whole transaction: a lone guard goes and is committed with one round trip."""
        if not rest:
            return _rows(await self._alone("execute", _numbered(guard[0]), *guard[1])) > 0
        async with self.transaction() as tx:
            wrote = await tx.execute(guard[0], *guard[1]) > 0
            if wrote:
                await tx.execute_batch(*rest)
        return wrote

    async def write(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        """Carry out statements in a transaction of their own: a single one goes with one round trip."""
        written = [(sql, rows) for sql, rows in statements if rows]
        if len(written) > 1:
            async with self.transaction() as tx:
                await tx.execute_batch(*written)
            return
        for sql, rows in written:
            # The server makes a transaction of all that comes before one Sync.
            try:
                await self._alone("executemany", _numbered(sql), rows)
            except StoreUnavailable:
                # A pooled connection may have died unseen; and done twice is as done once.
                await self._alone("executemany", _numbered(sql), rows)

    async def _alone(self, method: str, *args: Any) -> str:
        with _in_our_words():
            connection = await self.pool.acquire(timeout=CONNECT_S)
        try:
            with _in_our_words():
                status = await getattr(connection, method)(*args)
        except BaseException as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreUnavailable):
                await self.pool.release(connection)
            else:
                await _drop(self.pool, connection)
            raise
        await self.pool.release(connection)
        return str(status)

    @contextlib.asynccontextmanager
    async def listen(self, channel: str) -> Any:
        """Hear what is notified on a channel from now on."""
        check_notice(channel, "")
        with self._ears.listener(channel) as listener:
            async with self._listening:
                await self._listen_to(channel)
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
        if self._hearing is not None:
            self._hearing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._hearing
        self._ears.close()
        if self._ear is not None:
            self._ear.terminate()
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.pool.close()
        except (TimeoutError, OSError):
            self.pool.terminate()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _listen_to(self, channel: str) -> None:
        if self._ear is None or self._ear.is_closed():
            await self._connect_ear()
        if channel not in self._heard:
            with _in_our_words():
                await self._ear.add_listener(channel, self._on_notice)
            self._heard.add(channel)
        if self._hearing is None:
            self._hearing = asyncio.get_running_loop().create_task(self._keep_hearing())

    async def _connect_ear(self) -> None:
        import asyncpg

        with _in_our_words():
            self._ear = await asyncpg.connect(
                self._url, timeout=CONNECT_S, server_settings={"application_name": "headrace"}
            )
        self._heard.clear()

    def _on_notice(self, _connection: Any, _pid: int, channel: str, text: str) -> None:
        self._ears.hear(channel, text)

    async def _keep_hearing(self) -> None:
        """Listen again after a connection was lost. A peer that died without a word shows when it is spoken to."""
        asked = 0.0
        while True:
            await asyncio.sleep(RETRY_S)
            asked += RETRY_S
            try:
                async with self._listening:
                    if not self._ear.is_closed():
                        if asked >= ASK_S:
                            asked = 0.0
                            await self._ask()
                        continue
                    await self._connect_ear()
                    for channel in self._ears.channels:
                        with _in_our_words():
                            await self._ear.add_listener(channel, self._on_notice)
                        self._heard.add(channel)
            except StoreError:
                continue
            self._ears.missed()

    async def _ask(self) -> None:
        try:
            with _in_our_words():
                await self._ear.execute("SELECT 1", timeout=CONNECT_S)
        except StoreError:
            self._ear.terminate()


def _rows(status: object) -> int:
    """Read of a statement's status how many rows it wrote."""
    word, _, rest = str(status).partition(" ")
    return int(rest.rpartition(" ")[2]) if word in _COUNTED else 0


async def _drop(pool: Any, connection: Any) -> None:
    """Let a connection go of which nothing is known any more."""
    with contextlib.suppress(Exception):
        connection.terminate()
    with contextlib.suppress(Exception):
        await pool.release(connection)


async def _no_reset(_connection: Any) -> None:
    """A transaction leaves nothing behind: its end is the whole reset, and saves a round trip."""


class _Transaction:
    """One transaction on one connection of the pool, which it takes at its first statement."""

    def __init__(self, store: PostgresStore, *, read_only: bool) -> None:
        self._store = store
        self._pool = store.pool
        self._read_only = read_only
        self._connection: Any = None
        self._failed: BaseException | None = None
        self._locks: list[str] = []
        self._wrote = False
        self._left = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        connection, self._connection = self._connection, None
        keep = kind is None and self._failed is None
        if connection is None:
            self._free_locks()
        else:
            # Whoever is cancelled here leaves; the end goes on.
            ending = asyncio.ensure_future(self._end(connection, keep=keep))
            ending.add_done_callback(self._ended)
            await asyncio.shield(ending)
        if kind is None and self._failed is not None:
            raise StoreError(
                "an error within this transaction was passed over; nothing of it was kept"
            ) from self._failed

    async def execute(self, sql: str, *args: Value) -> int:
        self._wrote = True
        return _rows(await self._call("execute", _numbered(sql), *args))

    async def execute_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        self._wrote = True
        await self._call("executemany", _numbered(sql), rows)

    async def execute_batch(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        for sql, rows in statements:
            await self.execute_many(sql, rows)

    async def fetch(self, sql: str, *args: Value) -> list[tuple[Any, ...]]:
        rows = await self._call("fetch", _numbered(sql), *args)
        return [tuple(row) for row in rows]

    async def lock(self, name: str, *, wait: float = LOCK_WAIT_S) -> None:
        self._check()
        if self._read_only:
            raise StoreError("this transaction only reads, and needs no lock")
        if self._wrote:
            raise ValueError("a lock comes before the transaction's first write")
        if name in self._locks:
            return
        if not self._locks:
            try:
                async with asyncio.timeout(wait):
                    await self._store.slots.acquire()
            except TimeoutError:
                raise StoreConflict(f"for the lock {name!r} there was no connection within {wait:g} s") from None
        try:
            # Those of this process wait here, and not each on a connection.
            await self._store.names.acquire(name, wait=wait)
        except BaseException:
            if not self._locks:
                self._store.slots.release()
            raise
        self._locks.append(name)
        await self._call("execute", f"SET LOCAL lock_timeout = {max(int(wait * 1000), 1)}")
        await self._call("execute", "SELECT pg_advisory_xact_lock($1)", lock_number(name))
        await self._call("execute", "SET LOCAL lock_timeout = DEFAULT")

    async def notify(self, channel: str, text: str) -> None:
        check_notice(channel, text)
        self._wrote = True
        await self._call("execute", "SELECT pg_notify($1, $2)", channel, text)

    def _check(self) -> None:
        if self._left:
            raise StoreError("the transaction has ended")
        if self._failed is not None:
            raise StoreError("the transaction has failed, and nothing more can be done with it") from self._failed

    async def _call(self, method: str, *args: Any) -> Any:
        """Call a method of the connection; its error, also of a connection that is gone, ends the transaction."""
        self._check()
        try:
            with _in_our_words():
                if self._connection is None:
                    self._connection = await self._begin()
                return await getattr(self._connection, method)(*args)
        except BaseException as error:
            self._failed = error
            raise

    async def _begin(self) -> Any:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if self._read_only else "BEGIN"
        for last in (False, True):
            connection = await self._pool.acquire(timeout=CONNECT_S)
            try:
                with _in_our_words():
                    await connection.execute(begin)
            except StoreUnavailable:
                # A pooled connection may have died unseen; nothing was done on it yet.
                await _drop(self._pool, connection)
                if last:
                    raise
            except BaseException:
                await _drop(self._pool, connection)
                raise
            else:
                return connection
        raise AssertionError("the second try gives or raises")

    async def _end(self, connection: Any, *, keep: bool) -> None:
        try:
            with _in_our_words():
                await connection.execute("COMMIT" if keep else "ROLLBACK")
        except BaseException:
            await _drop(self._pool, connection)
            if keep:
                raise
            return  # the server rolls back what it has lost
        await self._pool.release(connection)

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._free_locks()
        if not ending.cancelled():
            ending.exception()  # it is told where it is waited for

    def _free_locks(self) -> None:
        if self._locks:
            self._store.slots.release()
        for name in reversed(self._locks):
            self._store.names.release(name)
        self._locks.clear()
