"""The encoders' Python face: bytes that decode to what was encoded, and failures in each client's own format.

What each real client needs of the bytes is tested in Rust and with the vendors' own SDKs.
"""

import json

import pytest

from headrace import Decoder, Encoder, error_reply
from headrace.events import (
    Annotation,
    ModelFinished,
    ModelStarted,
    ProviderErrorEvent,
    ReasoningDelta,
    TextDelta,
    ToolIntentProposed,
    Usage,
)

CLIENTS = ["openai_chat", "openai_responses", "anthropic_messages"]

ANSWER = [
    ModelStarted("m", "r1"),
    TextDelta("Hé"),
    TextDelta("llo\n"),
    ToolIntentProposed(call=0, id="t0.0", provider_call_id="c1", tool_name="look", raw_input_text='{"a":[1,null]}'),
    Usage(input_tokens=3, output_tokens=5, cached_input_tokens=0, cache_write_tokens=0, reasoning_tokens=0),
    ModelFinished("tool_intents"),
]


def encoder(protocol, **options):
    options = {"model": "asked", "response_id": "resp_1", "created": 7, "include_usage": True} | options
    return Encoder(protocol, **options)


def decoded(protocol, body):
    decoder = Decoder(protocol)
    return decoder.feed(body) + decoder.finish("eof")


def gist(events):
    def texts(kind):
        return "".join(e.text for e in events if e.type == kind)

    usage = [(e.input_tokens, e.output_tokens) for e in events if e.type == "model.usage"]
    intents = [(e.tool_name, e.input) for e in events if e.type == "tool_intent.proposed"]
    return texts("model.text_delta"), intents, usage[-1:], events[-1].reason


@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])
def test_what_is_encoded_decodes_to_the_same(protocol, stream):
    made = encoder(protocol, stream=stream)
    body = made.feed(ANSWER) + made.finish()
    assert gist(decoded(protocol, body)) == ("Héllo\n", [("look", {"a": [1, None]})], [(3, 5)], "tool_intents")
    assert made.losses == []


@pytest.mark.parametrize("protocol", CLIENTS)
def test_batches_do_not_matter(protocol):
    at_once, one_by_one = encoder(protocol), encoder(protocol)
    whole = at_once.feed(ANSWER) + at_once.finish()
    assert b"".join(one_by_one.feed([event]) for event in ANSWER) + one_by_one.finish() == whole
    assert at_once.feed(iter(())) == b""


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_stream_that_was_cut_never_ends_well(protocol):
    made = encoder(protocol)
    body = made.feed(ANSWER[:3]) + made.finish()
    assert decoded(protocol, body)[-1].type == "provider.error"


def test_what_has_no_place_is_reported_by_its_path():
    made = encoder("openai_chat")
    made.feed([ModelStarted("m"), TextDelta("a"), Annotation("place", raw='{"secret":"sk-canary"}'), ANSWER[-1]])
    assert made.losses
    assert {loss.action for loss in made.losses} <= {"renamed", "approximated", "dropped"}
    assert "canary" not in repr(made.losses)
    assert made.losses == list(made.losses)
    assert len({*made.losses}) == len(made.losses)


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_failure_is_told_in_the_clients_format(protocol):
    event = ProviderErrorEvent(
        "rate_limit", retryable=True, status=429, message="org-secret over its limit", retry_after_s=2.5
    )
    status, headers, body = error_reply(protocol, event)
    assert status == 429
    assert ("retry-after", "3") in headers
    assert "org-secret" not in body.decode()
    assert json.loads(body)["error"]["message"]
    (again,) = Decoder(protocol, status=status, headers=headers).feed(body) or decoded_failure(
        protocol, status, headers, body
    )
    assert (again.type, again.kind) == ("provider.error", "rate_limit")


def decoded_failure(protocol, status, headers, body):
    decoder = Decoder(protocol, status=status, headers=headers)
    return decoder.feed(body) + decoder.finish("eof")


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="clients do not speak cohere_chat"):
        encoder("cohere_chat")
    with pytest.raises(TypeError, match="ProviderErrorEvent"):
        error_reply("openai_chat", ReasoningDelta("a"))
    with pytest.raises(TypeError, match="is no event"):
        encoder("openai_chat").feed([{"type": "model.text_delta"}])


@pytest.mark.parametrize("protocol", CLIENTS)
def test_events_before_a_failing_one_are_not_lost(protocol):
    def source():
        yield from ANSWER[:3]
        raise ConnectionError("the source broke")

    made, whole = encoder(protocol), encoder(protocol)
    with pytest.raises(ConnectionError):
        made.feed(source())
    assert made.finish() == whole.feed(ANSWER[:3]) + whole.finish()


def test_one_caller_at_a_time():
    made = encoder("openai_chat")

    def source():
        yield ANSWER[0]
        made.finish()

    with pytest.raises(RuntimeError, match="borrowed"):
        made.feed(source())
