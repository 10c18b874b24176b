"""Cut an output for the model's view: its head, its tail, and exactly how much is left out between them (T5).

1. `head + omitted + tail` is the whole, to the byte; a character is never cut in two.
2. The cut says what it is, how much is gone, and where the whole is kept.
3. A stream is cut as it comes: never more than the view and a piece are held.

Never here: what a text means.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

__all__ = ["VIEW_BYTES", "Clip", "Clipped", "clip"]

VIEW_BYTES: Final = 24 * 1024
"""Of a tool's output in a model's sight: some 6,000 tokens, a long test report or 400 lines of a program."""
HEAD_SHARE: Final = 0.5
LONGEST_CHARACTER: Final = 4
CONTINUATIONS: Final = bytes(range(0x80, 0xC0))


@dataclass(frozen=True, slots=True)
class Clipped:
    """A view: `total` is the size of the whole in bytes, `omitted` how much of it is not in the view."""

    head: str
    tail: str
    omitted: int
    total: int

    def text(self, reference: str = "") -> str:
        """Write the view. `reference`: where the whole is."""
        if not self.omitted:
            return self.head + self.tail
        whole = f"; the whole, {self.total} bytes, is {reference}" if reference else f" of {self.total}"
        return f"{self.head}\n[... {self.omitted} bytes omitted{whole} ...]\n{self.tail}"


class Clip:
    """Takes an output in pieces and keeps the two ends of it.

    - `limit`: bytes of both ends together.
    """

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "total")

    def __init__(self, limit: int = VIEW_BYTES) -> None:
        self._head_limit = int(limit * HEAD_SHARE)
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total: int = 0

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            # Trimmed in strides, so that many small pieces do not move the tail for each of them.
            if len(self._tail) > 2 * self._tail_limit + LONGEST_CHARACTER:
                del self._tail[: len(self._tail) - self._tail_limit]

    def done(self) -> Clipped:
        """Give the view of what came so far."""
        held = len(self._head) + len(self._tail)
        whole = self.total == held and self.total <= self._head_limit + self._tail_limit
        if whole:
            return Clipped(_text(bytes(self._head + self._tail)), "", 0, self.total)
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_limit) :])
        head = bytes(self._head[: len(self._head) - _unfinished(self._head)])
        tail = tail[_leading(tail) :]
        return Clipped(_text(head), _text(tail), self.total - len(head) - len(tail), self.total)


def clip(data: bytes, limit: int = VIEW_BYTES) -> Clipped:
    """Cut what is there as a whole."""
    one = Clip(limit)
    one.feed(data)
    return one.done()


def _text(data: bytes) -> str:
    """Decode. What is no UTF-8 shows as the replacement character; NUL too, as many wires refuse it."""
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _unfinished(data: bytes | bytearray) -> int:
    """Count the bytes at the end that begin a character and do not finish it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-LONGEST_CHARACTER:]))
    return len(decoder.getstate()[0])


def _leading(data: bytes) -> int:
    """Count the bytes at the start that finish a character whose beginning is not here."""
    return len(data[: LONGEST_CHARACTER - 1]) - len(data[: LONGEST_CHARACTER - 1].lstrip(CONTINUATIONS))
