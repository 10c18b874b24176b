"""Secrets in the store: blank clears, absent keeps, nothing shows, and keys are exchanged."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from headrace.credentials.sealed import SCHEMA, Secrets
from headrace.credentials.vault import StoreKey, Vault, VaultError, new_key
from headrace.store import open_store

PLANTED = "planted-secret-8c1f"
OWNER = "acme/first"


def test_blank_clears_and_absent_keeps(tmp_path: pathlib.Path) -> None:
    vault = Vault([StoreKey.read(new_key())])

    async def body() -> None:
        store = await open_store(f"sqlite:{tmp_path}/s.db")
        await store.migrate(SCHEMA)
        kept = Secrets(lambda: vault, clock=lambda: 7.0)
        async with store.transaction() as tx:
            await kept.update(tx, OWNER, {"access": PLANTED, "refresh": "r1", "note": "n"})
            await kept.update(tx, OWNER, {"access": None, "refresh": "r2", "note": ""})
        async with store.transaction(read_only=True) as tx:
            found = await kept.read(tx, OWNER)
            assert {name: secret.reveal() for name, secret in found.items()} == {"access": PLANTED, "refresh": "r2"}
            assert PLANTED not in repr(found)
            masked = await kept.masked(tx)
            assert [(one.owner, one.name, one.changed, one.key) for one in masked] == [
                (OWNER, "access", 7.0, vault.key),
                (OWNER, "refresh", 7.0, vault.key),
            ]
            assert await kept.read(tx, "acme/second") == {}
        async with store.transaction() as tx:
            assert await kept.remove(tx, OWNER) == 2
        await store.close()

    asyncio.run(body())
    for path in tmp_path.iterdir():
        assert PLANTED.encode() not in path.read_bytes()


def test_a_row_that_was_moved_does_not_open() -> None:
    vault = Vault([StoreKey.read(new_key())])

    async def body() -> None:
        store = await open_store("memory:")
        await store.migrate(SCHEMA)
        kept = Secrets(lambda: vault, clock=lambda: 7.0)
        async with store.transaction() as tx:
            await kept.update(tx, OWNER, {"refresh": PLANTED})
            await tx.execute("UPDATE secrets_values SET owner = 'acme/second'")
            with pytest.raises(VaultError, match="acme/second/refresh"):
                await kept.read(tx, "acme/second")
            assert len(await kept.check(tx)) == 1
        await store.close()

    asyncio.run(body())


def test_keys_are_exchanged_without_a_moment_at_which_nothing_opens() -> None:
    old, new = StoreKey.read(new_key()), StoreKey.read(new_key())
    keys = [old]

    async def body() -> None:
        store = await open_store("memory:")
        await store.migrate(SCHEMA)
        # Another node, which read its keys before there was a new one.
        here, there = (Secrets(lambda: Vault(keys), clock=lambda: 7.0) for _ in range(2))
        async with store.transaction() as tx:
            for n in range(5):
                await here.update(tx, f"acme/{n}", {"refresh": f"{PLANTED}-{n}"})
            await there.read(tx, "acme/0")
        keys.insert(0, new)
        rotating = Secrets(lambda: Vault(keys), clock=lambda: 7.0)
        async with store.transaction() as tx:
            assert await rotating.reseal(tx) == 5
        async with store.transaction() as tx:
            assert await rotating.reseal(tx) == 0
            assert {one.key for one in await rotating.masked(tx)} == {new.id}
            assert (await there.read(tx, "acme/3"))["refresh"].reveal() == f"{PLANTED}-3"
        keys.remove(old)
        async with store.transaction() as tx:
            assert await Secrets(lambda: Vault(keys), clock=lambda: 7.0).check(tx) == []
        await store.close()

    asyncio.run(body())
