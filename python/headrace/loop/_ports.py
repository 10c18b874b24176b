"""What the loop drives, and what drives the loop: models, tools, whoever is asked, and its settings.

Behaviour must not be added here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from headrace.errors import HeadraceError
from headrace.events import ModelEvent
from headrace.log.payloads import ModelUsed, Payload, PermissionAnswer, PermissionRequested, VerificationRecorded
from headrace.log.records import Record
from headrace.messages import Options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from headrace.log.menus import Menu
    from headrace.log.payloads import ToolIntent, ToolObserved
    from headrace.log.seals import SealKey
    from headrace.log.state import State
    from headrace.messages import ModelRequest
    from headrace.routes import Hop
    from headrace.runtime import AttemptFacts, RouteFacts

__all__ = [
    "Ask",
    "AskLater",
    "Look",
    "ModelStream",
    "Models",
    "NoTools",
    "Price",
    "RecordFact",
    "Seen",
    "Settings",
    "ToolRuntime",
    "Verify",
]

RecordFact: TypeAlias = Callable[[Payload], Awaitable[None]]
"""Records one fact; it is durable when this returns. What may not follow is refused (`IllegalEventError`)."""
Ask: TypeAlias = Callable[[PermissionRequested], Awaitable[PermissionAnswer]]
"""Asks somebody. Raises `AskLater` where nobody is there: the run is then paused, and resumed to answer."""
Seen: TypeAlias = Callable[[Record | ModelEvent], None]
"""Sees every record once it is durable, and every event of a model as it comes. Called in the event loop."""
Price: TypeAlias = Callable[[str, ModelUsed], int | None]
"""(selector, usage) -> millionths of the currency; None where the price is not known."""

Verify: TypeAlias = Callable[[Sequence[Record]], Awaitable[VerificationRecorded]]
"""Checks what a model claims with its last answer, by doing something or by what the run's events say."""
Look: TypeAlias = Callable[[], Awaitable[str | None]]
"""Looks at the workspace: its hash, or None where nobody can tell."""


class AskLater(HeadraceError):  # noqa: N818 - what happens, and no fault
    """Nobody can answer now: the run is to be paused until somebody can."""


class ModelStream(Protocol):
    """One answer, as `headrace.runtime.Stream` gives it."""

    @property
    def attempts(self) -> tuple[AttemptFacts, ...]:
        """Who was asked so far."""

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Why another model was asked than the one that the selector leads to first."""

    def batches(self) -> AsyncIterator[list[ModelEvent]]:
        """Give events in lists, the last of them terminal."""


class Models(Protocol):
    """Who asks models: `headrace.Runtime`."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Ask."""

    def route(self, selector: str) -> RouteFacts:
        """Say whom a selector leads to, or raise `RefusedError`."""


class ToolRuntime(Protocol):
    """Who carries intents out."""

    def menu(self) -> Menu:
        """Give what models are offered now."""

    async def run(self, intent: ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> ToolObserved:
        """Carry one intent out, or not, and say what came of it.

        - `state`: the run's, to be read only: grants, hashes of what was read.
        - `record`: for every fact on the way. The observation is returned, and may have been recorded as well.

        A failure of a tool is an observation. If cancelled: nothing of the execution runs any longer, its end is
        recorded, and the cancellation goes on.
        """


@runtime_checkable
class SharingToolRuntime(ToolRuntime, Protocol):
    """One whose intents may run side by side."""

    def may_share(self, intent: ToolIntent) -> bool:
        """Say whether this one may run beside others of which it says so: it reads, and changes nothing."""


class NoTools:
    """The tool runtime of a run without tools."""

    def menu(self) -> Menu:
        """Offer nothing."""
        from headrace.log.menus import Menu

        return Menu()

    async def run(self, intent: ToolIntent, *, state: State, record: RecordFact, ask: Ask) -> ToolObserved:  # noqa: ARG002
        """Say that there is no such tool."""
        from headrace.log.payloads import ToolObserved

        words = f"there is no tool {intent.tool_name}"
        return ToolObserved(intent_id=intent.intent_id, phase="lookup", code="unknown_tool", text=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run is led.

    - `options`: what every request asks for beside its messages.
    - `context_tokens`: estimated tokens of a request beyond which the conversation is compacted; None: never.
    - `keep_tokens`: what a compaction leaves word for word.
    - `retries`: responses in a row that may fail before something else is done than asking again.
    - `wait_limit_s`: the longest wait before a repetition; a provider that asks for more is not waited for.
    - `is_chat`: an answer without intents pauses the run for the user instead of finishing it.
    - `price`: what a response cost.
    - `redact`: takes known secrets out of what models and providers say, before it is recorded.
    - `seal`: the key that seals the log whenever the run comes to a stand.
    - `look`: its hash is recorded whenever the run comes to a stand, for the gate of the next one to lead it.
    - `verify`: is asked before the run finishes with the model's answer; without it an answer is the model's word.
    - `verify_tries`: failed verifications that the model is told of; with the next one the run finishes as it is.
    """

    options: Options = field(default_factory=Options)
    context_tokens: int | None = None
    keep_tokens: int = 8000
    retries: int = 2
    wait_limit_s: float = 60.0
    is_chat: bool = False
    price: Price | None = None
    redact: Callable[[str], str] = str
    seal: SealKey | None = None
    look: Look | None = None
    verify: Verify | None = None
    verify_tries: int = 2
