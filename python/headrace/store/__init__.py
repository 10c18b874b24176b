"""Where state is kept: one face over SQLite and PostgreSQL.

    store = await open_store("sqlite:")
    await store.migrate(Schema("notes", ("CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT NOT NULL)",)))
    async with store.transaction() as tx:
        await tx.lock("notes")
        await tx.execute("INSERT INTO notes VALUES (?, ?)", 1, "one")

1. The store owns connections, migrations and transactions. What a table means is its owner's business: each domain
   brings a `Schema` of its own.
2. SQL is written once, for both dialects: `?` placeholders, the types BIGINT, TEXT, BYTEA and DOUBLE PRECISION, no
   booleans (0 and 1), no NUL in a text. Where the dialects differ, a migration has one text for each, and a statement
   asks `store.dialect`.
3. A statement sees what was committed before it, and its own transaction's writes. What must not change between a
   read and a write is read under `tx.lock`, or with `FOR UPDATE`, or is guarded by a constraint.
4. Between its first write and its end a transaction waits for nothing but the store: on SQLite all others wait for it.
   Under a `tx.lock` alone it may wait for whatever it likes.
5. `memory:` is SQLite without a file.

Never here: a table's meaning, SQL of a domain, policy.
"""

from headrace.store._face import (
    ConstraintViolated,
    Dialect,
    Heard,
    Listener,
    Migration,
    Schema,
    SchemaTooNew,
    Store,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    Transaction,
    Value,
    ValueRefused,
)
from headrace.store._open import default_path, open_store

__all__ = [
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
    "default_path",
    "open_store",
]
