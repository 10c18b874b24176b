"""Hooks: who else is asked about a call, before it and after it.

1. A hook before a call can only tighten: it asks or denies, or says nothing. It changes no input, as that would be
   another intent.
2. A hook after a call can withhold what the model would see. It cannot make a failure a success.
3. A hook that fails or takes too long denies, or withholds: who put it there wanted a check.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from headrace.log.payloads import Answer, Effect, ObservationCode

__all__ = ["HOOK_S", "AfterCall", "AfterHook", "BeforeCall", "BeforeHook", "HookAnswer", "ask_hook"]

HOOK_S: Final = 10.0
"""Seconds that a hook may take: a person waits for the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeCall:
    """What a hook is told before a call. `value`: the normalised input, redacted."""

    intent_id: str
    tool_name: str
    value: Mapping[str, Any]
    effects: tuple[Effect, ...]
    summary: str
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterCall:
    """What a hook is told after a call: what the model would see."""

    intent_id: str
    tool_name: str
    code: ObservationCode
    text: str


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`allow`: nothing against it. After a call, `deny` withholds the text."""

    decision: Answer = "allow"
    reason: str = ""


class BeforeHook(Protocol):
    """Asked before a call."""

    @property
    def name(self) -> str:
        """For the record."""

    async def before(self, call: BeforeCall) -> HookAnswer:
        """Look at a call."""


class AfterHook(Protocol):
    """Asked after a call."""

    @property
    def name(self) -> str:
        """For the record."""

    async def after(self, call: AfterCall) -> HookAnswer:
        """Look at what came of a call."""


async def ask_hook(asked: Awaitable[HookAnswer], seconds: float = HOOK_S) -> HookAnswer:
    """Take a hook's answer; one that fails is a no."""
    try:
        answer = await asyncio.wait_for(asked, seconds)
        # Typed or not, what is no answer is a failure: the next line would find out.
        HookAnswer(answer.decision, answer.reason)
    except TimeoutError:
        return HookAnswer("deny", f"the hook took longer than {seconds:g} s")
    except Exception as error:  # noqa: BLE001 - a hook may fail in any way
        return HookAnswer("deny", f"the hook failed: {type(error).__name__}")
    return answer
