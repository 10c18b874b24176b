"""Whether a run may take another step. Pure: what it has used is in its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.payloads import BudgetExceeded

if TYPE_CHECKING:
    from headrace.log.state import State

__all__ = ["exceeded"]


def exceeded(state: State) -> BudgetExceeded | None:
    """Give the first budget that leaves no room for another request; None: there is room.

    A budget is looked at between steps: the step that was begun is finished, and may go over it.
    """
    budget = state.budget
    for which, limit, used in (
        ("steps", budget.steps, state.steps),
        ("tokens", budget.tokens, state.tokens),
        ("money", budget.money_micros, state.money_micros),
        ("time", budget.time_ms, state.used_ms),
    ):
        if limit is not None and used >= limit:
            return BudgetExceeded.from_dict({"which": which, "limit": limit, "used": used})
    return None
