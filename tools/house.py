"""The rules of the house that no linter knows. Prints what breaks one, and ends with 1 if anything does.

1. README.md has 150 lines at most.
2. No source file has more than 800 lines: split it.
3. Nothing names a developer's machine: no absolute paths of a workplace, no package registries' hosts.
4. A fragment in `changelog.d/` is named `NUMBER.KIND.md` or `+WORD.KIND.md` and holds one paragraph.
5. The pure crates depend on nothing that could do I/O, and carry a ban list for clippy.
6. No unfinished work is left as a mark in the code.

Whatever clippy, ruff, mypy or import-linter can say must not be added here.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
README_LINES = 150
SOURCE_LINES = 800
SOURCES = {".rs", ".py", ".md", ".toml"}  # a stub mirrors one module, however long
FRAGMENT = re.compile(r"(\d+|\+[a-z0-9-]+)\.(added|changed|fixed|removed|security)\.md")
PURE = {"codec": {"memchr", "base64", "crc32fast"}, "http1": {"memchr", "httparse"}}

FORBIDDEN = {
    "a workplace's path": re.compile(r"/(?:work|tmp|root|home)/(?:shared|wt|main|target-|venv-|clone-|[a-z]+/\.)"),
    "a registry's host": re.compile(r"\bpy(?:pi|thonhosted)\.org\b|crates\.i[o]\b|npm[j]s\.(?:org|com)"),
    "a mark of unfinished work": re.compile(r"\b(?:TODO|FIXME|XXX)\b|\b(?:todo|unimplemented)!\("),
}
# This file names what it looks for, and a lock file holds hosts by its nature.
EXEMPT = {"house.py", "Cargo.lock"}


def tracked() -> list[pathlib.Path]:
    """List the files that are, or would be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S603 - a constant
    return [path for name in out.decode().split("\0") if name and (path := ROOT / name).is_file()]


def lengths(files: list[pathlib.Path]) -> list[str]:
    """Rules 1 and 2."""
    faults = []
    for path in files:
        if path.suffix in SOURCES:
            lines = path.read_text(encoding="utf-8").count("\n")
            limit = README_LINES if path == ROOT / "README.md" else SOURCE_LINES
            if lines > limit:
                faults.append(f"{path.relative_to(ROOT)}: {lines} lines, {limit} at most")
    return faults


def words(files: list[pathlib.Path]) -> list[str]:
    """Rules 3 and 6."""
    faults = []
    for path in files:
        if path.name in EXEMPT:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            faults += [
                f"{path.relative_to(ROOT)}:{number}: {what}" for what, found in FORBIDDEN.items() if found.search(line)
            ]
    return faults


def fragments() -> list[str]:
    """Rule 4."""
    faults = []
    for path in sorted((ROOT / "changelog.d").iterdir()):
        if path.name == "README.md":
            continue
        if not FRAGMENT.fullmatch(path.name):
            faults.append(f"changelog.d/{path.name}: name it NUMBER.KIND.md or +WORD.KIND.md")
        elif not path.read_text(encoding="utf-8").strip() or "\n\n" in path.read_text(encoding="utf-8").strip():
            faults.append(f"changelog.d/{path.name}: one paragraph")
    return faults


def purity() -> list[str]:
    """Rule 5."""
    faults = []
    for crate, allowed in PURE.items():
        folder = ROOT / "rust" / crate
        manifest = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
        extra = set(manifest.get("dependencies", {})) - allowed
        if extra:
            faults.append(f"rust/{crate}/Cargo.toml: a pure crate may not depend on {', '.join(sorted(extra))}")
        if not (folder / "clippy.toml").is_file():
            faults.append(f"rust/{crate}/clippy.toml: the ban list is missing")
    return faults


def main() -> int:
    """Check all rules."""
    files = tracked()
    faults = lengths(files) + words(files) + fragments() + purity()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
