"""`make check`: every check that runs before the tests, one after the other, all of them even if one fails.

1. What a check prints is shown only if it fails.
2. A check is a command that ends with 0 or not. What it checks stands in its own configuration file.

`python tools/check.py NAME ...` runs only the named ones.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.executable).parent
PYTHON_FILES = ["benches", "conformance", "python", "tests", "tools"]

CHECKS: dict[str, list[str]] = {
    "house": [sys.executable, "tools/house.py"],
    "rustfmt": ["cargo", "fmt", "--check"],
    "ruff": [f"{BIN}/ruff", "check", "--quiet", *PYTHON_FILES],
    "ruff-format": [f"{BIN}/ruff", "format", "--check", "--quiet", *PYTHON_FILES],
    "layers": [f"{BIN}/lint-imports"],
    "mypy": [f"{BIN}/mypy"],
    "pyright": [f"{BIN}/pyright", "--warnings"],
    # Every name of the package has a type that a user's checker reads without guessing: 100 %, or it fails.
    "types": [f"{BIN}/pyright", "--pythonpath", sys.executable, "--verifytypes", "headrace", "--ignoreexternal"],
    "stub": [sys.executable, "-m", "mypy.stubtest", "headrace._core"],
    "clippy": ["cargo", "clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
}


def run(name: str, command: list[str]) -> bool:
    """Run one check; print its name, its time, and its output if it failed."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - the table above
    took = time.perf_counter() - start
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name:<12} {took:6.1f} s", flush=True)
    if done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Run the named checks, or all."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"no such check: {', '.join(unknown)}; there are {', '.join(CHECKS)}")
        return 2
    failed = [name for name, command in CHECKS.items() if (not names or name in names) and not run(name, command)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
