"""The store's commands: what an export holds and what not, where it can go, and how a key is exchanged."""

from __future__ import annotations

import asyncio
import json
import math
import pathlib
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.credentials.sealed import Secrets
from headrace.credentials.vault import KeySource, StoreKey, Vault, new_key
from headrace.node import SCHEMA as NODE_SCHEMA
from headrace.store import SchemaTooNew, StoreError, open_store
from headrace.upkeep import SCHEMAS, check_store, export_store, import_store
from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

PLANTED = "planted-secret-8c1f"
STATE = "INSERT INTO node_states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


async def _filled(url: str, vault: Vault) -> list[bytes]:
    """Fill a store, and give its export."""
    store = await open_store(url)
    try:
        await store.migrate(*SCHEMAS)
        kept = Secrets(lambda: vault, clock=lambda: 7.0)
        async with store.transaction() as tx:
            for n in range(3):
                await kept.update(tx, f"acme/{n}", {"refresh": f"{PLANTED}-{n}"})
            rows = [("acme", f"c{n}", "", "dead", "auth", None, math.inf, 1, "ab", n / 7, "n1") for n in range(1203)]
            await tx.execute_many(STATE, rows)
            await tx.execute("INSERT INTO log_runs VALUES (?, ?, ?, ?, ?)", "run", 1, 2, 3, b"\x00\xff")
        return [line async for line in export_store(store)]
    finally:
        await store.close()


async def _imported(url: str, lines: list[bytes]) -> list[bytes]:
    """Import into a store, and give that one's export."""
    store = await open_store(url)
    try:
        await import_store(store, lines)
        return [line async for line in export_store(store)]
    finally:
        await store.close()


def test_an_export_goes_from_any_store_into_any_other(tmp_path: pathlib.Path, postgres: Postgres) -> None:
    vault = Vault([StoreKey.read(new_key())])

    async def body() -> None:
        first = await _filled(f"sqlite:{tmp_path}/one.db", vault)
        assert json.loads(first[-1]) == {"rows": 3 + 1203 + 1}
        second = await _imported(postgres.database(), first)
        third = await _imported(f"sqlite:{tmp_path}/two.db", second)
        assert sorted(second) == sorted(first)
        assert third == first
        store = await open_store(f"sqlite:{tmp_path}/two.db")
        assert await check_store(store, _of(vault)) == []
        await store.close()

    asyncio.run(body())


def test_an_export_is_of_no_use_without_the_key(tmp_path: pathlib.Path) -> None:
    vault = Vault([StoreKey.read(new_key())])

    async def body() -> None:
        lines = await _filled(f"sqlite:{tmp_path}/one.db", vault)
        assert PLANTED.encode() not in b"".join(lines)
        await _imported(f"sqlite:{tmp_path}/two.db", lines)
        store = await open_store(f"sqlite:{tmp_path}/two.db")
        wrong = await check_store(store, _of(Vault([StoreKey.read(new_key())])))
        assert len(wrong) == 3
        assert all(vault.key in line and PLANTED not in line for line in wrong)
        async with store.transaction() as tx:
            assert (await _of(vault).read(tx, "acme/1"))["refresh"].reveal() == f"{PLANTED}-1"
        await store.close()

    asyncio.run(body())


def _of(vault: Vault) -> Secrets:
    return Secrets(lambda: vault, clock=lambda: 7.0)


@pytest.mark.parametrize("drop", [0, 1, 5, -1])
def test_half_an_export_is_refused_and_leaves_nothing(tmp_path: pathlib.Path, drop: int) -> None:
    async def body() -> None:
        lines = await _filled(f"sqlite:{tmp_path}/one.db", Vault([StoreKey.read(new_key())]))
        del lines[drop]
        store = await open_store(f"sqlite:{tmp_path}/two.db")
        with pytest.raises(StoreError, match=r"no export|cut short"):
            await import_store(store, lines)
        if await store.versions():
            async with store.transaction() as tx:
                assert await tx.fetch("SELECT 1 FROM node_states") == []
        await store.close()

    asyncio.run(body())


def test_an_import_goes_into_an_empty_store_of_this_version(tmp_path: pathlib.Path) -> None:
    async def body() -> None:
        lines = await _filled(f"sqlite:{tmp_path}/one.db", Vault([StoreKey.read(new_key())]))
        store = await open_store(f"sqlite:{tmp_path}/one.db")
        with pytest.raises(StoreError, match="not empty"):
            await import_store(store, lines)
        await store.close()
        store = await open_store("memory:")
        head = json.loads(lines[0])
        head["headrace_store"]["components"]["node"] = 99
        with pytest.raises(SchemaTooNew, match="99"):
            await import_store(store, [json.dumps(head).encode(), *lines[1:]])
        with pytest.raises(StoreError, match="nothing to export"):
            [line async for line in export_store(store)]
        await store.close()

    asyncio.run(body())


def _headrace(folder: pathlib.Path, *words: str) -> Any:
    environ = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": None}
    return CliRunner(env={**environ, "HEADRACE_CONFIG": None}).invoke(main, ["store", *words])


