"""Who tells of a run while it goes on: the face that `terminal` and `jsonl` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.events import ModelEvent
    from headrace.harness.host import Place
    from headrace.log import payloads as p
    from headrace.log.artifacts import Artifacts
    from headrace.log.records import Record
    from headrace.log.state import State

__all__ = ["View", "clean"]

_PICTURES = {number: chr(0x2400 + number) for number in range(32) if number not in (9, 10)}
#: What would move a terminal's cursor, or turn the direction of a line so that it reads otherwise than it runs.
_UNSEEN = dict.fromkeys(
    (0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F),
    "\N{REPLACEMENT CHARACTER}",
)
_TABLE = {**_PICTURES, **_UNSEEN}


def clean(text: str) -> str:
    """Make a text that anybody may have written safe to show: control characters become pictures of themselves."""
    return text.replace("\r\n", "\n").translate(_TABLE)


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
