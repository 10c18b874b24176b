"""Turn a shell line into acts: what it runs, what it opens, what its words may name.

1. The file system is asked for one thing, where a path really leads; `real` does it, and examples of rules go without.
2. Every word may be a path, and so may be what stands after its `=`: a path that allows nothing costs nothing.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.tools.permission.acts import Act, Connect, Mention, Open, Run
from headrace.tools.permission.shell import Line, read_line
from headrace.tools.permission.special_files import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["line_acts"]

LONGEST: Final = 4096
"""Characters of a path, on any system."""
URL: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*)://([^/\s?#]+)")
FINE_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty")


def line_acts(
    line: str, *, root: str, cwd: str, home: str | None = None, real: Callable[[str], str] | None = None
) -> tuple[tuple[Act, ...], tuple[str, ...]]:
    """Read a line. Returns its acts, without repetitions and in their order, and its doubts.

    - `root`: the workspace; `cwd`: where the line runs; both absolute.
    - `real`: resolves links in a path.
    """
    read = read_line(line, home)
    acts: dict[Act, None] = {}
    for command in read.commands:
        acts[Run(command)] = None
    places = _Places(root, cwd, home, real)
    for act in (*_opened(read, places), *_mentioned(read, places), *_reached(read)):
        acts[act] = None
    return tuple(acts), read.doubts


class _Places:
    """Knows where a path leads."""

    def __init__(self, root: str, cwd: str, home: str | None, real: Callable[[str], str] | None) -> None:
        self.root, self.cwd, self.home, self.real = root, cwd, home, real

    def all(self, path: str, bases: tuple[str, ...]) -> Iterator[tuple[str, bool, bool]]:
        """Give each place that a path may be: where, whether inside, whether secret."""
        if self.home is not None and (path == "~" or path.startswith("~/")):
            path = self.home + path[1:]
        for base in dict.fromkeys(bases):
            place = os.path.normpath(os.path.join(self.cwd, base, path))  # noqa: PTH118 - text only
            truly = self.real(place) if self.real is not None else place
            inside = all(one == self.root or one.startswith(self.root.rstrip("/") + "/") for one in (place, truly))
            secret = is_secret(place) or is_secret(truly)
            yield place, inside, secret
            if truly != place:
                yield truly, inside, secret


def _opened(read: Line, places: _Places) -> Iterator[Act]:
    for redirect in read.redirects:
        for place, inside, secret in places.all(redirect.path, redirect.bases):
            if place not in FINE_DEVICES:
                yield Open(place, "write" if redirect.writes else "read", inside, secret)


def _mentioned(read: Line, places: _Places) -> Iterator[Act]:
    for command in read.commands:
        for at, word in enumerate(command.argv):
            for text in _candidates(word.text) if at else ():
                for place, inside, secret in places.all(text, command.bases):
                    if place not in FINE_DEVICES:
                        yield Mention(place, inside, secret)


def _candidates(word: str) -> Iterator[str]:
    """Find what of a word may be a path: all of it, a value after `=`, what sticks to a short option, `@file`."""
    if word.startswith("file://"):
        yield "/" + word.removeprefix("file://").partition("/")[2]
    if not word or len(word) > LONGEST or URL.match(word) or word.startswith("file:"):
        return
    if not word.startswith("-"):
        yield word.removeprefix("@")
    elif not word.startswith("--") and word[2:]:
        yield word[2:]
    for sign in ("=", ":", "@"):
        rest = word.partition(sign)[2]
        if rest and not rest.startswith("//"):
            yield rest.removeprefix("@")


def _reached(read: Line) -> Iterator[Act]:
    for name in read.hosts:
        yield Connect(name, certain=True)
    for command in read.commands:
        for word in command.argv[1:]:
            for found in URL.finditer(word.text):
                host = _host(found[0])
                if host and not found[0].startswith("file:"):
                    yield Connect(host, certain=False)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return url.partition("://")[2]
