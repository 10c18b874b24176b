"""The log over a store: create, append, read, verify, erase. One writer a run; readers as many as like.

1. An append is one transaction: it is durable, whole, when `append` returns. It succeeds only on the head that the
   writer knows (compare and swap) and in the writer's own epoch.
2. Who opens a run for writing raises its epoch. A writer of an earlier one is fenced at its next append.
3. An append whose outcome is not known (the connection broke, the task was cancelled) is found again by its key: doing
   it once more adds nothing.
4. Nothing is ever updated, except that `erase` takes payloads away.
5. Clock and randomness are arguments.

Projection, and what events mean, must not be added here.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.log.artifacts import Artifacts, put_in, referred
from headrace.log.records import SALT_SIZE, LogError, Record, TamperedError, checked, genesis, make, of_row
from headrace.log.schema import SCHEMA
from headrace.log.seals import check_seals
from headrace.store import ConstraintViolated, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from headrace.log._payload import Payload
    from headrace.store import Store, Transaction

__all__ = [
    "ConflictError",
    "EventLog",
    "FencedError",
    "KeyReusedError",
    "RunInfo",
    "RunLog",
    "UnknownRunError",
    "Verdict",
]

BATCH_LIMIT: Final = 1000
"""Events of one append: a response's events are far fewer, and a transaction must stay short."""

PAYLOAD_LIMIT: Final = 8 << 20
"""Bytes of one payload. What can be larger is an artifact; a model's own texts end long before."""

PAGE: Final = 2000
"""Events of one read: some megabytes at most in the usual run."""

_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_COLUMNS: Final = "run_id, seq, id, at_ms, epoch, type, version, idem, salt, digest, chain, payload"
_INSERT_RUN: Final = "INSERT INTO log_runs (run_id, created_ms, epoch, head, chain) VALUES (?, ?, ?, ?, ?)"
_INSERT: Final = f"INSERT INTO log_events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names of ours

_MOVE: Final = "UPDATE log_runs SET head = ?, chain = ? WHERE run_id = ? AND epoch = ? AND head = ?"
#: Both of an append as one statement, which PostgreSQL commits on the same round trip: of one event, and of several,
#: whose columns are arrays, which cost it as much again.
_APPEND: Final = f"""WITH moved AS ({_MOVE} RETURNING run_id)
INSERT INTO log_events ({_COLUMNS}) SELECT moved.run_id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM moved"""  # noqa: S608 - ours
_APPEND_MANY: Final = f"""WITH moved AS ({_MOVE} RETURNING run_id)
INSERT INTO log_events ({_COLUMNS}) SELECT moved.run_id, new.* FROM moved, unnest(
    ?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::bigint[], ?::text[],
    ?::bytea[], ?::bytea[], ?::bytea[], ?::bytea[]) AS new"""  # noqa: S608 - names of ours


class ConflictError(LogError):
    """The run's head is not the one that this writer knows: somebody else appended in the same epoch."""


class FencedError(LogError):
    """A later writer has taken the run: this one must stop."""


class KeyReusedError(LogError):
    """The idempotency key stands at another content already."""


