"""The Python face of request translation: nine pairs, edits, refusals. What a field becomes is tested in Rust."""

import json

import pytest

from headrace import REMOVE, Translation, UnsupportedFeature, translate_request
from headrace.errors import BadRequestError

SCHEMA = '{"type": "object",  "properties": {"a": {"type":"integer"}}}'

TOOLS = {
    "openai_chat": f'[{{"type":"function","function":{{"name":"look","parameters":{SCHEMA}}}}}]',
    "openai_responses": f'[{{"type":"function","name":"look","parameters":{SCHEMA}}}]',
    "anthropic_messages": f'[{{"name":"look","input_schema":{SCHEMA}}}]',
}

MESSAGES = {"openai_chat": "messages", "openai_responses": "input", "anthropic_messages": "messages"}

BODIES = {
    family: f'{{"model":"asked","max_tokens":9,"{MESSAGES[family]}":[{{"role":"user","content":"Hé 1"}}],'
    f'"stream":true,"tools":{tools}}}'.replace('"max_tokens":9,', '"max_tokens":9,' if "input_s" in tools else "")
    for family, tools in TOOLS.items()
}


@pytest.mark.parametrize("source", BODIES)
@pytest.mark.parametrize("target", BODIES)
def test_all_nine_pairs_carry_text_and_schema_byte_by_byte(source, target):
    made = translate_request(BODIES[source].encode(), source=source, target=target, model="theirs")
    assert isinstance(made, Translation)
    body = json.loads(made.body)
    assert body["model"] == "theirs"
    assert body["stream"] is True
    assert "Hé 1".encode() in made.body
    assert SCHEMA.encode() in made.body
    again = translate_request(BODIES[source].encode(), source=source, target=target, model="theirs")
    assert again == made


def test_edits_are_made_on_the_target_body_in_order():
    made = translate_request(
        BODIES["openai_chat"].encode(),
        source="openai_chat",
        target="openai_chat",
        model="theirs",
        edits={"/stream": REMOVE, "/metadata/run": {"n": [1, 2.5, None, True, "é"]}, "/temperature": 0},
    )
    body = json.loads(made.body)
    assert "stream" not in body
    assert body["metadata"] == {"run": {"n": [1, 2.5, None, True, "é"]}}
    assert body["temperature"] == 0


@pytest.mark.parametrize(
    "edits", [{"no-slash": 1}, {"/a": object()}, {"/a": float("nan")}, {"/a": {1: 2}}, {"/a": "\ud800"}]
)
def test_an_edit_that_is_none_is_refused(edits):
    with pytest.raises((ValueError, TypeError)):
        translate_request(b"{}", source="openai_chat", target="openai_chat", model="m", edits=edits)


def test_losses_are_paths():
    body = json.loads(BODIES["openai_chat"]) | {"logit_bias": {"1": 2}}
    made = translate_request(json.dumps(body).encode(), source="openai_chat", target="anthropic_messages", model="m")
    assert ("logit_bias", "dropped") in {(loss.path, loss.action) for loss in made.losses}


def test_what_cannot_be_dropped_is_refused_with_its_field():
    body = json.loads(BODIES["openai_responses"]) | {"previous_response_id": "resp_1"}
    with pytest.raises(UnsupportedFeature) as caught:
        translate_request(json.dumps(body).encode(), source="openai_responses", target="openai_chat", model="m")
    assert caught.value.param == "previous_response_id"
    assert caught.value.event is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":1}', b'{"model":"a","model":"b"}', b"\xff"])
def test_a_body_that_is_none_is_a_bad_request(body):
    with pytest.raises(BadRequestError):
        translate_request(body, source="openai_chat", target="anthropic_messages", model="m")


def test_misuse_is_a_value_error():
    for options in (
        {"source": "acme_chat", "target": "openai_chat"},
        {"source": "openai_chat", "target": "acme_chat"},
        {"source": "openai_chat", "target": "openai_chat", "target_flags": ["developr"]},
    ):
        with pytest.raises(ValueError, match=r"no such|developr"):
            translate_request(b"{}", model="m", **options)


def test_the_librarys_own_request_becomes_each_protocols():
    from headrace.messages import Message, ModelRequest, Text

    request = ModelRequest(run_id="r", turn_id="t0", model="m", messages=(Message("user", (Text("Hé 1"),)),))
    for target in BODIES:
        made = translate_request(request.to_json(), source="headrace", target=target, model="theirs")
        assert json.loads(made.body)["model"] == "theirs"
        assert "Hé 1".encode() in made.body
