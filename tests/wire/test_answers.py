"""What becomes of every item of an answer, for every client: it is there when the client's bytes are decoded again, or
the loss report names it.

The answers are the conformance corpus. `docs/ANSWERS.md` has the table: HEADRACE_WRITE_DOCS=1 writes it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from typing import Any

import pytest

from headrace import Decoder, Encoder
from headrace.conform import default_corpus, load, outcome_of, read
from headrace.conform.corpus import Case
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "ANSWERS.md"
BEGIN, END = "<!-- written by tests/wire/test_answers.py -->\n", "<!-- end of the table -->\n"
CLIENTS = ("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "ollama_chat")
ITEMS = {
    "text": ("response.refusal",),  # a refusal that is told as text
    "refusal": ("response.refusal",),
    "reasoning": ("response.reasoning",),
    "continuations": ("response.reasoning",),
    "calls": (),
    "custom calls": ("response.tool_calls[].input",),
    "calls that were cut off": ("response.tool_calls",),
    "hosted tools": ("response.hosted_tools",),
    "annotations": ("response.annotations",),
    "media": ("response.media",),
    "usage: input": ("response.usage.input",),
    "usage: output": ("response.usage.output",),
    "usage: cached": ("response.usage.cached", "response.usage.input_tokens_details"),
    "usage: reasoning": ("response.usage.reasoning", "response.usage.output_tokens_details"),
    "finish: stop": (),
    "finish: tool_intents": (),
    "finish: length": (),
    "finish: content_filter": ("response.finish_reason",),
    "finish: refusal": ("response.finish_reason",),
    "finish: pause": ("response.finish_reason",),
}
"""Item -> the paths by which its loss is reported."""

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
        "continuations": [plain(one) for one in outcome["continuations"]],
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


def plain(state: str) -> str:
    """A state without what wraps it for a client of another protocol."""
    texts = [state]
    with contextlib.suppress(ValueError):
        texts.append(base64.b64decode(state, validate=True).decode())  # Gemini's slot holds bytes
    for text in texts:
        if wrapped := WRAPPED.search(text):
            return base64.urlsafe_b64decode(wrapped[1] + "=" * (-len(wrapped[1]) % 4)).decode()
    return state


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


def table() -> tuple[str, list[str]]:
    """The table, and what was lost without a word."""
    cells: dict[tuple[str, str], set[str]] = {}
    silent = []
    for case in CASES:
        for client in CLIENTS:
            if client == case.protocol:
                continue
            for is_stream in (True, False):
                given, got, losses = told(case, client, is_stream)
                for item in given:
                    cell = cells.setdefault((item, client), set())
                    if kept(item, given[item], got.get(item)):
                        cell.add("kept")
                        continue
                    named = [(path, action) for path, action in losses if path.startswith(ITEMS[item] or ("-",))]
                    cell |= {f"{action}: `{path.removeprefix('response.')}`" for path, action in named}
                    if not named:
                        silent.append(f"{case.id} to {client}: {item} is {got.get(item)!r}, not {given[item]!r}")
    lines = [f"| item | {' | '.join(f'`{client}`' for client in CLIENTS)} |", "| --- " * (len(CLIENTS) + 1) + "|"]
    for item in ITEMS:
        row = [" or ".join(sorted(cells.get((item, client), {"-"}), key=len)) for client in CLIENTS]
        lines.append(f"| {item} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n", silent


@pytest.fixture(scope="module")
def made():
    return table()


def test_what_a_client_does_not_find_is_in_the_loss_report(made):
    assert not made[1], "\n".join(made[1])


def test_every_item_is_in_some_answer():
    found = {item for case in CASES for item in items_of(read(case))}
    assert found == set(ITEMS)


def test_the_page_says_what_becomes_of_each_item(made):
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, end, after = rest.partition(END)
    assert begin
    assert end
    if os.environ.get("HEADRACE_WRITE_DOCS") == "1":
        PAGE.write_text(before + BEGIN + made[0] + END + after, encoding="utf-8")
    else:
        assert old == made[0], "write it anew: HEADRACE_WRITE_DOCS=1"


def test_a_loss_without_a_word_is_found(monkeypatch):
    """The test itself: an item whose report has another name is found as silent."""
    monkeypatch.setitem(ITEMS, "media", ("response.nothing",))
    assert any("media" in line for line in table()[1])


def test_states_are_unwrapped():
    wrapped = "hr1.google_gemini.thought_signature.acme." + base64.urlsafe_b64encode(b"U2ln").decode().rstrip("=")
    assert plain(wrapped) == "U2ln"
    assert plain(base64.b64encode(wrapped.encode()).decode()) == "U2ln"
    assert plain(json.dumps([{"data": wrapped}])) == "U2ln"
    assert plain("U2ln") == "U2ln"
