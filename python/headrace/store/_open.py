"""From a URL to a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from headrace.store._face import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.store._face import Store

__all__ = ["default_path", "open_store"]

_KNOWN = "write memory:, sqlite:, sqlite:PATH or postgresql://..."


def default_path(environ: Mapping[str, str]) -> Path:
    """Say where `sqlite:` without a path is: in the user's state directory."""
    base = environ.get("XDG_STATE_HOME")
    home = (
        Path(base)
        if base and Path(base).is_absolute()
        else Path(environ.get("HOME") or "~").expanduser() / ".local/state"
    )
    return home / "headrace" / "headrace.db"


async def open_store(url: str, *, environ: Mapping[str, str] | None = None) -> Store:
    """Open a store.

    - `url`: `memory:`, `sqlite:` (in `$XDG_STATE_HOME/headrace`), `sqlite:PATH` or `postgresql://...`. `sqlite:` takes
      `?synchronous=full|normal|off`: what a power cut may take; a process's death takes nothing in any of them.
    - `environ`: the process's by default.

    Raises `StoreUnavailable`: it cannot be reached or made. `StoreError`: the URL names no store, or the extra that
    it needs is not installed.
    """
    scheme, colon, rest = url.partition(":")
    if not colon:
        raise StoreError(f"a store's URL has a scheme: {_KNOWN}")
    if scheme == "memory":
        from headrace.store._sqlite import SqliteStore

        return await SqliteStore.open(None)
    if scheme == "sqlite":
        from headrace.store._sqlite import SqliteStore

        path, _, query = rest.partition("?")
        options = dict(parse_qsl(query))
        synchronous = options.pop("synchronous", "full")
        if options or synchronous not in {"full", "normal", "off"}:
            raise StoreError("after sqlite:PATH there may be ?synchronous=full, normal or off, and nothing else")
        return await SqliteStore.open(_where(path, os.environ if environ is None else environ), synchronous=synchronous)
    if scheme in {"postgresql", "postgres"}:
        from headrace.store._postgres import PostgresStore

        return await PostgresStore.open(url)
    raise StoreError(f"no store is called {scheme!r}: {_KNOWN}")


def _where(path: str, environ: Mapping[str, str]) -> Path:
    return Path(path).expanduser() if path else default_path(environ)
