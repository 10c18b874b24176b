"""`make fuzz`: run every fuzz target for a while, all of them even if one finds something.

1. A target is a `[[bin]]` of a `rust/*/fuzz/Cargo.toml`. Each runs `SECONDS_EACH` seconds (default 60).
2. Seeds are read from `tests/fixtures/streams` and, where it lies beside the checkout, the shared recordings; what a
   run learns stays in the target's `corpus` folder, which is not committed.
3. No sanitizer: the crates have no unsafe memory of their own to watch, and so the stable compiler will do.

`python tools/fuzz.py NAME ...` runs only the named targets. Ends with 1 if any target found something.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("HEADRACE_SHARED", ROOT.parent / "shared"))
SEEDS = [ROOT / "tests" / "fixtures" / "streams", SHARED / "recordings"]
SHOWN_LINES = 30
"""Of a target that found something: the input, the message and the stack stand at the end."""


def targets() -> dict[str, pathlib.Path]:
    """Every target's name, with the crate that is fuzzed."""
    found = {}
    for manifest in sorted(ROOT.glob("rust/*/fuzz/Cargo.toml")):
        for binary in tomllib.loads(manifest.read_text())["bin"]:
            found[binary["name"]] = manifest.parent.parent
    return found


def seed_folders() -> list[str]:
    """The folders that hold recorded bodies: libFuzzer reads those beneath by itself only one level down."""
    folders = {path.parent for seeds in SEEDS if seeds.is_dir() for path in seeds.rglob("*") if path.is_file()}
    return sorted(str(folder) for folder in folders)


def run(name: str, crate: pathlib.Path, seconds: str) -> bool:
    """Run one target; print a line for it, and its last words if it found something."""
    corpus = crate / "fuzz" / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "fuzz", "run", "-s", "none", name, str(corpus), *seed_folders(), "--"]
    command += [f"-max_total_time={seconds}", "-timeout=10", "-max_len=65536", "-print_final_stats=1"]
    done = subprocess.run(command, cwd=crate, capture_output=True, text=True, check=False)  # noqa: S603 - the targets above
    runs = [line.split()[-1] for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name:<16} {runs[0] if runs else 'no'} runs", flush=True)
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-SHOWN_LINES:]), flush=True)
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Run the named targets, or all."""
    if shutil.which("cargo-fuzz") is None:
        print("no cargo-fuzz: cargo install cargo-fuzz")
        return 2
    known = targets()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    seconds = os.environ.get("SECONDS_EACH", "60")
    failed = [name for name, crate in known.items() if (not names or name in names) and not run(name, crate, seconds)]
    if failed:
        print(f"found something: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
