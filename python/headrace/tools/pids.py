"""A control group that holds a command to a number of processes where the kernel's limit per user does not: for root.

1. One group a command, beside our own: in version 2 of control groups a group that has processes can have no groups
   below it that limit anything.
2. Where none can be made (no root, no `pids` controller, a read-only hierarchy), there is none, and whoever wants to
   hold the command watches it.

Never here: what is counted too much, and what happens then.
"""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProcessGroup", "beside_us", "sweep"]

ROOT: Final = Path("/sys/fs/cgroup")
TRIES: Final = 50
PAUSE_S: Final = 0.002
"""Between two tries to remove a group whose last process is going."""

_numbers = itertools.count()


class ProcessGroup:
    """A group that exists. `entry` is the file by which a process enters it."""

    __slots__ = ("_folder", "entry")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.entry: str = str(folder / "cgroup.procs")

    @classmethod
    def make(cls, parents: tuple[Path, ...], most: int) -> ProcessGroup | None:
        """Make one below the first of these folders that takes it.

        - `most`: processes and threads that it may have.
        """
        for parent in parents:
            folder = parent / f"headrace-{os.getpid()}-{next(_numbers)}"
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                (folder / "pids.max").write_text(str(most))
            except OSError:
                with suppress(OSError):
                    folder.rmdir()
                continue
            return cls(folder)
        return None

    def refused(self) -> int:
        """Say how often the kernel has refused a process."""
        with suppress(OSError, ValueError):
            for line in (self._folder / "pids.events").read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "max":
                    return int(number)
        return 0

    def remove(self) -> None:
        """Take it away, once its processes are gone. Blocks for a tenth of a second at most."""
        for _ in range(TRIES):
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(PAUSE_S)
            else:
                return


def sweep(parents: tuple[Path, ...]) -> None:
    """Take away what processes left that were killed. A group that still holds something stays."""
    for parent in parents:
        for folder in parent.glob("headrace-*-*"):
            maker = folder.name.split("-")[1]
            if not Path("/proc", maker).exists():
                with suppress(OSError):
                    folder.rmdir()


def beside_us(*, root: Path = ROOT, listed: str | None = None) -> tuple[Path, ...]:
    """Find the folders in which a group with a limit may be made.

    - `root`: where control groups are mounted; `listed`: what `/proc/self/cgroup` says.
    """
    if listed is None:
        try:
            listed = Path("/proc/self/cgroup").read_text()
        except OSError:
            return ()
    return tuple(dict.fromkeys(_places(root, listed)))


def _places(root: Path, listed: str) -> Iterator[Path]:
    for line in listed.splitlines():
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            yield root / "pids" / path.lstrip("/")
            yield root / "pids"
        elif not controllers:
            own = root / path.lstrip("/")
            for folder in (own.parent if own != root else root, root):
                with suppress(OSError):
                    if "pids" in (folder / "cgroup.subtree_control").read_text().split():
                        yield folder
