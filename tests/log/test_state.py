"""The fold: pure, and the keeper of what may follow what."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log import payloads as p
from headrace.log.state import IllegalEventError, State, fold
from tests.support import runs

RECORDS = runs.records(runs.whole())


def state_after(*payloads: p.Payload) -> State:
    """A state in which these have happened."""
    return fold(runs.records(payloads))


def test_a_whole_run_is_finished() -> None:
    state = fold(RECORDS)
    assert (state.status, state.reason, state.turns, state.steps, state.tokens) == ("finished", "completed", 2, 2, 220)
    assert [(one.stage, one.executions, one.code) for one in state.intents.values()] == [("observed", 1, "ok")]


@pytest.mark.parametrize("at", range(len(RECORDS)))
def test_c1_state_is_the_fold_and_a_snapshot_changes_nothing(at: int) -> None:
    snapshot = State.from_json(fold(RECORDS[:at]).to_json())
    assert fold(RECORDS[at:], snapshot).to_json() == fold(RECORDS).to_json()


def test_c2_an_intents_id_is_ours_and_the_providers_a_reference() -> None:
    twice = [runs.intent("t0", call) for call in (0, 1)]
    same = [p.ToolIntent.from_dict(one.to_dict() | {"provider_call_id": "call_x"}) for one in twice]
    state = state_after(*runs.begin(), *runs.request("t0"), *runs.answer("t0", "", same))
    assert list(state.intents) == ["t0.0", "t0.1"]


def test_c3_intent_is_logged_before_validation() -> None:
    validated = p.ToolValidated(intent_id="t0.0", ok=True, phase="schema")
    state = state_after(*runs.begin(), *runs.request("t0"))
    with pytest.raises(IllegalEventError, match="never proposed"):
        state.check(validated)


def test_c3_intent_permission_execution_and_observation_are_events_of_their_own_with_both_forms() -> None:
    kinds = [record.type for record in RECORDS if b'"t0.0"' in (record.payload or b"")]
    assert kinds == [
        "tool_intent.proposed",
        "tool.validated",
        "permission.decided",
        "tool.execution.started",
        "tool.execution.finished",
        "tool.observed",
    ]
    values = {record.type: record.value() for record in RECORDS}
    assert values["tool_intent.proposed"].raw_input_text == '{"command": "true"}'  # type: ignore[union-attr]
    assert values["tool.validated"].normalised == "{}"  # type: ignore[union-attr]


COUNTED = [*runs.begin(), *runs.request("t0"), *runs.answer("t0", "", [runs.intent("t0")])]
VALID, ALLOW, START, END, SEEN = runs.execution("t0.0")
DENY = p.PermissionDecided(intent_id="t0.0", decision="deny", by="policy")
DOUBT = p.ExecutionInDoubt(intent_id="t0.0", execution_id="t0.0/1", started_seq=1)
OTHER = p.ToolValidated(intent_id="t0.0", ok=True, phase="schema", intent_digest="d2")
CUT = [
    *runs.begin(),
    *runs.request("t0"),
    runs.intent("t0"),
    p.ModelFailed(turn_id="t0", kind="stream_interrupted", retryable=True),
]


def observed(code: str) -> p.ToolObserved:
    return p.ToolObserved(intent_id="t0.0", phase="observe", code=code, text="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "event", "words"),
    [
        ([], VALID, "begins with run.started"),
        (runs.begin(), runs.begin()[0], "has begun already"),
        (COUNTED, START, "counted and not allowed"),
        ([*COUNTED, VALID], START, "validated and not allowed"),
        ([*COUNTED, VALID, DENY], START, "denied and not allowed"),
        ([*COUNTED, VALID, ALLOW, DENY], START, "denied and not allowed"),
        ([*COUNTED, VALID, ALLOW, START], START, "started and not allowed"),
        ([*COUNTED, VALID, ALLOW, START, END], START, "finished and not allowed"),
        ([*COUNTED, VALID, ALLOW, START, END, SEEN], START, "has its observation"),
        ([*COUNTED, VALID, ALLOW, START, END, SEEN], SEEN, "has its observation"),
        ([*COUNTED, VALID, ALLOW], END, "is not under way"),
        ([*COUNTED, VALID, ALLOW, START], SEEN, "has not ended"),
        ([*COUNTED, VALID, ALLOW], SEEN, "ok needs an execution"),
        (COUNTED, observed("tool_error"), "tool_error needs an execution"),
        (COUNTED, observed("timeout"), "timeout needs an execution"),
        (COUNTED, observed("permission_denied"), "nobody denied it"),
        (COUNTED, observed("in_doubt"), "the intent is counted"),
        ([*COUNTED, VALID, ALLOW, START, DOUBT], START, "in_doubt and not allowed"),
        ([*COUNTED, VALID, ALLOW, START, DOUBT], ALLOW, "is in_doubt"),
        ([*COUNTED, VALID, ALLOW, START, DOUBT], SEEN, "ok needs an execution"),
        (COUNTED, runs.request("t1")[1], "has no observation"),
        (CUT, VALID, "is void"),
        (CUT, ALLOW, "is void"),
        (CUT, START, "is void"),
        (CUT, observed("cancelled"), "is void"),
        (CUT[:-1], VALID, "has not finished"),
        (CUT[:-1], runs.request("t1")[1], "has not ended"),
        (CUT, p.ModelSpoke(turn_id="t0", text="late"), "not under way"),
        (COUNTED, p.RunFinished(outcome="completed"), "still open"),
        (runs.begin(), p.RunFinished(outcome="verified", verification_seq=3), "no passed verification"),
        ([*runs.begin(), p.RunPaused(reason="asked")], runs.request("t0")[1], "the run is paused"),
        ([*COUNTED, VALID, ALLOW, OTHER, ALLOW], START, "allowed in another form"),
    ],
)
def test_what_may_not_follow_is_refused_and_changes_nothing(
    before: list[p.Payload], event: p.Payload, words: str
) -> None:
    state = state_after(*before)
    kept = state.to_json()
    with pytest.raises(IllegalEventError, match=words):
        fold(runs.records([*before, event])[-1:], state)
    assert state.to_json() == kept


def test_c7_only_a_started_execution_may_yield_a_tool_error() -> None:
    for before in ([], [VALID], [VALID, ALLOW], [VALID, DENY]):
        with pytest.raises(IllegalEventError):
            state_after(*COUNTED, *before).check(observed("tool_error"))
    state_after(*COUNTED, VALID, ALLOW, START, END).check(observed("tool_error"))


def test_p9_a_cut_streams_intent_is_void() -> None:
    state = state_after(*CUT)
    assert state.intents["t0.0"].stage == "void"
    assert state.open == []
    assert state.failures == 1
    state.check(runs.request("t1")[1])


def test_r3_only_a_person_may_order_an_execution_in_doubt_again() -> None:
    state = state_after(*COUNTED, VALID, ALLOW, START, DOUBT)
    assert state.intents["t0.0"].stage == "in_doubt"
    person = p.PermissionDecided(intent_id="t0.0", decision="allow", by="person")
    state.check(person)
    # Also where it is folded, from what a log holds.
    assert state_after(*COUNTED, VALID, ALLOW, START, DOUBT, person).intents["t0.0"].stage == "allowed"
    for by in ("policy", "mode", "grant", "hook", "default"):
        with pytest.raises(IllegalEventError):
            state.check(p.PermissionDecided(intent_id="t0.0", decision="allow", by=by))  # type: ignore[arg-type]


def test_t6_verified_needs_a_recorded_verification() -> None:
    failed = p.VerificationRecorded(claim="the tests pass", method="command", passed=False)
    for payloads in ([], [failed]):
        with pytest.raises(IllegalEventError, match="no passed verification"):
            state_after(*runs.begin(), *payloads).check(p.RunFinished(outcome="verified", verification_seq=3))


def test_time_that_a_run_stands_still_is_not_counted() -> None:
    state = state_after(*runs.begin(), p.RunPaused(reason="asked"), p.UserMessage(text="x"), p.RunResumed())
    assert state.used_ms == 2000
    assert state_after(*runs.begin(), p.RunPaused(reason="asked"), p.UserMessage(text="x")).used_ms == 2000


def test_usage_is_a_total_and_not_a_delta() -> None:
    used = [p.ModelUsed(turn_id="t0", input_tokens=100, output_tokens=n, money_micros=n) for n in (1, 5)]
    state = state_after(*runs.begin(), *runs.request("t0"), *used)
    assert (state.tokens, state.money_micros) == (105, 5)


def test_an_expired_grant_goes_at_a_resume() -> None:
    grants = [p.Grant(scope="session", expires_ms=at) for at in (1, runs.START_MS * 2)]
    decided = [p.PermissionDecided(intent_id="t0.0", decision="allow", by="person", grant=one) for one in grants]
    state = state_after(*COUNTED, VALID, *decided, p.RunPaused(reason="asked"), p.RunResumed(expired_grants=1))
    assert state.grants == grants[1:]


def test_an_erased_event_says_nothing() -> None:
    rows = [row if row.seq != 2 else row._replace(payload=None, salt=None) for row in RECORDS]
    assert fold(rows).erased == 1


def test_a_gap_is_no_event() -> None:
    with pytest.raises(IllegalEventError, match="does not follow"):
        fold(RECORDS[1:])


@given(st.lists(st.sampled_from(runs.whole()), max_size=40))
def test_no_order_of_events_breaks_the_rules(payloads: list[p.Payload]) -> None:
    """Whatever comes in whatever order: no start without an allowance, one observation for an intent."""
    state, kept = State(), []
    for payload in payloads:
        try:
            state.check(payload)
        except IllegalEventError:
            continue
        kept.append(payload)
        state = fold(runs.records(kept))
    types = [one.type for one in kept]
    assert types.count("tool.observed") <= types.count("tool_intent.proposed")
    for at, one in enumerate(kept):
        if one.type == "tool.execution.started":
            assert "permission.decided" in types[:at]


FOLD = """
import sys
from tests.support import runs
from headrace.log.state import fold
sys.stdout.buffer.write(fold(runs.records(runs.whole())).to_json())
"""


def test_folds_are_the_same_bytes_under_every_hash_seed(root: object) -> None:
    def run(seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root}/python"}
        return subprocess.run([sys.executable, "-c", FOLD], env=environment, check=True, capture_output=True).stdout

    assert {run(seed) for seed in ("0", "1", "4711")} == {fold(RECORDS).to_json()}
