"""Secrets that the store keeps: sealed rows of an owner's named fields.

1. Blank clears, absent keeps: an update names what changes, and "" takes a field away.
2. A projection says that a field is set, since when and under which key. It has no character of it.
3. Everything runs in the caller's transaction: a refresh reads, asks and writes under one lock.

Never here: what a field means, a key's source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.credentials.vault import Place, Vault, VaultError
from headrace.store import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.requests import Secret
    from headrace.store import Transaction

__all__ = ["SCHEMA", "MaskedSecret", "Secrets"]

SCHEMA: Final = Schema(
    "secrets",
    (
        """CREATE TABLE secrets_values (
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            sealed TEXT NOT NULL,
            changed DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (owner, name))""",
    ),
)


@dataclass(frozen=True, slots=True)
class MaskedSecret:
    """What may be shown of a secret.

    - `changed`: seconds since the Unix epoch.
    - `key`: the id of the key that it is sealed under.
    """

    owner: str
    name: str
    changed: float
    key: str


class Secrets:
    """The sealed rows.

    - `vault`: gives the vault when it is first needed: a store that keeps no secret needs no key.
    - `clock`: seconds since the Unix epoch.
    """

    def __init__(self, vault: Callable[[], Vault], *, clock: Callable[[], float]) -> None:
        self._source = vault
        self._clock = clock
        self._vault: Vault | None = None

    async def update(self, tx: Transaction, owner: str, changes: Mapping[str, str | None]) -> None:
        """Change fields of an owner: a text sets, "" clears, None and what is not named keep."""
        for name, text in changes.items():
            if text is None:
                continue
            if not text:
                await tx.execute("DELETE FROM secrets_values WHERE owner = ? AND name = ?", owner, name)
                continue
            sealed = self._open_vault().seal(text, _place(owner, name))
            await tx.execute(
                "INSERT INTO secrets_values (owner, name, sealed, changed) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (owner, name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed",
                owner,
                name,
                sealed,
                self._clock(),
            )

    async def read(self, tx: Transaction, owner: str) -> dict[str, Secret]:
        """Open an owner's fields.

        Raises `VaultError`: one does not open.
        """
        rows = await tx.fetch("SELECT name, sealed FROM secrets_values WHERE owner = ? ORDER BY name", owner)
        return {name: self._opened(sealed, _place(owner, name)) for name, sealed in rows}

    async def remove(self, tx: Transaction, owner: str) -> int:
        """Clear all of an owner's fields, and give how many there were."""
        return await tx.execute("DELETE FROM secrets_values WHERE owner = ?", owner)

    async def masked(self, tx: Transaction) -> list[MaskedSecret]:
        """Say which fields are set."""
        rows = await tx.fetch("SELECT owner, name, changed, sealed FROM secrets_values ORDER BY owner, name")
        return [MaskedSecret(owner, name, changed, sealed.split(".")[1]) for owner, name, changed, sealed in rows]

    async def reseal(self, tx: Transaction) -> int:
        """Seal anew what is not under the key that seals now, and give how many there were.

        Raises `VaultError`: one does not open; then nothing is changed.
        """
        await tx.lock("secrets/reseal")
        vault = self._open_vault()
        rows = await tx.fetch("SELECT owner, name, sealed FROM secrets_values ORDER BY owner, name FOR UPDATE")
        old = [(owner, name, sealed) for owner, name, sealed in rows if not vault.is_current(sealed)]
        for owner, name, sealed in old:
            place = _place(owner, name)
            again = vault.seal(vault.open(sealed, place).reveal(), place)
            await tx.execute("UPDATE secrets_values SET sealed = ? WHERE owner = ? AND name = ?", again, owner, name)
        return len(old)

    async def check(self, tx: Transaction) -> list[str]:
        """Try every row, and give what is wrong with those that do not open."""
        rows = await tx.fetch("SELECT owner, name, sealed FROM secrets_values ORDER BY owner, name")
        wrong = []
        for owner, name, sealed in rows:
            try:
                self._opened(sealed, _place(owner, name))
            except VaultError as error:
                wrong.append(str(error))
        return wrong

    def _opened(self, sealed: str, place: Place) -> Secret:
        try:
            return self._open_vault().open(sealed, place)
        except VaultError:
            # Another node may have sealed it under a key that came after ours was read.
            self._vault = None
            return self._open_vault().open(sealed, place)

    def _open_vault(self) -> Vault:
        if self._vault is None:
            self._vault = self._source()
        return self._vault


def _place(owner: str, name: str) -> Place:
    return Place("secrets_values", "sealed", (owner, name))
