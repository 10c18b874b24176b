"""Credentials of one provider row: what state each is in, and which one is taken. Pure, with the clock handed in."""

from headrace.credentials.limits import Limit, emptied, read_limits
from headrace.credentials.pool import STRATEGIES, Credential, Member, Pool, Strategy
from headrace.credentials.state import READY, Mark, Status

__all__ = [
    "READY",
    "STRATEGIES",
    "Credential",
    "Limit",
    "Mark",
    "Member",
    "Pool",
    "Status",
    "Strategy",
    "emptied",
    "read_limits",
]
