"""The encoders, read by the vendors' own SDKs.

Every recording of the three families is decoded, encoded for each client protocol, and served to that protocol's SDK
through its own transport: raw streams, the streaming helpers, and whole answers. What the SDK accumulates has to be
what the direct decode says: text, calls with parsed arguments, reasoning, usage, and the end.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from headrace import Decoder, Encoder
from tests.support.recordings import Recording, load

ASK = {"model": "asked", "messages": [{"role": "user", "content": "q"}]}


@dataclass
class Answer:
    """What has to survive. `end` is a finish reason of ours, or "error"."""

    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    usage: tuple[int | None, int | None] = (None, None)
    end: str = ""


def direct(recording: Recording) -> tuple[list[Any], Answer]:
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers)
    events = decoder.feed(recording.body) + decoder.finish("eof")
    answer = Answer()
    for event in events:
        match event.type:
            case "model.text_delta":
                answer.text += event.text
            case "model.refusal_delta":
                answer.refusal += event.text
            case "model.reasoning_delta":
                answer.reasoning += event.text
            case "tool_intent.proposed":
                answer.calls.append((event.tool_name, event.input))
            case "model.usage":
                answer.usage = (event.input_tokens, event.output_tokens)
            case "model.finished":
                answer.end = event.reason
            case "provider.error":
                answer.end = "error"
    return events, answer


def encoded(recording: Recording, events: list[Any], client: str, *, stream: bool) -> bytes:
    prefix = {"openai_chat": "chatcmpl-1", "openai_responses": "resp_1", "anthropic_messages": "msg_1"}[client]
    encoder = Encoder(
        client,
        stream=stream,
        model="asked",
        response_id=prefix,
        created=1_700_000_000,
        include_usage=True,
        provider="acme",
        family=recording.protocol,
    )
    return encoder.feed(events) + encoder.finish()


def transport(body: bytes, *, stream: bool) -> httpx2.Client:
    kind = "text/event-stream" if stream else "application/json"

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def openai_client(body: bytes, *, stream: bool) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k", base_url="http://gateway.invalid/v1", max_retries=0, http_client=transport(body, stream=stream)
    )


def anthropic_client(body: bytes, *, stream: bool) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k", base_url="http://gateway.invalid", max_retries=0, http_client=transport(body, stream=stream)
    )


def parsed(text: str) -> Any:
    """Arguments as a client reads them; a truncated call's stay text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


# Chat

CHAT_ENDS = {"stop": "stop", "tool_calls": "tool_intents", "length": "length", "content_filter": "content_filter"}


