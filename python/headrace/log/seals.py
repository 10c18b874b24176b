"""Sealed heads: an Ed25519 signature over the chain, so that not even whoever can rewrite the store changes it unseen.

    what is signed: "headrace.log.v1 RUN_ID UPTO CHAIN", in ASCII

1. The chain shows that a log is whole; a seal shows whose it is. Whoever makes a chain anew has to seal it anew, with
   another key: who verifies names the keys that he trusts.
2. The key's seed is a file of its owner alone. It is never in the log, nor in a message.
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING, Final

from headrace._bridge import ed25519_public, ed25519_sign, ed25519_verify
from headrace.log.payloads import LogSealed
from headrace.log.records import LogError, TamperedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from headrace.log.records import Record

__all__ = ["SealKey", "check_seals"]

SEED_SIZE: Final = 32
_PRIVATE: Final = 0o077


class SealKey:
    """A key that seals. Shows itself to nobody.

    - `seed`: 32 bytes.

    Raises `ValueError`: there are not 32 of them.
    """

    __slots__ = ("_seed", "public")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_SIZE:
            raise ValueError(f"a seal's seed has {SEED_SIZE} bytes, this one {len(seed)}")
        self._seed = seed
        #: Base64 of the public key: what those who verify have to know.
        self.public: str = base64.b64encode(ed25519_public(seed)).decode("ascii")

    @classmethod
    def load(cls, path: Path, *, randomness: Callable[[int], bytes] = os.urandom) -> SealKey:
        """Read a key from its file; make one where there is none.

        - Raises `LogError`: others may read the file, or it holds no key. `OSError`: it cannot be read or made.
        """
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if path.stat().st_mode & _PRIVATE:
                raise LogError(f"{path}: others may read it; chmod 600 it, or seal with another key") from None
            try:
                return cls(bytes.fromhex(path.read_text("ascii")))
            except ValueError:
                raise LogError(f"{path}: is no seed of {SEED_SIZE} bytes in hexadecimal") from None
        seed = randomness(SEED_SIZE)
        with os.fdopen(made, "w") as file:
            file.write(seed.hex() + "\n")
        return cls(seed)

    def seal(self, run_id: str, upto: int, chain: bytes) -> LogSealed:
        """Sign a run's head."""
        signature = ed25519_sign(self._seed, _message(run_id, upto, chain.hex()))
        return LogSealed(
            upto=upto,
            chain=chain.hex(),
            public_key=self.public,
            signature=base64.b64encode(signature).decode("ascii"),
        )

    def __repr__(self) -> str:
        return f"SealKey({self.public})"


def check_seals(records: Sequence[Record], *, trusted: Collection[str] | None = None) -> int:
    """Check every seal of a run, whose records are verified already.

    - `trusted`: public keys, base64; None: any key's.

    Returns up to which event the run is sealed; 0: it is not.
    Raises `TamperedError` at the first event of which a seal says something else.
    """
    sealed = 0
    for record in records:
        value = record.value() if record.type == LogSealed.type else None
        if not isinstance(value, LogSealed):
            continue
        if not 0 < value.upto < record.seq:
            raise TamperedError(record.run_id, record.seq, f"seals event {value.upto}, which does not stand before it")
        if trusted is not None and value.public_key not in trusted:
            raise TamperedError(
                record.run_id, record.seq, f"is sealed by a key that is not trusted: {value.public_key}"
            )
        if records[value.upto - 1].chain.hex() != value.chain:
            raise TamperedError(record.run_id, value.upto, f"is not what event {record.seq} has sealed")
        if not _is_signed(record.run_id, value):
            raise TamperedError(record.run_id, record.seq, "its signature is not its key's")
        sealed = value.upto
    return sealed


def _is_signed(run_id: str, value: LogSealed) -> bool:
    try:
        public = base64.b64decode(value.public_key, validate=True)
        signature = base64.b64decode(value.signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    return ed25519_verify(public, _message(run_id, value.upto, value.chain), signature)


def _message(run_id: str, upto: int, chain: str) -> bytes:
    return f"headrace.log.v1 {run_id} {upto} {chain}".encode("ascii")