class UnknownRunError(LogError):
    """There is no such run."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a listing says of a run. `head` is the seq of its last event."""

    run_id: str
    created_ms: int
    epoch: int
    head: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    - `bad_seq`, `why`: the first event that is wrong; None if all is well.
    - `erased`: the seq of events whose payload was taken away.
    - `sealed`: up to which event the run is sealed; 0: it is not.
    """

    run_id: str
    events: int
    bad_seq: int | None = None
    why: str = ""
    erased: tuple[int, ...] = ()
    sealed: int = 0

    @property
    def ok(self) -> bool:
        """Whether every event is the one that was written."""
        return self.bad_seq is None


class EventLog:
    """All runs of one store.

    - `clock`: seconds since the Unix epoch; `randomness`: gives so many random bytes.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time.time, randomness: Callable[[int], bytes] = os.urandom
    ) -> None:
        self.store = store
        self.clock = clock
        self.randomness = randomness
        self.artifacts: Artifacts = Artifacts(store)

    @classmethod
    async def over(
        cls, store: Store, *, clock: Callable[[], float] = time.time, randomness: Callable[[int], bytes] = os.urandom
    ) -> EventLog:
        """Open the log of a store, bringing its tables up to date."""
        await store.migrate(SCHEMA)
        return cls(store, clock=clock, randomness=randomness)

    async def create(self, run_id: str, *payloads: Payload, like: str | None = None) -> RunLog:
        """Begin a run with its first events, all or nothing, and be its writer.

        - `payloads`: there may be more of them here than in an append.
        - `like`: a run whose artifacts this one holds as well.

        Raises `ConflictError`: there is one of this id. `ValueError`: the id is not allowed.
        """
        writer = RunLog(self, self.store, run_id, epoch=1, head=0, chain=genesis(run_id))
        records = writer.envelopes(payloads)
        writer.forward(records)
        try:
            async with self.store.transaction() as tx:
                await tx.execute(_INSERT_RUN, run_id, int(self.clock() * 1000), 1, writer.head, writer.chain)
                if records:
                    await tx.execute_many(_INSERT, records)
                if like is not None:
                    await tx.execute(
                        "INSERT INTO log_artifact_runs (run_id, digest) SELECT ?, digest FROM log_artifact_runs "
                        "WHERE run_id = ?",
                        run_id,
                        like,
                    )
        except ConstraintViolated:
            raise ConflictError(f"there is a run {run_id} already") from None
        return writer

    async def open(self, run_id: str) -> RunLog:
        """Take over a run's writing. Whoever wrote before is fenced.

        - Raises `UnknownRunError`.
        """
        async with self.store.transaction() as tx:
            if not await tx.execute("UPDATE log_runs SET epoch = epoch + 1 WHERE run_id = ?", run_id):
                raise UnknownRunError(f"there is no run {run_id}")
            info = await _info(tx, run_id)
        return RunLog(self, self.store, run_id, epoch=info.epoch, head=info.head, chain=info.chain)

    async def info(self, run_id: str) -> RunInfo:
        """Look a run up.

        - Raises `UnknownRunError`.
        """
        async with self.store.transaction(read_only=True) as tx:
            return await _info(tx, run_id)

    async def runs(self, *, limit: int = 100) -> list[RunInfo]:
        """List the newest runs, newest first."""
        async with self.store.transaction(read_only=True) as tx:
            rows = await tx.fetch(
                "SELECT run_id, created_ms, epoch, head, chain FROM log_runs "
                "ORDER BY created_ms DESC, run_id DESC LIMIT ?",
                limit,
            )
        return [_run_info(row) for row in rows]

    async def read(self, run_id: str) -> list[Record]:
        """Give all events of a run, verified.

        - Raises `UnknownRunError`; `TamperedError` at the first event that is not the one that was written.
        """
        raw: list[Record] = []
        # One state of both tables: an event that stands behind the head was not appended by us.
        async with self.store.transaction(read_only=True) as tx:
            info = await _info(tx, run_id)
            rows: list[tuple[Any, ...]] = []
            while not raw or len(rows) == PAGE:
                rows = await tx.fetch(
                    f"SELECT {_COLUMNS} FROM log_events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT {PAGE}",  # noqa: S608 - names of ours
                    run_id,
                    raw[-1].seq if raw else 0,
                )
                raw += map(of_row, rows)
                if not rows:
                    break
        return list(checked(raw, run_id, head=(info.head, info.chain)))

    async def upto(self, run_id: str, seq: int) -> list[Record]:
        """Give a run's events up to one, verified but for its head: what stands before an event that is wrong.

        - Raises `TamperedError`: one of these is not the one that was written either.
        """
        raw: list[Record] = []
        async with self.store.transaction(read_only=True) as tx:
            rows: list[tuple[Any, ...]] = []
            while not raw or len(rows) == PAGE:
                rows = await tx.fetch(
                    f"SELECT {_COLUMNS} FROM log_events WHERE run_id = ? AND seq > ? AND seq <= ? "  # noqa: S608 - ours
                    f"ORDER BY seq LIMIT {PAGE}",
                    run_id,
                    raw[-1].seq if raw else 0,
                    seq,
                )
                raw += map(of_row, rows)
                if not rows:
                    break
        return list(checked(raw, run_id))

    async def verify(self, run_id: str, *, trusted: Collection[str] | None = None) -> Verdict:
        """Check a run's events, their chain and their seals. Finds the first that is wrong, and raises nothing for it.

        - `trusted`: public keys that may have sealed it; None: any.

        Raises `UnknownRunError`.
        """
        try:
            records = await self.read(run_id)
            sealed = check_seals(records, trusted=trusted)
        except TamperedError as error:
            return Verdict(run_id, error.seq - 1, error.seq, error.why)
        erased = tuple(record.seq for record in records if record.is_erased)
        return Verdict(run_id, len(records), erased=erased, sealed=sealed)

    async def erase(self, run_id: str, seqs: Collection[int] | None = None) -> int:
        """Take payloads away, for privacy: envelopes and the chain stay, and still verify.

        - `seqs`: of which events; None: of all.

        Returns how many payloads went. The artifacts that nothing else refers to go with them.
        """
        async with self.store.transaction() as tx:
            # A write, so that whoever appends waits.
            await tx.execute("UPDATE log_runs SET epoch = epoch WHERE run_id = ?", run_id)
            rows = await tx.fetch(
                "SELECT seq, payload FROM log_events WHERE run_id = ? AND payload IS NOT NULL", run_id
            )
            chosen = {seq: payload for seq, payload in rows if seqs is None or seq in seqs}
            kept = {one for seq, payload in rows if seq not in chosen for one in referred(orjson.loads(payload))}
            for seq in chosen:
                await tx.execute(
                    "UPDATE log_events SET payload = NULL, salt = NULL WHERE run_id = ? AND seq = ?", run_id, seq
                )
            if seqs is None:
                await tx.execute("DELETE FROM log_artifact_runs WHERE run_id = ?", run_id)
            else:
                for digest in {one for payload in chosen.values() for one in referred(orjson.loads(payload))} - kept:
                    await tx.execute("DELETE FROM log_artifact_runs WHERE run_id = ? AND digest = ?", run_id, digest)
            await tx.execute("DELETE FROM log_artifacts WHERE digest NOT IN (SELECT digest FROM log_artifact_runs)")
        return len(chosen)

    async def insert(self, records: Sequence[Record], artifacts: Iterable[bytes] = ()) -> None:
        """Put a whole run in as it stands elsewhere (import), with its artifacts. The caller has checked it.

        - Raises `ConflictError`: there is a run of this id.
        """
        first, last = records[0], records[-1]
        try:
            async with self.store.transaction() as tx:
                await tx.execute(_INSERT_RUN, first.run_id, first.at_ms, last.epoch, last.seq, last.chain)
                await tx.execute_many(_INSERT, records)
                for content in artifacts:
                    await put_in(tx, first.run_id, content)
        except ConstraintViolated:
            raise ConflictError(f"there is a run {first.run_id} already: erase or export it first") from None


