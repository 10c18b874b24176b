"""What a program sees that asks a gateway through a vendor's own SDK.

In three ways: `raw`, the events of `create(stream=True)` put together by hand, as a program does that shows them as
they come; `helper`, what the SDK's own accumulator has at the end; `whole`, one object. Each gives the same dict:
text, refusal, reasoning, calls with parsed arguments, usage, and the reason of the end in Headrace's words; or `error`,
what the SDK tells of a failure, in place of the end; or `raises`, where the SDK cannot read the answer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from google.genai import errors as google_errors

from headrace import Decoder
from tests.support.replay import asking
from tests.support.sdks import call_of, counts, google, google_joined, item_call

Outcome = dict[str, Any]
WAYS = ("raw", "helper", "whole")
COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
FINISHES = {
    "openai_chat": {
        "stop": "stop",
        "tool_calls": "tool_intents",
        "function_call": "tool_intents",
        "length": "length",
        "content_filter": "content_filter",
    },
    "anthropic_messages": {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_intents",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "refusal",
        "pause_turn": "pause",
    },
    "google_gemini": {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        "SAFETY": "content_filter",
        "CONTINUATION": "pause",
    },
    "openai_responses": {"max_output_tokens": "length", "content_filter": "content_filter", "steered": "other"},
}
"""Each protocol's reasons of an end, in Headrace's words. A Responses object has one only where it is incomplete."""


def direct(protocol: str, body: bytes, status: int = 200, headers: Any = (), end: str = "eof") -> Outcome:
    """What the decoder makes of the provider's own bytes, in the same words.

    Also `cut`, how many calls began and are none, and `steered`, a reason that only Responses has.
    """
    decoder = Decoder(protocol, status=status, headers=headers)
    events = decoder.feed(body) + decoder.finish(end)

    def joined(kind: str) -> str:
        return "".join(event.text for event in events if event.type == kind)

    usage = next((event for event in reversed(events) if event.type == "model.usage"), None)
    intents = [event for event in events if event.type == "tool_intent.proposed"]
    outcome: Outcome = {
        "cut": len({one.call for one in events if one.type == "tool_intent.delta"} - {one.call for one in intents}),
        "steered": getattr(events[-1], "raw_reason", None) == "steered",
        "text": joined("model.text_delta"),
        "refusal": joined("model.refusal_delta"),
        "reasoning": joined("model.reasoning_delta"),
        "calls": [[one.tool_name, one.input] for one in intents],
        "usage": usage and [getattr(usage, name) for name in COUNTS],
    }
    last = events[-1]
    return outcome | ({"error": last} if last.type == "provider.error" else {"finish": last.reason})


class Clients:
    """The SDKs, pointed at a gateway, or at a transport that answers in its place."""

    def __init__(self, url: str, transport: httpx2.BaseTransport | None = None) -> None:
        common: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 20}
        if transport is not None:
            common["http_client"] = httpx2.Client(transport=transport)
        self.openai = openai.OpenAI(base_url=f"{url}/v1", **common)
        self.anthropic = anthropic.Anthropic(base_url=url, **common)
        self.google = google(url)
        self.heard: Callable[[], object] = lambda: None

    def read(self, client: str, way: str, model: str, heard: Callable[[], object] = lambda: None) -> Outcome:
        """Ask once and read the answer to its end. `heard` is called whenever some of a stream has come."""
        self.heard = heard
        body = asking(client, model, stream=False)
        body.pop("stream", None)
        if client == "google_gemini":
            body["model"] = model
        outcome: Outcome = {}
        try:
            _READERS[client, way](self, body, outcome)
        except (openai.APIError, anthropic.APIError, google_errors.APIError) as error:
            outcome["error"] = error
        except Exception as error:  # noqa: BLE001 - the SDKs let many classes through, index errors among them
            outcome["raises"] = type(error).__name__
        else:
            outcome.setdefault("calls", [])
        return outcome


@contextlib.contextmanager
def clients(url: str, transport: httpx2.BaseTransport | None = None) -> Iterator[Clients]:
    both = Clients(url, transport)
    with both.openai, both.anthropic, contextlib.closing(both.google):
        yield both


class _Texts(dict[str, str]):
    """Texts that grow."""

    def __missing__(self, key: str) -> str:
        return ""


def _chat_raw(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    texts, calls = _Texts(), dict[int, list[str]]()
    outcome["usage"] = outcome["finish"] = None
    for chunk in sdk.openai.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}):
        outcome["usage"] = _chat_usage(chunk.usage) or outcome["usage"]
        for choice in chunk.choices:
            if choice.index != 0:
                continue
            delta = choice.delta
            texts["text"] += delta.content or ""
            texts["refusal"] += delta.refusal or ""
            texts["reasoning"] += _reasoning(delta)
            for call in delta.tool_calls or []:
                name, arguments = _chat_call(call)
                parts = calls.setdefault(call.index, ["", ""])
                parts[0] += name
                parts[1] += arguments
            outcome["finish"] = _finish("openai_chat", choice.finish_reason, texts["refusal"]) or outcome["finish"]
        _keep(sdk, outcome, texts)
    outcome["calls"] = [call_of(name, arguments) for name, arguments in calls.values()]


def _chat_helper(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    with sdk.openai.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
        # The helper refuses these two ends; what it had by then has to be right all the same.
        with contextlib.suppress(openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            for _ in stream:
                _chat_message(stream.current_completion_snapshot, outcome)
                sdk.heard()
            stream.get_final_completion()
        _chat_message(stream.current_completion_snapshot, outcome)


def _chat_whole(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    _chat_message(sdk.openai.chat.completions.create(**body), outcome)


def _chat_message(completion: Any, outcome: Outcome) -> None:
    if not completion.choices:
        return
    choice = completion.choices[0]
    message = choice.message
    outcome.update(
        text=message.content or "",
        refusal=message.refusal or "",
        reasoning=_reasoning(message),
        calls=[call_of(*_chat_call(call)) for call in message.tool_calls or []],
        usage=_chat_usage(completion.usage),
        finish=_finish("openai_chat", choice.finish_reason, message.refusal),
    )


def _chat_call(call: Any) -> tuple[str, str]:
    custom = getattr(call, "custom", None)
    if custom:
        # The types of the SDK know custom calls in whole answers only.
        members = custom if isinstance(custom, dict) else custom.model_dump()
        return members.get("name") or "", members.get("input") or ""
    function = call.function
    return (function.name or "", function.arguments or "") if function else ("", "")


def _chat_usage(usage: Any) -> list[int | None] | None:
    return usage and counts(
        usage.prompt_tokens,
        usage.completion_tokens,
        getattr(usage.prompt_tokens_details, "cached_tokens", None),
        getattr(usage.completion_tokens_details, "reasoning_tokens", None),
    )


def _reasoning(message: Any) -> str:
    return getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""


def _responses_raw(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    texts, calls = _Texts(), list[Any]()
    for event in sdk.openai.responses.create(**body, stream=True):
        match event.type:
            case "response.output_text.delta":
                texts["text"] += event.delta
            case "response.refusal.delta":
                texts["refusal"] += event.delta
            case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
                texts["reasoning"] += event.delta
            case "response.output_item.done" if event.item.model_dump().get("status") != "incomplete":
                call = item_call(event.item)
                calls += [] if call is None else [call]
            case "response.completed" | "response.incomplete" | "response.failed":
                _responses_end(event.response, outcome, calls, texts["refusal"])
            case "error":
                # This SDK raises for other shapes of it only.
                outcome["error"] = event
        _keep(sdk, outcome, texts)
    outcome["calls"] = calls


def _responses_helper(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    ended = None
    with sdk.openai.responses.stream(**body) as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                ended = event.response
            sdk.heard()
    if ended is not None:
        _responses_object(ended, outcome)


def _responses_whole(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    _responses_object(sdk.openai.responses.create(**body), outcome)


def _responses_object(response: Any, outcome: Outcome) -> None:
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [
        part.text
        for item in response.output
        if item.type == "reasoning"
        for part in [*(item.summary or []), *(item.content or [])]
    ]
    calls = [call for item in response.output if (call := item_call(item)) is not None]
    outcome.update(
        text="".join(part.text for part in parts if part.type == "output_text"),
        refusal="".join(part.refusal for part in parts if part.type == "refusal"),
        reasoning="".join(thoughts),
        calls=calls,
    )
    _responses_end(response, outcome, calls, outcome["refusal"])


def _responses_end(response: Any, outcome: Outcome, calls: list[Any], refusal: str) -> None:
    usage = response.usage
    outcome["usage"] = usage and counts(
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.output_tokens_details.reasoning_tokens,
    )
    if response.status == "failed":
        outcome["error"] = response.error
    elif response.status == "incomplete":
        outcome["finish"] = _finish("openai_responses", response.incomplete_details.reason)
    else:
        assert response.status == "completed", response.status
        outcome["finish"] = "refusal" if refusal else "tool_intents" if calls else "stop"


def _messages_raw(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    texts, calls, open_calls = _Texts(), list[Any](), dict[int, list[str]]()
    usage: dict[str, Any] = {}
    for event in sdk.anthropic.beta.messages.create(**body, stream=True):
        match event.type:
            case "message_start":
                usage = event.message.usage.model_dump(exclude_none=True)
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                open_calls[event.index] = [block.name, json.dumps(block.input) if block.input else ""]
            case "content_block_delta" if event.delta.type == "text_delta":
                texts["text"] += event.delta.text
            case "content_block_delta" if event.delta.type == "thinking_delta":
                texts["reasoning"] += event.delta.thinking
            case "content_block_delta" if event.delta.type == "input_json_delta":
                if event.index in open_calls:
                    open_calls[event.index][1] += event.delta.partial_json
            case "content_block_stop" if event.index in open_calls:
                calls.append(call_of(*open_calls.pop(event.index)))
            case "message_delta":
                usage |= event.usage.model_dump(exclude_none=True)
                outcome["finish"] = _finish("anthropic_messages", event.delta.stop_reason)
        _keep(sdk, outcome, texts)
    outcome["calls"] = calls
    outcome["usage"] = _messages_usage(usage)


def _messages_helper(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    with sdk.anthropic.beta.messages.stream(**body) as stream:
        for _ in stream:
            _messages_object(stream.current_message_snapshot, outcome)
            sdk.heard()


def _messages_whole(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    _messages_object(sdk.anthropic.beta.messages.create(**body), outcome)


def _messages_object(message: Any, outcome: Outcome) -> None:
    def joined(kind: str) -> str:
        return "".join(getattr(block, kind) for block in message.content if block.type == kind)

    outcome.update(
        text=joined("text"),
        refusal="",
        reasoning=joined("thinking"),
        calls=[[block.name, block.input] for block in message.content if block.type == "tool_use"],
        usage=_messages_usage(message.usage.model_dump()),
        finish=_finish("anthropic_messages", message.stop_reason),
    )


def _messages_usage(usage: dict[str, Any]) -> list[int | None]:
    cached = usage.get("cache_read_input_tokens")
    details = usage.get("output_tokens_details") or {}
    return counts(
        usage["input_tokens"] + (usage.get("cache_creation_input_tokens") or 0) + (cached or 0),
        usage["output_tokens"],
        cached,
        details.get("thinking_tokens"),
    )


def _google_raw(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    chunks = list[Any]()
    for chunk in sdk.google.models.generate_content_stream(model=body["model"], contents="hi"):
        chunks.append(chunk)
        _google_outcome(chunks, outcome)
        sdk.heard()


def _google_helper(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    """A chat: what it keeps of the model's turn for the next one."""
    chat = sdk.google.chats.create(model=body["model"])
    chunks = list[Any]()
    for chunk in chat.send_message_stream("hi"):
        chunks.append(chunk)
        _google_outcome(chunks, outcome)
        sdk.heard()
    turn = [part for content in chat.get_history()[1:] for part in content.parts or []]
    kept = "".join(part.text or "" for part in turn if not part.thought)
    assert kept == outcome["text"], "the chat keeps what was said"


