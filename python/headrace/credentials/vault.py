"""Secrets at rest: sealed under a key that is not in the store, bound to the place where they stand.

1. A sealed text is `hs1.KEYID.BASE64URL`. It opens only under that key and at that table, column and row: moved or
   copied elsewhere it is of no use.
2. The first key of a vault seals, all of them open. So a key is exchanged without a moment at which something cannot
   be read: the new one first, everything sealed anew, the old one away.
3. Keys and opened texts show themselves in no repr, and an error names a key by its id and never what was sealed.

Never here: which secrets there are, the store.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace._bridge import seal, unseal
from headrace.errors import HeadraceError
from headrace.requests import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["KeySource", "Place", "StoreKey", "Vault", "VaultError", "default_key_path", "new_key", "vault_of"]

KEY_BYTES: Final = 32
_VERSION: Final = "hs1"
#: Service under which the operating system's keyring knows keys by default.
KEYRING_SERVICE: Final = "headrace"
_REFERENCES: Final = "write env:NAME, file:PATH or keyring:NAME"


class VaultError(HeadraceError):
    """A key is missing or wrong, or what was sealed is not what it was."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """A key of 32 bytes, known by an id that tells nothing of it."""

    id: str
    material: bytes = field(repr=False)

    @classmethod
    def of(cls, material: bytes) -> StoreKey:
        """Name a key.

        Raises `VaultError`: it has not 32 bytes.
        """
        if len(material) != KEY_BYTES:
            raise VaultError(
                f"a store key has {KEY_BYTES} bytes, written in base64; `headrace store new-key` makes one"
            )
        return cls(blake2b(material, digest_size=4, person=b"headrace-key-id").hexdigest(), material)

    @classmethod
    def read(cls, text: str) -> StoreKey:
        """Read a key from its base64.

        Raises `VaultError`: it is none.
        """
        try:
            material = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise VaultError("a store key is written in base64; `headrace store new-key` makes one") from None
        return cls.of(material)


def new_key() -> str:
    """Make a key, as it is written."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed text stands."""

    table: str
    column: str
    row: tuple[str, ...]

    def bound(self, key: str) -> bytes:
        """Give what the seal is bound to: every part with its length, so that no two places look the same."""
        parts = (_VERSION, key, self.table, self.column, *self.row)
        return b"".join(len(part.encode()).to_bytes(4) + part.encode() for part in parts)


class Vault:
    """Seals and opens.

    - `keys`: the first seals, all open.
    """

    __slots__ = ("_by_id", "_first")

    def __init__(self, keys: Sequence[StoreKey]) -> None:
        if not keys:
            raise VaultError("a vault needs a key")
        self._first = keys[0]
        self._by_id = {key.id: key for key in keys}

    def __repr__(self) -> str:
        return f"Vault({', '.join(self._by_id)})"

    @property
    def key(self) -> str:
        """The id of the key that seals."""
        return self._first.id

    @property
    def keys(self) -> tuple[str, ...]:
        """The ids of all keys."""
        return tuple(self._by_id)

    def seal(self, text: str, place: Place) -> str:
        """Seal a text for a place."""
        sealed = seal(self._first.material, text.encode(), place.bound(self._first.id))
        return f"{_VERSION}.{self._first.id}.{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"

    def open(self, sealed: str, place: Place) -> Secret:
        """Open what was sealed for a place.

        Raises `VaultError`: the key is not here, or the text was sealed for another place or has changed.
        """
        version, key, text = _parts(sealed)
        where = f"{place.table}.{place.column} of {'/'.join(place.row)}"
        known = self._by_id.get(key)
        if version != _VERSION or known is None:
            have = ", ".join(self._by_id)
            raise VaultError(
                f"{where} is sealed under the key {key!r}, and here is {have}: add that key, or store it anew"
            )
        try:
            opened = unseal(known.material, base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), place.bound(key))
        except (binascii.Error, ValueError):
            opened = None
        if opened is None:
            raise VaultError(f"{where} does not open: it was changed, or sealed for another place; store it anew")
        return Secret(opened.decode())

    def is_current(self, sealed: str) -> bool:
        """Whether it is sealed under the key that seals now."""
        return _parts(sealed)[:2] == (_VERSION, self._first.id)