def of_chat(message: Any, end: str | None, usage: Any) -> Answer:
    answer = Answer(message.content or "", message.refusal or "", getattr(message, "reasoning_content", None) or "")
    for call in message.tool_calls or ():
        if call.type == "function":
            answer.calls.append((call.function.name, parsed(call.function.arguments)))
        else:
            custom = call.custom
            name, text = (custom["name"], custom["input"]) if isinstance(custom, dict) else (custom.name, custom.input)
            answer.calls.append((name, text))
    answer.usage = (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
    answer.end = CHAT_ENDS[end] if end else "cut"
    return answer


def chat_whole(body: bytes) -> Answer:
    done = openai_client(body, stream=False).chat.completions.create(**ASK)
    return of_chat(done.choices[0].message, done.choices[0].finish_reason, done.usage)


def chat_raw(body: bytes) -> Answer:
    answer = Answer()
    calls: dict[int, list[str]] = {}
    kinds: dict[int, str] = {}
    for chunk in openai_client(body, stream=True).chat.completions.create(stream=True, **ASK):
        assert (chunk.id, chunk.object) == ("chatcmpl-1", "chat.completion.chunk")
        if chunk.usage:
            answer.usage = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            delta = choice.delta
            answer.text += delta.content or ""
            answer.refusal += delta.refusal or ""
            answer.reasoning += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or ():
                kinds.setdefault(call.index, call.type or "")
                custom = getattr(call, "custom", None)
                if custom is not None:
                    name, text = custom.get("name"), custom.get("input")
                else:
                    name, text = call.function.name, call.function.arguments
                known = calls.setdefault(call.index, ["", ""])
                known[0] += name or ""
                known[1] += text or ""
            if choice.finish_reason:
                answer.end = CHAT_ENDS[choice.finish_reason]
    assert list(calls) == list(range(len(calls)))
    answer.calls = [(n, t if kinds[i] == "custom" else parsed(t)) for i, (n, t) in calls.items()]
    return answer


def chat_helper(body: bytes) -> Answer:
    client = openai_client(body, stream=True)
    with client.chat.completions.stream(stream_options={"include_usage": True}, **ASK) as stream:
        try:
            done = stream.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            # The helper refuses these ends; what it had by then has to be right all the same.
            done = stream.current_completion_snapshot
    return of_chat(done.choices[0].message, done.choices[0].finish_reason, done.usage)


# Responses

CALLS = ("function_call", "custom_tool_call")


def of_response(response: Any) -> Answer:
    answer = Answer()
    for item in response.output:
        match item.type:
            case "message":
                for part in item.content:
                    answer.text += part.text if part.type == "output_text" else ""
                    answer.refusal += part.refusal if part.type == "refusal" else ""
            case "reasoning":
                answer.reasoning += "".join(part.text for part in [*item.summary, *(item.content or ())])
            case "function_call":
                answer.calls.append((item.name, parsed(item.arguments)))
            case "custom_tool_call":
                answer.calls.append((item.name, item.input))
    if response.usage:
        assert isinstance(response.usage.input_tokens_details.cached_tokens, int)
        answer.usage = (response.usage.input_tokens, response.usage.output_tokens)
    match response.status:
        case "completed" if answer.refusal:
            answer.end = "refusal"
        case "completed":
            answer.end = "tool_intents" if answer.calls else "stop"
        case "incomplete":
            answer.end = {"max_output_tokens": "length", "content_filter": "content_filter"}[
                response.incomplete_details.reason
            ]
        case "failed":
            answer.end = "error"
    return answer


def responses_whole(body: bytes) -> Answer:
    return of_response(openai_client(body, stream=False).responses.create(model="asked", input="q"))


def responses_raw(body: bytes) -> Answer:
    done: dict[int, Any] = {}
    deltas = ""
    last = None
    for number, event in enumerate(
        openai_client(body, stream=True).responses.create(model="m", input="q", stream=True)
    ):
        assert event.sequence_number == number
        if event.type == "response.output_text.delta":
            deltas += event.delta
        elif event.type == "response.output_item.done":
            done[event.output_index] = event.item
        last = event
    assert last is not None
    answer = of_response(last.response)
    assert deltas == answer.text
    if answer.end != "error":
        # Codex has nothing but the items that were done, and runs calls of any status: a truncated one is none of them.
        whole = [item for item in last.response.output if not (item.type in CALLS and item.status == "incomplete")]
        assert [done[at].to_dict() for at in sorted(done)] == [item.to_dict() for item in whole]
    return answer


def responses_helper(body: bytes) -> Answer:
    last = None
    with openai_client(body, stream=True).responses.stream(model="m", input="q") as stream:
        for event in stream:
            last = event
        assert last is not None
        if last.type == "response.completed":
            return of_response(stream.get_final_response())
        # The helper knows no other end than that one.
        with pytest.raises(RuntimeError, match=r"response\.completed"):
            stream.get_final_response()
    return of_response(last.response)


# Messages

MESSAGES_ENDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_intents",
    "max_tokens": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}


def of_message(message: Any) -> Answer:
    answer = Answer()
    for block in message.content:
        match block.type:
            case "text":
                answer.text += block.text
            case "thinking":
                answer.reasoning += block.thinking
            case "tool_use":
                answer.calls.append((block.name, block.input))
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    answer.usage = (usage.input_tokens + cached, usage.output_tokens)
    answer.end = MESSAGES_ENDS[message.stop_reason]
    return answer


def messages_whole(body: bytes) -> Answer:
    return of_message(anthropic_client(body, stream=False).messages.create(max_tokens=9, **ASK))


