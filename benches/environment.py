"""Environments for the peers of the benches, who want other versions than the tests pin.

1. Each is a group of pyproject.toml, or a pinned package of npm, in a folder of its own beside this checkout's `.venv`.
2. It is made at the first run and kept, until what is asked for changes.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import tomllib
import venv
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTALL_LIMIT_S = 900


def environment(group: str) -> pathlib.Path:
    """Give the Python that has the group's packages."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    place = ROOT / f".venv-{group}"
    wanted, made, python = "\n".join(groups[group]), place / "made", place / "bin/python"
    if not made.exists() or made.read_text() != wanted:
        venv.create(place, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *groups[group]]
        subprocess.run(command, check=True, timeout=INSTALL_LIMIT_S)
        made.write_text(wanted)
    return python


def modules(name: str, package: dict[str, Any]) -> pathlib.Path:
    """Give the folder whose `node_modules` has what `package`, the text of a package.json, asks for."""
    place = ROOT / f".venv-{name}"
    wanted, made = json.dumps(package, indent=1), place / "made"
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "package.json").write_text(wanted)
        command = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=place, check=True, timeout=INSTALL_LIMIT_S)
        made.write_text(wanted)
    return place
