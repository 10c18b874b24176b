"""Leading a run for somebody who watches: cards, questions, Ctrl-C, a conversation.

What is typed while the run is under way steers it: the model is told at its next turn.

Ctrl-C once calls off what is under way; a tool is cancelled, and the model is told. Ctrl-C twice ends the run: it is
paused, and can be resumed.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from headrace.harness.exits import exit_of
from headrace.log import payloads as p
from headrace.loop import SharingToolRuntime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from headrace.harness.host import Host, Place
    from headrace.harness.view import View
    from headrace.log.menus import Menu
    from headrace.log.state import State
    from headrace.loop import Ask, Opened, RecordFact, Run, Settings, ToolRuntime

__all__ = ["answer_first", "last_text", "lead", "pending"]

TWICE_S: Final = 3.0
"""Within which a second Ctrl-C is the second."""


async def lead(
    opened: Opened,
    *,
    host: Host,
    place: Place,
    tools: ToolRuntime,
    view: View,
    settings: Settings,
    ask: Ask | None = None,
    listens_first: bool = False,
) -> int:
    """Lead a run to where it stands still, and give the exit status.

    - `ask`: who answers, instead of the view.
    - `listens_first`: it is the user's turn.
    """

    async def asked(question: p.PermissionRequested) -> p.PermissionAnswer:
        await typed.stop()  # what is typed now is an answer
        try:
            return await (ask(question) if ask is not None else view.ask(question, host.log.artifacts))
        finally:
            typed.start()

    shown = _Shown(tools, view, host)
    run = opened.run(models=host.runtime, tools=shown, ask=asked, seen=view.seen, settings=settings)
    shown.run_of = lambda: run
    typed = _Typed(run, view, settings.redact)
    view.begun(run.run_id, place, run.state)
    with _signals(run, view) as heard:
        if not listens_first:
            await typed.during(run.go())
        while listens_first or (settings.is_chat and run.state.reason == "asked" and not run.state.open):
            text = await heard.listen(view)
            if text is not None and not text.strip():
                continue
            if text is not None:
                run.say(settings.redact(text))
            elif listens_first:
                run.stop()
            else:
                break
            listens_first = False
            await typed.during(run.go())
    state = run.state
    code = exit_of(state)
    view.ended(run.run_id, state, last_text(run.records), code)
    return code


def last_text(records: list[Any]) -> str:
    """Give what the model said last."""
    for record in reversed(records):
        value = record.value()
        if isinstance(value, p.ModelSpoke):
            return value.text
        if isinstance(value, p.ModelRequested):
            return ""
    return ""


class _Heard:
    """What somebody presses."""

    def __init__(self, run: Run, view: View) -> None:
        self._run, self._view = run, view
        self._at = float("-inf")
        self._listening: asyncio.Future[str | None] | None = None

    async def listen(self, view: View) -> str | None:
        """Wait for the user's words; None: nothing more, or Ctrl-C."""
        self._listening = asyncio.ensure_future(view.listen())
        try:
            await asyncio.wait((self._listening,))
            return None if self._listening.cancelled() else self._listening.result()
        finally:
            self._listening.cancel()
            self._listening = None

    def interrupt(self) -> None:
        """Ctrl-C."""
        if self._listening is not None:
            self._listening.cancel()
            return
        now = asyncio.get_running_loop().time()
        is_second, self._at = now - self._at < TWICE_S, now
        if is_second or not self._run.cancel_step():
            self._view.note("the run is being paused")
            self._run.stop()
        else:
            self._view.note("called off; Ctrl-C once more pauses the run")

    def end(self) -> None:
        """SIGTERM, SIGHUP."""
        if self._listening is not None:
            self._listening.cancel()
        self._run.stop()


@contextmanager
def _signals(run: Run, view: View) -> Iterator[_Heard]:
    loop = asyncio.get_running_loop()
    heard = _Heard(run, view)
    taken = {signal.SIGINT: heard.interrupt, signal.SIGTERM: heard.end, signal.SIGHUP: heard.end}
    installed = []
    for number, act in taken.items():
        try:
            loop.add_signal_handler(number, act)
            installed.append(number)
        except (RuntimeError, ValueError):
            break  # not the main thread: whoever started this one hears the signals
    try:
        yield heard
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


class _Typed:
    """Takes what is typed while a run is under way as words to its model: steering."""

    def __init__(self, run: Run, view: View, redact: Callable[[str], str]) -> None:
        self._run, self._view, self._redact = run, view, redact
        self._task: asyncio.Task[None] | None = None

    async def during(self, going: Awaitable[State]) -> None:
        """Do it as long as the run goes."""
        self.start()
        try:
            await going
        finally:
            await self.stop()

    def start(self) -> None:
        """Listen."""
        self._task = asyncio.ensure_future(self._take())

    async def stop(self) -> None:
        """Listen no more; what was typed and not ended is kept for whoever reads next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None

    async def _take(self) -> None:
        while (line := await self._view.overhear()) is not None:
            if line.strip():
                self._run.say(self._redact(line))
                self._view.note("the model is told at its next turn")


class _Shown:
    """A tool runtime whose results are shown."""

    def __init__(self, tools: ToolRuntime, view: View, host: Host) -> None:
        self._tools, self._view, self._host = tools, view, host
        self.run_of: Callable[[], Run]

    def menu(self) -> Menu:
        return self._tools.menu()

    def may_share(self, intent: p.ToolIntent) -> bool:
        return isinstance(self._tools, SharingToolRuntime) and self._tools.may_share(intent)

    async def run(self, intent: p.ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> p.ToolObserved:
        observed = await self._tools.run(intent, state=state, record=record, ask=ask)
        records = self.run_of().records
        first = state.intents[intent.intent_id].proposed
        values = (one.value() for one in records[first - 1 :])
        facts = [one for one in values if one is not None and getattr(one, "intent_id", "") == intent.intent_id]
        await self._view.card(facts, observed, self._host.log.artifacts)
        return observed


def answer_first(question: p.PermissionRequested, answer: p.PermissionAnswer, then: Ask) -> Ask:
    """Answer one question that was shown to somebody before, and leave all others to `then`.

    An answer holds for what was shown: the same call in the same directory, sandbox and policy.
    """
    left = [answer]

    async def ask(asked: p.PermissionRequested) -> p.PermissionAnswer:
        if left and _same(question, asked):
            return left.pop()
        return await then(asked)

    return ask


def _same(shown: p.PermissionRequested, asked: p.PermissionRequested) -> bool:
    def told(one: p.PermissionRequested) -> tuple[object, ...]:
        diff = one.diff.digest if one.diff is not None else ""
        return (one.intent_id, one.intent_digest, one.argv, one.cwd, one.tier, one.effects, one.policy, diff)

    return told(shown) == told(asked)


def pending(records: list[Any], state: State) -> p.PermissionRequested | None:
    """Find the question that a paused run waits with."""
    for one in state.open[:1]:
        if one.stage in ("in_doubt", "started"):
            return p.PermissionRequested(
                intent_id=one.intent_id,
                tool_name=one.tool_name,
                intent_digest=one.digest,
                summary=f"run {one.tool_name} again: it started once and nobody saw its end",
                why="in doubt",
                choices=("once", "deny"),
            )
        asked = (record.value() for record in reversed(records) if record.type == p.PermissionRequested.type)
        return next((q for q in asked if isinstance(q, p.PermissionRequested) and q.intent_id == one.intent_id), None)
    return None