def messages_raw(body: bytes) -> Answer:
    answer = Answer()
    names: list[str] = []
    inputs: dict[int, str] = {}
    whole: set[int] = set()
    usage: dict[str, int] = {}
    for event in anthropic_client(body, stream=True).messages.create(max_tokens=9, stream=True, **ASK):
        match event.type:
            case "message_start":
                usage |= {k: v for k, v in event.message.usage.to_dict().items() if isinstance(v, int)}
            case "content_block_start" if event.content_block.type == "tool_use":
                names.append(event.content_block.name)
                inputs[event.index] = ""
            case "content_block_delta":
                delta = event.delta
                answer.text += delta.text if delta.type == "text_delta" else ""
                answer.reasoning += delta.thinking if delta.type == "thinking_delta" else ""
                if delta.type == "input_json_delta":
                    inputs[event.index] = inputs.get(event.index, "") + delta.partial_json
            case "content_block_stop":
                whole.add(event.index)
            case "message_delta":
                usage |= {k: v for k, v in event.usage.to_dict().items() if isinstance(v, int)}
                answer.end = MESSAGES_ENDS[event.delta.stop_reason]
            case "message_stop":
                assert answer.end
    for name, (index, text) in zip(names, inputs.items(), strict=True):
        # A block that never ended is no call.
        if index in whole:
            answer.calls.append((name, json.loads(text or "{}")))
    parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    answer.usage = (sum(usage.get(part, 0) for part in parts), usage["output_tokens"])
    return answer


def messages_helper(body: bytes) -> Answer:
    with anthropic_client(body, stream=True).messages.stream(max_tokens=9, **ASK) as stream:
        return of_message(stream.get_final_message())


READERS: dict[tuple[str, str], Callable[[bytes], Answer]] = {
    ("openai_chat", "whole"): chat_whole,
    ("openai_chat", "raw"): chat_raw,
    ("openai_chat", "helper"): chat_helper,
    ("openai_responses", "whole"): responses_whole,
    ("openai_responses", "raw"): responses_raw,
    ("openai_responses", "helper"): responses_helper,
    ("anthropic_messages", "whole"): messages_whole,
    ("anthropic_messages", "raw"): messages_raw,
    ("anthropic_messages", "helper"): messages_helper,
}


REFUSED = {
    # The chunks' schema has no custom calls: the helper keeps one as a dict and then asks it for attributes.
    ("openai_chat", "helper", "openai_responses/custom-freeform-tool.jsonl"): AttributeError,
}
"""What an SDK cannot read of its own protocol, and what it raises then."""


def expected(client: str, answer: Answer) -> Answer:
    """What the protocol can say of this answer."""
    want = replace(answer)
    if client == "anthropic_messages":
        want.text, want.refusal = want.text + want.refusal, ""
        want.calls = [(name, value if isinstance(value, dict) else {"input": value}) for name, value in want.calls]
        want.usage = (want.usage[0] or 0, want.usage[1] or 0)
        want.end = {"content_filter": "refusal", "other": "stop"}.get(want.end, want.end)
    else:
        want.end = {"pause": "length", "other": "stop"}.get(want.end, want.end)
        if want.end == "refusal" and not want.refusal:
            want.end = "content_filter"
        elif want.end == "refusal" and client == "openai_chat":
            want.end = "stop"
    return want


@pytest.mark.timeout(120)
# A vendor's own items pass as they came, with values that the SDK's types do not list yet.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(("client", "way"), READERS, ids="-".join)
def test_the_sdk_reads_what_the_decoder_read(shared: pathlib.Path, client: str, way: str) -> None:
    read, differ, count = READERS[client, way], [], 0
    for recording in load(shared):
        events, answer = direct(recording)
        if not any(event.type not in ("model.started", "model.usage", "provider.error") for event in events):
            continue  # never committed: the client gets an error reply instead
        body = encoded(recording, events, client, stream=way != "whole")
        count += 1
        if answer.end == "error":
            if client == "openai_responses" and way != "whole":
                got = read(body).end
                if got != "error":
                    differ.append((recording.file, got))
            elif way != "whole":
                with pytest.raises((openai.APIError, anthropic.APIError)):
                    read(body)
            continue
        if refusal := REFUSED.get((client, way, recording.file)):
            with pytest.raises(refusal):
                read(body)
            continue
        want, got = expected(client, answer), read(body)
        if want.end == "length":
            # Truncated calls may stand there, as the protocol tells them; complete ones have to.
            got.calls = [call for call in got.calls if call in want.calls]
        if got != want:
            differ.append((recording.file, got, want))
    assert count > 100
    assert not differ, "\n".join(map(str, differ))
