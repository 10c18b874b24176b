"""Bedrock against AWS's own library: its parser of event streams, its accumulated answer, and the model of its service.

What differs stands in `botocore_exceptions.json`, with what botocore says and the reason; a row that no longer differs
fails.
"""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import botocore.session
import pytest
from botocore.eventstream import EventStreamBuffer
from botocore.parsers import EventStreamJSONParser, create_parser

from headrace import Decoder
from tests.support import bedrock_fixtures
from tests.support.recordings import FAMILIES as RECORDED
from tests.support.recordings import Recording, load

FAMILIES = ("bedrock_converse", "bedrock_invoke")
EXCEPTIONS = pathlib.Path(__file__).with_name("botocore_exceptions.json")
FIELDS = ("text", "reasoning", "signatures", "redacted", "calls", "usage", "finish", "raises")


def service() -> Any:
    return botocore.session.get_session().get_service_model("bedrock-runtime")


def events_of(body: bytes, operation: str) -> list[dict[str, Any]]:
    """The stream's events as botocore parses them; an exception is one too."""
    shape = service().operation_model(operation).get_event_stream_output()
    parser = EventStreamJSONParser()
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [parser.parse(message.to_response_dict(), shape) for message in buffer]


def converse(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a program puts together from ConverseStream's events, as AWS's examples do it."""
    said: dict[str, Any] = {"text": "", "reasoning": "", "signatures": [], "redacted": [], "calls": []}
    tools: dict[int, dict[str, Any]] = {}
    for event in events:
        for name, value in event.items():
            if name.endswith("Exception") or name == "Error":
                return {"raises": name}
            if name == "contentBlockStart" and "toolUse" in value["start"]:
                tools[value["contentBlockIndex"]] = {**value["start"]["toolUse"], "input": ""}
            elif name == "contentBlockDelta":
                delta = value["delta"]
                said["text"] += delta.get("text", "")
                if "toolUse" in delta:
                    tools[value["contentBlockIndex"]]["input"] += delta["toolUse"]["input"]
                thought = delta.get("reasoningContent", {})
                said["reasoning"] += thought.get("text", "")
                said["signatures"] += [thought["signature"]] if thought.get("signature") else []
                hidden = thought.get("redactedContent")
                said["redacted"] += [base64.b64encode(hidden).decode()] if hidden else []
            elif name == "messageStop":
                said["finish"] = value["stopReason"]
            elif name == "metadata":
                said["usage"] = usage(value["usage"])
    said["calls"] = [call(tool, json.loads(tool["input"] or "{}")) for tool in tools.values() if theirs(tool)]
    return said


def theirs(tool: dict[str, Any]) -> bool:
    """Whether the client runs it."""
    return tool.get("type") != "server_tool_use"


def call(tool: dict[str, Any], given: Any) -> list[Any]:
    return [tool["toolUseId"], tool["name"], given]


def usage(counts: dict[str, int]) -> list[int | None]:
    cached, written = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
    return [counts["inputTokens"] + (cached or 0) + (written or 0), counts["outputTokens"], cached, written]


def whole(body: bytes) -> dict[str, Any]:
    operation = service().operation_model("Converse")
    answer = create_parser("rest-json").parse({"body": body, "headers": {}, "status_code": 200}, operation.output_shape)
    said: dict[str, Any] = {"text": "", "reasoning": "", "signatures": [], "redacted": [], "calls": []}
    for block in answer["output"]["message"]["content"]:
        said["text"] += block.get("text", "")
        thought = block.get("reasoningContent", {}).get("reasoningText", {})
        said["reasoning"] += thought.get("text", "")
        said["signatures"] += [thought["signature"]] if "signature" in thought else []
        if "toolUse" in block and theirs(block["toolUse"]):
            said["calls"].append(call(block["toolUse"], block["toolUse"]["input"]))
    return {**said, "finish": answer["stopReason"], "usage": usage(answer["usage"])}


def ours(recording: Recording) -> dict[str, Any]:
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
    events = decoder.feed(recording.body) + decoder.finish("eof")
    last = events[-1]
    if last.type == "provider.error":
        return {"raises": last.code}

    def all_of(kind: str) -> list[Any]:
        return [event for event in events if event.type == kind]

    def kept(form: str) -> list[str]:
        return [event.data for event in all_of("model.continuation") if event.form == form]

    counts = all_of("model.usage")[-1]
    return {
        "text": "".join(event.text for event in all_of("model.text_delta")),
        "reasoning": "".join(event.text for event in all_of("model.reasoning_delta")),
        "signatures": kept("signature"),
        "redacted": kept("redacted"),
        "calls": [[one.provider_call_id, one.tool_name, one.input] for one in all_of("tool_intent.proposed")],
        "usage": [counts.input_tokens, counts.output_tokens, counts.cached_input_tokens, counts.cache_write_tokens],
        "finish": last.raw_reason,
    }


def test_botocore_puts_the_same_answers_together(shared):
    allowed: dict[str, dict[str, Any]] = {}
    for row in json.loads(EXCEPTIONS.read_text(encoding="utf-8")):
        assert set(row) == {"file", "field", "botocore", "reason"}
        assert len(row["reason"]) > 20
        allowed.setdefault(row["file"], {})[row["field"]] = row["botocore"]
    wrong, compared = [], 0
    for recording in load(shared, {"bedrock_converse": "bedrock_converse"}):
        is_whole = recording.file.endswith(".json")
        said = whole(recording.body) if is_whole else converse(events_of(recording.body, "ConverseStream"))
        mine = ours(recording)
        differs = {field: said.get(field) for field in FIELDS if said.get(field) != mine.get(field)}
        compared += 1
        if differs != allowed.pop(recording.file, {}):
            wrong.append((recording.file, differs))
    assert not wrong, wrong
    assert not allowed
    assert compared >= 12


def test_botocore_finds_the_same_chunks(shared):
    """What InvokeModel's chunks hold, joined, is what our decoder was given: the same text comes of it."""
    compared = 0
    for recording in load(shared, {"bedrock_invoke": "bedrock_invoke"}):
        if recording.file.endswith(".json"):
            continue
        events = events_of(recording.body, "InvokeModelWithResponseStream")
        inner = [json.loads(event["chunk"]["bytes"]) for event in events]
        text = ""
        for one in inner:
            text += one.get("text", "") + one.get("completion", "")
            text += one.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
            delta = one.get("delta", {})
            text += delta.get("text", "") if delta.get("type") == "text_delta" else ""
        mine = ours(recording)
        assert mine["text"] == text, recording.file
        metrics = inner[-1]["amazon-bedrock-invocationMetrics"]
        assert mine["usage"][0] == metrics["inputTokenCount"], recording.file
        compared += 1
    assert compared >= 5


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fixtures_are_those_that_are_written_down(family):
    streams = bedrock_fixtures.FIXTURES[family]
    for name, body in streams.items():
        again = "write them anew: python -m tests.support.bedrock_fixtures"
        assert (bedrock_fixtures.ROOT / family / name).read_bytes() == body, f"{name}: {again}"
    found = {
        path.relative_to(bedrock_fixtures.ROOT / family).as_posix()
        for path in (bedrock_fixtures.ROOT / family).rglob("*.*")
        if not path.name.endswith(".expected.jsonl")
    }
    assert found == set(streams)
    assert RECORDED[family] == family
