"""CPU and memory of a process tree, and how a figure is taken from several rounds.

Only CPU time is compared: neighbours on a shared machine stretch wall time several times over and CPU time by
a few per cent. Anchor and subject take turns, and the figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import pathlib
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence

PROC = pathlib.Path("/proc")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a figure as a ratio to its anchor in the same run, and what was asked of it."""

    work: str
    anchor: str
    figure: float
    must: float
    #: "at least" where more is better (so many times faster), "at most" where less is.
    sense: str
    #: The raw figures behind the ratio, with their units.
    note: str

    @property
    def met(self) -> bool:
        """Whether the must column is reached."""
        return self.figure >= self.must if self.sense == "at least" else self.figure <= self.must


def process_cpu(run: Callable[[], object], least: float = 0.15) -> float:
    """CPU seconds of one call of `run`, from as many calls as fill `least` seconds."""
    gc.collect()
    calls, start = 0, time.process_time()
    while True:
        run()
        calls += 1
        spent = time.process_time() - start
        if spent >= least:
            return spent / calls


def in_turns(subjects: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds per call of each subject, once a round, all subjects in each round."""
    took: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            took[name].append(process_cpu(run))
    return took


def ratio(anchor: Sequence[float], subject: Sequence[float]) -> float:
    """The median over the rounds of anchor by subject: how many times less the subject costs."""
    return statistics.median(a / b for a, b in zip(anchor, subject, strict=True))


def tree(pid: int) -> list[int]:
    """The process and all that it started."""
    parents: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def tree_cpu(pid: int) -> float:
    """CPU seconds that the tree has used: the scheduler's nanoseconds of its live threads, or the clock ticks
    where those say more (threads that have ended count only there).
    """
    fine = ticks = 0.0
    for member in tree(pid):
        try:
            fields = (PROC / str(member) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            for thread in (PROC / str(member) / "task").iterdir():
                fine += int((thread / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue
    return max(fine, ticks)


def tree_memory(pid: int) -> float:
    """Memory of the tree in MiB, shared pages divided among those who share them (PSS)."""
    total = 0
    for member in tree(pid):
        try:
            found = re.search(r"^Pss:\s+(\d+)", (PROC / str(member) / "smaps_rollup").read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total / 1024


def machine() -> str:
    """What the figures were taken on, in one line."""
    model = "unknown processor"
    for line in (PROC / "cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = os.getloadavg()[2]
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {load:.1f} over the last 15 minutes"
    )
