"""Logs made by hand: a run as the core would record it, without a store, a clock or randomness."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from headrace.log import payloads as p
from headrace.log.records import Record, genesis, make

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RUN = "r1"
START_MS = 1_700_000_000_000


def bytes_for(seq: int) -> bytes:
    """The envelope's random bytes, which are not random here."""
    return hashlib.sha256(str(seq).encode()).digest()[:26]


def records(payloads: Iterable[p.Payload], *, run_id: str = RUN, step_ms: int = 1000) -> list[Record]:
    """Put payloads into envelopes, one after the other."""
    made: list[Record] = []
    chain = genesis(run_id)
    for seq, payload in enumerate(payloads, 1):
        at_ms = START_MS + seq * step_ms
        record = make(payload, run_id=run_id, seq=seq, before=chain, at_ms=at_ms, epoch=1, randomness=bytes_for(seq))
        chain = record.chain
        made.append(record)
    return made


def begin(**options: object) -> list[p.Payload]:
    """The first events of every run."""
    start = {"goal": "mend the test", "model": "acme/m", "cwd": "/project", "instructions": "Be brief."}
    return [p.RunStarted(**(start | options)), p.UserMessage(text="mend the test")]  # type: ignore[arg-type]


def request(turn: str, **options: object) -> list[p.Payload]:
    """A projection and the request that it led to."""
    entry = p.LedgerEntry(first=1, last=2, status="included", why="said", tokens=9)
    return [
        p.ContextProjected(turn_id=turn, upto=2, ledger=(entry,), request="0" * 64, messages=2, tokens=9),
        p.ModelRequested(turn_id=turn, model="acme/m", request="0" * 64, tools=("bash",), **options),  # type: ignore[arg-type]
        p.ModelStarted(turn_id=turn, model="m"),
    ]


def intent(turn: str, call: int = 0, tool: str = "bash", raw: str = '{"command": "true"}') -> p.ToolIntent:
    """What a model proposed."""
    return p.ToolIntent(
        turn_id=turn,
        intent_id=f"{turn}.{call}",
        tool_name=tool,
        raw_input_text=raw,
        call=call,
        provider_call_id=f"call_{call}",
        tool_version="1",
    )


def answer(turn: str, text: str = "", intents: Sequence[p.ToolIntent] = ()) -> list[p.Payload]:
    """A response that finished."""
    return [
        *([p.ModelSpoke(turn_id=turn, text=text)] if text else []),
        *intents,
        p.ModelUsed(turn_id=turn, input_tokens=100, output_tokens=10),
        p.ModelEnded(turn_id=turn, reason="tool_intents" if intents else "stop"),
    ]


def execution(intent_id: str, text: str = "done", **observed: object) -> list[p.Payload]:
    """An intent's way to its observation, where all goes well."""
    ran = f"{intent_id}/1"
    return [
        p.ToolValidated(intent_id=intent_id, ok=True, phase="schema", normalised="{}", intent_digest="d1"),
        p.PermissionDecided(intent_id=intent_id, decision="allow", by="policy", rule="tests"),
        p.ExecutionStarted(
            intent_id=intent_id, execution_id=ran, tool_name="bash", executor="process", cwd="/", intent_digest="d1"
        ),
        p.ExecutionFinished(intent_id=intent_id, execution_id=ran, outcome="ok", exit_code=0),
        p.ToolObserved(intent_id=intent_id, phase="observe", code="ok", text=text, execution_id=ran, **observed),  # type: ignore[arg-type]
    ]


def whole() -> list[p.Payload]:
    """A run from its start to its end: one tool, one answer."""
    return [
        *begin(),
        *request("t0"),
        *answer("t0", "Let me see.", [intent("t0")]),
        *execution("t0.0"),
        *request("t1"),
        *answer("t1", "It works."),
        p.VerificationRecorded(claim="the tests pass", method="command", passed=True),
        p.RunFinished(outcome="completed", text="It works."),
    ]
