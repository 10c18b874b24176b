"""What of this machine and this user's files a run relies on, for `headrace doctor`.

Nothing is changed on the way: a store that is not there is not made.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.config import ConfigurationError
from headrace.doctor import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["examine_host"]

_TIERS: Final = {"A": "bubblewrap and seccomp", "B": "Landlock and seccomp", "C": "limits only"}


def examine_host(store: str, folder: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the sandbox, the tools' extra, the store and the policy's files."""
    yield from _sandbox()
    yield _extra()
    yield _store(store, environ)
    yield from _policy(folder, environ)


def _sandbox() -> Iterator[Finding]:
    from headrace.tools.sandbox import probe

    found = probe()
    for tier, told in _TIERS.items():
        why = found.missing.get(tier)  # type: ignore[call-overload]
        words = f"{told}; not to be had: {why}" if why is not None else told
        if tier == found.best:
            words += "; the one that runs take" if tier != "C" else "; whatever would be run is asked about"
        if tier == "B" and why is None and found.gaps:
            words += f"; leaves open: {', '.join(found.gaps)}"
        yield Finding(None if why is not None else True, f"sandbox tier {tier}", words)


def _extra() -> Finding:
    from importlib.util import find_spec

    from headrace.harness.host import AGENT

    missing = [name for name in AGENT if find_spec(name) is None]
    if missing:
        return Finding(None, "tools", f"not installed: {', '.join(missing)}; pip install 'headrace[agent]'")
    return Finding(True, "tools", "the extra agent is installed")


def _store(url: str, environ: Mapping[str, str]) -> Finding:
    from headrace.store import default_path

    scheme, _, rest = url.partition(":")
    if scheme == "sqlite":
        path = Path(rest.partition("?")[0]) if rest.partition("?")[0] else default_path(environ)
        state = "is there" if path.exists() else "is made when it is needed"
        able = os.access(path if path.exists() else _existing(path), os.W_OK)
        return Finding(able, "store", f"sqlite:{path} {state}" + ("" if able else ", and cannot be written"))
    host = urlsplit(url).hostname  # never the whole address: it may hold a password
    return Finding(None, "store", f"{scheme}:" + (f" at {host}, not asked" if host else ""))


def _existing(path: Path) -> Path:
    return next(one for one in path.absolute().parents if one.exists())


def _policy(folder: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    from headrace.tools.permission import find_files, load_policy

    files = find_files(Path(os.path.realpath(folder)), environ)
    try:
        policy = load_policy(files, environ.get("HOME"))
    except ConfigurationError as error:
        yield Finding(False, "policy", str(error))
        return
    for layer in policy.layers:
        modes = f"; modes: {', '.join(layer.modes)}" if layer.modes is not None else ""
        yield Finding(True, f"policy of the {layer.name}", f"{files[layer.name]}; rules: {len(layer.rules)}{modes}")
    if not policy.layers:
        yield Finding(None, "policy", "no file; every mode goes by its own word")
