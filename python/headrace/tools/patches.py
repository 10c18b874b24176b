"""Read and apply patches in the form that models write:

    *** Begin Patch
    *** Update File: src/a.py
    @@ def main():
     a line that stays
    -a line that goes
    +a line that comes
    *** Add File: b.txt
    +a line
    *** Delete File: c.txt
    *** End Patch

1. A hunk's old lines must stand in the file exactly, and at one place only; `@@` names a line that stands before them.
2. Pure: texts in, texts out. What is wrong says where.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from headrace.tools.definition import RefusedError

__all__ = ["FilePatch", "apply_hunks", "read_patch", "replace_once"]

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
Kind: TypeAlias = Literal["add", "delete", "update"]
HEADS: Final[dict[str, Kind]] = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}


@dataclass(slots=True)
class Hunk:
    """`anchor`: a line before it; `old` becomes `new`. `at_end`: it stands at the file's end."""

    anchor: str = ""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    at_end: bool = False


@dataclass(slots=True)
class FilePatch:
    """What is to be done to one file."""

    kind: Kind
    path: str
    hunks: list[Hunk] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def read_patch(text: str) -> list[FilePatch]:
    """Read a patch.

    Raises `RefusedError`: it is none; the message has the line.
    """
    lines = text.strip("\n").split("\n")
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise RefusedError(f"patch: must begin with {BEGIN!r} and end with {END!r}")
    files: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        head = next((head for head in HEADS if line.startswith(head)), None)
        if head is not None:
            files.append(FilePatch(HEADS[head], line.removeprefix(head).strip()))
        elif not files:
            raise RefusedError(f"patch: line {number} belongs to no file")
        else:
            _take(files[-1], line, number)
    if not files:
        raise RefusedError("patch: changes no file")
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths):
        raise RefusedError("patch: names a file twice; put its hunks together")
    for file in files:
        if file.kind == "update" and not any(hunk.old != hunk.new for hunk in file.hunks):
            raise RefusedError(f"patch: changes nothing in {file.path}")
    return files


def _take(file: FilePatch, line: str, number: int) -> None:
    """Take a line of a file's part."""
    if file.kind == "add":
        if not line.startswith("+"):
            raise RefusedError(f"patch: line {number} of a new file must begin with +")
        file.lines.append(line[1:])
    elif file.kind == "delete":
        raise RefusedError(f"patch: line {number} follows a file that is deleted")
    elif line.startswith("@@"):
        file.hunks.append(Hunk(anchor=line[2:].strip().removesuffix("@@").strip()))
    elif line == "*** End of File" and file.hunks:
        file.hunks[-1].at_end = True
    elif line[:1] in ("", " ", "-", "+"):
        if not file.hunks:
            file.hunks.append(Hunk())
        hunk = file.hunks[-1]
        if line[:1] != "+":
            hunk.old.append(line[1:])
        if line[:1] != "-":
            hunk.new.append(line[1:])
    else:
        raise RefusedError(f"patch: line {number} must begin with a blank, - or +")


def apply_hunks(text: str, file: FilePatch) -> str:
    """Apply a file's hunks, in their order.

    Raises `RefusedError`: a hunk's lines are not there, or at several places.
    """
    lines, at = text.split("\n"), 0
    for number, hunk in enumerate(file.hunks, 1):
        place = _place(lines, hunk, at, f"{file.path}: hunk {number}")
        lines[place : place + len(hunk.old)] = hunk.new
        at = place + len(hunk.new)
    return "\n".join(lines)


def _place(lines: list[str], hunk: Hunk, at: int, name: str) -> int:
    start = at
    if hunk.anchor and not hunk.anchor.startswith("-"):  # `@@ -1,2 +1,2 @@` counts lines; we compare them
        anchors = [row for row in range(at, len(lines)) if lines[row].strip() == hunk.anchor]
        if not anchors:
            raise RefusedError(f"{name}: the line {hunk.anchor[:100]!r} is not there")
        start = anchors[0] + 1
    size = len(hunk.old)
    if not size:
        # Only lines to add: after the anchor, or at the end.
        return start if hunk.anchor else len(lines) - (lines[-1] == "")
    found = [row for row in range(start, len(lines) - size + 1) if lines[row : row + size] == hunk.old]
    if hunk.at_end:
        found = found[-1:]
    if not found:
        raise RefusedError(f"{name}: its old lines are not in the file; read it again")
    if len(found) > 1 and not hunk.anchor:
        raise RefusedError(f"{name}: its old lines stand at {len(found)} places; add lines around them, or an @@ line")
    return found[0]


def replace_once(text: str, old: str, new: str, *, every: bool) -> str:
    """Replace a text that stands in another once, or every time.

    Raises `RefusedError`: it is not there, or several times.
    """
    if not old:
        raise RefusedError("old: is empty; use write_file for a new file")
    if old == new:
        raise RefusedError("new: is the same as old")
    count = text.count(old)
    if not count:
        raise RefusedError("old: is not in the file; it must be the same to the blank")
    if count > 1 and not every:
        raise RefusedError(f"old: stands at {count} places; add what is around it, or set all")
    return text.replace(old, new)
