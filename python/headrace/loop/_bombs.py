"""What makes a replay unable to touch the world: every effect is a bomb.

Python tells an audit hook of what is about to happen; within `bombs()` the hook raises for everything that writes,
starts, connects or listens. It knows the thread that replays: others go on undisturbed.

A hook cannot be taken away, so it is put in once, at the first replay. Clock and randomness are not audited: nothing on
the way of a replay takes either, which its tests prove with a system-call filter and traps.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from headrace.log.records import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EffectError", "bombs"]

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PREFIXES: Final = ("socket.", "subprocess.", "shutil.", "ftplib.", "smtplib.", "urllib.", "http.", "sqlite3.")
_READS: Final = frozenset({"os.listdir", "os.scandir", "os.fwalk", "os.walk", "os.getxattr", "os.listxattr"})


class EffectError(LogError):
    """Something in a replay was about to touch the world."""


class _Thread(threading.local):
    depth = 0


_HERE: Final = _Thread()
_INSTALLED: Final = threading.Event()


@contextmanager
def bombs() -> Iterator[None]:
    """Let no effect happen within the block, on this thread.

    Raises `EffectError` where one was about to happen.
    """
    if not _INSTALLED.is_set():
        _INSTALLED.set()
        sys.addaudithook(_hook)
    _HERE.depth += 1
    try:
        yield
    finally:
        _HERE.depth -= 1


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _HERE.depth and _is_effect(event, args):
        raise EffectError(f"a replay touches nothing, and {event} was about to happen")


def _is_effect(event: str, args: tuple[Any, ...]) -> bool:
    if event == "open":
        _, mode, flags = args
        by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        return by_mode or (isinstance(flags, int) and bool(flags & _WRITING))
    if event.startswith("os."):
        return event not in _READS
    return event.startswith(_PREFIXES)
