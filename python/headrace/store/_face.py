"""What a store is, whichever stands behind it: the contract that `headrace.testing.store` holds both to."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

__all__ = [
    "LOCK_WAIT_S",
    "NOTICE_LIMIT",
    "QUEUE_LIMIT",
    "ConstraintViolated",
    "Dialect",
    "Heard",
    "Listener",
    "Migration",
    "Schema",
    "SchemaTooNew",
    "Store",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
    "Transaction",
    "Value",
    "ValueRefused",
    "check_notice",
    "lock_number",
    "migrate",
    "versions",
]

Dialect: TypeAlias = Literal["sqlite", "postgresql"]
Value: TypeAlias = int | str | bytes | float | None
#: None: something may have been missed; read anew what you watch.
Heard: TypeAlias = str | None

#: Seconds that `Transaction.lock` waits by default: longer than a refresh of a token may take.
LOCK_WAIT_S: Final = 60.0
#: Bytes of a notice: PostgreSQL takes 8,000 with its terminator.
NOTICE_LIMIT: Final = 4000
#: Notices that wait for a slow listener. Beyond, it hears only that it missed some.
QUEUE_LIMIT: Final = 1024


class StoreError(HeadraceError):
    """The store refused, or the statement is wrong."""


class StoreUnavailable(StoreError):  # noqa: N818 - a state of the store, said as one
    """The store cannot be reached, or cannot write. What was under way may or may not have been committed."""


class StoreConflict(StoreError):  # noqa: N818 - what it is, for who catches it
    """Another transaction was in the way for too long, or both waited for each other. Nothing was kept; try again."""


class ConstraintViolated(StoreError):  # noqa: N818 - what it is, for who catches it
    """A row would break a constraint: a key that is there already, a null where none may be, ..."""


class ValueRefused(StoreError):  # noqa: N818 - what it is, for who catches it
    """A value that no column of its kind holds: a number that is too great, a NUL in a text, a wrong type."""


class SchemaTooNew(StoreError):  # noqa: N818 - what it is, for who catches it
    """A newer Headrace has written this store."""

    def __init__(self, component: str, found: int, known: int) -> None:
        super().__init__(
            f"the store's {component!r} tables have version {found} and this Headrace knows up to {known}: "
            "install the version that wrote them, or a newer one"
        )
        self.component = component
        self.found = found
        self.known = known


@dataclass(frozen=True, slots=True)
class Migration:
    """One step, with a text for each dialect."""

    sqlite: str
    postgresql: str

    def sql(self, dialect: Dialect) -> str:
        """Give the text for a dialect."""
        return self.sqlite if dialect == "sqlite" else self.postgresql


@dataclass(frozen=True, slots=True)
class Schema:
    """A domain's tables.

    - `name`: the component's, for its row in `headrace_schema`; its tables' names begin with it.
    - `migrations`: in order, from the empty store on. What was released is never changed; new ones come after it. A
      plain text serves both dialects.
    """

    name: str
    migrations: tuple[str | Migration, ...]

    @property
    def version(self) -> int:
        """How many migrations there are."""
        return len(self.migrations)

    def steps(self, dialect: Dialect, *, after: int) -> list[str]:
        """Give the texts that lead from version `after` to the newest."""
        return [one if isinstance(one, str) else one.sql(dialect) for one in self.migrations[after:]]


class Transaction(Protocol):
    """All or nothing. After an error of a statement nothing more can be done with it, and leaving it raises."""

    async def execute(self, sql: str, *args: Value) -> int:
        """Carry out one statement and give the number of rows that it wrote."""

    async def execute_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        """Carry out one statement for each row of arguments."""

    async def execute_batch(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        """Carry out several statements in order, each for each of its rows: one way to the store where it can be."""

    async def fetch(self, sql: str, *args: Value) -> list[tuple[Any, ...]]:
        """Carry out one statement and give the rows that it answers with."""

    async def lock(self, name: str, *, wait: float = LOCK_WAIT_S) -> None:
        """Wait until nobody else, in whatever process, holds this name, and hold it until the transaction ends.

        - `wait`: seconds.

        Comes before the first write. Who takes several takes them in the same order as everybody else.

        Raises `StoreConflict`: it was not free within `wait`. `ValueError`: the transaction has already written.
        If cancelled: nothing is held.
        """

    async def notify(self, channel: str, text: str) -> None:
        """Tell every listener on the channel, in whatever process, once this transaction is committed.

        Raises `ValueError`: the text has more than 4,000 bytes.
        """


class Listener(Protocol):
    """What is heard on one channel since it was entered."""

    def __aiter__(self) -> AsyncIterator[Heard]:
        """Give each text, in the order of commits."""


class Store(Protocol):
    """An open store, used on the event loop that opened it."""

    @property
    def dialect(self) -> Dialect:
        """Which SQL it speaks."""

    def transaction(self, *, read_only: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction; leaving the block commits, an exception rolls back.

        - `read_only`: all its reads see one state, and writes are refused.

        Raises `StoreUnavailable`, at its first statement, a later one or on leaving.
        If cancelled: it is rolled back; during the commit it may have been committed.
        """

    async def at_once(self, guard: tuple[str, Sequence[Value]], *rest: tuple[str, Sequence[Sequence[Value]]]) -> bool:
        """Carry out a transaction that is known beforehand, on one way to the store and back where that can be.

        - `guard`: a statement and its arguments. Where it writes no row, that is all: nothing is kept.
        - `rest`: statements, each with rows of arguments, as `Transaction.execute_batch` takes them.

        Returns whether the guard wrote, and all of it is committed.
        Raises what a transaction raises; then nothing was kept, but after `StoreUnavailable` all of it may have been.
        If cancelled: all or nothing was kept.
        """

    async def write(self, *statements: tuple[str, Sequence[Sequence[Value]]]) -> None:
        """Carry out statements in a transaction of their own, each for each of its rows: one way to the store where
        it can be. Done twice they must be as done once: after a lost connection they may be.

        Raises `StoreUnavailable`: it may have been committed. Another `StoreError`: nothing of it was kept.
        If cancelled: it may have been committed.
        """

    def listen(self, channel: str) -> AbstractAsyncContextManager[Listener]:
        """Hear what is notified on a channel, from entering on."""

    async def migrate(self, *schemas: Schema) -> None:
        """Bring tables up to date, however many processes try at once.

        Raises `SchemaTooNew`: a newer Headrace has been here; nothing was changed.
        """

    async def versions(self) -> dict[str, int]:
        """Give each component's version in this store."""

    async def close(self) -> None:
        """Let it go. What runs is rolled back."""


