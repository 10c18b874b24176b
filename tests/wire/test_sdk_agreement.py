"""Every recording decodes to what the vendor's own SDK accumulates from the same bytes.

Text, refusal, calls with parsed arguments, usage and the reason of the end. What differs stands in
`sdk_exceptions.json`, with the SDK's value and the reason; a row that no longer differs fails. Bedrock's families
have `test_botocore.py`.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from headrace import Decoder
from tests.support import sdks
from tests.support.recordings import FAMILIES, Recording, load, with_event_names

EXCEPTIONS = pathlib.Path(__file__).with_name("sdk_exceptions.json")
FIELDS = ("text", "refusal", "calls", "usage", "finish")
COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def ours(recording: Recording) -> dict[str, Any]:
    """What our decoder makes of it, in the words of `sdks.outcome`."""
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
    events = [event.to_dict() for event in decoder.feed(recording.body) + decoder.finish("eof")]
    if events[-1]["type"] == "provider.error":
        return {"raises": events[-1]["kind"]}
    said: dict[str, list[Any]] = {}
    for event in events:
        said.setdefault(event["type"], []).append(event)
    usage = said.get("model.usage", [{}])[-1]
    intents = sorted(said.get("tool_intent.proposed", []), key=lambda event: event["call"])
    return {
        "text": "".join(event["text"] for event in said.get("model.text_delta", [])),
        "refusal": "".join(event["text"] for event in said.get("model.refusal_delta", [])),
        "calls": [[event["tool_name"], event["input"]] for event in intents],
        "usage": [usage.get(field) for field in COUNTS] if usage else None,
        "finish": events[-1].get("raw_reason"),
    }


def differences(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Field -> the SDK's value, where it is another. That one side refuses the body is a difference of its own."""
    if "raises" in mine or "raises" in theirs:
        return {} if "raises" in mine and "raises" in theirs else {"raises": theirs.get("raises")}
    return {field: sdks.shown(theirs[field]) for field in FIELDS if mine[field] != theirs[field]}


def exceptions() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for row in json.loads(EXCEPTIONS.read_text(encoding="utf-8")):
        assert set(row) == {"file", "field", "sdk", "reason"}
        assert len(row["reason"]) > 20, row
        assert row["field"] not in rows.setdefault(row["file"], {}), f"twice: {row}"
        rows[row["file"]][row["field"]] = row["sdk"]
    return rows


@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")  # the SDK's types are behind what was recorded
@pytest.mark.filterwarnings("ignore:.* is not a valid:UserWarning")  # Google's SDK says so of a word that is new to it
@pytest.mark.parametrize("family", [family for family in FAMILIES if not family.startswith("bedrock")])
def test_the_sdk_accumulates_the_same(shared, family):
    allowed = exceptions()
    recordings = load(shared, {family: FAMILIES[family]})
    assert len(recordings) >= 8
    wrong, compared = [], 0
    with sdks.replay() as server:
        for recording in recordings:
            streaming = not recording.file.endswith(".json")
            sdk = "mistral_chat" if family == "mistral_chat" else recording.protocol
            theirs = sdks.outcome(server, sdk, with_event_names(recording), streaming)
            differs = differences(ours(recording), theirs)
            compared += "raises" not in theirs
            if differs != allowed.get(recording.file, {}):
                wrong.append((recording.file, differs, allowed.get(recording.file, {})))
    assert not wrong, wrong
    assert compared >= len(recordings) * 0.7


def test_every_exception_names_a_recording(shared):
    known = {recording.file for recording in load(shared)}
    assert set(exceptions()) <= known
