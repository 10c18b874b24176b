"""One gateway's share in the store: it writes behind, listens, leases, and goes on alone for a while."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.node._journal import Journal
from headrace.node._leases import LEASE, MICRO, LeaseKind, Leases
from headrace.node._ledger import Settled, rows_of
from headrace.node._retention import prune
from headrace.node._states import CHANNEL, States
from headrace.node._tables import ATTEMPT_COLUMNS, REQUEST_COLUMNS, SCHEMA, insert
from headrace.requests import Refusal
from headrace.store import ConstraintViolated, StoreConflict, StoreError, StoreUnavailable, ValueRefused, open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
    from pathlib import Path

    from headrace.keys import KeyLimits
    from headrace.node._leases import Lease
    from headrace.node._ledger import Rows
    from headrace.node._states import SharedPool
    from headrace.store import Store

__all__ = ["AWAY_LIMIT_S", "FLUSH_S", "JOURNAL_LIMIT", "Node"]

_LOG: Final = logging.getLogger("headrace.node")

#: Seconds that a row waits for others to share its commit, of the 20 ms that it may take until it is committed.
FLUSH_S: Final = 0.015
#: Requests of one transaction.
BATCH: Final = 500
#: Seconds between two tries of a store that is away, from the first to the slowest.
RETRY_S: Final = 0.25
RETRY_MOST_S: Final = 5.0
#: Requests that the journal holds: some 20 MB.
JOURNAL_LIMIT: Final = 20_000
#: Seconds that a node serves without its store.
AWAY_LIMIT_S: Final = 3600.0
#: Seconds that a request waits for a lease.
LEASE_WAIT_S: Final = 2.0
#: Seconds between two looks for rows that are over.
CLEAN_S: Final = 600.0
DAY_S: Final = 86_400.0
#: Seconds that the last rows have at a stop.
STOP_S: Final = 5.0
#: Seconds that other tasks have to end before that: the rows are to be safe before a supervisor loses patience, which
#: is 10 s mostly.
ENDED_S: Final = 1.0

_REQUEST: Final = insert("node_requests", REQUEST_COLUMNS)
_ATTEMPT: Final = insert("node_attempts", ATTEMPT_COLUMNS)
_BACK: Final = "UPDATE node_leases SET spent = spent - ? WHERE name = ? AND span = ?"


class Node:
    """A gateway's share in the store. On one event loop; `admit` and `settled` are plain calls that wait for nothing.

    - `url`: the store's.
    - `journals`: the folder for what the store cannot take; None keeps it in memory.
    - `clock`: seconds since the Unix epoch.
    - `steady`: seconds of a clock that nobody sets, for what lasts within this process.
    - `ledger_days`: how long a request's row is kept; 0 is for ever.
    - `opener`: opens a store.
    """

    #: What `settled` is told.
    entry: Final = Settled

    def __init__(
        self,
        url: str,
        *,
        journals: Path | None,
        clock: Callable[[], float],
        journal_limit: int = JOURNAL_LIMIT,
        away_limit: float = AWAY_LIMIT_S,
        ledger_days: float = 0.0,
        steady: Callable[[], float] = time.monotonic,
        opener: Callable[[str], Awaitable[Store]] = open_store,
    ) -> None:
        self.id: str = secrets.token_hex(6)
        self._url = url
        self._clock = clock
        self._steady = steady
        self._opener = opener
        self._journal_limit = journal_limit
        self._away_limit = away_limit
        self._kept = ledger_days * DAY_S
        self._journal = Journal(journals, self.id)
        self._store: Store | None = None
        self._rows: list[Rows] = []
        #: Rows that are being written, to the store or to the journal: nobody has them yet.
        self._under_way = 0
        self._states = States(self.id, clock=clock, wake=self._wake)
        self._leases = Leases()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        #: Rows have waited for long enough while others were written.
        self._overdue = False
        self._tasks: set[asyncio.Task[None]] = set()
        #: Who holds it may look at the journal and at whether the store is away, and both stay as they are.
        self._keeping = asyncio.Lock()
        #: By the steady clock: somebody who sets the other one neither ends the time without a store nor stretches it.
        self._away_since: float | None = None
        self.committed: int = 0
        #: How often the store failed, or could not be reached.
        self.store_errors: int = 0

    @property
    def journaled(self) -> int:
        """How many settled requests are in the journal."""
        return len(self._journal)

    @property
    def waiting(self) -> int:
        """How many settled requests the store does not have yet."""
        return len(self._rows) + self._under_way + len(self._journal)

    @property
    def is_away(self) -> bool:
        """Whether the store cannot be reached."""
        return self._away_since is not None

    async def start(self) -> None:
        """Open the store and take in what it knows; one that is away is asked again and again.

        Raises `SchemaTooNew`, or another `StoreError` that time does not mend.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._connect()
        except (StoreUnavailable, StoreConflict) as error:
            self._went_away(error)
        left = await asyncio.to_thread(self._journal.adopt)
        if left:
            _LOG.warning("the journals of nodes that are gone have %d requests, which are written now", left)
            if self._away_since is None:
                self._went_away(None)
        self._spawn(self._listening())
        self._spawn(self._cleaning())
        self._wake()

    async def stop(self) -> None:
        """Write what is left, give back what was leased of budgets, and close the store."""
        # Nothing that comes now begins a commit of its own: what is left is written below.
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        ended = [task for task in self._tasks if task is not self._flushing]
        for task in ended:
            task.cancel()
        if ended:
            # One that waits for a hanging store ends with the store.
            await asyncio.wait(ended, timeout=ENDED_S)
        try:
            async with asyncio.timeout(STOP_S):
                if self._flushing is not None:
                    await self._flushing
                await self._flush()
                if self._away_since is None:
                    await self._give_back()
        except (TimeoutError, StoreError) as error:
            why = str(error) or f"the store did not take them within {STOP_S:g} s"
            _LOG.warning("%d requests stay in the journal: %s", self.waiting, why)
        if self._rows:
            await asyncio.to_thread(self._journal.add, self._take_rows())
        await asyncio.gather(*ended, return_exceptions=True)
        if self._store is not None:
            await self._store.close()
        self._journal.close()

    def watch(self, pools: Iterable[SharedPool], *, revive: bool = False) -> None:
        """Share the states of these pools' credentials.

        - `revive`: a person has changed the configuration: dead ones get another chance.
        """
        self._states.watch(pools, revive=revive)
        # What was dead is taken out first, or it would be read back.
        if self._loop is not None and not self._states.reviving:
            self._spawn(self._read_states())

    def admit(self, key: str | None, limits: KeyLimits | None) -> Refusal | Coroutine[Any, Any, Refusal | None] | None:
        """Say whether a request may begin. A coroutine, where the store has to be asked first; None: it may."""
        # Also of a store that hangs and is not yet known to be away.
        refused = self._too_much_waits()
        if refused is not None:
            return refused
        if key is None or limits is None:
            return None
        now = self._clock()
        leases = self._leases.of(key, limits)
        short = self._short(leases, now)
        if not short:
            self._give(leases)
            return None
        if all(lease.empty for lease in short):
            return _over(short[0])
        return self._admit_later(leases)

    def settled(self, told: Settled, limits: KeyLimits | None = None) -> None:
        """Take note of a request that came to its end."""
        self._rows.append(rows_of(self.id, told))
        self._wake()
        if told.key is not None and limits is not None:
            self._spend(self._leases.of(told.key, limits), told)

    def _spend(self, leases: Sequence[Lease], told: Settled) -> None:
        now = self._clock()
        for lease in leases:
            if now >= lease.ends or now < lease.turned:
                lease.turn(now)
            kind = lease.kind
            if kind is LeaseKind.TOKENS:
                lease.left -= sum(told.tokens)
            elif kind is LeaseKind.MONEY:
                lease.left -= round(told.spent * MICRO)
            if lease.left < lease.low and not lease.empty:
                self._ask(lease)

    def _short(self, leases: Sequence[Lease], now: float) -> list[Lease]:
        short = []
        for lease in leases:
            if now >= lease.ends or now < lease.turned:
                lease.turn(now)
            if lease.left <= 0:
                short.append(lease)
        return short

    def _give(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if lease.kind is LeaseKind.REQUESTS:
                lease.left -= 1
                if lease.left < lease.low and not lease.empty:
                    self._ask(lease)

    async def _admit_later(self, leases: Sequence[Lease]) -> Refusal | None:
        end = asyncio.get_running_loop().time() + LEASE_WAIT_S
        while True:
            short = self._short(leases, self._clock())
            if not short:
                self._give(leases)
                return None
            hopeless = [lease for lease in short if lease.empty]
            if hopeless:
                return _over(hopeless[0])
            asked = [self._ask(lease) for lease in short]
            left = end - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.wait(asked, timeout=left)
            if left <= 0 or self._away_since is not None:
                for lease in short:
                    lease.unknown()
                still = self._short(leases, self._clock())
                if still:
                    return _away("no more of this key's limit is known to be left")
                self._give(leases)
                return None

    def _ask(self, lease: Lease) -> asyncio.Task[None]:
        """Renew a lease, once at a time."""
        task = self._asking.get(lease.name)
        if task is None:
            task = self._spawn(self._renew(lease))
            self._asking[lease.name] = task
            task.add_done_callback(lambda _: self._asking.pop(lease.name, None))
        return task

    async def _renew(self, lease: Lease) -> None:
        store = self._store
        if store is None or self._away_since is not None:
            return
        span, debt = lease.span, max(-lease.left, 0)
        try:
            async with store.transaction() as tx:
                rows = await tx.fetch(LEASE, *lease.arguments())
        except (StoreUnavailable, StoreConflict) as error:
            self._went_away(error)
        except StoreError as error:
            # Asked again it would say the same; what waits for this lease must not ask until its span is over.
            self.store_errors += 1
            _LOG.error("the store refuses to lease of %s: %s", lease.name, error)
            lease.empty = True
        else:
            lease.granted(rows[0][0], span=span, debt=debt)

    async def _give_back(self) -> None:
        left = [
            (lease.left, lease.name, lease.span)
            for lease in self._leases.all()
            if lease.kind is LeaseKind.MONEY and lease.left != 0 and lease.span >= 0
        ]
        if left and self._store is not None:
            async with self._store.transaction() as tx:
                await tx.execute_many(_BACK, left)

    def _too_much_waits(self) -> Refusal | None:
        if self.waiting >= self._journal_limit:
            return _away("the journal of what it could not take is full")
        since = self._away_since
        if since is not None and self._steady() - since > self._away_limit:
            return _away(f"it has been away for more than {self._away_limit:g} s")
        return None

    def _wake(self) -> None:
        """See that what waits is written, with what else comes within a moment."""
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(FLUSH_S, self._begin_flush)

    def hasten(self) -> None:
        """Write what waits at once: the edge's own timer has seen to it that it waited."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin_flush()

    def _begin_flush(self) -> None:
        """Write what waits. What comes meanwhile waits its own moment, or every commit would hold a few rows only."""
        self._timer = None
        if self._flushing is None:
            self._flushing = self._spawn(self._flush())
            self._flushing.add_done_callback(self._flushed)
        else:
            self._overdue = True

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushing = None
        overdue, self._overdue = self._overdue, False
        if task.cancelled() or self._loop is None:
            return
        if overdue:
            self._begin_flush()
        elif self._rows or (self._states.waiting and self._away_since is None):
            self._wake()

    async def _flush(self) -> None:
        left = len(self._rows)
        while left > 0 or self._states.waiting:
            is_away = self._away_since is not None or self._store is None
            batch = self._take_rows(None if is_away else BATCH)
            left -= BATCH
            self._under_way = len(batch)
            try:
                await self._write(batch)
            finally:
                self._under_way = 0
            if is_away:
                return

    async def _write(self, batch: list[Rows]) -> None:
        if self._away_since is not None or self._store is None:
            await self._to_journal(batch)
            return
        try:
            await self._commit_what_can_be(self._store, batch)
        except StoreError as error:
            # Whatever it is that it refuses, the rows are not lost by it.
            self._went_away(error)
            await self._to_journal(batch)
        except asyncio.CancelledError:
            self._rows[:0] = batch
            raise

    async def _commit_what_can_be(self, store: Store, batch: Sequence[Rows]) -> None:
        try:
            await self._commit(store, batch)
        except (ValueRefused, ConstraintViolated) as error:
            if not batch:
                self._states.take()
                _LOG.error("no store can hold these credential states, which are not shared: %s", error)
            await self._sift(store, batch)

    def _take_rows(self, count: int | None = None) -> list[Rows]:
        taken = self._rows[:count]
        del self._rows[: len(taken)]
        return taken

    async def _commit(self, store: Store, batch: Sequence[Rows]) -> None:
        requests = [request for request, _ in batch]
        attempts = [row for _, rows in batch if rows for row in rows]
        written = [one for one in ((_REQUEST, requests), (_ATTEMPT, attempts)) if one[1]]
        marks, revived = self._states.take()
        if marks or revived:
            try:
                async with store.transaction() as tx:
                    await tx.execute_batch(*written)
                    await self._states.write(tx, marks, revived)
            except BaseException:
                self._states.give_back(marks, revived)
                raise
        elif written:
            await store.write(*written)
        self.committed += len(batch)
        if revived:
            self._spawn(self._read_states())

    async def _to_journal(self, batch: Sequence[Rows]) -> None:
        if not batch:
            return
        try:
            async with self._keeping:
                if self._away_since is None:
                    self._rows[:0] = batch
                    self._wake()
                    return
                # Rows count once, or a request would be refused that there is room for.
                self._under_way = 0
                self._journal.hold(batch)
                await asyncio.to_thread(self._journal.write)
        except OSError as error:
            _LOG.error("the journal cannot be written, and keeps its rows in memory: %s", error.strerror)
        except asyncio.CancelledError:
            # The thread may write them all the same; a row that is there twice is one.
            self._rows[:0] = batch
            raise

    def _went_away(self, error: StoreError | None) -> None:
        self.store_errors += error is not None
        if self._away_since is None:
            self._away_since = self._steady()
            if error is not None:
                _LOG.warning("the store is away, and the gateway goes on by what it knows: %s", error)
            self._spawn(self._coming_back())

    async def _coming_back(self) -> None:
        pause = RETRY_S
        while True:
            try:
                store = self._store or await self._connect()
                await self._from_journal(store)
                await self._read_states(raising=True)
            except (StoreUnavailable, StoreConflict):
                self.store_errors += 1
            except StoreError as error:
                self.store_errors += 1
                _LOG.error("the store is there and refuses what it is given: %s", error)
            else:
                async with self._keeping:
                    if not len(self._journal):
                        self._away_since = None
                        _LOG.warning("the store is back")
                        self._wake()
                        return
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_MOST_S)

    async def _from_journal(self, store: Store) -> None:
        while True:
            async with self._keeping:
                batch = self._journal.first(BATCH)
            if not batch:
                return
            try:
                await self._commit(store, batch)
            except (ValueRefused, ConstraintViolated):
                await self._sift(store, batch)
            async with self._keeping:
                await asyncio.to_thread(self._journal.done, len(batch))

    async def _sift(self, store: Store, batch: Sequence[Rows]) -> None:
        """Write all rows but those that no store can hold."""
        for rows in batch:
            try:
                await self._commit(store, [rows])
            except (ValueRefused, ConstraintViolated) as error:
                _LOG.error("no store can hold the row of request %s, which is lost: %s", rows[0][0], error)

    async def _connect(self) -> Store:
        store = await self._opener(self._url)
        try:
            await store.migrate(SCHEMA)
            async with store.transaction() as tx:
                await self._states.read(tx)
        except BaseException:
            await store.close()
            raise
        self._store = store
        return store

    async def _read_states(self, *, raising: bool = False) -> None:
        if self._store is None:
            return
        try:
            async with self._store.transaction() as tx:
                await self._states.read(tx)
        except StoreError as error:
            if raising:
                raise
            _LOG.warning("the credentials' states could not be read: %s", error)

    async def _listening(self) -> None:
        """Hear what other nodes mark, and now and then put away what is over."""
        while True:
            store = self._store
            if store is None:
                await asyncio.sleep(RETRY_S)
                continue
            try:
                async with store.listen(CHANNEL) as heard:
                    await self._read_states()
                    async for text in heard:
                        if text is None or not self._states.heard(text):
                            await self._read_states()
            except StoreError:
                await asyncio.sleep(RETRY_S)

    async def _cleaning(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_S)
            store = self._store
            if store is None or self._away_since is not None:
                continue
            try:
                async with store.transaction() as tx:
                    await self._states.clean(tx)
                    await tx.execute("DELETE FROM node_leases WHERE ends < ?", self._clock() - CLEAN_S)
                if self._kept > 0:
                    gone = await prune(store, self._clock() - self._kept)
                    if gone:
                        _LOG.info("%d requests were older than the ledger is kept, and are gone from it", gone)
            except StoreError as error:
                _LOG.info("what is over could not be put away: %s", error)

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a task of the node failed", exc_info=error)


def _over(lease: Lease) -> Refusal:
    if lease.kind is LeaseKind.MONEY:
        return Refusal(
            status=429,
            code="insufficient_quota",
            message=f"this key has spent its budget of ${lease.limit / MICRO:.2f} for {_of(lease.period)}",
            retry_at=lease.ends if lease.period != "total" else None,
            should_retry=False,
        )
    share = f"its {lease.limit} {lease.kind.value} of this minute"
    return Refusal(status=429, code="rate_limit_exceeded", message=f"this key has used {share}", retry_at=lease.ends)


def _of(period: str) -> str:
    return {"day": "today", "month": "this month"}.get(period, "good")


def _away(why: str) -> Refusal:
    return Refusal(
        status=503, code="store_unavailable", message=f"the gateway's store is away, and {why}", should_retry=True
    )
