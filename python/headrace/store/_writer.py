"""The one writer of an SQLite store: whose turn it is, and which transactions share a commit.

1. Writers take turns in the order in which they asked. A turn is a savepoint within one outer transaction.
2. Who has finished while others wait does not pay for a commit alone: the outer transaction goes on with the next, and
   one commit serves the whole group. Nobody is told that it is committed before it is.
3. A group is bounded in number and in time, and one that holds a named lock ends its group: others wait for that lock.

Never here: SQL of a caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.store._face import StoreUnavailable
from headrace.store._threads import our_error

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from headrace.store._threads import ConnectionThread

__all__ = ["GROUP_LIMIT", "GROUP_S", "Writer"]

T = TypeVar("T")

#: Transactions that share a commit, at most.
GROUP_LIMIT: Final = 64
#: Seconds after which a group takes no further transaction: what a commit may cost its first member.
GROUP_S: Final = 0.005

GIVEN_UP: Final = "SQLite gave the transaction up"


class Writer:
    """Gives turns on the writing connection.

    - `thread`: owns that connection.
    - `grouped`: several transactions may share a commit.
    """

    def __init__(self, thread: ConnectionThread, *, grouped: bool) -> None:
        self._thread = thread
        self._limit = GROUP_LIMIT if grouped else 1
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False
        self._open = False
        self._group: list[asyncio.Future[bool]] = []
        self._since = 0.0
        self._owner: asyncio.Task[object] | None = None

    async def acquire(self) -> None:
        """Wait for a turn.

        Raises `RuntimeError`: the task has a turn already, and would wait for itself.
        If cancelled: there is no turn.
        """
        task = asyncio.current_task()
        if self._taken and task is self._owner:
            raise RuntimeError("this task is writing in another transaction of this store, and would wait for itself")
        if self._taken:
            turn: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        self._owner = task

    def release(self) -> None:
        """Give back a turn in which nothing was begun."""
        if not self._group:
            self._open = False
        self._pass_on()

    def begin(self, job: Callable[[apsw.Connection], T]) -> tuple[list[bool], asyncio.Future[T]]:
        """Begin the turn's transaction and run its first job, both on one way to the thread.

        The list has an item once the transaction has begun; then, and where the future was cancelled, `end` follows;
        else `release`.
        """
        if not self._open:
            self._since = self._loop.time()
        self._open = True
        began: list[bool] = []

        def both(connection: apsw.Connection) -> T:
            _begin(connection)
            began.append(True)
            return job(connection)

        return began, self._thread.run(both)

    def end(self, *, keep: bool, alone: bool = False) -> asyncio.Future[bool]:
        """End the turn's transaction; the future tells when it is committed, or rolled back.

        - `alone`: nobody may join after it.
        """
        goes_on = not alone and self._goes_on(keep=keep)
        told: asyncio.Future[bool] = self._loop.create_future()
        if keep:
            self._group.append(told)
        self._owner = None
        shared = bool(self._group)
        future = self._thread.run(lambda connection: _end(connection, keep=keep, commit=not goes_on, shared=shared))
        future.add_done_callback(lambda done: self._ended(done, told, goes_on=goes_on))
        return told

    def whole(self, job: Callable[[apsw.Connection], bool]) -> asyncio.Future[bool]:
        """Carry out the turn's whole transaction on one way to the thread.

        - `job`: gives whether it is to be kept.

        The future tells what the job gave: once it is committed, or rolled back; else the job's error.
        """
        if not self._open:
            self._since = self._loop.time()
        shared, goes_on = self._open, self._goes_on(keep=True)
        self._open = True
        told: asyncio.Future[bool] = self._loop.create_future()
        self._owner = None
        future = self._thread.run(lambda connection: _whole(connection, job, shared=shared, commit=not goes_on))
        future.add_done_callback(lambda done: self._ran(done, told, goes_on=goes_on))
        return told

    def _ran(self, done: asyncio.Future[bool | Exception], told: asyncio.Future[bool], *, goes_on: bool) -> None:
        error = done.exception()
        outcome = error or done.result()
        if outcome is False:
            if not told.done():
                told.set_result(False)
        elif outcome is True or error is not None:
            self._group.append(told)
        elif not told.done():
            told.set_exception(outcome)
            self._silence(told)
        if error is not None or not goes_on:
            self._open = False
            self._tell_group(error)
        self._pass_on()

    def _goes_on(self, *, keep: bool) -> bool:
        """Whether a turn that ends leaves its commit to the next."""
        return (
            bool(self._waiting) and len(self._group) + keep < self._limit and self._loop.time() - self._since < GROUP_S
        )

    def _ended(self, done: asyncio.Future[None], told: asyncio.Future[bool], *, goes_on: bool) -> None:
        error = done.exception()
        if error is not None:
            # The whole outer transaction is gone, and with it the group.
            self._open = False
            self._tell_group(error)
        elif not goes_on:
            self._open = False
            self._tell_group(None)
        if not told.done() and told not in self._group:
            told.set_result(False)
        self._pass_on()

    def _pass_on(self) -> None:
        self._owner = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken = True
                turn.set_result(None)
                return
        if not self._open:
            self._taken = False
            return
        # A group was left open for somebody who went away.
        self._taken = True
        future = self._thread.run(lambda connection: _end(connection, keep=None, commit=True, shared=True))
        told: asyncio.Future[bool] = self._loop.create_future()
        future.add_done_callback(lambda done: self._ended(done, told, goes_on=False))

    def _tell_group(self, error: BaseException | None) -> None:
        group, self._group = self._group, []
        for told in group:
            if told.done():
                continue
            if error is None:
                told.set_result(True)
            else:
                told.set_exception(error)
                self._silence(told)

    @staticmethod
    def _silence(future: asyncio.Future[bool]) -> None:
        """An error that nobody fetches is no finding: whoever waited was cancelled."""
        future.add_done_callback(lambda done: done.cancelled() or done.exception())


def _begin(connection: apsw.Connection) -> None:
    # SQLite itself ends a transaction after some errors: it is asked, and not remembered.
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")
    connection.execute("SAVEPOINT turn")


def _whole(
    connection: apsw.Connection, job: Callable[[apsw.Connection], bool], *, shared: bool, commit: bool
) -> bool | Exception:
    """Carry out a turn from its begin to its end, and give what its job gave or raised.

    What is raised here is the outer transaction's end, and with it the end of all that shared it.
    """
    alone = commit and not shared
    if not connection.in_transaction:
        if shared:
            raise StoreUnavailable(GIVEN_UP)
        connection.execute("BEGIN IMMEDIATE")
    if not alone:
        connection.execute("SAVEPOINT turn")
    outcome: bool | Exception
    try:
        outcome = job(connection)
    except Exception as error:  # noqa: BLE001 - it goes to whoever waits for the job
        outcome = our_error(error)
        if alone and not connection.in_transaction:
            return outcome
    if alone and outcome is not True:
        connection.execute("ROLLBACK")
    else:
        _end(connection, keep=None if alone else outcome is True, commit=commit, shared=True)
    return outcome


def _end(connection: apsw.Connection, *, keep: bool | None, commit: bool, shared: bool) -> None:
    """Keep or drop the savepoint (None: there is none), and commit the outer transaction if asked.

    - `shared`: the outer transaction holds others' work too.
    """
    if not connection.in_transaction:
        if shared or keep:
            raise StoreUnavailable(GIVEN_UP)
        return
    try:
        if keep is False:
            connection.execute("ROLLBACK TO turn")
        if keep is not None:
            connection.execute("RELEASE turn")
        if commit:
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
