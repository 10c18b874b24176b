"""Tools that read the workspace: `read_file`, `list_dir`, `glob`, `grep`. They change nothing and follow no link."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headrace.tools.definition import Outcome, Output, Prepared, RefusedError, ToolSpec
from headrace.tools.permission.acts import Act, Open
from headrace.tools.permission.rules import glob_pattern
from headrace.tools.permission.special_files import is_secret
from headrace.tools.work import Stopper, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.tools.workspace import Workspace

__all__ = ["Glob", "Grep", "ListDir", "ReadFile", "schema"]

LINES: Final = 2000
ENTRIES: Final = 2000
MATCHES: Final = 200
LINE_LIMIT: Final = 500
"""Characters of a line in a search's result: minified files have one line."""
SEARCHED: Final = 4 << 20
"""Bytes of a file that is searched: a larger one is data."""
DEEP: Final = 40
PASSED_OVER: Final = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", "target", ".tox"})
NUL: Final = b"\0"


def schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> str:
    """Write the JSON schema of an input."""
    return json.dumps(
        {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        }
    )


def text(description: str, **more: Any) -> dict[str, Any]:
    """Describe a text."""
    return {"type": "string", "description": description, **more}


def number(description: str, least: int = 1, most: int = 1_000_000) -> dict[str, Any]:
    """Describe a whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def reading(workspace: Workspace, relative: str) -> tuple[Act, ...]:
    """Say that a path is read."""
    return (Open(workspace.absolute(relative), "read"),)


class ReadFile:
    """Reads a text file."""

    spec: Final = ToolSpec(
        name="read_file",
        description="Read a text file of the workspace. A file has to be read before it may be edited.",
        schema=schema(
            ("path",),
            path=text("From the workspace's root."),
            offset=number("First line, counted from 1."),
            limit=number("How many lines; 2000 if not given.", 1, 20_000),
        ),
        effects=("read",),
        side_by_side=True,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def prepare(self, value: Any) -> Prepared:
        """Look at the path."""
        relative = self._workspace.path(value["path"])
        if self._workspace.look(relative) != "file":
            raise RefusedError(f"{relative}: is a directory; list_dir lists it")
        offset, limit = value.get("offset", 1), value.get("limit", LINES)

        async def run(output: Output) -> Outcome:
            found = await in_thread(lambda _: self._workspace.read(relative))
            if NUL in found.data[:8192]:
                raise RefusedError(f"{relative}: is no text")
            self._workspace.reads[relative] = found.digest
            lines = found.data.splitlines(keepends=True)
            shown = lines[offset - 1 : offset - 1 + limit]
            output.write(b"".join(shown))
            part = len(shown) < len(lines)
            message = f"Lines {offset} to {offset - 1 + len(shown)} of {len(lines)}:" if part else ""
            if not lines:
                message = "The file is empty."
            return Outcome(message=message, read_hashes=((relative, found.digest),))

        return Prepared(
            normalised={"path": relative, "offset": offset, "limit": limit},
            acts=reading(self._workspace, relative),
            run=run,
            summary=f"read {relative}",
        )


class ListDir:
    """Lists a directory."""

    spec: Final = ToolSpec(
        name="list_dir",
        description="List a directory of the workspace: names, directories with a slash, files with their size.",
        schema=schema(path=text("From the workspace's root; the root itself if not given.")),
        effects=("read",),
        side_by_side=True,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def prepare(self, value: Any) -> Prepared:
        """Look at the path."""
        relative = self._workspace.path(value.get("path", "."))
        if self._workspace.look(relative) != "folder":
            raise RefusedError(f"{relative}: is a file; read_file reads it")

        async def run(output: Output) -> Outcome:
            entries = await in_thread(lambda _: self._workspace.entries(relative))
            for name, kind, size in entries[:ENTRIES]:
                ends = {"folder": "/", "link": " (link)", "other": " (no file)"}.get(kind, f"\t{size}")
                output.write(f"{name}{ends}\n".encode("utf-8", "replace"))
            more = len(entries) - ENTRIES
            return Outcome(
                message=f"{more} more entries are not shown." if more > 0 else "" if entries else "It is empty."
            )

        return Prepared(
            normalised={"path": relative},
            acts=reading(self._workspace, relative),
            run=run,
            summary=f"list {relative}",
        )


class Glob:
    """Finds files by name."""

    spec: Final = ToolSpec(
        name="glob",
        description="Find files of the workspace by name. * and ? stay within a name, ** does not: src/**/*.py."
        " Directories such as .git and node_modules are passed over unless path leads into them.",
        schema=schema(
            ("pattern",),
            pattern=text("From path on.", maxLength=1000),
            path=text("Where to look; the workspace's root if not given."),
        ),
        effects=("read",),
        side_by_side=True,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def prepare(self, value: Any) -> Prepared:
        """Look at the path and the pattern."""
        relative = self._workspace.path(value.get("path", "."))
        self._workspace.look(relative)
        pattern = glob_pattern(value["pattern"])

        def search(stopper: Stopper) -> list[str]:
            prefix = "" if relative == "." else f"{relative}/"
            found = []
            for file in walk(self._workspace, relative, stopper):
                if pattern.fullmatch(file.removeprefix(prefix)):
                    found.append(file)
                    if len(found) > ENTRIES:
                        break
            return found

        async def run(output: Output) -> Outcome:
            found = await in_thread(search)
            output.write("".join(f"{file}\n" for file in found[:ENTRIES]).encode("utf-8", "replace"))
            if len(found) > ENTRIES:
                return Outcome(message=f"There are more than {ENTRIES}; narrow the pattern.")
            return Outcome(message="" if found else "No file has such a name.")

        return Prepared(
            normalised={"pattern": value["pattern"], "path": relative},
            acts=reading(self._workspace, relative),
            run=run,
            summary=f"find {value['pattern']} in {relative}",
        )


class Grep:
    """Searches files' lines."""

    spec: Final = ToolSpec(
        name="grep",
        description="Search the lines of the workspace's text files for a regular expression (without look-around and"
        " back-references). Gives PATH:LINE:TEXT.",
        schema=schema(
            ("pattern",),
            pattern=text("A regular expression.", minLength=1, maxLength=1000),
            path=text("A file or a directory; the workspace's root if not given."),
            glob=text("Only files with such a name, such as **/*.py.", maxLength=1000),
            ignore_case={"type": "boolean"},
            limit=number("How many lines; 200 if not given.", 1, 5000),
        ),
        effects=("read",),
        side_by_side=True,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def prepare(self, value: Any) -> Prepared:
        """Look at the path and the patterns."""
        relative = self._workspace.path(value.get("path", "."))
        self._workspace.look(relative)
        matches = matcher(value["pattern"], ignore_case=value.get("ignore_case", False))
        named = glob_pattern(value["glob"]) if value.get("glob") else None
        limit = value.get("limit", MATCHES)

        def search(stopper: Stopper) -> list[str]:
            found: list[str] = []
            for file in walk(self._workspace, relative, stopper):
                if named is not None and not named.fullmatch(file):
                    continue
                for number_, line in enumerate(searched(self._workspace, file), 1):
                    if number_ % 1000 == 0:
                        stopper.check()
                    if matches(line):
                        found.append(f"{file}:{number_}:{line[:LINE_LIMIT]}\n")
                        if len(found) > limit:
                            return found
            return found

        async def run(output: Output) -> Outcome:
            found = await in_thread(search)
            output.write("".join(found[:limit]).encode("utf-8", "replace"))
            if len(found) > limit:
                return Outcome(message=f"There are more than {limit} lines; narrow the search.")
            return Outcome(message="" if found else "No line matches.")

        return Prepared(
            normalised={**value, "path": relative, "limit": limit},
            acts=reading(self._workspace, relative),
            run=run,
            summary=f"search {relative} for {value['pattern']}",
        )


def walk(workspace: Workspace, relative: str, stopper: Stopper) -> Iterator[str]:
    """List the files below a path, by name, without links and without files that hold secrets.

    Raises `RefusedError`: the path itself is not there.
    """
    if workspace.look(relative) == "file":
        yield relative
        return
    waiting = [(relative, 0)]
    while waiting:
        folder, depth = waiting.pop()
        stopper.check()
        try:
            entries = workspace.entries(folder)
        except RefusedError:
            if folder == relative:
                raise
            continue  # gone, or swapped for a link
        inner = []
        for name, kind, _ in entries:
            path = name if folder == "." else f"{folder}/{name}"
            if is_secret(workspace.absolute(path)):
                continue
            if kind == "file":
                yield path
            elif kind == "folder" and name not in PASSED_OVER and depth < DEEP:
                inner.append((path, depth + 1))
        waiting += reversed(inner)


def searched(workspace: Workspace, file: str) -> Iterator[str]:
    """Give the lines of a file that is text, without their ends."""
    try:
        data = workspace.read(file, SEARCHED).data
    except RefusedError:
        return
    if NUL not in data[:8192]:
        yield from data.decode("utf-8", "replace").split("\n")


def matcher(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """Compile a model's regular expression, by an engine that takes linear time whatever it is given.

    It is the one that checks JSON schemas: a pattern is a schema. Python's own may take for ever.

    Raises `RefusedError`: it is none.
    """
    import jsonschema_rs

    wanted = f"(?i:{pattern})" if ignore_case else pattern
    try:
        validator = jsonschema_rs.validator_for({"pattern": wanted}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError):
        raise RefusedError("pattern: is no regular expression, or uses look-around or back-references") from None
    valid: Callable[[str], bool] = validator.is_valid
    return valid
