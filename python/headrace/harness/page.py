"""The trace page: one file that shows a run, or two beside each other. It holds all that it shows, and asks nobody.

1. What it shows was written by anybody. It is carried as data that cannot end its own element, and shown as text; a
   policy in the page lets no other script run than the page's own, and nothing be fetched.
2. Only what verifies is shown; where a chain is broken, the page says at which event.
3. Credentials are shown by their ids: nothing else of them is in a log.

How it looks is in `trace.html`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.log import payloads as p
from headrace.log.records import LogError
from headrace.log.state import fold
from headrace.log.trace import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.log.eventlog import EventLog
    from headrace.log.records import Record
    from headrace.log.trace import Trace

__all__ = ["gather", "page"]

DIFF_BYTES: Final = 64 * 1024
"""Of one difference that the page carries: more is not read by anybody on a page."""
DIFFS_BYTES: Final = 4 << 20
_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.DOTALL)
_SELF: Final = "'self'"
_NONE: Final = "'none'"
#: What could end the element that carries the data, written so that JSON reads it as the same.
_ESCAPES: Final = {b"<": b"\\u003c", b">": b"\\u003e", b"&": b"\\u0026"}


async def gather(log: EventLog, run_id: str, *, after: int = 0) -> dict[str, Any]:
    """Gather what the page shows of a run.

    - `after`: leave the steps up to this seq out: the page has them already.

    Raises `UnknownRunError`.
    """
    verdict = await log.verify(run_id)
    records = await log.upto(run_id, verdict.events)
    read = trace(records)
    state = fold(records)
    return {
        "run_id": run_id,
        "from": after,
        "chain": {
            "ok": verdict.ok,
            "events": verdict.events,
            "bad_seq": verdict.bad_seq,
            "why": verdict.why,
            "erased": list(verdict.erased),
            "sealed": verdict.sealed,
        },
        "state": {
            "goal": state.goal,
            "model": state.model,
            "status": state.status,
            "reason": state.reason,
            "steps": state.steps,
            "tokens": state.tokens,
            "money_micros": state.money_micros,
            "used_ms": state.used_ms,
        },
        "attempts": _attempts(read),
        "intents": {name: asdict(one) for name, one in read.intents.items()},
        "steps": [
            {
                "seq": step.seq,
                "at_ms": step.at_ms,
                "epoch": step.epoch,
                "lane": step.lane,
                "type": step.type,
                "turn": step.turn_id,
                "intent": step.intent_id,
                "data": step.data,
            }
            for step in read.steps
            if step.seq > after
        ],
        "artifacts": await _differences(log, [one for one in records if one.seq > after]),
    }


def page(runs: Sequence[dict[str, Any]], *, live: str = "") -> bytes:
    """Make the page.

    - `runs`: one, or two to be compared (`gather`).
    - `live`: where more of the first run comes from, if anything does.
    """
    template = files("headrace.harness").joinpath("trace.html").read_bytes()
    data = orjson.dumps({"runs": list(runs), "live": live})
    for mark, escape in _ESCAPES.items():
        data = data.replace(mark, escape)
    policy = (
        f"default-src 'none'; script-src {_hashed(_SCRIPT, template)}; style-src {_hashed(_STYLE, template)}; "
        f"connect-src {_SELF if live else _NONE}; base-uri 'none'; form-action 'none'"
    )
    head, _, tail = template.partition(b">DATA<")
    return head.replace(b"POLICY", policy.encode()) + b">" + data + b"<" + tail


def _hashed(element: re.Pattern[bytes], template: bytes) -> str:
    found = element.search(template)
    if found is None:
        raise ValueError("the template has no such element")
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}'"


def _attempts(read: Trace) -> list[dict[str, Any]]:
    made: dict[tuple[str, int], dict[str, Any]] = {}
    for step in read.steps:
        data = step.data
        if data is None or not step.type.startswith("model.attempt."):
            continue
        one = made.setdefault((step.turn_id, data["attempt"]), {"seq": step.seq, "turn": step.turn_id})
        one["attempt"] = data["attempt"]
        for name in ("provider", "credential", "protocol", "outcome", "kind", "status"):
            if data.get(name) is not None:
                one[name] = data[name]
        if step.type == p.ModelAttemptFinished.type:
            one["ms"] = data.get("duration_ms", 0)
    return list(made.values())


async def _differences(log: EventLog, records: Sequence[Record]) -> dict[str, str]:
    """Read the differences that executions made, as far as a page carries them."""
    found: dict[str, str] = {}
    room = DIFFS_BYTES
    for record in records:
        value = record.value() if record.type == p.ExecutionFinished.type else None
        for change in value.changes if isinstance(value, p.ExecutionFinished) else ():
            ref = change.diff
            if ref is None or ref.digest in found or ref.size > min(DIFF_BYTES, room):
                continue
            try:
                text = (await log.artifacts.get(ref.digest)).decode("utf-8", "replace")
            except LogError:
                continue  # gone, or spoiled: the page says that it is not there
            found[ref.digest] = text
            room -= ref.size
    return found