def _google_whole(sdk: Clients, body: dict[str, Any], outcome: Outcome) -> None:
    _google_outcome([sdk.google.models.generate_content(model=body["model"], contents="hi")], outcome)


def _google_outcome(chunks: list[Any], outcome: Outcome) -> None:
    outcome.update(google_joined(chunks))
    finish = outcome["finish"]
    if outcome.pop("blocked"):
        outcome["finish"] = "content_filter"
    elif finish is not None:
        finish = FINISHES["google_gemini"].get(finish, "other")
        outcome["finish"] = "tool_intents" if finish == "stop" and outcome["calls"] else finish


def _keep(sdk: Clients, outcome: Outcome, texts: _Texts) -> None:
    """What there is so far, for a stream that ends in an error."""
    outcome.update({key: texts[key] for key in ("text", "refusal", "reasoning")})
    sdk.heard()


def _finish(client: str, reason: str | None, refusal: str | None = None) -> str | None:
    """The reason in our words. A refusal that has a text is told by it, in OpenAI's protocols."""
    if reason is None:
        return None
    return "refusal" if refusal and reason == "stop" else FINISHES[client].get(reason, f"unknown: {reason}")


_READERS: dict[tuple[str, str], Callable[[Clients, dict[str, Any], Outcome], None]] = {
    ("openai_chat", "raw"): _chat_raw,
    ("openai_chat", "helper"): _chat_helper,
    ("openai_chat", "whole"): _chat_whole,
    ("openai_responses", "raw"): _responses_raw,
    ("openai_responses", "helper"): _responses_helper,
    ("openai_responses", "whole"): _responses_whole,
    ("anthropic_messages", "raw"): _messages_raw,
    ("anthropic_messages", "helper"): _messages_helper,
    ("anthropic_messages", "whole"): _messages_whole,
    ("google_gemini", "raw"): _google_raw,
    ("google_gemini", "helper"): _google_helper,
    ("google_gemini", "whole"): _google_whole,
}