def _parts(sealed: str) -> tuple[str, str, str]:
    version, _, rest = sealed.partition(".")
    key, _, text = rest.partition(".")
    return version, key, text


def default_key_path(environ: Mapping[str, str]) -> Path:
    """Say where the key is if the configuration names none: beside no database, in the user's configuration."""
    base = environ.get("XDG_CONFIG_HOME")
    home = (
        Path(base) if base and Path(base).is_absolute() else Path(environ.get("HOME") or "~").expanduser() / ".config"
    )
    return home / "headrace" / "store.key"


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys are: `env:NAME`, `file:PATH` or `keyring:NAME`. Several, one a line or with commas between.

    - `reference`: as the configuration has it; empty for the default file, which is made when it is first needed.
    """

    reference: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        kind, _, name = self.reference.partition(":")
        if not self.reference:
            return default_key_path(self.environ)
        return Path(name).expanduser() if kind == "file" else None

    def vault(self, *, make: bool = False) -> Vault:
        """Read the keys.

        - `make`: make the default file if it is not there.

        Raises `VaultError`: there is none, or it cannot be read; says where it was looked for.
        """
        if make and not self.reference:
            path = default_key_path(self.environ)
            if not path.exists():
                self.write([new_key()])
        written = self.written()
        if not written:
            raise VaultError(
                f"the store key {self.reference or self.path} is empty; `headrace store new-key` makes one"
            )
        return Vault([StoreKey.read(line) for line in written])

    def written(self) -> list[str]:
        """Give the keys as they are written: secrets, for `write` alone.

        Raises `VaultError`: they cannot be read.
        """
        return [line.strip() for line in self._text().replace(",", "\n").split("\n") if line.strip()]

    def write(self, keys: Iterable[str]) -> None:
        """Put keys in place of those that are there.

        Raises `VaultError`: they are in the environment, or cannot be written.
        """
        text = "\n".join(keys) + "\n"
        path = self.path
        if path is not None:
            _replace(path, text)
        elif self.reference.startswith("keyring:"):
            _keyring().set_password(KEYRING_SERVICE, self.reference.partition(":")[2], text)
        else:
            raise VaultError(f"{self.reference} cannot be written from here: set it anew where it comes from")

    def _text(self) -> str:
        kind, colon, name = self.reference.partition(":")
        path = self.path
        if path is not None:
            try:
                return path.read_text()
            except OSError as error:
                raise VaultError(f"the store key cannot be read: {path}: {error.strerror}") from None
        if kind == "env" and name:
            text = self.environ.get(name)
            if not text:
                raise VaultError(f"the store key is not there: the environment has no {name}")
            return text
        if kind == "keyring" and name:
            found: str | None = _keyring().get_password(KEYRING_SERVICE, name)
            if not found:
                raise VaultError(f"the store key is not there: the keyring has no {name!r} of {KEYRING_SERVICE!r}")
            return found
        raise VaultError(f"{self.reference!r} names no store key: {_REFERENCES}" if colon else _REFERENCES)


def vault_of(reference: str, url: str, environ: Mapping[str, str]) -> Vault:
    """Give the vault of a configured store.

    - `reference`, `url`: of the store. One in memory needs no key but one that goes with it.

    Raises `VaultError`: the key is not there.
    """
    if url.startswith("memory:") and not reference:
        return Vault([StoreKey.of(secrets.token_bytes(KEY_BYTES))])
    return KeySource(reference, environ).vault(make=True)


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        raise VaultError("keyring: needs the keyring library: pip install 'headrace[keyring]'") from None
    return keyring


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise VaultError(f"the store key cannot be written: {path}: {error.strerror}") from None
