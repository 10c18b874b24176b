"""A run on a terminal: the model's text on standard output, and all about it on standard error.

1. What a model or a tool wrote is shown with its control characters as pictures: nothing of it moves the cursor, and
   nothing of it is markup.
2. A secret that is known is shown as little as it is recorded, also where a delta cuts it in two.
3. An approval card shows exactly what would be done: every argument as it would be passed.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.harness.view import ENDS, Live, clean
from headrace.log import payloads as p
from headrace.log.records import LogError, Record
from headrace.loop import AskLater
from headrace.tools.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.events import ModelEvent
    from headrace.harness.host import Place
    from headrace.harness.keyboard import Lines
    from headrace.log.artifacts import Artifacts
    from headrace.log.state import State

__all__ = ["TerminalView", "money"]

NAMES: Final = ("command", "path", "pattern", "query", "url")
"""Of a call's input, what tells best what it wants."""
LINE: Final = 200
HEAD: Final = 6
TAIL: Final = 10
"""Lines of an output that a card shows."""
DIFF_LINES: Final = 60
TIERS: Final = {
    "A": "A: its own namespaces and a system-call filter",
    "B": "B: Landlock and a system-call filter",
    "C": "C: no sandbox, only limits",
}
WORDS: Final[dict[str, Literal["once", "session", "rule"]]] = {
    "o": "once",
    "once": "once",
    "s": "session",
    "session": "session",
    "r": "rule",
    "rule": "rule",
}


def money(micros: int) -> str:
    """Write millionths of a US dollar."""
    return f"${micros / 1e6:.4f}"


