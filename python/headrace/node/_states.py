"""Credential states between nodes: what is marked here is told, what is told is marked here.

1. A mark is written behind: with the next group of rows, within 20 ms, and with a notice that carries it.
2. The last mark counts, but a dead credential stays dead until its secret changes or a person has been here.
3. A mark goes with a fingerprint of the secret that it is about, too short to find the secret by: one that was replaced
   meanwhile begins anew.

Never here: what a state means for a choice.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.credentials import Mark, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.store import Transaction, Value

__all__ = ["CHANNEL", "SharedPool", "States"]

CHANNEL: Final = "headrace_states"
#: Bytes of a notice; longer ones say only that there is something to read.
NOTICE_LIMIT: Final = 3500
#: Seconds that the row of a state that is over stays.
KEPT_S: Final = 3600.0

_COLUMNS: Final = "provider, credential, model, status, reason, until_at, recheck, failures, secret, changed, node"
_KEEP: Final = f"""INSERT INTO node_states ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (provider, credential, model) DO UPDATE SET status = excluded.status, reason = excluded.reason,
    until_at = excluded.until_at, recheck = excluded.recheck, failures = excluded.failures, secret = excluded.secret,
    changed = excluded.changed, node = excluded.node
WHERE node_states.status <> 'dead' OR excluded.status IN ('dead', 'ready') OR node_states.secret <> excluded.secret"""  # noqa: S608 - our own names
_READ: Final = f"SELECT {_COLUMNS} FROM node_states ORDER BY changed"  # noqa: S608 - our own names
_LOG: Final = logging.getLogger("headrace.node")


class SharedPool(Protocol):
    """A pool whose states can be shared: `credentials.Pool` is one."""

    provider: str
    on_mark: Callable[[str, str | None, Mark], None] | None

    def __len__(self) -> int:
        """How many members it has."""

    def mark(self, credential: str, mark: Mark, *, model: str | None = None, told: bool = False) -> None:
        """Mark a member. `told`: by another node."""

    def revive(self) -> None:
        """Give dead members another chance."""

    def fingerprint(self, credential: str) -> str:
        """Give what tells a member's secret from the one before it."""


@dataclass(frozen=True, slots=True)
class _Revived:
    """A person has been here: a provider's dead members get another chance."""

    provider: str


class States:
    """The states of one node's pools.

    - `node`: whose marks these are.
    - `wake`: called when there is something to write.
    """

    def __init__(self, node: str, *, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._node = node
        self._clock = clock
        self._wake = wake
        self._pools: dict[str, SharedPool] = {}
        self._marks: dict[tuple[str, str, str], tuple[Value, ...]] = {}
        self._revived: list[_Revived] = []

    @property
    def waiting(self) -> bool:
        """Whether something has not been written yet."""
        return bool(self._marks or self._revived)

    @property
    def reviving(self) -> bool:
        """Whether dead members' rows are still to be taken out."""
        return bool(self._revived)

    def watch(self, pools: Iterable[SharedPool], *, revive: bool) -> None:
        """Share the states of these pools, and of no others.

        - `revive`: a person has changed the configuration: dead members get another chance, at every node.
        """
        self._pools = {}
        for pool in pools:
            self._pools[pool.provider] = pool
            pool.on_mark = self._noting(pool)
            if revive and len(pool):
                self._revived.append(_Revived(pool.provider))
        if self._revived:
            self._wake()

    def take(self) -> tuple[list[tuple[Value, ...]], list[_Revived]]:
        """Take out what is to be written."""
        marks, self._marks = list(self._marks.values()), {}
        revived, self._revived = self._revived, []
        return marks, revived

    def give_back(self, marks: Iterable[tuple[Value, ...]], revived: Iterable[_Revived]) -> None:
        """Take back what could not be written. A mark that was made meanwhile stays."""
        for row in marks:
            self._marks.setdefault((str(row[0]), str(row[1]), str(row[2])), row)
        self._revived[:0] = revived

    async def write(self, tx: Transaction, marks: list[tuple[Value, ...]], revived: list[_Revived]) -> None:
        """Write marks, and tell of them."""
        for one in revived:
            await tx.execute("DELETE FROM node_states WHERE provider = ? AND status = 'dead'", one.provider)
        if marks:
            await tx.execute_many(_KEEP, marks)
        if marks or revived:
            await tx.notify(CHANNEL, self._notice(marks, revived))

    async def read(self, tx: Transaction) -> None:
        """Take in all states that the store has."""
        for row in await tx.fetch(_READ):
            self._apply(row)

    async def clean(self, tx: Transaction) -> None:
        """Take out the rows of states that have long been over."""
        before = self._clock() - KEPT_S
        await tx.execute("DELETE FROM node_states WHERE status <> 'dead' AND recheck < ?", before)

    def heard(self, text: str) -> bool:
        """Take in a notice. False: it says that there is something to read."""
        import orjson

        try:
            node, revived, marks = orjson.loads(text)
        except (orjson.JSONDecodeError, ValueError, TypeError):
            return False
        if node != self._node:
            for provider in revived:
                if provider in self._pools:
                    self._pools[provider].revive()
            for row in marks:
                self._apply(row)
        return True

    def _notice(self, marks: list[tuple[Value, ...]], revived: list[_Revived]) -> str:
        import orjson

        told = orjson.dumps((self._node, [one.provider for one in revived], marks)).decode()
        return told if len(told.encode()) <= NOTICE_LIMIT else ""

    def _noting(self, pool: SharedPool) -> Callable[[str, str | None, Mark], None]:
        def note(credential: str, model: str | None, mark: Mark) -> None:
            # A pool that a reload put away may still be marked by what runs on it.
            if self._pools.get(pool.provider) is not pool:
                return
            self._marks[pool.provider, credential, model or ""] = (
                pool.provider,
                credential,
                model or "",
                mark.status.value,
                mark.reason,
                mark.until,
                mark.recheck if isfinite(mark.recheck) else None,
                mark.failures,
                pool.fingerprint(credential),
                self._clock(),
                self._node,
            )
            self._wake()

        return note

    def _apply(self, row: Any) -> None:
        provider, credential, model, status, reason, until, recheck, failures, secret, _, node = row
        pool = self._pools.get(provider)
        if pool is None or node == self._node or pool.fingerprint(credential) != secret:
            return
        try:
            known = Status(status)
        except ValueError:
            _LOG.warning("a node that is newer than this one has a state %r, which is passed over", status)
            return
        mark = Mark(known, reason, until, inf if recheck is None else recheck, failures)
        pool.mark(credential, mark, model=model or None, told=True)
