"""How long the ledger is kept: old rows go, a few at a time.

1. One node at a time, whoever comes first; the others find it done.
2. A batch is a short transaction, and between two of them there is a pause: who settles waits behind one batch at most.
3. A request goes with its attempts, in one transaction. The clock is an argument.

Never here: limits, states, what a row means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.store import StoreConflict

if TYPE_CHECKING:
    from headrace.store import Store

__all__ = ["DELETE_AT_ONCE", "prune"]

#: Requests of one transaction: some ten milliseconds.
DELETE_AT_ONCE: Final = 500
#: Seconds between two batches: 10,000 requests a second at most, more than a gateway on two cores settles.
PAUSE_S: Final = 0.05

_LOCK: Final = "node_retention"
_OLD: Final = "SELECT id FROM node_requests WHERE at < ? ORDER BY at, id LIMIT ?"
_ATTEMPTS: Final = "DELETE FROM node_attempts WHERE request = ?"
_REQUESTS: Final = "DELETE FROM node_requests WHERE id = ?"


async def prune(store: Store, before: float) -> int:
    """Take out all requests that came before a Unix time, and give how many those were.

    Raises `StoreError`: what was not reached stays for the next time.
    If cancelled: whole batches have gone.
    """
    gone = 0
    while True:
        try:
            async with store.transaction() as tx:
                await tx.lock(_LOCK, wait=0.0)
                # Asked for once: what comes in meanwhile, out of a journal, may be older still.
                old = await tx.fetch(_OLD, before, DELETE_AT_ONCE)
                if old:
                    await tx.execute_batch((_ATTEMPTS, old), (_REQUESTS, old))
        except StoreConflict:
            return gone  # another node is at it
        gone += len(old)
        if len(old) < DELETE_AT_ONCE:
            return gone
        await asyncio.sleep(PAUSE_S)
