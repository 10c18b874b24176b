"""The local journal: rows that the store could not take, in a file of this node's.

1. One JSON line a request. A torn last line, from a crash, is passed over; the rows before it are not.
2. A journal is locked by its node while it lives. One that is left without its node is taken over by the next that
   starts on this machine.
3. It has a bound. What no longer fits is refused before it happens, not lost after.
4. A disk that is full leaves no half line: what it did not take is tried again with the next rows.
5. A journal of another version is read as far as this one knows its columns.

Never here: the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import IO, TYPE_CHECKING, Final

from headrace.node._tables import ATTEMPT_COLUMNS, REQUEST_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.node._ledger import Rows
    from headrace.store import Value

__all__ = ["Journal"]

_PREFIX: Final = "journal-"


class Journal:
    """One node's journal.

    - `folder`: where journals are; None keeps the rows in memory alone.
    - `name`: the node's.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder = folder
        self._path = None if folder is None else folder / f"{_PREFIX}{name}.jsonl"
        self._file: IO[bytes] | None = None
        self._rows: list[Rows] = []
        #: Rows of which no line was made, and lines that the disk has not taken.
        self._fresh: list[Rows] = []
        self._unwritten = bytearray()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Rows]) -> None:
        """Keep rows. Raises `OSError`: the disk does not take them; they are kept in memory all the same."""
        self.hold(rows)
        self.write()

    def hold(self, rows: Sequence[Rows]) -> None:
        """Keep rows in memory. They count from now on, and are safe when they are written."""
        self._rows.extend(rows)
        self._fresh.extend(rows)

    def write(self) -> None:
        """Write what is held. Raises `OSError` as `add` does."""
        fresh, self._fresh = self._fresh, []
        if self._path is None:
            return
        self._unwritten += b"".join(map(_line, fresh))
        if self._file is None:
            self._file = self._open(self._path)
        _append(self._file, bytes(self._unwritten))
        self._unwritten.clear()

    def first(self, count: int) -> list[Rows]:
        """Give the oldest rows, without taking them out."""
        return self._rows[:count]

    def done(self, count: int) -> None:
        """Take out the oldest rows: the store has them. The file goes when the last one is out."""
        del self._rows[:count]
        if not self._rows and self._file is not None and self._path is not None:
            self._unwritten.clear()
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            self.close()

    def adopt(self) -> int:
        """Take over what nodes that are gone have left here, and give how many rows that is."""
        if self._folder is None or not self._folder.is_dir():
            return 0
        found = 0
        for path in sorted(self._folder.glob(f"{_PREFIX}*.jsonl")):
            if path == self._path:
                continue
            with contextlib.suppress(OSError), path.open("rb") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rows = list(_read(left))
                # They are taken over even where this node's own file cannot be written: then the old one stays.
                found += len(rows)
                self.add(rows)
                path.unlink(missing_ok=True)
        return found

    def close(self) -> None:
        """Let the file go; what is in it stays for the next node."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> IO[bytes]:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        file = os.fdopen(handle, "ab", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file


def _append(file: IO[bytes], data: bytes) -> None:
    """Append all of it, durably, or nothing."""
    before = file.seek(0, os.SEEK_END)
    try:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(before)
        raise


def _line(rows: Rows) -> bytes:
    import orjson

    return orjson.dumps(rows) + b"\n"


def _read(file: IO[bytes]) -> Iterator[Rows]:
    import orjson

    for line in file:
        try:
            request, attempts = orjson.loads(line)
            rows = _fitted(request, len(REQUEST_COLUMNS)), tuple(_fitted(one, len(ATTEMPT_COLUMNS)) for one in attempts)
        except (orjson.JSONDecodeError, ValueError, TypeError):
            continue
        yield rows


def _fitted(row: object, width: int) -> tuple[Value, ...]:
    """Give a row as many columns as the table has: new ones come last, and may be empty.

    Raises `ValueError`: it is no row.
    """
    if (
        not isinstance(row, list)
        or not row
        or not all(one is None or isinstance(one, str | int | float) for one in row)
    ):
        raise ValueError("no row")
    return (*row[:width], *[None] * (width - len(row)))
