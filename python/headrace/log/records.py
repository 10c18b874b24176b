"""One event as it is kept: the envelope, its digest, its place in the chain, and the check of all three.

    chain(0) = SHA-256("headrace.log.v1" LF RUN_ID)
    digest   = SHA-256(salt + payload)
    chain(n) = SHA-256(chain(n-1) + envelope without payload and salt, with the digest)

1. The chain covers the digest and not the payload: a payload that is erased, with its salt, still verifies. The salt is
   why a short erased payload cannot be guessed from its digest.
2. `seq` counts from 1 without a gap. `epoch` says which writer wrote, and never falls.
3. Ids, times and salts are arguments here. Whoever knows only a chain's head can be shown any event under it.
4. `checked` is the one check: what the store holds and what a file holds go through it, in one pass. The core goes over
   a list first, which is the whole of it where all is well; what is wrong is said here.

I/O must not be added here.
"""

from __future__ import annotations

import re
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace._bridge import chain_held
from headrace.errors import HeadraceError
from headrace.log.upcast import present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.log._payload import Payload

__all__ = [
    "KEY_LIMIT",
    "SALT_SIZE",
    "LogError",
    "Record",
    "TamperedError",
    "checked",
    "genesis",
    "link",
    "make",
    "of_row",
    "uuid7",
]

SALT_SIZE: Final = 16
"""Bytes: as many as make guessing hopeless."""

KEY_LIMIT: Final = 200
"""Characters of an idempotency key: an intent's id and a word. Longer ones are refused."""

_KEY = re.compile(r"[!-~]{1,200}\Z")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class LogError(HeadraceError):
    """What the event log raises; its subclasses say what happened."""


class TamperedError(LogError):
    """The log is not what was written.

    - `seq`: the first event that is wrong; the one after the last where events are missing at the end.
    """

    def __init__(self, run_id: str, seq: int, why: str) -> None:
        super().__init__(f"run {run_id}: event {seq}: {why}")
        self.run_id = run_id
        self.seq = seq
        self.why = why


class Record(NamedTuple):
    """One event of a run, in the order of the store's columns. A tuple, as a hundred thousand are made in one pass.

    - `id`: UUIDv7. `at_ms`: when it was appended, in milliseconds since the Unix epoch.
    - `key`: the idempotency key under which it was appended.
    - `payload`, `salt`: None once erased.
    """

    run_id: str
    seq: int
    id: str
    at_ms: int
    epoch: int
    type: str
    version: int
    key: str
    salt: bytes | None
    digest: bytes
    chain: bytes
    payload: bytes | None

    @property
    def is_erased(self) -> bool:
        """Whether only the envelope is left."""
        return self.payload is None

    def value(self) -> Payload | None:
        """Read the payload in its present version; None once erased.

        - Raises `PayloadError`: a newer release wrote it, or it is not what it says.
        """
        return None if self.payload is None else present(self.type, self.version, self.payload)


#: Makes a record of a row of the store, which has as many columns; a call in Python less than `Record._make`.
of_row: Final[Callable[[Iterable[object]], Record]] = partial(tuple.__new__, Record)


def genesis(run_id: str) -> bytes:
    """Give the chain's value before the first event.

    - Raises `ValueError`: the id has other than letters, digits, `.`, `_` and `-`, or more than 100 of them.
    """
    if not _RUN.match(run_id):
        raise ValueError(f"a run's id has letters, digits, '.', '_' and '-', at most 100: {run_id!r}")
    return sha256(b"headrace.log.v1\n" + run_id.encode("ascii")).digest()


def link(before: bytes, record: Record) -> bytes:
    """Give the chain's value after this event. No field holds a line feed, so no two envelopes read the same."""
    run_id, seq, id_, at_ms, epoch, type_, version, key, _, digest, _, _ = record
    head = f"{run_id}\n{seq}\n{id_}\n{at_ms}\n{epoch}\n{type_}\n{version}\n{key}\n"
    return sha256(before + head.encode() + digest).digest()


