"""Whose an error is, and what its owner does (C7). The one table of it, and one pure function that reads it.

    what                              recorded as           what follows
    a provider's failure              provider.error        the table below
    a malformed call                  provider.error        ask again: another sample mostly works
    a call that does not fit a tool   tool.observed         the model is told, and tries otherwise
    a denial                          permission.decided    the model is told; nobody runs anything
    a tool that failed                tool.observed         the model is told; only after a start
    an end that nobody saw            in_doubt              a person is asked

Errors of one row never turn into another's.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.codes import ErrorKind

__all__ = ["ACTS", "Act", "act_on", "wait_s"]

FIRST_WAIT_S: Final = 1.0
"""The pool has waited and repeated by itself already: this is the loop's own, and slower."""


class Act(Enum):
    """What the loop does about a response that did not finish."""

    RETRY = "retry"
    COMPACT = "compact"
    FALL_BACK = "fall_back"
    ASK = "ask"
    """Pause the run: a person has to do something, or to say so."""
    FAIL = "fail"


_AGAIN: Final = (Act.RETRY, Act.FALL_BACK, Act.ASK)

ACTS: Final[Mapping[ErrorKind, tuple[Act, ...]]] = {
    "rate_limit": _AGAIN,
    "overloaded": _AGAIN,
    "timeout": _AGAIN,
    "transport": _AGAIN,
    "stream_interrupted": _AGAIN,
    "unknown": _AGAIN,
    "malformed_tool_call": _AGAIN,
    "quota": (Act.FALL_BACK, Act.ASK),
    "auth": (Act.FALL_BACK, Act.ASK),
    "context_length": (Act.COMPACT, Act.FALL_BACK, Act.FAIL),
    "unsupported_feature": (Act.FALL_BACK, Act.FAIL),
    "bad_request": (Act.FAIL,),
    "content_filter": (Act.FAIL,),
    "aborted": (Act.ASK,),
}
"""What may be done about each kind, best first."""


def act_on(
    kind: ErrorKind,
    *,
    failures: int,
    retries: int,
    can_wait: bool = True,
    can_compact: bool = False,
    has_fallback: bool = False,
) -> Act:
    """Choose the first act of the kind's row that is possible.

    - `failures`: responses in a row that failed, this one included.
    - `can_wait`: the wait that the provider asks for is within bounds.
    """
    possible = {
        Act.RETRY: failures <= retries and can_wait,
        Act.COMPACT: can_compact,
        Act.FALL_BACK: has_fallback,
    }
    return next(act for act in ACTS[kind] if possible.get(act, True))


def wait_s(failures: int, retry_after_ms: int | None) -> float:
    """Give the seconds before a repetition: the provider's own, or 1, 2, 4, ..."""
    if retry_after_ms is not None:
        return retry_after_ms / 1000
    return FIRST_WAIT_S * 2.0 ** min(failures - 1, 5)
