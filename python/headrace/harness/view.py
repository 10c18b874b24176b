"""Who tells of a run while it goes on: the face that `terminal` and `jsonl` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.events import ModelEvent
    from headrace.harness.host import Place
    from headrace.log import payloads as p
    from headrace.log.artifacts import Artifacts
    from headrace.log.records import Record
    from headrace.log.state import State
    from headrace.tools.redact import Redactor

__all__ = ["ENDS", "TEXTS", "Live", "View", "clean"]

_PICTURES = {number: chr(0x2400 + number) for number in range(32) if number not in (9, 10)}
#: What would move a terminal's cursor, or turn the direction of a line so that it reads otherwise than it runs.
_UNSEEN = dict.fromkeys(
    (0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F),
    "\N{REPLACEMENT CHARACTER}",
)
_TABLE = {**_PICTURES, **_UNSEEN}


TEXTS: Final = frozenset({"model.text_delta", "model.reasoning_delta", "model.refusal_delta"})
ENDS: Final = frozenset({"model.started", "model.finished", "provider.error"})


def clean(text: str) -> str:
    """Make a text that anybody may have written safe to show: control characters become pictures of themselves."""
    return text.replace("\r\n", "\n").translate(_TABLE)


class Live:
    """What a model streams, as it may be shown: what is known to be secret is taken out, also where a delta cuts it.

    - `redactor`: knows the secrets.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._last: Any = None
        self._text = redactor.live()

    def take(self, event: Any) -> Iterator[tuple[Any, str]]:
        """Give each delta that can be shown now, with its text: of this event, or before it what was held back."""
        if event.type in TEXTS:
            last = self._last
            if last is not None and (last.type, last.index) != (event.type, event.index):
                yield from self.end()
            self._last = event
            if text := self._text.feed(event.text):
                yield event, text
        elif event.type in ENDS:
            yield from self.end()

    def end(self) -> Iterator[tuple[Any, str]]:
        """Give what was held back: the response, or a block of it, goes on no further."""
        last, self._last = self._last, None
        if last is not None and (text := self._text.finish()):
            yield last, text


class View(Protocol):
    """Tells of one run."""

    def begun(self, run_id: str, place: Place, state: State) -> None:
        """A run is about to be led."""

    def seen(self, what: Record | ModelEvent) -> None:
        """A record is durable, or a model's event has come."""

    async def card(self, facts: list[p.Payload], observed: p.ToolObserved, artifacts: Artifacts) -> None:
        """An intent has its observation. `facts`: what was recorded about it on the way."""

    async def ask(self, question: p.PermissionRequested, artifacts: Artifacts) -> p.PermissionAnswer:
        """Ask a person. Raises `AskLater` where nobody is there."""

    async def show_question(self, question: p.PermissionRequested, artifacts: Artifacts) -> None:
        """Show what is asked for, and take no answer."""

    async def listen(self) -> str | None:
        """Wait for what the user says next; None: nothing more."""

    async def overhear(self) -> str | None:
        """Wait for what the user says while the run is under way; None: nobody is there who could."""

    def note(self, words: str) -> None:
        """Say something about the run that is no result of it."""

    def failed(self, words: str, code: int) -> None:
        """The command ends with an error."""

    def ended(self, run_id: str, state: State, text: str, code: int) -> None:
        """The run has finished or stands still."""
