"""Figures of the process, for the page of metrics: what the system says of it, and how often policy was asked.

The names are those that Prometheus' own clients give, so that boards made for others show this process, too.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final, Protocol

from headrace.metrics import Family

__all__ = ["edge_families", "process_families"]


_SELF: Final = Path("/proc/self")


class Edge(Protocol):
    """What counts for itself: a running `GatewayRef`."""

    def connections(self) -> tuple[int, int]:
        """Connections that are open, and all that there have been."""

    def refused(self) -> list[tuple[int, int]]:
        """Status and number of what was refused."""

    def counters(self) -> list[tuple[str, int]]:
        """What was handed to policy, by kind."""


def edge_families(edge: Edge) -> list[Family]:
    """Tell what the listener has counted: connections, what it refused itself, what it handed to policy."""
    opened, accepted = edge.connections()
    return [
        Family("headrace_open_connections", "gauge", "Clients' connections that are open.", [((), opened)]),
        Family("headrace_connections", "counter", "Clients' connections that were accepted.", [((), accepted)]),
        Family(
            "headrace_edge_refused",
            "counter",
            "Requests that were wrong in themselves (no JSON, no such path, too large), by the status of the answer.",
            [((("status", str(status)),), count) for status, count in edge.refused()],
        ),
        Family(
            "headrace_policy_jobs",
            "counter",
            "How often Python was handed something by the edge: takes and rings for many at once, the rest one by one.",
            [((("kind", kind),), count) for kind, count in edge.counters()],
        ),
    ]


def process_families(began: float) -> list[Family]:
    """Tell of this process. What the system does not say is left out.

    - `began`: when it began to serve, in Unix time.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    families = [
        Family("headrace_build_info", "gauge", "1, with the version that runs.", _build()),
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


def _build() -> list[tuple[tuple[tuple[str, str], ...], float]]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return [((("version", version("headrace")),), 1)]
    except PackageNotFoundError:  # it runs from a folder that nobody installed
        return []
