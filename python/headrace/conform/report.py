"""What runs come to, for people and for programs.

1. A cell is about one feature and one engine: how many of the cases that the engine has a place for came out right.
2. The page is written by a run; nobody writes figures into it by hand.

A verdict of its own must not be added here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from headrace.conform.corpus import FAMILIES, FEATURES, CorpusError, digest_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.conform.corpus import Case
    from headrace.conform.run import Run

__all__ = ["BEGIN", "END", "as_json", "cell", "page", "table", "version_of", "write_page"]

BEGIN = "<!-- results: headrace conform --engine all --write docs/CONFORMANCE.md -->\n"
END = "<!-- end of results -->\n"
"""Between these two lines of a page its results stand."""

SHOWN = 160
"""Characters of a reason that the page shows."""


def cell(run: Run, cases: Sequence[Case]) -> str:
    """How many of these cases came out right, of how many that it has a place for; `-` where it has none."""
    found = [run.verdicts[case.id].status for case in cases if case.id in run.verdicts]
    offered = [status for status in found if status != "not_offered"]
    if not offered:
        return "-"
    silent, accident = offered.count("silent"), offered.count("accident")
    notes = [f"{count} {word}" for count, word in ((accident, "by accident"), (silent, "silent")) if count]
    right = offered.count("right") + accident
    return f"{right}/{len(offered)}" + (f" ({', '.join(notes)})" if notes else "")


def table(runs: Sequence[Run], cases: Sequence[Case]) -> str:
    """The table of features and engines, in plain text."""
    rows = [["", *[run.name for run in runs]]]
    rows += [[name, *row] for name, row in _rows(runs, cases, FEATURES, lambda case: case.feature)]
    rows.append(["all", *[cell(run, cases) for run in runs]])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{run.name}: {run.failure}" for run in runs if run.failure]
    return "\n".join(lines)


def as_json(runs: Sequence[Run], cases: Sequence[Case], corpus: Path) -> dict[str, Any]:
    """Everything, by engine and case."""
    return {
        "corpus": version_of(corpus),
        "cases": len(cases),
        "engines": [
            {
                "name": run.name,
                "label": run.label,
                "versions": run.versions,
                "failure": run.failure or None,
                "cases": {
                    name: {"status": verdict.status} | ({"why": verdict.why} if verdict.why else {})
                    for name, verdict in run.verdicts.items()
                },
            }
            for run in runs
        ],
    }


def version_of(corpus: Path) -> str:
    """The first digits of the digest of the corpus's list of digests."""
    return hashlib.sha256(digest_list(corpus).encode()).hexdigest()[:12]


def page(runs: Sequence[Run], cases: Sequence[Case], corpus: Path) -> str:
    """The part of `docs/CONFORMANCE.md` that a run writes."""
    parts = [f"Corpus {version_of(corpus)}: {len(cases)} cases.\n", "| engine | versions |\n| --- | --- |"]
    for run in runs:
        versions = ", ".join(f"{name} {number}" for name, number in run.versions.items())
        parts.append(f"| {run.label}{f' ({run.note})' if run.note else ''} | {versions or run.failure} |")
    able = [run for run in runs if not run.failure]
    parts += ["\n## By feature\n", _markdown("feature", able, _rows(able, cases, FEATURES, lambda case: case.feature))]
    parts += ["\n## By family\n", _markdown("family", able, _rows(able, cases, FAMILIES, lambda case: case.family))]
    parts.append("\n## What is not right, case by case\n")
    for run in able:
        wrong = {name: verdict for name, verdict in run.verdicts.items() if verdict.status in ("wrong", "silent")}
        parts.append(f"### {run.label}\n")
        parts += [f"- `{name}`: {_plain(verdict.why)}" for name, verdict in wrong.items()] or ["Nothing."]
        lucky: dict[str, list[str]] = {}
        for name, verdict in run.verdicts.items():
            if verdict.status == "accident":
                lucky.setdefault(verdict.why.rpartition(" ")[2], []).append(f"`{name}`")
        parts += [f"\nRight by accident, with `{error}`: {', '.join(names)}." for error, names in lucky.items()]
        parts.append("")
    return "\n".join(parts)


def write_page(path: Path, runs: Sequence[Run], cases: Sequence[Case], corpus: Path) -> None:
    """Put the results into a page, between its two marks. Raises `CorpusError` where it has none."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CorpusError(f"{path}: no lines {BEGIN.strip()} and {END.strip()}, between which the results go")
    path.write_text(before + BEGIN + page(runs, cases, corpus) + END + after, encoding="utf-8")


def _rows(
    runs: Sequence[Run], cases: Sequence[Case], names: dict[str, Any], of: Callable[[Case], str]
) -> list[tuple[str, list[str]]]:
    grouped = {name: [case for case in cases if of(case) == name] for name in names}
    return [(name, [cell(run, group) for run in runs]) for name, group in grouped.items() if group]


def _markdown(first: str, runs: Sequence[Run], rows: list[tuple[str, list[str]]]) -> str:
    head = [f"| {' | '.join([first, *[run.label for run in runs]])} |", f"| --- {'| --- ' * len(runs)}|"]
    return "\n".join(head + [f"| {name} | {' | '.join(row)} |" for name, row in rows])


def _plain(why: str) -> str:
    """One line that says nothing to Markdown."""
    line = " ".join(why.split()).replace("`", "'")
    return f"`{line if len(line) <= SHOWN else line[:SHOWN] + '…'}`"
