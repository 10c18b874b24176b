"""`make fuzz`: run every fuzz target for a while, all of them even if one finds something.

1. A target is a `[[bin]]` of a `rust/*/fuzz/Cargo.toml`. Each runs `SECONDS_EACH` seconds (default 60).
2. Seeds are read from `tests/fixtures/streams` and, where it lies beside the checkout, the shared recordings; what a
   run learns stays in the target's `corpus` folder, which is not committed.
3. No sanitizer: the crates have no unsafe memory of their own to watch, and so the stable compiler will do. The
   flags are those that cargo-fuzz takes for `-s none`, and nothing has to be installed.

`python tools/fuzz.py NAME ...` runs only the named targets. Ends with 1 if any target found something.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("HEADRACE_SHARED", ROOT.parent / "shared"))
SEEDS = [ROOT / "tests" / "fixtures" / "streams", SHARED / "recordings"]
INSTRUMENTED = [
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
]
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


def build(crate: pathlib.Path) -> pathlib.Path:
    """Build a crate's targets; return the folder of the binaries."""
    # A target of its own keeps the flags away from build scripts, which must not be instrumented.
    host = next(line.split()[1] for line in output(["rustc", "-vV"]).splitlines() if line.startswith("host:"))
    environment = {**os.environ, "RUSTFLAGS": " ".join(INSTRUMENTED), "CARGO_PROFILE_RELEASE_DEBUG": "line-tables-only"}
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "fuzz"
    command = ["cargo", "build", "--quiet", "--release", "--target", host, "--target-dir", str(target)]
    subprocess.run(command, cwd=crate / "fuzz", env=environment, check=True)  # noqa: S603 - a constant
    return target / host / "release"


def output(command: list[str]) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - a constant


def run(name: str, crate: pathlib.Path, binary: pathlib.Path, seconds: str) -> bool:
    """Run one target; print a line for it, and its last words if it found something."""
    corpus = crate / "fuzz" / "corpus" / name
    found = crate / "fuzz" / "artifacts" / name
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(binary), str(corpus), *seed_folders(), f"-artifact_prefix={found}/", f"-max_total_time={seconds}"]
    command += ["-timeout=10", "-max_len=65536", "-print_final_stats=1"]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - the targets above
    said = done.stderr.decode(errors="replace").splitlines()  # it prints inputs as they are
    runs = [line.split()[-1] for line in said if line.startswith("stat::number_of_executed_units")]
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name:<16} {runs[0] if runs else 'no'} runs", flush=True)
    if done.returncode:
        print("\n".join(said[-SHOWN_LINES:]), flush=True)
    return done.returncode == 0


def main(names: list[str]) -> int:
    """Run the named targets, or all."""
    known = targets()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    seconds = os.environ.get("SECONDS_EACH", "60")
    wanted = {name: crate for name, crate in known.items() if not names or name in names}
    built = {crate: build(crate) for crate in dict.fromkeys(wanted.values())}
    failed = [name for name, crate in wanted.items() if not run(name, crate, built[crate] / name, seconds)]
    if failed:
        print(f"found something: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
