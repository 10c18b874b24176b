"""Files of the workspace, and no others (T4).

1. A path is walked name by name, each opened relative to the one before and never through a link: what is swapped for a
   link meanwhile is refused by the kernel, at whatever moment.
2. `..`, a link, a device, a pipe, a file that holds secrets, and whatever lies outside are refused.
3. A file is replaced by another, never written into: a reader sees the old one or the new one, whole.
4. A file is replaced only if it is still what was read. Between the last look and the change lies one system call.

Never here: what may be done (`permission`), what an edit means (`edits.py`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.tools.definition import RefusedError
from headrace.tools.permission.special_files import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FILE_LIMIT", "Found", "Workspace", "digest_of"]

FILE_LIMIT: Final = 16 << 20
"""Bytes of a file that is read or edited as a whole: more is no source text."""
NAME_LIMIT: Final = 4096
LOOK: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class Found:
    """A file's content as it was read."""

    path: str
    data: bytes
    mode: int

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal."""
        return digest_of(self.data)


def digest_of(data: bytes) -> str:
    """Name a content."""
    return hashlib.sha256(data).hexdigest()


class Workspace:
    """A directory that tools work in. Held open: it may be moved, and stays the same.

    - `root`: absolute, or relative to where the process is; links in it are resolved once, now.
    - `durable`: whether a write returns only when it is on the disk.

    Raises `OSError`: there is no such directory.
    """

    __slots__ = ("_fd", "durable", "reads", "root")

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.root: str = os.path.realpath(root)
        self._fd = os.open(self.root, FOLDER)
        self.durable: bool = durable
        #: Digest of each file as a model last saw it, by path. What is not here may not be edited.
        self.reads: dict[str, str] = {}

    def close(self) -> None:
        """Let go of the directory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def path(self, text: str) -> str:
        """Check a path by its words alone. Returns it relative to the workspace, `.` for the workspace itself.

        Raises `RefusedError`: it leads outside, or names a file that holds secrets.
        """
        if not text or "\0" in text or len(text) > NAME_LIMIT:
            raise RefusedError("path: is empty, too long, or has a NUL in it")
        if text.startswith("/"):
            if text != self.root and not text.startswith(self.root.rstrip("/") + "/"):
                raise RefusedError(f"{text}: is outside the workspace {self.root}", "permission_denied")
            text = text[len(self.root.rstrip("/")) + 1 :]
        names = [name for name in text.split("/") if name not in ("", ".")]
        if ".." in names:
            raise RefusedError(f"{text}: has .. in it; write the path from the workspace's root", "permission_denied")
        relative = "/".join(names) or "."
        if is_secret(self.absolute(relative)):
            raise RefusedError(f"{relative}: is a file that holds secrets", "permission_denied")
        return relative

    def absolute(self, relative: str) -> str:
        """Give the whole path of a checked one."""
        return self.root if relative == "." else f"{self.root.rstrip('/')}/{relative}"

    @contextlib.contextmanager
    def folder(self, relative: str, *, make: bool = False) -> Iterator[int]:
        """Open a directory of the workspace. `make`: what is missing is made.

        Raises `RefusedError`: it is not there, or no directory, or a link is on the way.
        """
        fd = os.dup(self._fd)
        try:
            for name in relative.split("/") if relative != "." else ():
                try:
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(name, dir_fd=fd)
                    inner = os.open(name, FOLDER, dir_fd=fd)
                except OSError as error:
                    raise _refusal(relative, error) from None
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def look(self, relative: str) -> str:
        """Look at a path and open nothing. Returns `file` or `folder`.

        Raises `RefusedError`: it is not there, a link, a device, a pipe or a socket, or a link is on the way.
        """
        parent, _, name = relative.rpartition("/")
        with self.folder(parent or ".") as fd:
            try:
                info = os.stat(name or ".", dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                raise _refusal(relative, error) from None
        if stat.S_ISDIR(info.st_mode):
            return "folder"
        _ordinary(info, relative)
        return "file"

    def read(self, relative: str, limit: int = FILE_LIMIT) -> Found:
        """Read a file whole.

        Raises `RefusedError`: it is not there, no ordinary file, a link, or too long.
        """
        parent, _, name = relative.rpartition("/")
        with self.folder(parent or ".") as fd, self._opened(fd, name, relative) as file:
            info = os.fstat(file)
            data = _all(file, limit + 1)
            if len(data) > limit:
                raise RefusedError(f"{relative}: is longer than {limit} bytes")
        return Found(relative, data, stat.S_IMODE(info.st_mode))

    def find(self, relative: str) -> Found | None:
        """Read a file whole; None if there is none."""
        try:
            return self.read(relative)
        except _MissingError:
            return None

    @contextlib.contextmanager
    def _opened(self, folder: int, name: str, relative: str) -> Iterator[int]:
        try:
            # Looked at before it is opened, as opening a device may do something, and after, as it may be another now.
            _ordinary(os.stat(name, dir_fd=folder, follow_symlinks=False), relative)
            fd = os.open(name, os.O_RDONLY | LOOK, dir_fd=folder)
        except OSError as error:
            raise _refusal(relative, error) from None
        try:
            _ordinary(os.fstat(fd), relative)
            yield fd
        finally:
            os.close(fd)

    def replace(self, relative: str, data: bytes, *, expected: str | None, mode: int | None = None) -> None:
        """Put a content in a file's place, in one step. Directories on the way are made.

        - `expected`: the digest that the file must still have; None: it must not be there.

        Raises `RefusedError`: it is something else by now, or cannot be written.
        """
        parent, _, name = relative.rpartition("/")
        with self.folder(parent or ".", make=True) as fd:
            beside = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
            try:
                file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | LOOK, mode or MODE, dir_fd=fd)
            except OSError as error:
                raise _refusal(relative, error) from None
            try:
                with os.fdopen(file, "wb") as out:
                    out.write(data)
                    if mode is not None:
                        os.fchmod(out.fileno(), mode)
                    out.flush()
                    if self.durable:
                        os.fsync(out.fileno())
                self._settle(fd, beside, name, relative, expected)
                if self.durable:
                    os.fsync(fd)
            except OSError as error:
                raise _refusal(relative, error) from None
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=fd)

    def _settle(self, fd: int, beside: str, name: str, relative: str, expected: str | None) -> None:
        if expected is None:
            # A link is made only where nothing is: nobody's new file can get lost here.
            try:
                os.link(beside, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            except FileExistsError:
                raise RefusedError(f"{relative}: is there by now; read it first") from None
            return
        with self._opened(fd, name, relative) as now:
            if digest_of(_all(now, FILE_LIMIT + 1)) != expected:
                raise RefusedError(f"{relative}: has changed since it was read; read it again")
        os.rename(beside, name, src_dir_fd=fd, dst_dir_fd=fd)

    def remove(self, relative: str, *, expected: str) -> None:
        """Remove a file that is still what was read.

        Raises `RefusedError`: it is something else by now.
        """
        parent, _, name = relative.rpartition("/")
        with self.folder(parent or ".") as fd:
            with self._opened(fd, name, relative) as now:
                if digest_of(_all(now, FILE_LIMIT + 1)) != expected:
                    raise RefusedError(f"{relative}: has changed since it was read; read it again")
            try:
                os.unlink(name, dir_fd=fd)
            except OSError as error:
                raise _refusal(relative, error) from None

    def entries(self, relative: str) -> list[tuple[str, str, int]]:
        """List a directory: name, kind (`file`, `folder`, `link`, `other`) and size, by name.

        Raises `RefusedError`: it is no directory of the workspace.
        """
        with self.folder(relative) as fd:
            found = []
            with os.scandir(fd) as listed:
                for entry in listed:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found.append((entry.name, _kind(info), info.st_size))
        return sorted(found)


class _MissingError(RefusedError):
    """There is no such file."""


def _refusal(relative: str, error: OSError) -> RefusedError:
    if error.errno == errno.ENOENT:
        return _MissingError(f"{relative}: there is no such file")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return RefusedError(f"{relative}: a link is on the way, and links are not followed", "permission_denied")
    if error.errno == errno.ENOTDIR:
        # Linux says so of a link as well, where a directory was asked for.
        return RefusedError(f"{relative}: a name on the way is a link or no directory", "permission_denied")
    return RefusedError(f"{relative}: {os.strerror(error.errno or errno.EIO)}")


def _ordinary(info: os.stat_result, relative: str) -> None:
    if stat.S_ISREG(info.st_mode):
        return
    if stat.S_ISLNK(info.st_mode):
        raise RefusedError(f"{relative}: is a link, and links are not followed", "permission_denied")
    if stat.S_ISDIR(info.st_mode):
        raise RefusedError(f"{relative}: is a directory")
    raise RefusedError(f"{relative}: is a device, a pipe or a socket", "permission_denied")


def _kind(info: os.stat_result) -> str:
    if stat.S_ISREG(info.st_mode):
        return "file"
    if stat.S_ISDIR(info.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(info.st_mode) else "other"


def _all(fd: int, limit: int) -> bytes:
    pieces, left = [], limit
    while left > 0 and (piece := os.read(fd, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
