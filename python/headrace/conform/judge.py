"""The verdict on what an engine made of a case. The same rules for all engines.

1. A field that an engine leaves out of its outcome is one that it has no place for: it is not compared. If it is the
   field that the case is about, the case is *not offered*.
2. Text, refusal, calls and the reason of the end are compared in every case; the others in the cases that are about
   them. Our own engine is held to every field. An engine that gives `error.kind` is held to the kind.
3. The reason of the end may be the vendor's own word or any usual word for ours; `stop` is right of calls where the
   vendor has no other word for their end.
4. Where an error is due, it is right to raise one, or to hand on the provider's own word for it. It is right *by
   accident* where what is raised is an exception of the language itself (`KeyError`, a reader's of JSON), which no
   caller is told to expect: the answer is not taken for a good one, but who catches the library's errors does not
   catch this. To end without an error and without a reason is *silent*: a caller who looks can see that something is
   missing. To end with a reason, as if all were well, or with calls to be carried out, is wrong.
5. An engine that hands on pieces of calls (`pieces`) has no say in which call is complete: what hangs on that is not
   offered, and its calls are not held against it where an error is due.

Knowledge of a particular engine must not be added here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from headrace.conform.corpus import Case

__all__ = ["Status", "Verdict", "judge"]

Status = Literal["right", "accident", "wrong", "silent", "not_offered"]

ALWAYS = ("text", "refusal", "calls", "finish")
ABOUT = {
    "reasoning": ("reasoning",),
    "continuation": ("continuations",),
    "annotations": ("annotations",),
    "media": ("media",),
    "usage": ("usage",),
}
"""Feature -> the fields that only its cases compare."""
ALL = (*ALWAYS, "reasoning", "continuations", "annotations", "media", "usage")

COMPLETENESS = {"truncated_call", "malformed_call"}
"""Features that are about whether a call is complete."""

WORDS = {
    "stop": {"stop", "end_turn", "stop_sequence", "completed", "complete"},
    "tool_intents": {"tool_calls", "tool_call", "tool_use", "function_call", "tool_intents"},
    "length": {"length", "max_tokens", "max_output_tokens", "incomplete"},
    "content_filter": {"content_filter", "safety", "refusal", "incomplete"},
    "refusal": {"refusal", "content_filter"},
    "pause": {"pause", "pause_turn"},
    "other": {"other", "unknown"},
}
"""Reason of ours -> words of other engines for it."""

ACCIDENTS = {
    "AssertionError",
    "AttributeError",
    "IndexError",
    "JSONDecodeError",
    "KeyError",
    "NameError",
    "RangeError",
    "RecursionError",
    "ReferenceError",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
}
"""Exceptions of Python and of JavaScript that nobody raises to say that an answer failed."""

NO_REASON = {"", "none", "unknown", "other"}
"""Words for the end that claim nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found; `why` says what differs, and is empty where it is right."""

    status: Status
    why: str = ""


def judge(case: Case, outcome: dict[str, Any], *, strict: bool = False) -> Verdict:
    """Judge an outcome by what the case expects; `strict` compares every field in every case."""
    if "not_offered" in outcome:
        return Verdict("not_offered", str(outcome["not_offered"]))
    if outcome.get("pieces") and case.feature in COMPLETENESS:
        return Verdict("not_offered", "it hands on pieces of calls")
    error = outcome.get("error")
    wanted = case.expect.get("error")
    fields = ALL if strict else (*ALWAYS, *ABOUT.get(case.feature, ()))
    if wanted is not None:
        return _judge_failure(case, outcome, error) or _compared(case, outcome, fields)
    if error is not None:
        return Verdict("wrong", f"an error: {error.get('kind') or error.get('type')}")
    missing = [field for field in ABOUT.get(case.feature, ()) if field not in outcome]
    if case.feature == "refusal" and "refusal" in case.expect and "refusal" not in outcome:
        missing = ["refusal"]
    if missing:
        return Verdict("not_offered", f"no place for {', '.join(missing)}")
    return _compared(case, outcome, fields)


def _judge_failure(case: Case, outcome: dict[str, Any], error: dict[str, Any] | None) -> Verdict | None:
    """The verdict; none where the kind is right and the rest is to be compared."""
    wanted = case.expect["error"]
    if error is None:
        finish, calls = _word(outcome.get("finish")), outcome.get("calls") and not outcome.get("pieces")
        return _judge_missing_error(finish, {"error", _word(case.expect.get("raw", "error"))}, calls)
    if "kind" not in error:
        name = str(error.get("type"))
        return Verdict("accident", f"an error by accident: {name}") if name in ACCIDENTS else Verdict("right")
    return Verdict("wrong", f"error is {error}, not {wanted}") if error != wanted else None


def _judge_missing_error(finish: str, telling: set[str], calls: Any) -> Verdict:
    if finish in telling:
        return Verdict("right")
    if finish not in NO_REASON:
        return Verdict("wrong", f"no error, and the end is {finish}")
    if calls:
        return Verdict("wrong", "no error, no reason of the end, and calls")
    return Verdict("silent", "no error, and no reason of the end")


def _compared(case: Case, outcome: dict[str, Any], fields: tuple[str, ...]) -> Verdict:
    for field in fields:
        if field in outcome and (why := _difference(field, case.expect, outcome[field])):
            return Verdict("wrong", why)
    return Verdict("right")


def _difference(field: str, expect: dict[str, Any], got: Any) -> str | None:
    if "error" in expect and field in ("finish", "usage"):
        return None
    if field == "finish":
        word, reason = _word(got), expect["finish"]
        raw = _word(expect.get("raw"))
        allowed = {raw, reason} | WORDS[reason] | (WORDS["stop"] if raw in WORDS["stop"] else set())
        return None if word in allowed else f"finish is {word or 'none'}, not {reason}"
    if field == "calls":
        return _call_difference(expect.get("calls", []), got)
    if field == "usage":
        return _usage_difference(expect.get("usage"), got)
    wanted = expect.get(field, "" if field in ("text", "refusal", "reasoning") else [])
    return None if got == wanted else f"{field} is {got!r}, not {wanted!r}"


def _call_difference(wanted: list[dict[str, Any]], got: list[dict[str, Any]]) -> str | None:
    if len(wanted) != len(got):
        return f"{len(got)} calls, not {len(wanted)}"
    if all("id" in call for call in wanted) and all(call.get("id") for call in got):
        wanted, got = (sorted(calls, key=lambda call: str(call["id"])) for calls in (wanted, got))
    for mine, theirs in zip(wanted, got, strict=True):
        if "input" in mine:
            same = theirs.get("input") == mine["input"]
        else:
            same = _object(theirs.get("arguments")) == json.loads(mine["arguments"])
        if not same or theirs.get("name") != mine["name"]:
            return f"the call is {json.dumps(theirs, ensure_ascii=False)}"
        if "id" in mine and theirs.get("id") not in (None, mine["id"]):
            return f"the call's id is {theirs['id']}, not {mine['id']}"
    return None


def _object(arguments: Any) -> Any:
    """Arguments as an object; an engine may hand on the provider's text, of which the caller has to make one."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments


def _usage_difference(wanted: dict[str, int] | None, got: dict[str, Any] | None) -> str | None:
    if wanted is None or got is None:
        return None if wanted is None and got is None else f"usage is {got}, not {wanted}"
    for name in ("input", "output"):
        if got.get(name) != wanted.get(name, 0):
            return f"{name} tokens are {got.get(name)}, not {wanted.get(name, 0)}"
    for name in ("cached", "reasoning"):
        if name in wanted and name in got and (got[name] or 0) != wanted[name]:
            return f"{name} tokens are {got[name]}, not {wanted[name]}"
    return None


def _word(finish: Any) -> str:
    return str(finish or "").rpartition(".")[2].lower().replace("-", "_")
