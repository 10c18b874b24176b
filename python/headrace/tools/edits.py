"""Tools that change files: `write_file`, `edit`, `apply_patch` (T3).

1. A file that is there is changed only if it was read, and is still what was read.
2. What would change is known before anybody is asked: the card shows the very difference that is recorded.
3. A patch is checked whole before its first file is written. If a later file then fails, what was done is said.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.tools.definition import Change, Outcome, Output, Prepared, RefusedError, ToolSpec
from headrace.tools.files import schema, text
from headrace.tools.patches import FilePatch, apply_hunks, read_patch, replace_once
from headrace.tools.permission.acts import Open
from headrace.tools.work import in_thread
from headrace.tools.workspace import FILE_LIMIT, Found, Workspace, digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ApplyPatch", "Edit", "WriteFile", "difference"]


@dataclass(frozen=True, slots=True)
class _Step:
    """One file's change. `after` None: it is removed."""

    path: str
    before: Found | None
    after: bytes | None

    @property
    def change(self) -> Change:
        old = b"" if self.before is None else self.before.data
        return Change(
            self.path,
            None if self.before is None else self.before.digest,
            None if self.after is None else digest_of(self.after),
            difference(self.path, old, self.after or b""),
        )


class _Editor:
    """What all three share."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def current(self, relative: str, verb: str) -> Found | None:
        """Read a file that is to be changed; None if there is none.

        Raises `RefusedError`: it was not read, or is not what was read.
        """
        found = self._workspace.find(relative)
        known = self._workspace.reads.get(relative)
        if found is None:
            return None
        if known is None:
            raise RefusedError(f"{relative}: read it before you {verb} it")
        if found.digest != known:
            raise RefusedError(f"{relative}: has changed since it was read; read it again")
        return found

    def prepared(self, normalised: dict[str, Any], steps: Sequence[_Step], summary: str) -> Prepared:
        """Put the changes together."""
        workspace = self._workspace
        for step in steps:
            if step.after is not None and len(step.after) > FILE_LIMIT:
                raise RefusedError(f"{step.path}: would be longer than {FILE_LIMIT} bytes")
        changes = [step.change for step in steps]

        def write() -> tuple[list[Change], str]:
            done: list[Change] = []
            for step, change in zip(steps, changes, strict=True):
                try:
                    if step.after is None:
                        workspace.remove(step.path, expected=change.before or "")
                    else:
                        mode = None if step.before is None else step.before.mode
                        workspace.replace(step.path, step.after, expected=change.before, mode=mode)
                except RefusedError as refused:
                    return done, refused.message
                done.append(change)
            return done, ""

        async def run(output: Output) -> Outcome:
            done, failed = await in_thread(lambda _: write())
            for change in done:
                if change.after is None:
                    workspace.reads.pop(change.path, None)
                else:
                    workspace.reads[change.path] = change.after
                output.write(change.diff.encode("utf-8", "replace"))
            message = _done(done)
            if failed:
                message = f"{failed}. {message}" if done else failed
            return Outcome(
                code="tool_error" if failed else "ok",
                message=message,
                retryable=bool(failed),
                changes=tuple(done),
                read_hashes=tuple((change.path, change.after) for change in done if change.after is not None),
            )

        return Prepared(
            normalised=normalised,
            acts=tuple(Open(workspace.absolute(step.path), "write") for step in steps),
            run=run,
            summary=summary,
            diff="".join(change.diff for change in changes),
        )


class WriteFile(_Editor):
    """Writes a whole file."""

    spec: Final = ToolSpec(
        name="write_file",
        description="Write a text file of the workspace whole. One that is there has to be read first.",
        schema=schema(("path", "content"), path=text("From the workspace's root."), content=text("All of the file.")),
        effects=("write",),
    )

    async def prepare(self, value: Any) -> Prepared:
        """Look at what is there."""
        relative = self._workspace.path(value["path"])
        found = await in_thread(lambda _: self.current(relative, "overwrite"))
        step = _Step(relative, found, value["content"].encode("utf-8", "replace"))
        verb = "create" if found is None else "overwrite"
        return self.prepared({"path": relative, "content": value["content"]}, [step], f"{verb} {relative}")


class Edit(_Editor):
    """Replaces a text in a file."""

    spec: Final = ToolSpec(
        name="edit",
        description="Replace a text in a file that was read before. The old text must stand in it exactly once.",
        schema=schema(
            ("path", "old", "new"),
            path=text("From the workspace's root."),
            old=text("The text to replace, exactly as it stands in the file."),
            new=text("What comes in its place."),
            all={"type": "boolean", "description": "Replace it wherever it stands."},
        ),
        effects=("write",),
    )

    async def prepare(self, value: Any) -> Prepared:
        """Look at the file, and make the new text."""
        relative = self._workspace.path(value["path"])
        found = await in_thread(lambda _: self.current(relative, "edit"))
        if found is None:
            raise RefusedError(f"{relative}: there is no such file")
        every = value.get("all", False)
        after = replace_once(_decoded(found), value["old"], value["new"], every=every)
        normalised = {"path": relative, "old": value["old"], "new": value["new"], "all": every}
        return self.prepared(normalised, [_Step(relative, found, after.encode())], f"edit {relative}")


class ApplyPatch(_Editor):
    """Applies a patch to several files."""

    spec: Final = ToolSpec(
        name="apply_patch",
        description="Change several files by one patch: *** Begin Patch, then *** Update File: PATH, *** Add File: PATH"
        " or *** Delete File: PATH with hunks of lines that begin with a blank, - or +, then *** End Patch."
        " Files that are there have to be read first.",
        schema=schema(("patch",), patch=text("The patch.")),
        effects=("write",),
    )

    async def prepare(self, value: Any) -> Prepared:
        """Read the patch, and apply it to what is there, in memory."""
        files = read_patch(value["patch"])
        steps = await in_thread(lambda _: [self._step(file) for file in files])
        names = ", ".join(step.path for step in steps)
        return self.prepared({"patch": value["patch"]}, steps, f"patch {names}")

    def _step(self, file: FilePatch) -> _Step:
        relative = self._workspace.path(file.path)
        found = self.current(relative, "patch")
        if file.kind == "add":
            if found is not None:
                raise RefusedError(f"{relative}: is there already; update it")
            return _Step(relative, None, "".join(f"{line}\n" for line in file.lines).encode("utf-8", "replace"))
        if found is None:
            raise RefusedError(f"{relative}: there is no such file")
        if file.kind == "delete":
            return _Step(relative, found, None)
        return _Step(relative, found, apply_hunks(_decoded(found), file).encode())


def difference(path: str, before: bytes, after: bytes) -> str:
    """Write the difference of two contents, as `diff -u` does."""
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _decoded(found: Found) -> str:
    try:
        return found.data.decode()
    except UnicodeDecodeError:
        raise RefusedError(f"{found.path}: is no UTF-8 text") from None


def _done(changes: Sequence[Change]) -> str:
    words = []
    for change in changes:
        verb = "Created" if change.before is None else "Removed" if change.after is None else "Changed"
        words.append(f"{verb} {change.path}.")
    return " ".join(words)
