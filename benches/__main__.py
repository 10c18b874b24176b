"""`python -m benches [SUITE ...] [--rounds N] [--write]`; the suites stand in `SUITES`.

Prints the table; `--write` puts it into docs/BENCHMARKS.md and the raw figures into benches/results/.
Exit status 1 where a figure misses what is asked of it, so that a script can tell.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import importlib
import json
import pathlib
import sys

from benches.measure import Row, machine

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = (
    "codec",
    "decoder",
    "library",
    "sdks",
    "paced",
    "gateway",
    "rivals",
    "tls",
    "bodies",
    "readers",
    "leaving",
    "tools",
    "log",
    "logpeers",
    "store",
    "start",
)
BEGIN, END = "<!-- table: written by `make bench` -->", "<!-- end of table -->"


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| work | anchor in the same run | ratio | must | reached | figures |", "|---|---|---:|---:|---|---|"]
    for row in rows:
        must = f"{'≥' if row.sense == 'at least' else '≤'} {row.must:g}"
        lines.append(
            f"| {row.work} | {row.anchor} | {row.figure:.2f} | {must} | {'yes' if row.met else 'no'} | {row.note} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the suites that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benches", description="Measure, each figure beside its anchor.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="all where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="update docs/BENCHMARKS.md and benches/results/")
    arguments = parser.parse_args()
    if unknown := set(arguments.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    rows: list[Row] = []
    for suite in arguments.suites or SUITES:
        print(f"{suite} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"benches.{suite}").run(arguments.rounds)
    print(f"{machine()}; {arguments.rounds} rounds, medians\n\n{table(rows)}")
    if arguments.write:
        write(rows, arguments.rounds)
    return 0 if all(row.met for row in rows) else 1


def write(rows: list[Row], rounds: int) -> None:
    """Put the table into the docs, and the figures beside the benches."""
    page = ROOT / "docs/BENCHMARKS.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    text = f"{BEGIN}\n{day}: {machine()}; {rounds} rounds, medians.\n\n{table(rows)}\n{END}"
    page.write_text(before + text + rest.partition(END)[2], encoding="utf-8")
    results = ROOT / "benches/results"
    results.mkdir(exist_ok=True)
    record = {"day": day, "machine": machine(), "rounds": rounds, "rows": [dataclasses.asdict(row) for row in rows]}
    (results / "latest.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
