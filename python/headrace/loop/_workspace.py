"""What a workspace holds, as one hash: is it still the one that a run left?"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

__all__ = ["hash_workspace"]

SKIPPED: Final = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", "target"})
"""Folders that tools remake or keep for themselves: a change there is none of the task's."""

WHOLE: Final = 8 << 20
"""Bytes of a file that is read whole. A larger one is told by its size and its time of change."""


def hash_workspace(root: Path) -> str:
    """Hash names, kinds and contents below a folder. Blocks: call it in a thread.

    - Raises `OSError`: the folder cannot be read. What vanishes meanwhile is not there.
    """
    total = hashlib.sha256()
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = Path(folder) / name
            total.update(f"{path.relative_to(root).as_posix()}\0{_told(path)}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _told(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link\0{path.readlink()}"
        if not path.is_file():
            return "special"
        stat = path.stat()
        mode = "x" if stat.st_mode & 0o100 else "-"
        if stat.st_size > WHOLE:
            return f"large\0{mode}\0{stat.st_size}\0{stat.st_mtime_ns}"
        return f"file\0{mode}\0{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except FileNotFoundError:
        return "gone"


def _raise(error: OSError) -> None:
    raise error