def make(
    payload: Payload,
    *,
    run_id: str,
    seq: int,
    before: bytes,
    at_ms: int,
    epoch: int,
    randomness: bytes,
    key: str | None = None,
) -> Record:
    """Put a payload into its envelope, after the event whose chain is `before`.

    - `randomness`: 26 bytes: 10 for the id, the rest for the salt.
    - `key`: the id by default, which no other append has.

    Raises `ValueError`: the key is empty, too long, or not printable ASCII.
    """
    id_ = uuid7(at_ms, randomness[:10])
    salt = randomness[10 : 10 + SALT_SIZE]
    if len(salt) != SALT_SIZE:
        raise ValueError(f"an envelope needs {10 + SALT_SIZE} random bytes, got {len(randomness)}")
    if key is not None and not _KEY.match(key):
        raise ValueError(f"an idempotency key is 1 to {KEY_LIMIT} printable ASCII characters without space: {key!r}")
    raw = payload.to_json()
    digest = sha256(salt + raw).digest()
    type_, version, key = payload.type, payload.version, key or id_
    # As `link` does.
    head = f"{run_id}\n{seq}\n{id_}\n{at_ms}\n{epoch}\n{type_}\n{version}\n{key}\n"
    chain = sha256(before + head.encode() + digest).digest()
    return Record(run_id, seq, id_, at_ms, epoch, type_, version, key, salt, digest, chain, raw)


def checked(records: Iterable[Record], run_id: str, *, head: tuple[int, bytes] | None = None) -> Iterator[Record]:
    """Give each event once it is known to be the one that was written.

    - `records`: from the first on.
    - `head`: seq and chain of the last event, as it is known from elsewhere; None: nothing is known.

    Raises `TamperedError` at the first that is not, or at the end if events are missing there.
    """
    chain = genesis(run_id)
    if isinstance(records, list) and _ends(records, head) and chain_held(run_id, chain, records) == len(records):
        yield from records
        return
    seq = epoch = 0
    last = head[0] if head is not None else None
    for record in records:
        seq += 1
        run, at, id_, at_ms, written_by, type_, version, key, salt, digest, linked, payload = record
        if at != seq:
            raise TamperedError(run_id, seq, f"is missing: event {at} stands in its place")
        if last is not None and seq > last:
            raise TamperedError(run_id, seq, f"stands behind the head, which is event {last}")
        if run != run_id:
            raise TamperedError(run_id, seq, f"belongs to the run {run}")
        if payload is not None and sha256((salt or b"") + payload).digest() != digest:
            raise TamperedError(run_id, seq, "its payload is not the one of its digest")
        # As `link` does.
        envelope = f"{run}\n{at}\n{id_}\n{at_ms}\n{written_by}\n{type_}\n{version}\n{key}\n"
        chain = sha256(chain + envelope.encode() + digest).digest()
        if chain != linked:
            raise TamperedError(run_id, seq, "does not follow from the event before it: its envelope was changed")
        if written_by < epoch:
            raise TamperedError(run_id, seq, f"its writer (epoch {written_by}) was fenced by epoch {epoch}")
        epoch = written_by
        yield record
    if head is not None and (seq, chain) != head:
        if seq < head[0]:
            raise TamperedError(run_id, seq + 1, f"is missing: the log should go on to event {head[0]}")
        raise TamperedError(run_id, seq, "is not the head that is known")


def _ends(records: list[Record], head: tuple[int, bytes] | None) -> bool:
    return head is None or (bool(records) and (records[-1].seq, records[-1].chain) == head)


def uuid7(at_ms: int, randomness: bytes) -> str:
    """Make a UUIDv7 of a time and 10 random bytes."""
    bits = int.from_bytes(randomness, "big")
    value = (at_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (bits >> 68 & 0xFFF) << 64 | 0b10 << 62 | bits & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
