"""Keeping the store: every domain's tables in one place, and what is done with all of them together.

1. `SCHEMAS` is the list of all tables that this package makes, whoever owns them.
2. An export is JSON lines of rows as they stand: what is sealed stays sealed, and is of no use without the key. Its
   last line says how many there were, so that half an export is none.
3. An import goes into an empty store, all of it or nothing.

Never here: what a row means.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.credentials.oauth import SCHEMA as OAUTH_SCHEMA
from headrace.credentials.sealed import SCHEMA as SECRETS_SCHEMA
from headrace.credentials.vault import new_key
from headrace.log.schema import SCHEMA as LOG_SCHEMA
from headrace.node import SCHEMA as NODE_SCHEMA
from headrace.store import SchemaTooNew, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from headrace.credentials.sealed import Secrets
    from headrace.credentials.vault import KeySource
    from headrace.store import Schema, Store, Transaction

__all__ = ["SCHEMAS", "Table", "check_store", "export_store", "import_store", "rotate", "tables_of"]

SCHEMAS: Final[tuple[Schema, ...]] = (SECRETS_SCHEMA, NODE_SCHEMA, LOG_SCHEMA, OAUTH_SCHEMA)

_FORMAT: Final = 1
#: Rows that are read or written at a time.
PAGE: Final = 500

_SQLITE_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
_SQLITE_COLUMNS: Final = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
_POSTGRES_TABLES: Final = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = current_schema() ORDER BY c.oid"""
_POSTGRES_COLUMNS: Final = """SELECT a.attname, coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)
FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_POSTGRES_SERIALS: Final = """SELECT a.attname FROM pg_attribute a
WHERE a.attrelid = to_regclass(?) AND a.attidentity <> '' AND NOT a.attisdropped"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns in order, and those of its primary key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


async def tables_of(store: Store, tx: Transaction) -> list[Table]:
    """Find the tables of all components, in the order in which they were made."""
    components = [name for (name,) in await tx.fetch("SELECT component FROM headrace_schema ORDER BY component")]
    sqlite = store.dialect == "sqlite"
    found = []
    for (name,) in await tx.fetch(_SQLITE_TABLES if sqlite else _POSTGRES_TABLES):
        if not any(name.startswith(f"{component}_") for component in components):
            continue
        columns = await tx.fetch(_SQLITE_COLUMNS if sqlite else _POSTGRES_COLUMNS, name)
        key = sorted((place, column) for column, place in columns if place)
        found.append(Table(name, tuple(column for column, _ in columns), tuple(column for _, column in key)))
    return found


async def check_store(store: Store, secrets: Secrets) -> list[str]:
    """Find what is wrong: versions, the file itself, sealed rows that do not open. Empty: nothing is."""
    wrong: list[str] = []
    found = await store.versions()
    has_secrets = SECRETS_SCHEMA.name in found
    for schema in SCHEMAS:
        version = found.pop(schema.name, 0)
        if version > schema.version:
            wrong.append(str(SchemaTooNew(schema.name, version, schema.version)))
        elif 0 < version < schema.version:  # whoever needs tables that are not there makes them
            wrong.append(
                f"the {schema.name!r} tables have version {version} of {schema.version}: `headrace store migrate`"
            )
    wrong.extend(f"there are tables of {name!r}, which this Headrace does not know" for name in found)
    async with store.transaction(read_only=True) as tx:
        if store.dialect == "sqlite":
            rows = await tx.fetch("SELECT * FROM pragma_quick_check")
            wrong.extend(f"the file is damaged: {row[0]}" for row in rows if row[0] != "ok")
        if has_secrets:
            wrong.extend(await secrets.check(tx))
    return wrong


async def export_store(store: Store) -> AsyncIterator[bytes]:
    """Give every row of every component, one JSON line each, of one state.

    Raises `StoreError`: the store holds nothing that this package has made.
    """
    import orjson

    versions = await store.versions()
    if not versions:
        raise StoreError("the store is empty: there is nothing to export")
    count = 0
    async with store.transaction(read_only=True) as tx:
        tables = await tables_of(store, tx)
        head = {"format": _FORMAT, "components": versions, "tables": {one.name: one.columns for one in tables}}
        yield orjson.dumps({"headrace_store": head}) + b"\n"
        for table in tables:
            async for row in _rows(tx, table):
                count += 1
                yield orjson.dumps([table.name, [_plain(value) for value in row]]) + b"\n"
    yield orjson.dumps({"rows": count}) + b"\n"


