"""Figures of the process, for the page of metrics: what the system says of it, and how often policy was asked.

The names are those that Prometheus' own clients give, so that boards made for others show this process, too.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.metrics import Family

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["process_families"]

_SELF: Final = Path("/proc/self")


def process_families(jobs: Iterable[tuple[str, int]], began: float) -> list[Family]:
    """Tell of this process. What the system does not say is left out.

    - `jobs`: what the edge has handed to policy, by kind.
    - `began`: when it began to serve, in Unix time.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    families = [
        Family(
            "headrace_policy_jobs",
            "counter",
            "How often Python was handed something by the edge: takes and rings for many at once, the rest one by one.",
            [((("kind", kind),), count) for kind, count in jobs],
        ),
        Family("process_cpu_seconds", "counter", "CPU time of all threads.", [((), used.ru_utime + used.ru_stime)]),
        Family("process_start_time_seconds", "gauge", "When it began to serve, in Unix time.", [((), began)]),
        Family("process_max_fds", "gauge", "Descriptors that it may have open.", [((), most)]),
    ]
    try:
        # Pages of the whole address space, and of what of it is in memory.
        whole, resident = (_SELF / "statm").read_text(encoding="ascii").split()[:2]
        page, descriptors = os.sysconf("SC_PAGE_SIZE"), sum(1 for _ in (_SELF / "fd").iterdir())
    except (OSError, ValueError):
        return families
    return [
        *families,
        Family("process_virtual_memory_bytes", "gauge", "Address space.", [((), int(whole) * page)]),
        Family("process_resident_memory_bytes", "gauge", "Memory in use.", [((), int(resident) * page)]),
        Family("process_open_fds", "gauge", "Descriptors that are open.", [((), descriptors)]),
    ]
