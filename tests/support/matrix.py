"""The table of pairs in `docs/SUPPORT.md`, made of what `tests/server/test_pairs.py` replays.

`python -m tests.support.matrix` writes it, where the recordings are.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections import Counter

from tests.conftest import ROOT
from tests.support.cases import Case, fixtures, recordings
from tests.support.replay import CLIENTS, PROVIDERS

PAGE = ROOT / "docs" / "SUPPORT.md"
BEGIN, END = "<!-- pairs: python -m tests.support.matrix -->\n", "<!-- end of pairs -->\n"
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (\w+) \| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \|$", re.MULTILINE)
"""Client, provider, relay, recorded streams + streams of our own, recorded bodies + bodies of our own."""


def counts(cases: list[Case]) -> Counter[tuple[str, bool]]:
    """How many bodies of each provider there are, by whether they are streams."""
    return Counter((case.provider, case.is_stream) for case in cases)


def table(recorded: Counter[tuple[str, bool]], own: Counter[tuple[str, bool]]) -> str:
    lines = [
        "| client speaks | provider speaks | relay | streams replayed | whole bodies replayed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for client in CLIENTS:
        for provider in PROVIDERS:
            relay = "verbatim" if client == provider else "normalised"
            numbers = [f"{recorded[provider, stream]} + {own[provider, stream]}" for stream in (True, False)]
            lines.append(f"| `{client}` | `{provider}` | {relay} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The table as it stands in the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def main() -> None:
    shared = pathlib.Path(os.environ.get("HEADRACE_SHARED", ROOT.parent / "shared"))
    made = table(counts(recordings(shared)), counts(fixtures()))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + made + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
