"""A provider's stream that is cut: an error and the right end in every client's protocol, no call from half arguments,
and nothing that reads as a normal finish.

Over real sockets and all nine pairs: a fixture of each provider protocol at every byte, judged by the bytes; recordings
at some, judged by the vendors' own SDKs. The codec's tests cut every recording at every byte.
"""

from __future__ import annotations

import http.client
import io
import itertools
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import Cut, Reply
from tests.conftest import ROOT
from tests.support.clients import clients, direct
from tests.support.recordings import FAMILIES, load, with_event_names
from tests.support.replay import PATHS, PROTOCOLS, PROVIDERS, Stage, asking, replaying

STREAMS = {
    "openai_chat": "parallel-tools.sse",
    "openai_responses": "a-call-that-only-its-done-event-closes.sse",
    "anthropic_messages": "thinking-then-two-calls.sse",
}
"""A short stream with calls for each provider protocol."""
OK = 200
BODIES = {
    protocol: (ROOT / "tests" / "fixtures" / "streams" / protocol / "ok" / file).read_bytes()
    for protocol, file in STREAMS.items()
}
AHEAD = 40
"""Requests that are sent at a time; their answers come in order."""


def ask(stage: Stage, client: str, models: list[str]) -> Iterator[tuple[int, bytes]]:
    """Ask for all of them over one connection; give status and body of each."""
    host, port = stage.url.removeprefix("http://").split(":")
    sent = b""
    for model in models:
        body = json.dumps(asking(client, model, stream=True)).encode()
        head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        sent += head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection((host, int(port)), timeout=10) as asker, asker.makefile("rb") as stream:
        asker.sendall(sent)
        for _ in models:
            response = http.client.HTTPResponse(_Borrowed(stream), method="POST")
            response.begin()
            yield response.status, response.read()


