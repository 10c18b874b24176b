"""Which secrets are known, for the redactor: of the configuration, the environment, and the workspace's `.env` files.

1. A variable's value is a secret if its name says so, or if it is an address with a password in it. Other values stay:
   whoever redacts `development` wherever it stands makes every output unreadable.
2. `.env` files are read by us so that nothing that reads them can tell them to a model. They are read as text: nothing
   in them is expanded or run.
3. A secret's id says where it comes from, and never what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace.tools.definition import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.tools.workspace import Workspace

__all__ = ["known_secrets"]

NAMES: Final = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASS(?:WORD|PHRASE|WD)?|PWD|CREDENTIALS?|PAT|DSN|AUTH|PRIVATE_KEY|COOKIE)(?:$|_)",
    re.IGNORECASE,
)
NOT_SECRET: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
FILES: Final = re.compile(r"\.env(?:\.[\w-]+)?|\.envrc")
LINE: Final = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)
FILE_LIMIT: Final = 256 * 1024
FOLDERS: Final = 64
"""Directories of the workspace that are looked into, the root and those below it: `.env` files lie high up."""


def known_secrets(
    configured: Mapping[str, str], environ: Mapping[str, str], workspace: Workspace | None = None
) -> dict[str, str]:
    """Gather the secrets, by id.

    - `configured`: of the configuration, by id.
    """
    found = dict(configured)
    found.update((f"environment {name}", value) for name, value in _secret(environ.items()))
    if workspace is not None:
        for path in _files(workspace):
            found.update((f"{path} {name}", value) for name, value in _secret(_pairs(workspace, path)))
    return found


def _secret(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if NAMES.search(name) and name not in NOT_SECRET and value:
            yield name, value
        elif "@" in value and "://" in value:
            try:
                password = urlsplit(value).password
            except ValueError:
                continue
            if password:
                yield name, password
                if unquote(password) != password:
                    yield f"{name} decoded", unquote(password)


def _files(workspace: Workspace) -> Iterator[str]:
    folders = ["."]
    for at in range(FOLDERS):
        if at >= len(folders):
            return
        folder = folders[at]
        try:
            entries = workspace.entries(folder)
        except RefusedError:
            continue
        for name, kind, _ in entries:
            path = name if folder == "." else f"{folder}/{name}"
            if kind == "file" and FILES.fullmatch(name):
                yield path
            elif kind == "folder" and folder == "." and not name.startswith("."):
                folders.append(path)


def _pairs(workspace: Workspace, path: str) -> list[tuple[str, str]]:
    try:
        text = workspace.read(path, FILE_LIMIT).data.decode("utf-8", "replace")
    except RefusedError:
        return []
    pairs = []
    for name, value in LINE.findall(text):
        quoted = re.fullmatch(r"(['\"])(.*)\1", value)
        pairs.append((name, quoted[2] if quoted else value.partition(" #")[0].rstrip()))
    return pairs
