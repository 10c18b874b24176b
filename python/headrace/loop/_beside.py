"""Whose turn it is to record, where several intents are carried out side by side.

    each validates, is decided, and starts in the order of the intents    V1 D1 S1 V2 D2 S2 ...
    then they run at once, and end in that order again                    F1 O1 F2 O2 ...

1. What is recorded, and in which order, depends on the intents and on what comes of them, and never on which was
   faster: two runs of the same leave the same log, and a replay tells it the same.
2. A fact is still durable before what follows it: an execution starts when its start has been recorded.
3. Before somebody is asked about one, all before it have ended: a question may stand for days. If nobody answers, those
   behind it have not begun.

Do not add: which intents may share a turn; what is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from headrace.log import payloads as p
from headrace.loop._ports import AskLater

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Beside", "HeldBackError"]


class HeldBackError(Exception):
    """One before it waits for an answer: this one does not begin."""


class Beside:
    """The turns of some intents, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        #: Nothing before an execution's start is recorded of them any longer.
        self._opened: set[int] = set()
        self._closed: set[int] = set()
        self._asking: int | None = None
        self._held: int = len(names)
        self._error: Exception | None = None
        self.later: AskLater | None = None
        """Why one of them waits for an answer, if nobody gives it now."""
        self._changed = anyio.Event()

    async def turn(self, payload: p.Payload) -> None:
        """Wait until this may be recorded.

        - Raises `HeldBackError`: it is not to begin. What one of the others has raised.
        """
        place = self._places.get(getattr(payload, "intent_id", ""))
        if place is None:
            return
        if place in self._opened or isinstance(payload, p.ToolObserved):
            self._open(place)  # with an observation and no start, nothing will start
            await self._until(lambda: self._none_opens() and self._are(self._closed, place))
            return
        await self._until(lambda: self._are(self._opened, place))
        if place > self._held:
            raise HeldBackError
        if isinstance(payload, p.PermissionRequested):
            self._asking = place
            self._change()
            await self._until(lambda: self._are(self._closed, place))

    def recorded(self, payload: p.Payload) -> None:
        """Take note that this is durable."""
        place = self._places.get(getattr(payload, "intent_id", ""))
        if place is not None and isinstance(payload, p.ExecutionStarted):
            self._open(place)
        elif place is not None and isinstance(payload, p.ToolObserved):
            self._closed.add(place)
            self._change()

    async def all(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Do the work of each, and return when nothing of it runs any longer.

        - Raises what the first of them raised, but for `AskLater`.
        """
        async with anyio.create_task_group() as tasks:
            for place, work in enumerate(works):
                tasks.start_soon(self._one, place, work, tasks.cancel_scope)
        if self._error is not None:
            raise self._error

    async def _one(self, place: int, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        try:
            await work()
        except HeldBackError:
            pass  # it has its turn when the one before it was answered
        except AskLater as later:
            self.later = self.later or later
            self._held = min(self._held, place)
        except Exception as error:  # noqa: BLE001 - raised by `all`, when nothing runs any longer
            self._error = self._error or error
            scope.cancel()
        finally:
            self._closed.add(place)
            self._open(place)

    def _open(self, place: int) -> None:
        self._opened.add(place)
        if self._asking == place:
            self._asking = None
        self._change()

    def _none_opens(self) -> bool:
        return self._asking is not None or len(self._opened) == len(self._places)

    @staticmethod
    def _are(places: set[int], before: int) -> bool:
        return all(place in places for place in range(before))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if is_so():
                return
            await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
