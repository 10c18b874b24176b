"""What a caller may know of a stream beside its events: who was asked, attempt by attempt, and what came of each.

Never here: a secret, a header, a body.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from headrace.events import ProviderErrorEvent
    from headrace.requests import AttemptSpec
    from headrace.routes import Hop

__all__ = ["AttemptFacts", "Attempts", "RouteFacts"]


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """Whom a selector leads to: a provider row, the wire that it is spoken to in, and the model's name there."""

    provider: str
    protocol: str
    model: str


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """One attempt.

    - `credential`: its id. `delay_s`: seconds that it waited before it began; `duration_s`: until it ended.
    - `error`: why it failed.
    """

    attempt: int
    provider: str | None
    protocol: str
    credential: str | None = None
    delay_s: float = 0.0
    outcome: Literal["running", "finished", "failed", "aborted"] = "running"
    error: ProviderErrorEvent | None = field(default=None, repr=False)
    duration_s: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0


class Attempts:
    """The attempts of one request, as they come."""

    __slots__ = ("_begun", "hops", "listed")

    def __init__(self) -> None:
        self.listed: tuple[AttemptFacts, ...] = ()
        self.hops: tuple[Hop, ...] = ()
        self._begun = 0.0

    def begin(self, spec: AttemptSpec, credential: str | None, hops: tuple[Hop, ...]) -> None:
        """Note that an attempt is about to be made, after these steps along its route."""
        self.hops = hops
        self._begun = time.monotonic() + spec.delay
        begun = AttemptFacts(spec.attempt, spec.provider, spec.protocol, credential, spec.delay)
        self.listed = (*self.listed, begun)

    def end(self, error: ProviderErrorEvent | None, *, sent: int, received: int) -> None:
        """Note how the last one ended; without an error it finished."""
        if not self.listed or self.listed[-1].outcome != "running":
            return
        outcome: Literal["finished", "failed", "aborted"] = "finished"
        if error is not None:
            outcome = "aborted" if error.kind == "aborted" else "failed"
        ended = replace(
            self.listed[-1],
            outcome=outcome,
            error=error,
            duration_s=max(0.0, time.monotonic() - self._begun),
            bytes_sent=sent,
            bytes_received=received,
        )
        self.listed = (*self.listed[:-1], ended)