def _put(folder: pathlib.Path, url: str) -> None:
    """Keep a secret as `headrace auth` would."""

    async def body() -> None:
        store = await open_store(url)
        kept = Secrets(lambda: KeySource("", {"HOME": str(folder)}).vault(make=True), clock=lambda: 7.0)
        async with store.transaction() as tx:
            await kept.update(tx, "acme/first", {"refresh": PLANTED})
        await store.close()

    asyncio.run(body())


def _keys(folder: pathlib.Path) -> list[str]:
    return (folder / ".config" / "headrace" / "store.key").read_text().split()


def test_the_commands_do_it_all(tmp_path: pathlib.Path) -> None:
    database = tmp_path / "state" / "headrace" / "headrace.db"
    done = _headrace(tmp_path, "migrate")
    assert done.stdout.splitlines()[0].startswith("log: version "), done.stderr
    assert "(new)" in done.stdout
    assert "(new)" not in _headrace(tmp_path, "migrate").stdout
    assert database.stat().st_mode & 0o777 == 0o600
    _put(tmp_path, f"sqlite:{database}")
    assert _headrace(tmp_path, "check").stdout == "ok\n"
    exported = tmp_path / "export.jsonl"
    assert _headrace(tmp_path, "export", str(exported)).exit_code == 0
    assert PLANTED.encode() not in exported.read_bytes()

    before = _keys(tmp_path)
    told = _headrace(tmp_path, "rotate-key").stdout
    assert told.startswith("1 secrets sealed anew")
    assert _keys(tmp_path)[1:] == before
    forgotten = _headrace(tmp_path, "rotate-key", "--forget-old").stdout
    assert forgotten.startswith("0 secrets sealed anew")
    assert len(_keys(tmp_path)) == 1
    assert _keys(tmp_path) != before
    assert _headrace(tmp_path, "check").stdout == "ok\n"

    again = tmp_path / "again"
    assert _headrace(again, "import", str(exported)).stdout == "1 rows\n"
    # Its key is another one, made there: the export's is gone.
    checked = _headrace(again, "check")
    assert checked.exit_code == 1
    assert "acme/first/refresh is sealed under the key" in checked.stdout
    refused = _headrace(again, "rotate-key")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("headrace: secrets_values.sealed of acme/first/refresh")
    for words in (told, forgotten, checked.stdout, refused.stderr):
        assert PLANTED not in words
        assert not any(key in words for key in (*before, *_keys(tmp_path), *_keys(again)))


def test_what_is_wrong_with_a_store_is_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.toml").write_text(f'[store]\nurl = "sqlite:{tmp_path}/no.db"\n')
    (tmp_path / "no.db").write_bytes(b"this is no database, and long enough to be taken for one" * 20)
    done = _headrace(tmp_path, "check", "--config", str(tmp_path / "config.toml"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no.db" in done.stderr
    key = _headrace(tmp_path, "new-key").stdout.strip()
    assert StoreKey.read(key).id not in key


def test_the_question_of_the_document_is_answered() -> None:
    text = (ROOT / "docs" / "STORE.md").read_text(encoding="utf-8")
    question = text.partition("```sql\n")[2].partition("```")[0].rstrip().removesuffix(";")
    assert question.startswith("SELECT gateway_key")

    async def body() -> list[Any]:
        store = await open_store("memory:")
        await store.migrate(NODE_SCHEMA)
        async with store.transaction() as tx:
            columns = [row[0] for row in await tx.fetch("SELECT name FROM pragma_table_info('node_requests')")]
            every = [{"id": f"r{n}", "gateway_key": "team", "provider": "acme", "model": "m"} for n in range(2)]
            for one in every:
                values = {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5, **one}
                row = [values.get(name, 0) for name in columns]
                places = ", ".join("?" * len(row))
                await tx.execute(f"INSERT INTO node_requests VALUES ({places})", *row)  # noqa: S608 - question marks
            found = await tx.fetch(question)
        await store.close()
        return found

    assert asyncio.run(body()) == [("team", "acme", "m", 2, 20, 4, 1.0)]


def test_tables_that_nobody_has_needed_yet_are_no_fault(tmp_path: pathlib.Path) -> None:
    async def body() -> list[str]:
        store = await open_store(f"sqlite:{tmp_path}/one.db")
        await store.migrate(NODE_SCHEMA)  # as a gateway does
        found = await check_store(store, _of(Vault([StoreKey.read(new_key())])))
        await store.close()
        return found

    assert asyncio.run(body()) == []


def test_a_table_of_a_newer_version_is_told(tmp_path: pathlib.Path) -> None:
    async def body() -> Any:
        store = await open_store(f"sqlite:{tmp_path}/one.db")
        await store.migrate(*SCHEMAS)
        async with store.transaction() as tx:
            await tx.execute("UPDATE headrace_schema SET version = 99 WHERE component = 'node'")
            await tx.execute("INSERT INTO headrace_schema VALUES ('later', 1)")
        wrong = await check_store(store, _of(Vault([StoreKey.read(new_key())])))
        await store.close()
        return wrong

    wrong = asyncio.run(body())
    assert len(wrong) == 2
    assert "version 99" in wrong[0]
    assert "'later'" in wrong[1]
