"""How a command that leads runs ends. The numbers are for ever: scripts go by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.log.state import State

__all__ = [
    "ASKED",
    "BUDGET",
    "DONE",
    "FAILED",
    "GATE",
    "INTERRUPTED",
    "MISUSE",
    "PROVIDER",
    "UNVERIFIED",
    "exit_of",
]

DONE: Final = 0
"""Finished: by the model's word, or verified where a check was named."""
FAILED: Final = 1
"""Finished without a result; or a log, a replay is not what it should be."""
MISUSE: Final = 2
"""A mistake of the caller's: an option, the configuration, a policy file, no such run."""
ASKED: Final = 3
"""Paused: somebody has to answer, or to say something."""
BUDGET: Final = 4
"""Paused: a budget is used up."""
PROVIDER: Final = 5
"""Paused: a provider does not answer, and somebody may want to try again."""
UNVERIFIED: Final = 6
"""Finished, and what the model claims does not hold."""
GATE: Final = 7
"""Not taken up: something that the run relied on does not hold any longer."""
INTERRUPTED: Final = 130
"""Paused: by Ctrl-C, or by a signal."""

_PAUSED: Final = {"asked": ASKED, "in_doubt": ASKED, "budget": BUDGET, "provider": PROVIDER}


def exit_of(state: State) -> int:
    """Give the exit status of what a run has come to."""
    if state.status == "paused":
        return _PAUSED.get(state.reason, INTERRUPTED)
    if state.reason not in ("completed", "verified"):
        return BUDGET if state.reason == "budget_exceeded" else FAILED
    last = max(state.verifications, default=0)
    return UNVERIFIED if last and not state.verifications[last] else DONE
