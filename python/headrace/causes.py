"""Why an attempt failed, as far as credentials are concerned, and what each cause does: one table.

Never here: a pool, a clock, an answer to a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from headrace.credentials import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.requests import Failure, Headers

__all__ = ["ROWS", "Cause", "Row", "cause_of"]


class Cause(Enum):
    """Why an attempt failed, as far as credentials are concerned."""

    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    INTERRUPTED = "interrupted"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    #: No token could be got; whoever tried has marked the credential. Never found by `cause_of`.
    UNRENEWED = "unrenewed"
    MALFORMED = "malformed"
    ENDPOINT = "endpoint"
    STALE_CONNECTION = "stale_connection"
    REDIRECTED = "redirected"
    CHALLENGED = "challenged"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Row:
    """What a cause does.

    - `mark`: the state that the attempt's credential gets. None: no mark.
    - `scope`: whether the mark is on the credential or on this model of it.
    - `others`: another member may do better.
    - `again`: a second round, or a lone member's second attempt, may do better.
    """

    mark: Status | None
    scope: Literal["credential", "model"] = "credential"
    others: bool = True
    again: bool = True


ROWS: Final[Mapping[Cause, Row]] = {
    Cause.RATE_LIMIT: Row(Status.COOLING, "model"),
    Cause.QUOTA: Row(Status.EXHAUSTED, again=False),
    Cause.OVERLOADED: Row(Status.COOLING, "model"),
    Cause.INTERRUPTED: Row(Status.COOLING),
    Cause.UNAUTHORIZED: Row(Status.DEAD, again=False),
    Cause.FORBIDDEN: Row(None, again=False),
    Cause.UNRENEWED: Row(None, again=False),
    Cause.MALFORMED: Row(None),
    Cause.ENDPOINT: Row(None),
    Cause.STALE_CONNECTION: Row(None),
    Cause.REDIRECTED: Row(None, others=False, again=False),
    Cause.CHALLENGED: Row(None, others=False, again=False),
    Cause.CLIENT: Row(None, others=False, again=False),
}

#: What has no row here (a 5xx, an unknown failure, a timeout of the provider's own) counts as overload.
_BY_KIND: Final[Mapping[str, Cause]] = {
    "bad_request": Cause.CLIENT,
    "context_length": Cause.CLIENT,
    "content_filter": Cause.CLIENT,
    "unsupported_feature": Cause.CLIENT,
    "aborted": Cause.CLIENT,
    "rate_limit": Cause.RATE_LIMIT,
    "quota": Cause.QUOTA,
    "stream_interrupted": Cause.INTERRUPTED,
    "malformed_tool_call": Cause.MALFORMED,
}
#: Without a status, the connection's own failures.
_BROKEN: Final = frozenset({"timeout", "transport", "stream_interrupted"})
_FORBIDDEN_STATUS: Final = 403
#: A WebSocket has had its time, which the provider counts by its own clock: another one answers.
_LIFE_OVER: Final = "websocket_connection_limit_reached"
_REDIRECTS: Final = range(300, 400)


def cause_of(failure: Failure, *, dead_codes: Collection[str] = ()) -> Cause:
    """Find the row of a failure.

    - `dead_codes`: this vendor's codes with a 403 that mean a credential is dead.
    """
    error = failure.error
    kind = error.kind
    if error.status in _REDIRECTS:
        return Cause.REDIRECTED
    if _challenge(failure.headers):
        return Cause.CHALLENGED
    cause = _BY_KIND.get(kind, Cause.OVERLOADED)
    if kind == "auth":
        # Without a status (an error within a stream) nothing shows that the key itself was refused.
        refused = error.status not in {None, _FORBIDDEN_STATUS} or error.code in dead_codes
        cause = Cause.UNAUTHORIZED if refused else Cause.FORBIDDEN
    elif error.code == _LIFE_OVER and failure.reused_socket:
        cause = Cause.STALE_CONNECTION
    elif kind in _BROKEN and error.status is None:
        if kind != "timeout" and failure.reused_socket and failure.bytes_received == 0:
            cause = Cause.STALE_CONNECTION
        elif error.phase == "connect":
            cause = Cause.ENDPOINT
        else:
            cause = Cause.INTERRUPTED
    return cause


def _challenge(headers: Headers) -> bool:
    """Whether the provider's edge wants to see a browser: it stops this machine, whatever the credential."""
    return any(name.lower() == "cf-mitigated" and value.strip().lower() == "challenge" for name, value in headers)
