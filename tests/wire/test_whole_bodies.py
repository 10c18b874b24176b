"""A whole JSON body decodes to what the stream of the same response decodes to.

The body is the final response that a Responses stream itself carries; of a Messages stream it is what the vendor's SDK
puts together from it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace import Decoder
from tests.support import sdks
from tests.support.recordings import FAMILIES, Recording, load, with_event_names

TEXTS = {"model.text_delta": "text", "model.refusal_delta": "refusal", "model.reasoning_delta": "reasoning"}
KEPT = {
    # Where the provider fell back to another model, only the end knows it.
    "model.started": ("response_id",),
    "model.continuation": ("form", "data", "attach"),
    "model.annotation": ("kind", "url", "span"),
    "model.hosted_tool": ("phase", "name", "id"),
    "tool_intent.proposed": ("provider_call_id", "tool_name", "input"),
    "model.usage": ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens"),
    "model.finished": ("reason",),
    "provider.error": ("kind",),
}


def told(protocol: str, body: bytes, headers: Any = ()) -> dict[str, Any]:
    """What a body says in the end, whatever the pieces that it came in."""
    decoder = Decoder(protocol, headers=headers)
    found: dict[str, Any] = {}
    for event in decoder.feed(body) + decoder.finish("eof"):
        row, kind = event.to_dict(), event.type
        if row.get("form") == "encrypted":
            del row["data"]  # the final response has the same state sealed anew
        if kind in TEXTS:
            found[kind] = found.get(kind, "") + row["text"]
        elif kind in KEPT:
            found.setdefault(kind, []).append([row.get(field) for field in KEPT[kind]])
    return found


def final_response(recording: Recording) -> dict[str, Any] | None:
    """The response object of the stream's last event; nothing where its items were cut down by whoever recorded it."""
    payloads = [line[5:].strip() for line in recording.body.splitlines() if line.startswith(b"data:")]
    events = [json.loads(payload) for payload in payloads if payload.startswith(b"{")]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    final = events[-1].get("response")
    if final is None or len(final["output"]) != len(done):
        return None
    return final if final["status"] in ("completed", "incomplete") else None


NOT_THE_SAME = {
    "openai_responses/shell-container.jsonl": "its text deltas were cut down by whoever recorded it",
    "openai_responses/copilot-item-id-rotation.jsonl": "its final response has an id of its own",
}
"""Streams that say another thing in the end than on the way."""


def test_a_responses_body_says_what_its_stream_said(shared):
    compared = 0
    for recording in load(shared, {"openai_responses": FAMILIES["openai_responses"]}):
        if recording.file.endswith(".json") or (final := final_response(recording)) is None:
            continue
        stream = told(recording.protocol, recording.body, recording.headers)
        whole = told(recording.protocol, json.dumps(final).encode())
        assert (whole == stream) is (recording.file not in NOT_THE_SAME), (recording.file, stream, whole)
        compared += 1
    assert compared >= 20


def test_a_messages_body_says_what_its_stream_said(shared):
    compared = 0
    with sdks.replay() as server:
        for recording in load(shared, {"anthropic_messages": FAMILIES["anthropic_messages"]}):
            body = with_event_names(recording)
            if recording.file.endswith(".json") or body.count(b'"message_start"') != 1:
                continue
            server.body, server.content_type = body, "text/event-stream"
            with server.anthropic.beta.messages.stream(max_tokens=1, model="m", messages=[]) as stream:
                message = stream.get_final_message().to_dict(mode="json")
            whole = told(recording.protocol, json.dumps(message).encode())
            said = told(recording.protocol, body)
            if "provider.error" not in said:
                # The SDK gives no detail of the compaction that it took in.
                assert _without_compaction(whole) == _without_compaction(said), recording.file
                compared += 1
    assert compared >= 20


def _without_compaction(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "model.continuation": [row for row in said.get("model.continuation", []) if row[0] != "details"]}


@pytest.mark.parametrize("family", ["openai_responses", "anthropic_messages"])
def test_a_whole_body_is_the_same_in_any_pieces(shared, family):
    for recording in load(shared, {family: FAMILIES[family]}):
        if recording.file.endswith(".json"):
            decoder = Decoder(recording.protocol, headers=recording.headers)
            body = recording.body
            events = [e for i in range(0, len(body), 7) for e in decoder.feed(body[i : i + 7])]
            events += decoder.finish("eof")
            whole = Decoder(recording.protocol, headers=recording.headers)
            assert events == whole.feed(body) + whole.finish("eof"), recording.file
