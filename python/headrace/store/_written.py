"""Says when another process may have written to a database of SQLite's, by its log of writes (`-wal`) alone.

1. The kernel is asked to tell, where it can (inotify): an idle process then does nothing at all for it.
2. Elsewhere a timer looks at the file. That must stay cheap: no thread's turn, no read.
3. Either way a database that is written to without a pause is told of once every `PAUSE_S`.

Never here: what was written.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headrace._bridge import FileWatchRef

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["WriteLog", "Written"]

#: Seconds between two looks, and from one word to the next.
PAUSE_S: Final = 0.25
#: Nanoseconds in which two writes may leave one time of change: file systems take it from a coarse clock.
COARSE_NS: Final = 100_000_000


class Written:
    """Calls `hear`, in the loop, some time after each write to a file; writes close together share a call.

    - `wal`: the file. Where there is none (a journal of another kind), it may have been written to at every look.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wal: Path, hear: Callable[[], None]) -> None:
        self._loop = loop
        self._wal = wal
        self._hear = hear
        self._watch = _watch(wal)
        self._log = WriteLog(wal)
        self._timer: asyncio.TimerHandle | None = None
        if self._watch is None:
            self._look()
        else:
            self._listen()

    def close(self) -> None:
        """Call nobody again."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._loop.remove_reader(self._watch.fileno())
            self._watch = None

    def _listen(self) -> None:
        if self._watch is not None:
            self._loop.add_reader(self._watch.fileno(), self._told, self._watch)

    def _told(self, watch: FileWatchRef) -> None:
        self._loop.remove_reader(watch.fileno())
        if watch.drain():
            self._timer = self._loop.call_later(PAUSE_S, self._listen)
        else:
            # The file went, and another may stand in its place.
            self._watch = _watch(self._wal)
            self._timer = self._loop.call_later(PAUSE_S, self._look if self._watch is None else self._listen)
        self._hear()

    def _look(self) -> None:
        self._timer = self._loop.call_later(PAUSE_S, self._look)
        if self._log.may_have_changed():
            self._hear()


def _watch(wal: Path) -> FileWatchRef | None:
    try:
        return FileWatchRef(wal)
    except OSError:
        return None


class WriteLog:
    """Says whether a database may have been written to, by its `-wal` file and without reading it.

    - `path`: of that file. Where there is none, nothing can be ruled out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def may_have_changed(self) -> bool:
        """Whether it is another than at the last call, or may be one that looks the same."""
        try:
            found = self._path.stat()
        except OSError:
            self._seen = None
            return True
        now = (found.st_ino, found.st_size, found.st_mtime_ns)
        late = abs(time.time_ns() - found.st_mtime_ns) < COARSE_NS
        # One that changed so lately says nothing at the next call either: what was written since may look the same.
        seen, self._seen = self._seen, None if late else now
        return late or seen != now