class TerminalView:
    """Shows a run.

    - `keyboard`: where answers are typed; None: nobody is there.
    """

    def __init__(self, *, keyboard: Lines | None, answers: bool = True) -> None:
        self._about = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._keyboard, self._answers = keyboard, answers
        self._is_mid_line = False
        self._is_thinking = False
        self._known_cost = False
        self._wish = ""
        self._live = Live(Redactor())

    def begun(self, run_id: str, place: Place, state: State) -> None:
        """Say which run it is, and what holds it."""
        self._live = Live(place.redactor)
        told = f"{state.model} in {place.root}; mode {place.mode}; sandbox {TIERS[place.executor.tier]}"
        self._say(Text.assemble(("run ", "dim"), (run_id, "bold"), (f"  {clean(told)}", "dim")))

    def seen(self, what: Record | ModelEvent) -> None:
        """Show a model's text as it comes, and of the records what a person wants to know at once."""
        if isinstance(what, Record):
            self._recorded(what.value())
            return
        self._stream(self._live.take(what))
        if what.type in ENDS:
            self._end_thought()
            self._end_line()

    def _recorded(self, value: p.Payload | None) -> None:
        match value:
            case p.ModelFailed():
                self._stream(self._live.end())  # it was called off, and no event has said so
                self.note(f"the model failed: {value.kind} {value.message or ''}".rstrip())
            case p.ModelUsed():
                self._used(value)
            case p.ToolValidated():
                self._wish = _wish(value.normalised)
            case p.ExecutionStarted():
                self._say(Text.assemble(("▸ ", "cyan"), (value.tool_name, "bold cyan"), f"  {self._wish}"))
            case p.ModelFellBack():
                self.note(f"{value.from_model} -> {value.to_model}: {value.reason}")
            case p.ContextCompacted():
                self.note(f"the conversation was summarised: {value.tokens_before} -> {value.tokens_after} tokens")
            case p.VerificationRecorded():
                mark, style = ("✓", "bold green") if value.passed else ("✗", "bold red")
                self._say(
                    Text.assemble(
                        (f"{mark} verified: " if value.passed else f"{mark} does not hold: ", style), clean(value.claim)
                    )
                )
            case p.BudgetExceeded():
                self.note(f"the budget of {value.which} is used up: {value.used} of {value.limit}")
            case _:
                pass

    def _stream(self, deltas: Iterable[tuple[Any, str]]) -> None:
        for event, text in deltas:
            if event.type != "model.reasoning_delta":
                self._end_thought()
                self._write(text)
                continue
            if not self._is_thinking:
                self._end_line()
                self._is_thinking = True
            self._about.print(Text(clean(text), "dim italic"), end="")

    def _end_thought(self) -> None:
        if self._is_thinking:
            self._is_thinking = False
            self._about.print()

    def _write(self, text: str) -> None:
        if text:
            shown = clean(text)
            sys.stdout.write(shown)
            sys.stdout.flush()
            self._is_mid_line = not shown.endswith("\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")

    def _say(self, what: Any) -> None:
        self._end_thought()
        self._end_line()
        self._about.print(what)

    def _used(self, value: p.ModelUsed) -> None:
        self._known_cost |= value.money_micros is not None
        cost = f", {money(value.money_micros)}" if value.money_micros is not None else ""
        self._say(Text(f"  {value.input_tokens or 0:,} tokens in, {value.output_tokens or 0:,} out{cost}", "dim"))

    async def card(self, facts: list[p.Payload], observed: p.ToolObserved, artifacts: Artifacts) -> None:
        """Show what came of a tool."""
        ended = next((one for one in facts if isinstance(one, p.ExecutionFinished)), None)
        intent = next((one for one in facts if isinstance(one, p.ToolIntent)), None)
        if ended is None and intent is not None:
            wish = _wish(intent.raw_input_text)
            self._say(Text.assemble(("▸ ", "cyan"), (clean(intent.tool_name), "bold cyan"), f"  {wish}"))
        if ended is not None and ended.changes:
            for change in ended.changes:
                await self._diff(change.diff, artifacts)
        else:
            self._say(_shortened(observed.text, TAIL if intent is not None and intent.tool_name == "bash" else 0))
        self._say(_verdict(facts, ended, observed))

    async def _diff(self, ref: p.ArtifactRef | None, artifacts: Artifacts) -> None:
        if ref is None:
            return
        try:
            text = (await artifacts.get(ref.digest)).decode("utf-8", "replace")
        except LogError:
            return
        self._say(_coloured(text))

    async def ask(self, question: p.PermissionRequested, artifacts: Artifacts) -> p.PermissionAnswer:
        """Show the card, and take the answer."""
        if self._keyboard is None or not self._answers:
            raise AskLater(question.summary)
        await self.show_question(question, artifacts)
        while True:
            self._prompt(_choices(question))
            line = await self._keyboard.next()
            if line is None:
                raise AskLater(question.summary)
            word, _, reason = line.strip().partition(" ")
            if word.lower() in ("d", "deny", "n", "no"):
                return p.PermissionAnswer(decision="deny", reason=reason.strip())
            scope = WORDS.get(word.lower())
            if scope is not None and scope in question.choices:
                return p.PermissionAnswer(decision="allow", scope=scope)

    async def show_question(self, question: p.PermissionRequested, artifacts: Artifacts) -> None:
        """Show what is asked for."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", justify="right")
        table.add_column(overflow="fold")
        for name, text in (
            ("would", question.summary),
            ("argv", shlex.join(question.argv)),
            ("directory", question.cwd),
            ("sandbox", TIERS.get(question.tier, question.tier) if question.argv else ""),
            ("effects", ", ".join(question.effects)),
            ("rule", question.rule),
            ("asked as", question.why),
        ):
            if text:
                table.add_row(name, Text(clean(text)))
        self._say(
            Panel(table, title=Text(f"may it? {clean(question.tool_name)}"), border_style="yellow", title_align="left")
        )
        await self._diff(question.diff, artifacts)

    async def listen(self) -> str | None:
        """Take what the user says."""
        if self._keyboard is None:
            return None
        if self._answers:
            self._prompt("> ")
        return await self._keyboard.next()

    async def overhear(self) -> str | None:
        """Take what is typed while the run is under way."""
        return await self._keyboard.next() if self._keyboard is not None and self._answers else None

    def _prompt(self, words: str) -> None:
        self._end_line()
        sys.stderr.write(words)
        sys.stderr.flush()

    def note(self, words: str) -> None:
        """Say something beside."""
        self._say(Text(f"  {clean(words)}", "yellow"))

    def failed(self, words: str, code: int) -> None:  # noqa: ARG002 - the exit status says it
        """Say what is wrong, in one line."""
        self._end_line()
        sys.stderr.write(f"headrace: {clean(words)}\n")

    def ended(self, run_id: str, state: State, text: str, code: int) -> None:
        """Say what it came to."""
        self._end_line()
        if not text.strip() and state.status == "finished" and code:
            self.note(state.reason)
        good = code == 0
        parts = [
            f"{state.status}: {state.reason}",
            f"{state.steps} step{'' if state.steps == 1 else 's'}",
            f"{state.tokens:,} tokens",
            money(state.money_micros) if self._known_cost or state.money_micros else "cost not known",
            f"{state.used_ms / 1000:.1f} s",
        ]
        self._say(
            Text.assemble(("run ", "dim"), (run_id, "bold"), "  ", (" · ".join(parts), "green" if good else "yellow"))
        )
        if state.status == "paused":
            waits = state.reason in ("asked", "in_doubt")
            how = f"approve {run_id}" if waits and state.open else f"resume {run_id}" + (" --say TEXT" if waits else "")
            self._say(Text(f"  headrace {how} goes on", "dim"))


def _choices(question: p.PermissionRequested) -> str:
    words = {"once": "[o]nce", "session": "[s]ession", "rule": "[r]ule", "deny": "[d]eny REASON"}
    return f"{', '.join(words[one] for one in question.choices)}? "


def _wish(text: str) -> str:
    """Say in a line what a call wants: a command, a path, a question; else its input as it is."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    named = [value[name] for name in NAMES if isinstance(value.get(name), str)] if isinstance(value, dict) else []
    line = " ".join(clean(named[0] if named else text).split("\n"))
    return line if len(line) <= LINE else f"{line[:LINE]}..."


