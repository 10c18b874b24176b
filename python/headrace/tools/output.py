"""What a tool gives, on its way: redacted, cut for the model's view, kept whole where the view is not all of it.

1. Every byte passes the redactor before anything else sees it, the artifact as well.
2. The whole is kept in a file without a name until it is known whether anybody needs it.
3. No more is kept than an artifact may hold; what is beyond is counted as omitted, and the view says so.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.tools.clip import Clip

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.log.payloads import ArtifactRef
    from headrace.tools.redact import Redactor

__all__ = ["ARTIFACT_LIMIT", "Keep", "Observed", "RedactedOutput"]

Keep = "Callable[[bytes], Awaitable[ArtifactRef]]"
"""Keeps a content, and returns once it is durable."""

ARTIFACT_LIMIT: Final = 64 << 20
"""Bytes. As the log's artifacts have it."""
IN_MEMORY: Final = 256 * 1024
"""Of an output, before it goes to a file: most are shorter."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is left of an output."""

    text: str
    omitted: int
    whole: ArtifactRef | None
    redactions: int


class RedactedOutput:
    """Takes an output in pieces."""

    __slots__ = ("_clip", "_kept", "_spool", "_stream", "raw_bytes")

    def __init__(self, redactor: Redactor, view_bytes: int) -> None:
        self._stream = redactor.stream()
        self._clip = Clip(view_bytes)
        self._spool: tempfile.SpooledTemporaryFile[bytes] | None = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self._kept = 0
        #: As the tool wrote it.
        self.raw_bytes: int = 0

    def write(self, data: bytes) -> None:
        """Take a piece."""
        self.raw_bytes += len(data)
        self._take(self._stream.feed(data))

    def _take(self, data: bytes) -> None:
        self._clip.feed(data)
        room = ARTIFACT_LIMIT - self._kept
        if self._spool is not None and room > 0:
            self._spool.write(data[:room])
            self._kept += len(data[:room])

    async def finish(self, keep: Callable[[bytes], Awaitable[ArtifactRef]] | None) -> Observed:
        """End the output. What the view leaves out is kept whole first."""
        self._take(self._stream.finish())
        view = self._clip.done()
        whole = None
        if view.omitted and keep is not None and self._spool is not None:
            self._spool.seek(0)
            whole = await keep(self._spool.read())
        self.close()
        reference = "" if whole is None else f"artifact {whole.digest}"
        if whole is not None and whole.size < view.total:
            reference += f" (its first {whole.size} bytes)"
        return Observed(view.text(reference), view.omitted, whole, self._stream.count)

    def close(self) -> None:
        """Let go of the file."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
