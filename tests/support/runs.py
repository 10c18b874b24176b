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


def everything() -> list[p.Payload]:
    """A run in which every type of event happens, most of their fields set."""
    ref = p.ArtifactRef(digest="a" * 64, size=3, media="text/plain")
    grant = p.Grant(intent_digest="d1", cwd="/project", policy="c" * 64, expires_ms=START_MS * 2, scope="session")
    ran = p.ExecutionStarted(
        intent_id="t0.0",
        execution_id="t0.0/1",
        tool_name="bash",
        executor="process",
        cwd="/project",
        intent_digest="d1",
        tool_version="1",
        argv=("true",),
        sandbox="A",
        limits=p.Limits(wall_ms=1000, memory_bytes=1 << 20),
        environment=("PATH",),
        effects=("execute",),
    )
    changed = p.FileChange(path="a.py", before="1" * 64, after="2" * 64, diff=ref)
    ended = p.ExecutionFinished(
        intent_id="t0.0",
        execution_id="t0.0/1",
        outcome="ok",
        exit_code=0,
        duration_ms=5,
        output_bytes=3,
        output=ref,
        changes=(changed,),
    )
    seen = p.ToolObserved(
        intent_id="t0.0",
        phase="observe",
        code="ok",
        text="done",
        execution_id="t0.0/1",
        omitted_bytes=2,
        whole=ref,
        redactions=1,
        read_hashes=("a.py=" + "2" * 64,),
    )
    doubtful = p.ExecutionStarted(
        intent_id="t0.1", execution_id="t0.1/1", tool_name="bash", executor="process", cwd="/project"
    )
    state = p.ModelContinued(
        turn_id="t0", family="openai_chat", form="details", data="xyz", attach_to="reasoning", provider="acme"
    )
    return [
        *begin(budget=p.Budget(steps=9), workspace="e" * 64, policy="c" * 64, fallbacks=("spare/m",), release="1"),
        *request("t0"),
        p.ModelAttemptStarted(turn_id="t0", attempt=1, provider="acme", credential="first", protocol="openai_chat"),
        p.ModelAttemptFinished(turn_id="t0", attempt=1, outcome="failed", kind="overloaded", status=503),
        p.ModelReasoned(turn_id="t0", text="I should look."),
        state,
        p.ModelHostedTool(turn_id="t0", name="search", phase="done", id="h1", family="openai_chat", raw="{}"),
        p.ModelAnnotated(turn_id="t0", kind="url", url="https://example.org", title="An example", first=0, last=3),
        p.ModelMedia(turn_id="t0", mime="image/png", digest="b" * 64, size=9),
        p.ModelRefused(turn_id="t0", text="Not that."),
        *answer("t0", "Let me see.", [intent("t0"), intent("t0", 1)]),
        p.ToolValidated(
            intent_id="t0.0", ok=True, phase="risk", normalised="{}", intent_digest="d1", effects=("execute",)
        ),
        p.HookDecided(intent_id="t0.0", hook="house", decision="ask", reason="look first"),
        p.PermissionRequested(
            intent_id="t0.0", tool_name="bash", intent_digest="d1", summary="run true", argv=("true",), diff=ref
        ),
        p.PermissionDecided(intent_id="t0.0", decision="allow", by="person", grant=grant),
        ran,
        ended,
        seen,
        p.PermissionDecided(intent_id="t0.1", decision="allow", by="policy", rule="tests"),
        doubtful,
        p.RunPaused(reason="interrupted", detail="Ctrl-C"),
        p.ExecutionInDoubt(intent_id="t0.1", execution_id="t0.1/1", started_seq=27, why="its process ended"),
        p.RunResumed(workspace="f" * 64, accepted=("workspace_changed",)),
        p.ToolObserved(intent_id="t0.1", phase="execute", code="in_doubt", text="not known", execution_id="t0.1/1"),
        *request("t1"),
        p.ModelFailed(turn_id="t1", kind="rate_limit", retryable=True, status=429, retry_after_ms=1000),
        p.ModelFellBack(turn_id="t1", from_model="acme/m", to_model="spare/m", reason="rate_limit"),
        p.ModelRequested(turn_id="t2", model="spare/m", request="0" * 64, purpose="compact"),
        *answer("t2", "It looked."),
        p.ContextCompacted(
            first=14,
            last=31,
            replaced=(14, 15, 16, 25, 31),
            chain="0" * 64,
            summary="It looked.",
            by="spare/m",
            tokens_before=90,
            tokens_after=3,
        ),
        p.RunForked(from_run="r0", from_seq=3, from_chain="0" * 64, why="to try", model="acme/m"),
        p.BudgetExceeded(which="steps", limit=9, used=9),
        p.VerificationRecorded(claim="the tests pass", method="command", passed=True, intent_id="t0.0"),
        p.LogSealed(upto=40, chain="0" * 64, public_key="cGs=", signature="c2ln"),
        p.RunFinished(outcome="verified", reason="stop", text="Done.", verification_seq=44),
    ]
