"""Jobs from the edge to the policy, answers back: all that wait at once, one call of each."""

from __future__ import annotations

import logging
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from headrace._bridge import FailureRef, GatheredRef, RequestRef, SettlementRef
from headrace.requests import Refusal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from headrace._bridge import GatewayRef
    from headrace.requests import Answer, AttemptSpec, Failure, Gathered, Plan, Policy, Settlement

    Asked = RequestRef | FailureRef | GatheredRef
    Given = Plan | AttemptSpec | Refusal | Answer

__all__ = ["Hands"]

_LOG = logging.getLogger("headrace.server")

#: What a client is told where policy raised. The log has the rest.
_INTERNAL = Refusal(status=500, code="internal_error", message="the gateway failed to decide")


class Hands:
    """Takes the edge's jobs to the policy, on an event loop.

    - `edge`: a running listener.
    - `policy`: may answer with a coroutine; then the others do not wait for it.
    """

    def __init__(self, edge: GatewayRef, policy: Policy) -> None:
        self._edge = edge
        self._policy = policy
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take jobs whenever some wait, until `detach`."""
        self._loop = loop
        loop.add_reader(self._edge.fileno(), self.drain)
        loop.add_reader(self._edge.timer_fileno(), self._lapse)

    def detach(self) -> None:
        """Take no more jobs but those that wait now."""
        if self._loop is not None:
            self.drain()
            self._loop.remove_reader(self._edge.fileno())
            self._loop.remove_reader(self._edge.timer_fileno())
            self._loop = None
        for task in self._tasks:
            task.cancel()

    def drain(self) -> None:
        """Take all jobs that wait, and give all answers that are there back in one go."""
        answers: list[tuple[Asked, Given]] = []
        for job in self._edge.take():
            if isinstance(job, SettlementRef):
                self._settle(job)
                continue
            answer = self._ask(job)
            # What `async def` gives; an abstract class would take longer to check than a decision to make.
            if isinstance(answer, CoroutineType):
                self._wait_for(job, answer)
            else:
                answers.append((job, cast("Given", answer)))
        if answers:
            self._give(answers)

    def _lapse(self) -> None:
        self.drain()
        self._policy.lapse()

    def _ask(self, job: Asked) -> Given | Coroutine[Any, Any, Given]:
        try:
            if isinstance(job, RequestRef):
                return self._policy.decide(job)
            if isinstance(job, GatheredRef):
                return self._policy.read(cast("Gathered", job))
            return self._policy.next(cast("Failure", job))
        except Exception:  # noqa: BLE001 - whatever policy raises, its client gets an answer
            _LOG.exception("policy failed on %r", job)
            return _INTERNAL

    def _settle(self, settlement: SettlementRef) -> None:
        try:
            self._policy.settle(cast("Settlement", settlement))
        except Exception:  # noqa: BLE001 - the other jobs go on
            _LOG.exception("policy failed on %r", settlement)

    def _wait_for(self, job: Asked, answer: Coroutine[Any, Any, Given]) -> None:
        if self._loop is None:
            answer.close()
            self._give([(job, _INTERNAL)])
            return
        task = self._loop.create_task(self._later(job, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(self, job: Asked, answer: Coroutine[Any, Any, Given]) -> None:
        try:
            given = await answer
        except Exception:  # noqa: BLE001 - whatever policy raises, its client gets an answer
            _LOG.exception("policy failed on %r", job)
            given = _INTERNAL
        self._give([(job, given)])

    def _give(self, answers: list[tuple[Asked, Given]]) -> None:
        try:
            self._edge.reply(answers)
        except Exception:  # noqa: BLE001 - the other jobs go on
            # The edge has told that client of an internal error; the others have their answers.
            _LOG.exception("an answer of the policy could not be read")