def lock_number(name: str) -> int:
    """Give the 63-bit number that stands for a lock's name: a byte's position on SQLite, an advisory lock's key."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


def check_notice(channel: str, text: str) -> None:
    """Raise `ValueError` for what one of the stores could not carry."""
    if not channel.isidentifier() or channel != channel.lower() or not channel.isascii():
        raise ValueError(f"a channel is named like a variable, in lower case: {channel!r}")
    if len(text.encode()) > NOTICE_LIMIT:
        raise ValueError(f"a notice has at most {NOTICE_LIMIT} bytes: send what to look up")


BOOKKEEPING: Final = """CREATE TABLE IF NOT EXISTS headrace_schema (
    component TEXT PRIMARY KEY,
    version BIGINT NOT NULL
)"""


async def migrate(store: Store, schemas: Iterable[Schema]) -> None:
    """Carry out `Store.migrate` over a store's own transactions."""
    wanted = list(schemas)
    # Mostly there is nothing to do, and reading hinders nobody.
    if not _behind(wanted, await versions(store)):
        return
    async with store.transaction() as tx:
        # One name for all components: of N processes that start at once, one does the work.
        await tx.lock("headrace_schema")
        await tx.execute(BOOKKEEPING)
        found = dict(await tx.fetch("SELECT component, version FROM headrace_schema"))
        for schema in _behind(wanted, found):
            for step in schema.steps(store.dialect, after=found.get(schema.name, 0)):
                await tx.execute(step)
            await tx.execute(
                "INSERT INTO headrace_schema (component, version) VALUES (?, ?) "
                "ON CONFLICT (component) DO UPDATE SET version = excluded.version",
                schema.name,
                schema.version,
            )


def _behind(schemas: list[Schema], found: dict[str, int]) -> list[Schema]:
    for schema in schemas:
        version = found.get(schema.name, 0)
        if version > schema.version:
            raise SchemaTooNew(schema.name, version, schema.version)
    return [schema for schema in schemas if found.get(schema.name, 0) < schema.version]


async def versions(store: Store) -> dict[str, int]:
    """Carry out `Store.versions`: empty where nothing was ever migrated."""
    if store.dialect == "sqlite":
        known = "SELECT 1 FROM sqlite_schema WHERE name = 'headrace_schema'"
    else:
        known = "SELECT 1 WHERE to_regclass('headrace_schema') IS NOT NULL"
    async with store.transaction(read_only=True) as tx:
        if not await tx.fetch(known):
            return {}
        return dict(await tx.fetch("SELECT component, version FROM headrace_schema ORDER BY component"))
