"""Asks providers for their lists of models, beside the requests: in threads, and bounded in time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from headrace.catalogue import ask
from headrace.requests import AwsKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.catalogue import Listed
    from headrace.gateway import Gateway
    from headrace.resolver import Row

__all__ = ["Refresher"]

#: A client that asks for the models waits for lists that were never fetched, and no longer than this: one coding agent
#: gives up after three seconds.
PATIENCE_S: Final = 2.0


class Refresher:
    """Keeps a gateway's listings fresh. Made on the event loop that it runs on."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._running: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, rows: Sequence[Row]) -> None:
        """Fetch the lists of rows. Waits for those of which nothing is known yet, and not for the others."""
        for row in rows:
            if row.id not in self._running:
                self._running[row.id] = asyncio.get_running_loop().create_task(self._one(row))
        unknown = [
            self._running[row.id]
            for row in rows
            if row.id in self._running and not self._gateway.listings.is_known(row.id)
        ]
        if unknown:
            await asyncio.wait(unknown, timeout=PATIENCE_S)

    async def _one(self, row: Row) -> None:
        models: tuple[Listed, ...] | None = None
        if row.listing is not None:
            url, headers = row.listing
            credential = row.pool.peek(time.time())
            own = row.authorized(credential) if credential is not None else ()
            # A key pair signs what the kernel sends, and this is not sent by it.
            if (credential is not None or not len(row.pool)) and not isinstance(own, AwsKeys):
                by = row.way.of(url) if row.way is not None else None
                models = await asyncio.to_thread(ask, url, (*headers, *own), by)
        self._gateway.listings.took(row.id, models, time.time())
        del self._running[row.id]
