"""What the commands do: each opens its host, does one thing, and gives an exit status."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from headrace.config import ConfigurationError
from headrace.harness import demo, exits
from headrace.harness.checks import Check
from headrace.harness.host import INSTRUCTIONS, Host, MisuseError, Place, open_host, open_log
from headrace.harness.lead import answer_first, lead, pending
from headrace.harness.view import clean
from headrace.log import payloads as p
from headrace.log.eventlog import FencedError
from headrace.log.records import LogError, TamperedError
from headrace.log.state import IllegalEventError, State, fold
from headrace.loop import AskLater, GateClosed, Settings, fork, resume, start
from headrace.startup import configure
from headrace.store import StoreError, default_path

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from headrace.config import Config
    from headrace.harness.view import View
    from headrace.log.records import Record
    from headrace.loop import Ask
    from headrace.loop._runs import FindingName
    from headrace.tools.execution import Tier
    from headrace.tools.permission import Mode

__all__ = ["Wanted", "approve", "branch", "chat", "ended_with", "resumed", "run", "run_demo", "store_of", "view_for"]

T = TypeVar("T")
CONTEXT_SHARE = 0.8
"""Of a model's window, beyond which the conversation is summarised: the answer needs room as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a command line asks for.

    - `mode`: None: the run's own, or `default`.
    - `check`: the command that has to end with 0 before a run is verified.
    """

    config: Path | None = None
    store: str | None = None
    project: str | None = None
    mode: Mode | None = None
    tier: Tier | None = None
    network: bool = False
    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    check: str | None = None
    budget: p.Budget = field(default_factory=p.Budget)
    headless: bool = False
    as_json: bool = False
    is_chat: bool = False

    @property
    def limited(self) -> bool:
        """Whether a budget was given."""
        return self.budget != p.Budget()


def view_for(wanted: Wanted) -> View:
    """Make what tells of the run."""
    if wanted.as_json:
        from headrace.harness.jsonl import JsonView

        return JsonView()
    from headrace.harness.keyboard import Lines
    from headrace.harness.terminal import TerminalView

    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        return TerminalView(keyboard=None)
    is_person = os.isatty(descriptor) and sys.stderr.isatty() and not wanted.headless
    return TerminalView(keyboard=Lines(descriptor) if is_person or wanted.is_chat else None, answers=is_person)


def ended_with(view: View | None, act: Coroutine[Any, Any, int] | Callable[[], int]) -> int:
    """Do something, and turn what it raises into words and an exit status."""
    try:
        return act() if callable(act) else asyncio.run(act)
    except ConfigurationError as error:
        words, code = str(error), exits.MISUSE
    except GateClosed as closed:
        names = " ".join(f"--accept {one.name}" for one in closed.findings)
        words, code = f"{closed}; look at it, and resume with {names}", exits.GATE
    except TamperedError as error:
        words, code = str(error), exits.FAILED
    except FencedError:
        words, code = "another process has taken the run over", exits.FAILED
    except (IllegalEventError, p.PayloadError) as error:
        words, code = f"the log does not let this follow: {error}", exits.FAILED
    except KeyboardInterrupt:
        words, code = "interrupted before anything was begun", exits.INTERRUPTED
    except (MisuseError, LogError, StoreError) as error:
        words, code = str(error), exits.MISUSE
    except BrokenPipeError:
        sys.stderr.close()  # the reader has left, and Python would say so at exit
        return exits.FAILED
    if view is not None:
        view.failed(words, code)
    else:
        sys.stderr.write(f"headrace: {clean(words)}\n")
    return code


def store_of(config: Path | None, store: str | None) -> str:
    """Say which store is meant. Raises `ConfigurationError`."""
    return store or configure(config, environ=os.environ).config.store.url


def _config(wanted: Wanted) -> Config:
    return configure(wanted.config, environ=os.environ).config


def _place(wanted: Wanted, config: Config, folder: str, mode: str) -> Place:
    return Place.make(
        folder,
        config=config,
        mode=cast("Mode", mode),
        environ=os.environ,
        tier=wanted.tier,
        network=wanted.network,
    )


def _settings(wanted: Wanted, host: Host, place: Place, model: str) -> Settings:
    from headrace.log.seals import SealKey

    path = default_path(os.environ).parent / "seal.key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        seal = SealKey.load(path)
    except OSError:
        seal = None  # a chain without a seal: whole, and nobody's
    window = host.facts(model).context_window
    return Settings(
        is_chat=wanted.is_chat,
        price=host.cost,
        redact=lambda text: place.redactor.text(text)[0],
        context_tokens=None if window is None else int(window * CONTEXT_SHARE),
        seal=seal,
        look=place.look,
        verify=Check(wanted.check, place, os.environ) if wanted.check else None,
    )


def _check_budget(wanted: Wanted, host: Host, model: str) -> None:
    if wanted.budget.money_micros is not None and host.facts(model).prices is None:
        words = "say its price in [catalogue], or limit --max-tokens"
        raise MisuseError(f"--max-cost: nobody knows what {model} costs; {words}")


async def run(wanted: Wanted, goal: str, view: View) -> int:
    """Begin a run and lead it."""
    config = _config(wanted)
    place = _place(wanted, config, wanted.project or ".", wanted.mode or "default")
    return await _begin(wanted, goal, view, config, place, scripted=None)


async def run_demo(wanted: Wanted, view: View) -> int:
    """Lead the demonstration: with the scripted model, or with the one that is wanted."""
    config = _config(wanted)
    folder = demo.project()
    view.note(f"the project is in {folder}")
    place = _place(wanted, config, folder, wanted.mode or "default")
    if wanted.mode is None and place.executor.tier in ("A", "B"):
        place = replace(place, mode="auto") if place.policy.allows_mode("auto") else place
    asked = replace(wanted, check=wanted.check or demo.CHECK, model=wanted.model or demo.SELECTOR)
    return await _begin(asked, demo.TASK, view, config, place, scripted=0 if wanted.model is None else None)


async def _begin(wanted: Wanted, goal: str, view: View, config: Config, place: Place, *, scripted: int | None) -> int:
    async with open_host(config, store=wanted.store, scripted_from=scripted) as host:
        model = host.selector(wanted.model)
        for fallback in wanted.fallbacks:
            host.selector(fallback)
        _check_budget(wanted, host, model)
        started = p.RunStarted(
            goal=place.redactor.text(goal)[0],
            model=model,
            cwd=place.root,
            instructions=INSTRUCTIONS,
            workspace=await place.look(),
            policy=place.policy.hash,
            mode=place.mode,
            budget=wanted.budget,
            fallbacks=wanted.fallbacks,
            release=_release(),
        )
        opened = await start(host.log, started)
        tools = place.tools(host.log, opened.state.run_id, environ=os.environ, web=host.web, note=view.note)
        settings = _settings(wanted, host, place, model)
        return await lead(opened, host=host, place=place, tools=tools, view=view, settings=settings)


async def chat(wanted: Wanted, first: str | None, view: View) -> int:
    """Begin a conversation."""
    text = first if first is not None else await view.listen()
    if text is None or not text.strip():
        raise MisuseError("nothing was said: headrace chat 'TEXT', or type it")
    return await run(wanted, text, view)


async def _records(wanted: Wanted, config: Config, run_id: str) -> list[Record]:
    async with open_log(wanted.store or config.store.url) as log:
        return await log.read(run_id)


async def resumed(
    wanted: Wanted,
    run_id: str,
    view: View,
    *,
    accept: Sequence[FindingName] = (),
    say: str | None = None,
    ask: Ask | None = None,
) -> int:
    """Take a run up again.

    - `say`: the user's next words.
    - `ask`: who answers, instead of the view.
    """
    config = _config(wanted)
    records = await _records(wanted, config, run_id)
    state = fold(records)
    if say is not None and state.open:
        raise MisuseError(f"--say: an intent waits for an answer first: headrace approve {run_id}")
    waits = say is None and not state.open and state.reason == "asked" and state.finish == "stop"
    if say is None and not state.open and not (wanted.is_chat and state.status == "paused"):
        if state.status == "finished":
            raise MisuseError(f"run {run_id} has finished ({state.reason}): --say 'TEXT' goes on with it")
        if waits:
            raise MisuseError(f"run {run_id} waits for what you say: --say 'TEXT'")
    place = _place(wanted, config, state.cwd, wanted.mode or state.mode)
    async with open_host(config, store=wanted.store, scripted_from=_script_at(state, records)) as host:
        opened = await resume(
            host.log,
            run_id,
            workspace=await place.look(),
            policy=place.policy.hash,
            budget=_widened(state.budget, wanted.budget) if wanted.limited else None,
            accept=accept,
        )
        for finding in opened.findings:
            view.note(f"{finding.name}: {finding.detail}")
        tools = place.tools(host.log, run_id, environ=os.environ, web=host.web, note=view.note)
        settings = _settings(wanted, host, place, state.model)
        if say is not None:
            said = p.UserMessage(text=place.redactor.text(say)[0], kind="reply")
            records = await opened.log.append(said)
            opened.records.extend(records)
            fold(records, opened.state)
        return await lead(
            opened,
            host=host,
            place=place,
            tools=tools,
            view=view,
            settings=settings,
            ask=ask,
            listens_first=waits,
        )


async def approve(
    wanted: Wanted,
    run_id: str,
    view: View,
    *,
    answer: p.PermissionAnswer | None,
    accept: Sequence[FindingName] = (),
) -> int:
    """Answer the question that a run waits with, and lead the run on.

    - `answer`: None: show the question and ask.
    """
    config = _config(wanted)
    async with open_log(wanted.store or config.store.url) as log:
        records = await log.read(run_id)
        state = fold(records)
        question = pending(records, state)
        if state.status != "paused" or question is None:
            raise MisuseError(f"run {run_id} has no question open; it is {state.status} {state.reason}".rstrip())
        if answer is None:
            try:
                answer = await view.ask(question, log.artifacts)
            except AskLater:
                await view.show_question(question, log.artifacts)
                words = "say --allow once, --allow session, --allow rule or --deny REASON"
                raise MisuseError(f"run {run_id} waits for an answer: {words}") from None
        elif answer.decision == "allow" and answer.scope not in question.choices:
            raise MisuseError(f"--allow {answer.scope}: the choices are {', '.join(question.choices)}")

    async def then(asked: p.PermissionRequested) -> p.PermissionAnswer:
        async with open_log(wanted.store or config.store.url) as other:
            return await view.ask(asked, other.artifacts)

    return await resumed(wanted, run_id, view, accept=accept, ask=answer_first(question, answer, then))


SHOWN: Final = 8
"""Files that are named where a fork says what it does not take back."""


@dataclass(frozen=True, slots=True)
class Branched:
    """A run that was branched off.

    - `changed`: files that the parent changed after that event, as far as its tools said so; `commands`: how often it
      ran what may have changed others. None of it is undone: the workspace is what it is.
    """

    run_id: str
    at: int
    changed: tuple[str, ...]
    commands: int

    def words(self) -> str:
        """Say what a fork does not do."""
        told = "the workspace stays as it is: a fork takes back events and no effects"
        later = []
        if self.changed:
            some = ", ".join(self.changed[:SHOWN]) + (", ..." if len(self.changed) > SHOWN else "")
            later.append(f"{len(self.changed)} file{'' if len(self.changed) == 1 else 's'} ({some})")
        if self.commands:
            later.append(f"whatever {self.commands} command{'' if self.commands == 1 else 's'} did")
        if later:
            told += f". Since event {self.at} the run has changed {' and '.join(later)}"
        return told


async def branch(wanted: Wanted, run_id: str, *, at: int | None, model: str | None) -> Branched:
    """Branch a run off."""
    config = _config(wanted)
    async with open_log(wanted.store or config.store.url) as log:
        records = await log.read(run_id)
        opened = await fork(log, run_id, at=at, model=model, why="headrace fork")
        at = len(records) if at is None else at
        ended = [value for record in records[at:] if isinstance(value := record.value(), p.ExecutionFinished)]
        started = [value for record in records[at:] if isinstance(value := record.value(), p.ExecutionStarted)]
        changed = dict.fromkeys(change.path for one in ended for change in one.changes)
        ran = sum("execute" in one.effects for one in started)
        return Branched(opened.state.run_id, at, tuple(changed), ran)


def _script_at(state: State, records: Sequence[Record]) -> int | None:
    """Say where the demonstration's script stands; None for any other model."""
    if state.model != demo.SELECTOR:
        return None
    return sum(record.type == p.ModelEnded.type for record in records)


def _widened(before: p.Budget, now: p.Budget) -> p.Budget:
    """Give a budget in which what was said now takes the place of what was said before."""
    return p.Budget(
        steps=before.steps if now.steps is None else now.steps,
        tokens=before.tokens if now.tokens is None else now.tokens,
        money_micros=before.money_micros if now.money_micros is None else now.money_micros,
        time_ms=before.time_ms if now.time_ms is None else now.time_ms,
    )


def _release() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return ""