class RunLog:
    """The writer of one run. Used by one task at a time."""

    def __init__(self, log: EventLog, store: Store, run_id: str, *, epoch: int, head: int, chain: bytes) -> None:
        self.log = log
        self._store = store
        self.run_id = run_id
        self.epoch = epoch
        self.head: int = head
        """Seq of the last event."""
        self.chain: bytes = chain
        #: What an append left open: whether these were written is not known yet.
        self._unsure: list[Record] = []

    async def append(self, *payloads: Payload, key: str | None = None) -> list[Record]:
        """Append events, all or none, and return once they are durable.

        - `key`: names this append for ever; doing it again adds nothing and gives what stands. With several payloads
          the later ones have `KEY#1`, `KEY#2`, ...

        Raises `FencedError`, `ConflictError`, `KeyReusedError`, `StoreUnavailable`; `LogError`: a payload or the batch
        is too large.
        If cancelled: all or none of it was written; the next append finds out.
        """
        await self._settle()
        if not 0 < len(payloads) <= BATCH_LIMIT:
            raise LogError(f"an append has 1 to {BATCH_LIMIT} events, this one {len(payloads)}")
        if key is not None and _ID.match(key) and (found := await self._under(key, len(payloads))):
            return self._same(found, payloads, key)  # of an append that had no key: the index is not about it
        records = self.envelopes(payloads, key)
        self._unsure = records
        try:
            await self._written(records)
        except StoreUnavailable:
            raise  # written or not: the next append finds out
        except ConstraintViolated:
            self._unsure = []
            if key is None:
                raise
            return self._same(await self._under(key, len(payloads)), payloads, key)
        except Exception:
            self._unsure = []
            raise
        self._unsure = []
        self.forward(records)
        return records

    def envelopes(self, payloads: Sequence[Payload], key: str | None = None) -> list[Record]:
        """Put payloads into the envelopes that would come next. Nothing is written."""
        at_ms = int(self.log.clock() * 1000)
        chain, records = self.chain, []
        for number, payload in enumerate(payloads):
            record = make(
                payload,
                run_id=self.run_id,
                seq=self.head + 1 + number,
                before=chain,
                at_ms=at_ms,
                epoch=self.epoch,
                randomness=self.log.randomness(10 + SALT_SIZE),
                key=key and (f"{key}#{number}" if number else key),
            )
            if len(record.payload or b"") > PAYLOAD_LIMIT:
                raise LogError(
                    f"{record.type}: has {len(record.payload or b'')} bytes, at most {PAYLOAD_LIMIT} are kept"
                )
            chain = record.chain
            records.append(record)
        return records

    async def _written(self, records: list[Record]) -> None:
        """Write; and where the store went away meanwhile, look whether it is written, and write it once more if not."""
        try:
            await self._write(records)
        except StoreUnavailable:
            if not await self._stands(records):
                await self._write(records)

    async def _write(self, records: list[Record]) -> None:
        last = records[-1]
        move = (last.seq, last.chain, self.run_id, self.epoch, self.head)
        if self._store.dialect == "sqlite":
            moved = await self._store.at_once((_MOVE, move), (_INSERT, records))
        elif len(records) == 1:
            moved = await self._store.at_once((_APPEND, (*move, *last[1:])))
        else:
            columns: Any = list(zip(*records, strict=True))[1:]
            moved = await self._store.at_once((_APPEND_MANY, (*move, *columns)))
        if not moved:
            info = await self.log.info(self.run_id)
            if info.epoch != self.epoch:
                raise FencedError(f"run {self.run_id}: epoch {self.epoch} was fenced by epoch {info.epoch}")
            raise ConflictError(f"run {self.run_id}: its head is event {info.head}, not {self.head}")

    async def _settle(self) -> None:
        """Find out what became of an append that was cut off."""
        if not self._unsure:
            return
        if await self._stands(self._unsure):
            self.forward(self._unsure)
        self._unsure = []

    async def _stands(self, records: list[Record]) -> bool:
        async with self._store.transaction() as tx:
            # A write, which waits for a commit that is still under way.
            await tx.execute("UPDATE log_runs SET epoch = epoch WHERE run_id = ?", self.run_id)
            rows = await tx.fetch(
                "SELECT chain FROM log_events WHERE run_id = ? AND seq = ?", self.run_id, records[-1].seq
            )
        return bool(rows) and bytes(rows[0][0]) == records[-1].chain

    async def _under(self, key: str, count: int) -> list[Record]:
        keys = [key, *(f"{key}#{number}" for number in range(1, count))]
        async with self._store.transaction(read_only=True) as tx:
            marks = ", ".join("?" * len(keys))
            rows = await tx.fetch(
                f"SELECT {_COLUMNS} FROM log_events WHERE run_id = ? AND idem IN ({marks}) ORDER BY seq",  # noqa: S608 - names of ours
                self.run_id,
                *keys,
            )
        return list(map(of_row, rows))

    def _same(self, found: list[Record], payloads: Sequence[Payload], key: str) -> list[Record]:
        same = len(found) == len(payloads) and all(
            record.type == payload.type and record.payload in (None, payload.to_json())
            for record, payload in zip(found, payloads, strict=True)
        )
        if not same:
            raise KeyReusedError(f"run {self.run_id}: the key {key!r} stands at another content")
        return found

    def forward(self, records: Sequence[Record]) -> None:
        """Take note that these are written."""
        if records:
            self.head, self.chain = records[-1].seq, records[-1].chain

    def __repr__(self) -> str:
        return f"RunLog({self.run_id!r}, epoch={self.epoch}, head={self.head})"


async def _info(tx: Transaction, run_id: str) -> RunInfo:
    rows = await tx.fetch("SELECT run_id, created_ms, epoch, head, chain FROM log_runs WHERE run_id = ?", run_id)
    if not rows:
        raise UnknownRunError(f"there is no run {run_id}")
    return _run_info(rows[0])


def _run_info(row: tuple[str, int, int, int, bytes]) -> RunInfo:
    return RunInfo(*row)
