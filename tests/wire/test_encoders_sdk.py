"""The encoders, read by the vendors' own SDKs, also where a gateway would pass the bytes: a protocol into itself.

Every recording of the three families is decoded, encoded for each client protocol, and given to that protocol's SDK
through its own transport: raw streams, the streaming helpers, and whole answers. What the SDK accumulates has to be
what the direct decode says: text, calls with parsed arguments, reasoning, usage, and the end.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from headrace import Decoder, Encoder
from tests.support.clients import WAYS, clients, direct
from tests.support.pairs import FIELDS, TEXTS, Exceptions, same_calls
from tests.support.recordings import Recording, load
from tests.support.replay import PROTOCOLS

PREFIXES = {"openai_chat": "chatcmpl-1", "openai_responses": "resp_1", "anthropic_messages": "msg_1"}
REFUSED = {
    # The chunks' schema has no custom calls: the helper keeps one as a dict and then asks it for attributes.
    ("openai_chat", "helper", "openai_responses/custom-freeform-tool.jsonl"): "AttributeError",
}
"""What an SDK cannot read of its own protocol, and what it raises then."""
CALLS = ("function_call", "custom_tool_call")


def decoded(recording: Recording) -> list[Any]:
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
    return decoder.feed(recording.body) + decoder.finish("eof")


def commits(events: list[Any]) -> bool:
    """Whether a client gets any of it: else it gets an error reply instead."""
    return any(event.type not in ("model.started", "model.usage", "provider.error") for event in events)


def encoded(recording: Recording, events: list[Any], client: str, *, stream: bool) -> bytes:
    encoder = Encoder(
        client,
        stream=stream,
        model="asked",
        response_id=PREFIXES[client],
        created=1_700_000_000,
        include_usage=True,
        provider="acme",
        family=recording.protocol,
    )
    return encoder.feed(events) + encoder.finish()


class Canned:
    """Answers with the body that was set last."""

    body = b""
    content_type = ""

    def __call__(self, _: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": self.content_type}, content=self.body)


@pytest.mark.timeout(120)
# A vendor's own items pass as they came, with values that the SDK's types do not list yet.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_the_sdk_reads_what_the_decoder_read(shared, client, way):
    canned, exceptions, wrong, count = Canned(), Exceptions.load(), [], 0
    canned.content_type = "application/json" if way == "whole" else "text/event-stream"
    with clients("http://gateway.invalid", httpx2.MockTransport(canned)) as sdk:
        for recording in load(shared):
            events = decoded(recording)
            if not commits(events):
                continue
            count += 1
            canned.body = encoded(recording, events, client, stream=way != "whole")
            want = exceptions.told(client, direct(recording.protocol, recording.body, headers=recording.headers))
            if "error" in want and way == "whole":
                assert b"error" in canned.body, recording.file
                continue
            got = sdk.read(client, way, "asked")
            fields = FIELDS if "finish" in want else TEXTS
            differs = {field: got.get(field) for field in fields if got.get(field) != want[field]}
            if "calls" in differs and "calls" in got and same_calls(want, got):
                del differs["calls"]
            known = REFUSED.get((client, way, recording.file))
            if got.get("raises") != known or ("error" in want) != ("error" in got) or (differs and not known):
                wrong.append((recording.file, differs, got.get("raises"), got.get("error")))
    assert count > 100
    assert not wrong, "\n".join(map(str, wrong))


def test_what_clients_without_an_sdk_go_by(shared):
    """Ids, numbers and items, which no accumulator looks at."""
    for recording in load(shared):
        events = decoded(recording)
        if not commits(events) or events[-1].type == "provider.error":
            continue
        chunks = frames(encoded(recording, events, "openai_chat", stream=True))
        assert chunks.pop() == "[DONE]", recording.file
        assert {(one["id"], one["object"]) for one in chunks} == {("chatcmpl-1", "chat.completion.chunk")}
        calls = [call["index"] for one in chunks for choice in one["choices"] for call in tools(choice)]
        assert sorted(set(calls)) == list(range(len(set(calls)))), recording.file

        told = frames(encoded(recording, events, "openai_responses", stream=True))
        assert [one["sequence_number"] for one in told] == list(range(len(told))), recording.file
        done = {one["output_index"]: one["item"] for one in told if one["type"] == "response.output_item.done"}
        # Codex has nothing but the items that were done, and runs calls of any status: a truncated one is none of them.
        output = told[-1]["response"]["output"]
        whole = [item for item in output if not (item["type"] in CALLS and item["status"] == "incomplete")]
        assert [done[at] for at in sorted(done)] == whole, recording.file
        deltas = [one["delta"] for one in told if one["type"] == "response.output_text.delta"]
        parts = [part for item in output if item["type"] == "message" for part in item["content"]]
        assert "".join(deltas) == "".join(part.get("text", "") for part in parts), recording.file


def tools(choice: Any) -> list[Any]:
    return choice["delta"].get("tool_calls") or []


def frames(body: bytes) -> list[Any]:
    """The payloads of a stream whose every event is one `data:` line; `[DONE]` as it stands."""
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    return ["[DONE]" if line == b"[DONE]" else json.loads(line) for line in lines]