async def import_store(store: Store, lines: Iterable[bytes]) -> int:
    """Put an export into an empty store, and give the number of its rows.

    Raises `StoreError`: it is no export, or half of one, or of a newer version; or the store is not empty. Then nothing
    was written.
    """
    pages = _pages(lines)
    head = next(pages)
    known = {schema.name: schema.version for schema in SCHEMAS}
    for name, version in head["components"].items():
        if version > known.get(name, 0):
            raise SchemaTooNew(name, version, known.get(name, 0))
        if version < known[name]:
            raise StoreError(
                f"the export's {name!r} tables have version {version} of {known[name]}: "
                "import it with the version that wrote it, then migrate"
            )
    await store.migrate(*SCHEMAS)
    count = 0
    async with store.transaction() as tx:
        await tx.lock("headrace_schema")
        tables = {one.name: one for one in await tables_of(store, tx)}
        for table in tables.values():
            if await tx.fetch(f"SELECT 1 FROM {table.name} LIMIT 1"):  # noqa: S608 - a table's name of ours
                raise StoreError(f"the store is not empty ({table.name} has rows): import into a new one")
        for name, rows in pages:
            if name not in tables or tuple(head["tables"][name]) != tables[name].columns:
                raise StoreError(f"the export's table {name!r} is not as this store has it")
            await tx.execute_many(_insert(store, tables[name]), rows)
            count += len(rows)
        if store.dialect == "postgresql":
            await _count_on(tx, tables.values())
    return count


async def rotate(store: Store, key: KeySource, secrets: Secrets, *, forget_old: bool) -> str:
    """Seal every secret under the first key, and say what was done. A key that can be made here is made.

    - `forget_old`: take the keys behind the first one away, once nothing is sealed under them, and make none.

    Raises `VaultError`: a secret does not open, or the key cannot be written. Every secret still opens.
    """
    if not key.reference:
        key.vault(make=True)
    written = key.written()
    made = not forget_old and not key.reference.startswith("env:")
    if made:
        # First the file, then the rows: whatever ends this in between, both keys are there.
        key.write([new_key(), *written])
    async with store.transaction() as tx:
        count = await secrets.reseal(tx)
    vault = key.vault()
    told = f"{count} secrets sealed anew under the key {vault.key}"
    if forget_old and len(vault.keys) > 1:
        key.write(key.written()[:1])
        told += f"; took away {', '.join(vault.keys[1:])}"
    elif len(vault.keys) > 1:
        told += f"; {', '.join(vault.keys[1:])} may go once every node has the new one (--forget-old)"
    return told


async def _rows(tx: Transaction, table: Table) -> AsyncIterator[tuple[Any, ...]]:
    """Read a table by pages, in the order of its primary key."""
    columns, key = ", ".join(table.columns), ", ".join(table.key)
    places = [table.columns.index(column) for column in table.key]
    marks = ", ".join("?" for _ in places)
    start = f"SELECT {columns} FROM {table.name}"  # noqa: S608 - names of ours
    after: tuple[Any, ...] | None = None
    while True:
        where = "" if after is None else f" WHERE ({key}) > ({marks})"
        page = await tx.fetch(f"{start}{where} ORDER BY {key} LIMIT {PAGE}", *(after or ()))
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        after = tuple(page[-1][place] for place in places)


def _insert(store: Store, table: Table) -> str:
    marks = ", ".join("?" for _ in table.columns)
    # Numbers that the store gave by itself are kept as they were.
    own = " OVERRIDING SYSTEM VALUE" if store.dialect == "postgresql" else ""
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}){own} VALUES ({marks})"  # noqa: S608 - names of ours


async def _count_on(tx: Transaction, tables: Iterable[Table]) -> None:
    """Let PostgreSQL's own numbers go on behind those that were imported."""
    for table in tables:
        for (column,) in await tx.fetch(_POSTGRES_SERIALS, table.name):
            highest = f"(SELECT max({column}) FROM {table.name})"  # noqa: S608 - names of ours
            await tx.fetch(f"SELECT setval(pg_get_serial_sequence(?, ?), coalesce({highest}, 1))", table.name, column)


def _pages(lines: Iterable[bytes]) -> Iterator[Any]:
    """Give the head, then (table, rows) by pages; all rows were there when it ends without an error."""
    import orjson

    count = 0
    head: Any = None
    name = ""
    rows: list[tuple[Any, ...]] = []
    end: Any = None
    for line in lines:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise StoreError("this is no export of a store, or a damaged one") from None
        if head is None:
            head = entry.get("headrace_store") if isinstance(entry, dict) else None
            if not isinstance(head, dict) or head.get("format") != _FORMAT:
                raise StoreError("this is no export of a store, or one of another format")
            yield head
            continue
        if end is not None or isinstance(entry, dict):
            end = entry
            continue
        table, values = entry
        if (table != name or len(rows) >= PAGE) and rows:
            yield name, rows
            rows = []
        name = table
        rows.append(tuple(_value(value) for value in values))
        count += 1
    if rows:
        yield name, rows
    if head is None or not isinstance(end, dict) or end.get("rows") != count:
        raise StoreError("the export is cut short: its last line does not count its rows")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    # JSON has no infinity.
    return {"f": repr(value)} if isinstance(value, float) and value - value != 0 else value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["b"]) if "b" in value else float(value["f"])
    return value
