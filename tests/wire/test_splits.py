"""Any split of a recorded body gives the same events, and exactly one terminal event ends them.

Whole, byte by byte, and at 64 two-way cuts spread over the body; the Rust tests take every cut.
"""

import pytest

from headrace import Decoder
from headrace.events import is_terminal
from tests.support.recordings import FAMILIES, load

CUTS = 64


def decode(recording, pieces):
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    assert not decoder.is_done or [is_terminal(event) for event in events].count(True) == 1
    events += decoder.finish("eof")
    assert decoder.is_done
    assert decoder.feed(b"data: {}\n\n") == decoder.finish("eof") == []
    return events


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_do_not_matter(shared, family):
    recordings = load(shared, {family: FAMILIES[family]})
    assert len(recordings) > 6
    for recording in recordings:
        body = recording.body
        whole = decode(recording, [body])
        assert [is_terminal(event) for event in whole] == [False] * (len(whole) - 1) + [True], recording.file
        assert [event.seq for event in whole] == list(range(len(whole))), recording.file
        said = [event.to_json() for event in whole]
        bytewise = decode(recording, [body[i : i + 1] for i in range(len(body))])
        assert [event.to_json() for event in bytewise] == said, recording.file
        for cut in {len(body) * i // CUTS for i in range(1, CUTS)}:
            halves = decode(recording, [body[:cut], body[cut:]])
            assert [event.to_json() for event in halves] == said, (recording.file, cut)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_body_never_ends_well_and_proposes_nothing_half(shared, family):
    """At each of the cuts: an intent of the cut stream is one of the whole stream's, and no finish is made up."""
    for recording in load(shared, {family: FAMILIES[family]}):
        body = recording.body
        whole = decode(recording, [body])
        intents = {(e.call, e.raw_input_text) for e in whole if e.type == "tool_intent.proposed"}
        for cut in {len(body) * i // CUTS for i in range(1, CUTS)}:
            decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
            events = decoder.feed(body[:cut])
            events += decoder.finish("reset")
            assert is_terminal(events[-1]), (recording.file, cut)
            cut_intents = {(e.call, e.raw_input_text) for e in events if e.type == "tool_intent.proposed"}
            assert cut_intents <= intents, (recording.file, cut)
            # Gemini said its reason with every chunk once; in this one the last is another.
            if events[-1].type == "model.finished" and "unknown-finish-reason-enum" not in recording.file:
                # Chat's reason may stand before the end of the body; an error after it is then cut off.
                assert whole[-1].type == "provider.error" or events[-1].reason == whole[-1].reason, (
                    recording.file,
                    cut,
                )


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_like_object_will_do(kind):
    body = (
        b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    assert Decoder("openai_chat").feed(kind(body)) == Decoder("openai_chat").feed(body)


def test_what_is_no_bytes_is_refused():
    with pytest.raises((TypeError, BufferError)):
        Decoder("openai_chat").feed("data: {}")
    with pytest.raises(ValueError, match="no such protocol"):
        Decoder("acme_chat")
    with pytest.raises(ValueError, match="no such end of a body"):
        Decoder("openai_chat").finish("later")