class _Borrowed:
    """A socket as `HTTPResponse` wants one, whose stream stays open for the next answer."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream

    def makefile(self, _mode: str) -> Any:
        return self

    def close(self) -> None: ...

    def flush(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def frames(body: bytes) -> list[Any]:
    """The events of a stream whose every event is one `data:` line; `[DONE]` as it stands."""
    found = []
    for event in body.split(b"\n\n"):
        lines = event.split(b"\n")
        assert all(line.startswith((b"data: ", b"event: ")) for line in lines if line), event
        data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
        assert len(data) <= 1, event
        if data:
            found.append("[DONE]" if data[0] == b"[DONE]" else json.loads(data[0]))
    return found


def chat_end(events: list[Any]) -> tuple[bool, bool, list[Any]]:
    """Whether it finished, whether it ends with an error, and the calls that stand there as complete."""
    choices = [choice for event in events if event != "[DONE]" for choice in event.get("choices", [])]
    finished = "[DONE]" in events or any(choice["finish_reason"] for choice in choices)
    # A Chat call is complete when the answer is.
    return finished, events[-1] != "[DONE]" and "error" in events[-1], []


def responses_end(events: list[Any]) -> tuple[bool, bool, list[Any]]:
    finished = any(event["type"] in ("response.completed", "response.incomplete") for event in events)
    failed = events[-1]["type"] == "response.failed" and bool(events[-1]["response"]["error"])
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    items += events[-1]["response"]["output"] if failed else []
    done = [item for item in items if item["type"] == "function_call" and item.get("status") != "incomplete"]
    return finished, failed, [item["arguments"] for item in done]


def messages_end(events: list[Any]) -> tuple[bool, bool, list[Any]]:
    finished = any(
        event["type"] == "message_stop" or (event["type"] == "message_delta" and event["delta"]["stop_reason"])
        for event in events
    )
    inputs: dict[int, str] = {}
    done = []
    for event in events:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "input": given}}:
                inputs[index] = json.dumps(given) if given else ""
            case {"type": "content_block_delta", "index": index, "delta": {"partial_json": more}}:
                inputs[index] += more
            case {"type": "content_block_stop", "index": index} if index in inputs:
                done.append(inputs[index] or "{}")
    return finished, events[-1]["type"] == "error", done


ENDS = {"openai_chat": chat_end, "openai_responses": responses_end, "anthropic_messages": messages_end}


@pytest.fixture(scope="module")
def stage():
    replies = {
        f"{protocol}/{cut}": Reply.stream(*([body[:cut]] if cut else []), Cut())
        for protocol, body in BODIES.items()
        for cut in range(len(body) + 1)
    }
    with replaying(replies) as served:
        yield served


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_at_every_byte(client, provider, stage):
    body = BODIES[provider]
    whole = direct(provider, body)
    assert whole["calls"], "the fixture has calls"
    errors = {"before": 0, "in": 0}
    for first in range(0, len(body) + 1, AHEAD):
        cuts = range(first, min(first + AHEAD, len(body) + 1))
        told = ask(stage, client, [f"{provider}/{provider}/{cut}" for cut in cuts])
        for cut, (status, answer) in zip(cuts, told, strict=True):
            cut_direct = direct(provider, body[:cut], end="reset")
            if status != OK:
                assert status == 502, (cut, answer)
                assert "error" in json.loads(answer), cut
                assert "error" in cut_direct, cut
                errors["before"] += 1
                continue
            finished, failed, calls = ENDS[client](frames(answer))
            # A Chat stream whose reason came has ended, whatever follows; so has one of the others at its terminal.
            assert finished == ("finish" in cut_direct), (cut, answer[-300:])
            assert failed == (not finished), (cut, answer[-300:])
            errors["in"] += failed
            for arguments in calls:
                assert ["", json.loads(arguments)] in [["", given] for _, given in whole["calls"]], (cut, arguments)
    assert min(errors.values()) > len(body) // 20, errors
    assert stage.facts().malformed == 0


SAMPLE = 6
"""Recordings of each family, spread over it, and cuts of each."""


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore::UserWarning:pydantic")  # the SDKs' types are behind what was recorded
@pytest.mark.parametrize("family", FAMILIES)
def test_recordings_that_are_cut_are_an_error_to_each_sdk(family, shared):
    streams = [one for one in load(shared, {family: FAMILIES[family]}) if not one.file.endswith(".json")]
    chosen = streams[:: max(1, len(streams) // SAMPLE)]
    assert len(chosen) >= min(SAMPLE, len(streams)) > SAMPLE - 2
    cuts = {}
    for recording in chosen:
        body = with_event_names(recording)
        for part in range(1, SAMPLE):
            at = len(body) * part // SAMPLE
            if "error" in direct(recording.protocol, body[:at], end="reset"):
                cuts[f"{recording.file}/{at}"] = (recording, body, at)
    assert len(cuts) >= len(chosen) * (SAMPLE - 2)
    provider = family if family in PROVIDERS else FAMILIES[family]
    replies = {name: Reply.stream(body[:at], Cut()) for name, (_, body, at) in cuts.items()}
    after_commit = 0
    with replaying(replies) as stage, clients(stage.url) as sdk:
        for name, (recording, body, _) in cuts.items():
            whole = direct(recording.protocol, body)
            for client, way in itertools.product(PROTOCOLS, ("raw", "helper")):
                got = sdk.read(client, way, f"{provider}/{name}")
                if "raises" in got:
                    assert way == "helper"  # it cannot read this provider's dialect, cut or not
                    continue
                assert "error" in got, (name, client, way, got)
                assert got.get("finish") is None, (name, client, way, got)
                if getattr(got["error"], "status_code", OK) != OK:
                    continue
                after_commit += 1
                # As they are, some recordings have deltas that whoever recorded them cut short.
                if client != provider:
                    # A refusal's words are text in Messages.
                    said = whole["text"] or whole["refusal"]
                    assert said.startswith(got.get("text", "")), (name, client, way)
                if client == "openai_responses":
                    assert got["error"].code, (name, client, way)
                    # What was done before it failed is one of the whole answer's calls.
                    done = got["calls"] if way == "raw" else []
                    assert all(call in whole["calls"] for call in done), (name, client, way)
    assert after_commit > len(cuts)
