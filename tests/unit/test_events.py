"""The event classes: frozen, typed, match-able, short in a repr, the same in a dict and in JSON."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.events import (
    EVENT_CLASSES,
    Annotation,
    AssembledFrom,
    Attach,
    Continuation,
    HostedTool,
    Media,
    ModelFinished,
    ModelStarted,
    ProviderErrorEvent,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolIntentDelta,
    ToolIntentProposed,
    Usage,
    is_terminal,
)

CANARY = "sk-canary-0123456789"

FULL = [
    ModelStarted("m", "r1", "q1", seq=0, offset=1),
    TextDelta("hé\n", 2, seq=1, offset=9),
    RefusalDelta("no", 0),
    ReasoningDelta("hm", "summary", 1),
    Continuation("anthropic_messages", "signature", CANARY, Attach("reasoning", 3)),
    Annotation("url", f"https://x/?key={CANARY}", "title", (0, 4), json.dumps({"key": CANARY})),
    HostedTool("ws1", "done", "web_search", json.dumps({"key": CANARY})),
    Media("image/png", CANARY, f"https://x/?key={CANARY}", partial=True),
    ToolIntentDelta(0, provider_call_id="c1", name="look", kind="function", arguments_delta='{"a"'),
    ToolIntentProposed(
        call=0,
        id="t0.0",
        provider_call_id="c1",
        tool_name="look",
        raw_input_text='{"a": [1, 2.5, null]}',
        assembled_from=AssembledFrom(2, 10, 20, had_repair=True),
    ),
    Usage(1, 2, 3, 4, 5, json.dumps({"key": CANARY})),
    ModelFinished("stop", "end_turn"),
    ProviderErrorEvent(
        "rate_limit",
        retryable=True,
        status=429,
        code="slow_down",
        message=f"Incorrect API key provided: {CANARY}",
        raw=f'{{"key": "{CANARY}"}}',
        retry_after_s=1.5,
        request_id="q1",
        provider="acme",
        model="m",
        phase="head",
    ),
]


def fields(event):
    return {name: getattr(event, name) for name in type(event).__match_args__}


def test_there_is_an_example_of_every_class():
    assert {type(event) for event in FULL} == set(EVENT_CLASSES.values())
    assert [event.type for event in FULL] == list(EVENT_CLASSES)


@pytest.mark.parametrize("event", FULL, ids=lambda e: e.type)
def test_a_dict_holds_the_fields_in_their_order(event):
    said = event.to_dict()
    assert list(said) == ["type", "seq", "offset", *type(event).__match_args__]
    plain = {name: getattr(value, "to_dict", lambda v=value: v)() for name, value in fields(event).items()}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
    assert said == {"type": event.type, "seq": event.seq, "offset": event.offset, **plain}


@pytest.mark.parametrize("event", FULL, ids=lambda e: e.type)
def test_json_and_dict_say_the_same(event):
    assert json.loads(event.to_json()) == event.to_dict()
    assert b"\n" not in event.to_json()


@pytest.mark.parametrize("event", FULL, ids=lambda e: e.type)
def test_events_are_values(event):
    cls = type(event)
    derived = {"input", "status"} if cls is ToolIntentProposed else set()
    again = {name: value for name, value in fields(event).items() if name not in derived}
    twin = cls(**again, seq=event.seq, offset=event.offset)
    moved = cls(**again, seq=event.seq + 1, offset=event.offset)
    assert twin == event
    assert hash(twin) == hash(event)
    assert moved != event
    assert event != event.to_dict()


@pytest.mark.parametrize("event", FULL, ids=lambda e: e.type)
def test_events_do_not_change(event):
    for name in (*type(event).__match_args__, "seq", "offset", "type", "other"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)


@pytest.mark.parametrize("event", FULL, ids=lambda e: e.type)
def test_a_repr_is_short_and_keeps_secrets(event):
    shown = repr(event)
    assert shown.startswith(f"{type(event).__name__}(")
    assert len(shown) < 250
    assert "\n" not in shown
    assert CANARY not in shown


def test_the_repr_of_a_long_text_is_cut():
    assert repr(TextDelta("é" * 1000)) == f"TextDelta(text='{'é' * 40}'…, index=0)"
    assert repr(TextDelta("it's\n\\")) == "TextDelta(text='it\\'s\\n\\\\', index=0)"
    assert repr(ModelStarted()) == "ModelStarted()"


def test_absent_fields_are_left_out_and_unknown_counts_are_not_zero():
    assert ModelStarted().to_dict() == {"type": "model.started", "seq": 0, "offset": 0}
    assert Usage(output_tokens=0).to_dict() == {"type": "model.usage", "seq": 0, "offset": 0, "output_tokens": 0}
    assert Usage().input_tokens is None


def test_they_match_by_class_and_position():
    match FULL[1]:
        case TextDelta(text, 2):
            assert text == "hé\n"
        case _:
            pytest.fail("no match")
    match FULL[9]:
        case ToolIntentProposed(0, "t0.0", "c1", "look", "function", {"a": [1, 2.5, None]}, _, made, "proposed"):
            assert made.event_count == 2
        case _:
            pytest.fail("no match")


def test_only_two_end_a_stream():
    assert [event.type for event in FULL if is_terminal(event)] == ["model.finished", "provider.error"]


def test_what_is_no_event_is_refused():
    for wrong in (
        lambda: TextDelta(1),
        TextDelta,
        lambda: ReasoningDelta("a", "other"),
        lambda: Continuation("acme_chat", "signature", "x", Attach("text")),
        lambda: Attach("nothing"),
        lambda: ModelFinished("done"),
        lambda: TextDelta("\ud800"),
        lambda: Usage(-1),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            wrong()


def test_an_intent_made_by_hand_is_held_to_the_same_rule():
    def intent(text, kind="function"):
        return ToolIntentProposed(call=0, id="t0.0", tool_name="f", kind=kind, raw_input_text=text)

    assert intent("").input == intent(" null ").input == intent("{}").input == {}
    assert intent("ls -l", "custom").input == "ls -l"
    for text in ("[1]", '"a"', '{"a":', '{"a": 1} x', "nul", "{'a': 1}"):
        with pytest.raises(ValueError, match="JSON object"):
            intent(text)


def test_input_is_made_once_and_a_dict_of_the_event_is_a_copy():
    event = FULL[9]
    assert event.input is event.input
    event.to_dict()["input"]["a"] = "changed"
    assert event.input == {"a": [1, 2.5, None]}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(text):
    event = TextDelta(text)
    assert event.to_dict()["text"] == json.loads(event.to_json())["text"] == event.text == text
    repr(event)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values), st.booleans())
def test_arguments_become_the_value_that_they_say(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    event = ToolIntentProposed(call=0, id="t0.0", tool_name="f", raw_input_text=text)
    assert event.input == value
    assert list(event.input) == list(value)


def test_digits_duplicates_and_halves_of_arguments():
    def value(text):
        return ToolIntentProposed(call=0, id="t0.0", tool_name="f", raw_input_text=text).input["a"]

    assert value('{"a": 123456789012345678901234567890}') == 123456789012345678901234567890
    assert value('{"a": 1, "a": 2}') == 2
    assert value('{"a": 1e400}') == float("inf")
    assert value(r'{"a": "\ud83d"}') == "\ufffd"
    deep = '{"a": ' + "[" * 1000 + "]" * 1000 + "}"
    for _ in range(999):
        (deep,) = deep if isinstance(deep, list) else value(deep)
    assert deep == []
