"""What stands at a moment: looked up when a page is asked for, and counted by nobody before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from headrace.credentials import Status
from headrace.metrics._exposition import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.credentials import Pool
    from headrace.metrics._exposition import Histogram, Labels
    from headrace.metrics._figures import Metrics

__all__ = ["Books", "books_families", "pool_families", "running_family"]


class Books(Protocol):
    """Who keeps what is settled: `node.Node` does."""

    @property
    def waiting(self) -> int:
        """Settled requests that the store does not have yet."""

    @property
    def journaled(self) -> int:
        """Those of them in the journal."""

    @property
    def committed(self) -> int:
        """Settled requests that it has."""

    @property
    def store_errors(self) -> int:
        """How often it failed."""

    @property
    def is_away(self) -> bool:
        """Whether it cannot be reached."""


def running_family(running: Iterable[tuple[str, str]]) -> Family:
    """Count what is under way.

    - `running`: client's protocol and provider of each request.
    """
    counts = Counter(running)
    return Family(
        "headrace_in_flight",
        "gauge",
        "Requests at a provider, or waiting for their next attempt.",
        [((("client", client), ("provider", provider)), count) for (client, provider), count in counts.items()],
    )


def books_families(books: Books) -> list[Family]:
    """Tell how the ledger stands with its store."""
    return [
        Family("headrace_ledger_waiting", "gauge", "Settled requests not in the store yet.", [((), books.waiting)]),
        Family("headrace_ledger_journal", "gauge", "Those of them in the local journal.", [((), books.journaled)]),
        Family("headrace_ledger_committed", "counter", "Settled requests in the store.", [((), books.committed)]),
        Family("headrace_store_errors", "counter", "Failures of the store.", [((), books.store_errors)]),
        Family("headrace_store_away", "gauge", "1 while the store cannot be reached.", [((), int(books.is_away))]),
    ]


def pool_families(
    pools: Iterable[Pool], broken: Iterable[tuple[str, str]], metrics: Metrics, *, now: float
) -> list[Family]:
    """Tell the states of credentials and breakers.

    - `broken`: provider and model of every breaker that is open.
    """
    states: list[tuple[Labels, float | Histogram]] = []
    limited: list[tuple[Labels, float | Histogram]] = []
    for pool in pools:
        tired: Counter[str] = Counter()
        for (credential, model), mark in pool.marks().items():
            tired[credential] += model is not None and mark.at(now) is not Status.READY
        for member in pool.members("", now):
            labels = (("provider", pool.provider), ("credential", member.id))
            states += (((*labels, ("state", state.value)), int(state is member.status)) for state in Status)
            limited.append((labels, tired[member.id]))
    opened = Counter(_labelled(broken, metrics))
    return [
        Family("headrace_credential_state", "gauge", "1 for the state that a credential is in, on all models.", states),
        Family(
            "headrace_credential_models_tired",
            "gauge",
            "On how many models a credential is cooling or exhausted beside that.",
            limited,
        ),
        Family(
            "headrace_breakers_open",
            "gauge",
            "Circuit breakers that let nothing pass, or one probe.",
            [((("provider", provider), ("model", model)), count) for (provider, model), count in opened.items()],
        ),
    ]


def _labelled(broken: Iterable[tuple[str, str]], metrics: Metrics) -> Iterator[tuple[str, str]]:
    for provider, model in broken:
        yield metrics.label(provider, model)
