"""What becomes of every item of an answer, for every client: it is there when the client's bytes are decoded again, or
the loss report names it.

The answers are the conformance corpus. What the encoders say of each item stands in `docs/TRANSLATION.md`; this asks
from outside, through bytes.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
from typing import Any

import pytest

from headrace import Decoder, Encoder
from headrace.conform import default_corpus, load, outcome_of, read
from headrace.conform.corpus import Case

CLIENTS = ("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "ollama_chat")
ITEMS = {
    "text": (),
    "refusal": ("response.refusal",),
    "reasoning": (),
    "continuations": ("response.reasoning",),
    "calls": (),
    "custom calls": ("response.tool_calls[].input",),
    "calls that were cut off": ("response.tool_calls",),
    "hosted tools": ("response.hosted_tools",),
    "annotations": ("response.annotations",),
    "media": ("response.media",),
    "usage: input": (),
    "usage: output": (),
    "usage: cached": ("response.usage.cached",),
    "usage: reasoning": ("response.usage.reasoning",),
    "finish: stop": (),
    "finish: tool_intents": (),
    "finish: length": (),
    "finish: content_filter": ("response.finish_reason",),
    "finish: refusal": ("response.finish_reason",),
    "finish: pause": ("response.finish_reason",),
}
"""Item -> the paths by which its loss is reported; none where every client has a place for it."""

CASES = [case for case in load(default_corpus()) if "finish" in case.expect]
WRAPPED = re.compile(r"hr1\.\w+\.\w+\.acme\.([\w-]+)")


def items_of(events: list[Any]) -> dict[str, Any]:
    """What is there of each item; nothing for what is empty or 0."""
    outcome, usage = outcome_of(events), outcome_of(events)["usage"] or {}
    calls = sorted(outcome["calls"], key=lambda call: call["name"])
    whole = {event.call for event in events if event.type == "tool_intent.proposed"}
    found = {
        "text": outcome["text"],
        "refusal": outcome["refusal"],
        "reasoning": outcome["reasoning"],
        "continuations": [state for one in outcome["continuations"] for state in plain(one)],
        "calls": [[call["name"], call["arguments"]] for call in calls if "arguments" in call],
        "custom calls": [[call["name"], call["input"]] for call in calls if "input" in call],
        "calls that were cut off": len({event.call for event in events if event.type == "tool_intent.delta"} - whole),
        "hosted tools": any(event.type == "model.hosted_tool" for event in events),
        "annotations": outcome["annotations"],
        "media": outcome["media"],
        **{f"usage: {name}": usage.get(name) for name in ("input", "output", "cached", "reasoning")},
        f"finish: {outcome['finish']}": True,
    }
    return {item: value for item, value in found.items() if value}


def plain(state: str) -> list[str]:
    """A state without what wraps it for a client of another protocol; Chat's details may hold several."""
    texts = [state]
    with contextlib.suppress(ValueError):
        texts.append(base64.b64decode(state, validate=True).decode())  # Gemini's slot holds bytes
    found = [wrapped[1] for text in texts for wrapped in WRAPPED.finditer(text)]
    return [base64.urlsafe_b64decode(one + "=" * (-len(one) % 4)).decode() for one in found] or [state]


def told(case: Case, client: str, is_stream: bool) -> tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]:
    """The answer's items, those that the client finds, and the losses."""
    events = read(case)
    encoder = Encoder(
        client,
        stream=is_stream,
        model="m",
        response_id="r1",
        created=1,
        include_usage=True,
        provider="acme",
        family=case.protocol,
    )
    body = encoder.feed(events) + encoder.finish()
    kind = "application/x-ndjson" if client == "ollama_chat" else "text/event-stream"
    decoder = Decoder(client, headers=[("content-type", kind if is_stream else "application/json")])
    losses = [(loss.path, loss.action) for loss in encoder.losses]
    return items_of(events), items_of(decoder.feed(body) + decoder.finish("eof")), losses


def kept(item: str, given: Any, got: Any) -> bool:
    if item == "continuations" and got:
        return all(any(one in other or other in one for other in got) for one in given)
    return bool(given == got)


@functools.cache
def every_answer() -> list[tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, str]]]]:
    return [
        (f"{case.id} to {client}", *told(case, client, is_stream))
        for case in CASES
        for client in CLIENTS
        for is_stream in (True, False)
        if client != case.protocol
    ]


def lost_without_a_word() -> list[str]:
    found = []
    for where, given, got, losses in every_answer():
        for item in given:
            named = any(path.startswith(ITEMS[item] or ("-",)) for path, _ in losses)
            if not named and not kept(item, given[item], got.get(item)):
                found.append(f"{where}: {item} is {got.get(item)!r}, not {given[item]!r}")
    return found


def test_what_a_client_does_not_find_is_in_the_loss_report():
    silent = lost_without_a_word()
    assert not silent, "\n".join(silent)


def test_every_item_is_in_some_answer():
    found = {item for case in CASES for item in items_of(read(case))}
    assert found == set(ITEMS)


@pytest.mark.parametrize("item", [item for item, paths in ITEMS.items() if paths])
def test_a_loss_without_a_word_is_found(monkeypatch, item):
    """The test itself: where an item's report has another name, its loss is silent to somebody."""
    monkeypatch.setitem(ITEMS, item, ("response.nothing",))
    assert any(f": {item} is" in line for line in lost_without_a_word())


def test_states_are_unwrapped():
    wrapped = "hr1.google_gemini.thought_signature.acme." + base64.urlsafe_b64encode(b"U2ln").decode().rstrip("=")
    assert plain(wrapped) == ["U2ln"]
    assert plain(base64.b64encode(wrapped.encode()).decode()) == ["U2ln"]
    assert plain(json.dumps([{"data": wrapped}, {"data": wrapped}])) == ["U2ln", "U2ln"]
    assert plain("U2ln") == ["U2ln"]
