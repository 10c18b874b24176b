"""Every payload: one canonical form, read back the same, refused by name where it is not what it says."""

from dataclasses import FrozenInstanceError, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log import payloads
from headrace.log.payloads import CLASSES, LedgerEntry, PayloadError, RunStarted, ToolIntent, ToolObserved, decode
from headrace.log.upcast import shown

WANTED = [
    "run.started",
    "run.paused",
    "run.resumed",
    "run.forked",
    "run.finished",
    "user.message",
    "context.projected",
    "context.compacted",
    "model.requested",
    "model.attempt.started",
    "model.attempt.finished",
    "model.fallback",
    "model.started",
    "model.text",
    "model.refusal",
    "model.reasoning",
    "model.continuation",
    "model.annotation",
    "model.hosted_tool",
    "model.media",
    "model.usage",
    "model.finished",
    "provider.error",
    "tool_intent.proposed",
    "tool.validated",
    "hook.decided",
    "permission.requested",
    "permission.decided",
    "tool.execution.started",
    "tool.execution.finished",
    "tool.execution.in_doubt",
    "tool.observed",
    "verification.recorded",
    "budget.exceeded",
    "log.sealed",
]


PLAIN = {
    type(None): st.none(),
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    str: st.text(st.characters(exclude_categories=["Cs"])),
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(of(get_args(hint)[0]), max_size=3).map(tuple)
    if get_args(hint):
        return st.one_of(*map(of, get_args(hint)))
    if hint in PLAIN:
        return PLAIN[hint]
    hints = get_type_hints(hint)
    return st.fixed_dictionaries({spec.name: of(hints[spec.name]) for spec in fields(hint)}).map(lambda it: hint(**it))


def test_every_event_type_of_the_plan_has_a_class() -> None:
    assert sorted(CLASSES) == sorted(WANTED)
    assert {cls.__name__ for cls in CLASSES.values()} <= set(payloads.__all__)


@pytest.mark.parametrize("cls", CLASSES.values(), ids=list(CLASSES))
def test_the_canonical_form_is_read_back_and_written_the_same(cls: type) -> None:
    @given(of(cls))
    def holds(value: Any) -> None:
        raw = value.to_json()
        assert cls.from_json(raw) == value
        assert cls.from_json(raw).to_json() == raw
        assert type(decode(cls.type, value.to_dict())) is cls
        as_class, seen = shown(cls.type, cls.version, raw)
        assert as_class is cls
        assert seen.type == cls.type
        assert all(getattr(seen, spec.name) == getattr(value, spec.name) for spec in fields(cls))

    holds()


def test_the_form_is_sorted_and_leaves_out_what_is_empty() -> None:
    intent = ToolIntent(turn_id="t0", intent_id="t0.0", tool_name="bash", raw_input_text='{"a": 1}')
    assert intent.to_json() == (
        b'{"intent_id":"t0.0","kind":"function","raw_input_text":"{\\"a\\": 1}","tool_name":"bash","turn_id":"t0"}'
    )
    assert LedgerEntry(first=1, last=2, status="included", why="said").to_dict() == {
        "first": 1,
        "last": 2,
        "status": "included",
        "why": "said",
    }


def test_a_payload_does_not_change() -> None:
    value = ToolObserved(intent_id="t0.0", phase="execute", code="ok", text="")
    with pytest.raises(FrozenInstanceError):
        value.text = "other"  # type: ignore[misc]


def test_an_intent_gives_its_input_as_data() -> None:
    function = ToolIntent(turn_id="t0", intent_id="t0.0", tool_name="bash", raw_input_text='{"a": 1}')
    custom = ToolIntent(turn_id="t0", intent_id="t0.1", tool_name="patch", raw_input_text="{", kind="custom")
    assert (function.input, custom.input) == ({"a": 1}, "{")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "run.started: is not JSON"),
        (b"[]", "run.started: is a JSON list"),
        (b'{"goal":"g","model":"m","cwd":"/","colour":1}', "the field 'colour' is not known"),
        (b'{"goal":"g"}', "the field 'model' is missing"),
        (b'{"goal":"g","model":"m","cwd":"/","budget":{"stops":1}}', "Budget: the field 'stops' is not known"),
        (b'{"goal":"g","model":"m","cwd":"/","budget":7}', "Budget: is a JSON int"),
        (b'{"goal":"g","model":"m","cwd":"/","fallbacks":7}', "a field has another shape"),
    ],
)
def test_what_is_no_payload_is_refused_with_the_field(raw: bytes, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        RunStarted.from_json(raw)
    with pytest.raises(PayloadError, match=words):
        shown(RunStarted.type, 1, raw)


def test_an_unknown_type_is_refused_and_not_dropped() -> None:
    with pytest.raises(PayloadError, match=r"'run\.exploded' is not known"):
        decode("run.exploded", {})
    with pytest.raises(PayloadError, match=r"'run\.exploded' is not known"):
        shown("run.exploded", 1, b"{}")
    with pytest.raises(PayloadError, match="version 2 is newer"):
        shown("run.started", 2, b"{}")


def test_floats_stay_out() -> None:
    with pytest.raises(PayloadError, match="no float"):
        ToolObserved(intent_id="t0.0", phase="execute", code="ok", text="", omitted_bytes=0.5).to_json()  # type: ignore[arg-type]
