"""Writes down what happens, and lets no known secret through: the one way to the log, for the runtime and its gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.log.payloads import ArtifactRef, Payload
    from headrace.tools.redact import Redactor

__all__ = ["Clerk", "short"]

MESSAGE_LIMIT: Final = 2000
"""Characters of what we say about a failure. It may quote what a model wrote, and that may be long."""


class Clerk:
    """Records facts and keeps contents, redacted.

    - `record`: takes a fact, and returns once it is durable.
    - `keep`: keeps a content as an artifact.
    """

    def __init__(
        self,
        redactor: Redactor,
        record: Callable[[Payload], Awaitable[None]],
        keep: Callable[[bytes], Awaitable[ArtifactRef]] | None,
    ) -> None:
        self.redactor = redactor
        self.keep = keep
        self._record = record

    async def record(self, payload: Payload) -> None:
        """Record a fact. Whatever a step may have overlooked, no secret that is known passes here."""
        if self.redactor and self.redactor.redact(payload.to_json())[1]:
            payload = type(payload).from_dict(self.redactor.value(payload.to_dict()))
        await self._record(payload)

    def clean(self, text: str) -> str:
        """Redact a text."""
        return self.redactor.text(text)[0]

    def words(self, text: str) -> str:
        """Redact a text, and cut it to what a message may have. In this order: half a secret is not found."""
        return short(self.clean(text))

    def value(self, value: Any) -> Any:
        """Redact JSON data."""
        return self.redactor.value(value)

    async def artifact(self, text: str) -> ArtifactRef | None:
        """Keep a text, redacted; None where there is none, or nothing that keeps it."""
        if self.keep is None or not text:
            return None
        return await self.keep(self.redactor.redact(text.encode("utf-8", "replace"))[0])


def short(text: str) -> str:
    """Cut a message, and say so."""
    left_out = len(text) - MESSAGE_LIMIT
    return text if left_out <= 0 else f"{text[:MESSAGE_LIMIT]} [... {left_out} characters omitted]"
