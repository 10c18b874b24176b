"""A model request of our own, and its one serial form."""

import dataclasses
import json
import re
import typing

import pytest

from headrace.messages import (
    Audio,
    Continuation,
    File,
    HostedTool,
    Image,
    Message,
    ModelRequest,
    Options,
    Part,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)


def written(*parts, **rest):
    request = ModelRequest("primary", (Message("user", tuple(parts)),), **rest)
    return json.loads(request.to_json())


def test_the_least_request():
    assert written(Text("hello")) == {
        "model": "primary",
        "messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}],
        "options": {"stream": True},
    }


@pytest.mark.parametrize(
    ("part", "form"),
    [
        (Image.from_bytes(b"abc", "image/png"), {"type": "image", "mime": "image/png", "data": "YWJj"}),
        (
            Image(url="https://x.example/a.png", detail="low"),
            {"type": "image", "url": "https://x.example/a.png", "detail": "low"},
        ),
        (Audio("audio/wav", "AAAA"), {"type": "audio", "mime": "audio/wav", "data": "AAAA"}),
        (File("a.pdf", file_id="file_1"), {"type": "file", "name": "a.pdf", "file_id": "file_1"}),
        (Refusal("no"), {"type": "refusal", "text": "no"}),
        (Reasoning("hm", "summary"), {"type": "reasoning", "text": "hm", "kind": "summary"}),
        (
            Continuation("anthropic_messages", "signature", "c2ln", {"to": "reasoning", "index": 0}),
            {
                "type": "continuation",
                "family": "anthropic_messages",
                "form": "signature",
                "data": "c2ln",
                "attach": {"to": "reasoning", "index": 0},
            },
        ),
        (
            ToolCall("c1", "look", '{"a": 1.0e2}'),
            {
                "type": "tool_call",
                "call_id": "c1",
                "name": "look",
                "raw_input_text": '{"a": 1.0e2}',
                "kind": "function",
            },
        ),
        (
            ToolCall("c1", "sh", "ls -l", "custom"),
            {"type": "tool_call", "call_id": "c1", "name": "sh", "raw_input_text": "ls -l", "kind": "custom"},
        ),
        (
            ToolResult("c1", (Text("ok"),), is_error=True),
            {"type": "tool_result", "call_id": "c1", "parts": [{"type": "text", "text": "ok"}], "is_error": True},
        ),
        (
            HostedTool('{"x": 1}', "openai_responses"),
            {"type": "hosted_tool", "raw": {"x": 1}, "family": "openai_responses"},
        ),
        (
            Text("t", {"anthropic_messages": '{"cache_control": {"type": "ephemeral"}}'}),
            {"type": "text", "text": "t", "extra": {"anthropic_messages": {"cache_control": {"type": "ephemeral"}}}},
        ),
    ],
)
def test_each_part_has_its_form(part, form):
    assert written(part)["messages"][0]["parts"] == [form]


def test_tools_and_options():
    made = written(
        Text("x"),
        tools=(Tool("look", "Looks.", '{"type": "object",  "z": 1, "a": 2}', strict=True), Tool("sh", kind="custom")),
        options=Options(
            stream=False,
            max_output_tokens=9,
            temperature=0.0,
            stop=("a", "b"),
            tool_choice=ToolChoice("tool", "look"),
            parallel_tool_calls=False,
            response_format='{"type": "json_object"}',
            metadata={"k": "v"},
        ),
        run_id="r",
        turn_id="t1",
    )
    assert made["tools"][0]["raw_schema"] == {"type": "object", "z": 1, "a": 2}
    assert made["tools"][1] == {"name": "sh", "kind": "custom"}
    assert made["options"] == {
        "stream": False,
        "max_output_tokens": 9,
        "temperature": 0.0,
        "stop": ["a", "b"],
        "tool_choice": {"mode": "tool", "name": "look"},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "metadata": {"k": "v"},
    }
    assert (made["run_id"], made["turn_id"]) == ("r", "t1")


def test_raw_json_keeps_its_bytes():
    schema = '{"b":1.50,  "a":[ ]}'
    request = ModelRequest("m", (Message.system("s"), Message.user("u")), (Tool("t", raw_schema=schema),))
    assert schema.encode() in request.to_json()


@pytest.mark.parametrize(
    "broken",
    [
        {"tools": (Tool("t", raw_schema="{"),)},
        {"options": Options(response_format="nonsense")},
        {"options": Options(extra={"openai_chat": "{]"})},
    ],
)
def test_raw_text_that_is_no_json_fails_here(broken):
    with pytest.raises(ValueError, match=r"^(tools\[0\]\.raw_schema|options\.[a-z_.]+): is not JSON: "):
        written(Text("x"), **broken)


def test_lists_do_as_tuples_do():
    tool = Tool("t", raw_schema="{}")
    as_lists = ModelRequest("m", [Message("user", [Text("x")])], [tool], Options(stop=["a"]))
    assert as_lists.to_json() == ModelRequest("m", (Message.user("x"),), (tool,), Options(stop=("a",))).to_json()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"messages": ({"role": "user", "content": "x"},)}, "messages[0]: expected Message, got dict"),
        ({"messages": "x"}, "messages: expected tuple or list, got str"),
        ({"messages": (Message("user", "x"),)}, "messages[0].parts: expected tuple or list, got str"),
        ({"messages": (Message("user", ("x",)),)}, "messages[0].parts[0]: expected a part, such as Text, got str"),
        ({"tools": (Tool("t", raw_schema={"type": "object"}),)}, "tools[0].raw_schema: expected JSON text, got dict"),
        ({"options": {"stream": True}}, "options: expected Options, got dict"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(wrong, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        ModelRequest(**{"model": "m", "messages": (Message.user("x"),), **wrong}).to_json()


def test_half_of_a_surrogate_pair_is_refused_as_a_value():
    with pytest.raises(ValueError, match="surrogates"):
        written(Text("\ud800"))


def test_no_type_has_room_for_a_callable():
    kinds = [*typing.get_args(Part), Message, Tool, ToolChoice, Options, ModelRequest]
    for kind in kinds:
        assert kind.__dataclass_params__.frozen
        assert "__slots__" in vars(kind)
        hints = typing.get_type_hints(kind)
        for one in dataclasses.fields(kind):
            assert "Callable" not in str(hints[one.name]), (kind, one.name)
            assert hints[one.name] is not object


def test_data_stays_out_of_reprs():
    shown = repr(
        ModelRequest("m", (Message("user", (Image(mime="image/png", data="QUJD" * 9), File(data="QUJD" * 9))),))
    )
    assert "QUJDQUJD" not in shown


def test_a_model_that_is_no_name_is_named():
    with pytest.raises(TypeError, match=r"^model: expected a str, got int"):
        ModelRequest(5, ()).to_json()  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_refused_by_its_name(value):
    with pytest.raises(ValueError, match=r"^options\.temperature: (nan|inf) is no number that JSON can carry"):
        ModelRequest("primary", (Message.user("hi"),), options=Options(temperature=value)).to_json()