def _shortened(text: str, tail: int) -> Text:
    lines = clean(text.rstrip("\n")).split("\n") if text.strip() else []
    if len(lines) > HEAD + tail:
        left_out = f"... {len(lines) - HEAD - tail} lines ..."
        lines = [*lines[:HEAD], left_out, *lines[len(lines) - tail :]]
    return Text("\n".join(f"  │ {line}" for line in lines), "dim")


def _coloured(diff: str) -> Text:
    lines = clean(diff.rstrip("\n")).split("\n")
    made = Text()
    for at, line in enumerate(lines[:DIFF_LINES]):
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        made.append(f"{'' if at == 0 else chr(10)}  │ {line}", style)
    if len(lines) > DIFF_LINES:
        made.append(f"\n  │ ... {len(lines) - DIFF_LINES} lines ...", "dim")
    return made


def _verdict(facts: list[p.Payload], ended: p.ExecutionFinished | None, observed: p.ToolObserved) -> Text:
    started = next((one for one in facts if isinstance(one, p.ExecutionStarted)), None)
    decided = next((one for one in reversed(facts) if isinstance(one, p.PermissionDecided)), None)
    parts = [observed.code.replace("_", " ")]
    if ended is not None:
        parts += [f"exit {ended.exit_code}"] if ended.exit_code is not None else []
        parts.append(f"{ended.duration_ms} ms")
    if started is not None and started.argv:
        parts.append(f"sandbox {started.sandbox}")
    if decided is not None:
        word = "allowed" if decided.decision == "allow" else "denied"
        parts.append(f"{word} by {decided.rule or decided.by}")
    if observed.omitted_bytes:
        parts.append(f"{observed.omitted_bytes:,} bytes not shown to the model")
    if observed.redactions:
        parts.append(f"{observed.redactions} secrets taken out")
    good = observed.code == "ok"
    return Text.assemble(("  ✓ " if good else "  ✗ ", "green" if good else "red"), (" · ".join(parts), "dim"))
