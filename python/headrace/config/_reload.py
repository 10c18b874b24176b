"""Take a changed file while running; keep the old configuration where the new one is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.config._errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.config._schema import Config

__all__ = ["Reloader", "stamp_of"]


def stamp_of(path: Path) -> object:
    """Give what changes when a file does, also when an editor puts another in its place. None: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


class Reloader:
    """Watches one file by asking; the caller asks every second or on a signal.

    - `load`: reads the file.
    - `stamp`: see `stamp_of`.
    """

    __slots__ = ("_load", "_seen", "_stamp")

    def __init__(self, load: Callable[[], Config], stamp: Callable[[], object]) -> None:
        self._load = load
        self._stamp = stamp
        self._seen = stamp()

    def poll(self, *, force: bool = False) -> Config | ConfigurationError | None:
        """Give the new configuration, or what is wrong with it (once), or None where nothing changed.

        - `force`: read it also where it looks unchanged; what it refers to may have changed.
        """
        # Before the read: a change during it is then seen next time.
        stamp = self._stamp()
        if stamp == self._seen and not force:
            return None
        self._seen = stamp
        try:
            return self._load()
        except ConfigurationError as error:
            return error
