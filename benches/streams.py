"""Deterministic streams in the shapes that vendors send today, and what each must decode to.

1. The same name gives the same bytes, on every machine.
2. The expected text, reasoning and calls are kept beside the bytes as they are made; a bench compares
   them with what a subject decoded before it takes a time.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Any

from benches import bedrock

_PROSE = (
    "water runs along the race and turns the wheel while the miller counts sacks of flour by hand and "
    "hears rain on the slate roof above naïve café übung 水 流れ 🚀 every stream finds its own level in time"
)
WORDS = tuple(_PROSE.split())
DELTAS = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """One provider's answer: its protocol, its events as bytes, and what they say."""

    name: str
    protocol: str
    events: tuple[bytes, ...]
    text: str
    reasoning: str
    calls: tuple[tuple[str, Any], ...]

    @property
    def body(self) -> bytes:
        """The events joined, as one burst brings them."""
        return b"".join(self.events)


class _Maker:
    """Seeded randomness in the few forms that streams need."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)  # noqa: S311 - repeatable text, no secret

    def ident(self, length: int) -> str:
        return "".join(self._random.choices(string.ascii_letters + string.digits, k=length))

    def tokens(self, count: int) -> list[str]:
        """Word-like pieces, some with quotes, line ends or backslashes in them as code has."""
        return [self._token() for _ in range(count)]

    def _token(self) -> str:
        word, kind = self._random.choice(WORDS), self._random.random()
        odd, quoted, escaped = 0.03, 0.06, 0.08  # of a hundred pieces, as code has them
        if kind < odd:
            return "\n\n"
        if kind < quoted:
            return f' "{word}"'
        return f"\\{word}" if kind < escaped else f" {word}"

    def pieces(self, text: str, count: int) -> list[str]:
        cuts = [0, *sorted(self._random.sample(range(1, len(text)), count - 1)), len(text)]
        return [text[a:b] for a, b in itertools.pairwise(cuts)]

    def arguments(self, count: int) -> tuple[str, list[str]]:
        """The text of one call's arguments, and the same in `count` pieces."""
        value = {"path": f"mill/{self.ident(8)}.py", "line": len(self.ident(9)), "content": "".join(self.tokens(count))}
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text, self.pieces(text, count)


def _sse(value: dict[str, Any], *, named: bool = False) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {value['type']}\ndata: {data}\n\n" if named else f"data: {data}\n\n").encode()


def _chat(make: _Maker) -> Callable[..., bytes]:
    answer, print_ = "chatcmpl-" + make.ident(29), "fp_" + make.ident(10)

    def chunk(delta: dict[str, Any] | None, finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse(
            {
                "id": answer,
                "object": "chat.completion.chunk",
                "created": 1764400000,
                "model": "bench-model-2026-01-01",
                "service_tier": "default",
                "system_fingerprint": print_,
                "choices": [] if delta is None else [choice],
                "usage": usage,
                "obfuscation": make.ident(9),
            }
        )

    return chunk


_CHAT_USAGE = {"prompt_tokens": 40, "completion_tokens": 2000, "total_tokens": 2040}


def _chat_text(make: _Maker) -> Stream:
    chunk, tokens = _chat(make), make.tokens(DELTAS)
    events = [chunk({"role": "assistant", "content": "", "refusal": None}), *(chunk({"content": t}) for t in tokens)]
    events += [chunk({}, "stop"), chunk(None, usage=_CHAT_USAGE), b"data: [DONE]\n\n"]
    return Stream("openai_chat_text", "openai_chat", tuple(events), "".join(tokens), "", ())


def _chat_tools(make: _Maker) -> Stream:
    chunk, calls = _chat(make), []
    events = [chunk({"role": "assistant", "content": None})]
    for index in range(4):
        text, pieces = make.arguments(DELTAS // 4)
        opened = {
            "id": "call_" + make.ident(24),
            "type": "function",
            "function": {"name": "write_file", "arguments": ""},
        }
        events.append(chunk({"tool_calls": [{"index": index, **opened}]}))
        events += (chunk({"tool_calls": [{"index": index, "function": {"arguments": p}}]}) for p in pieces)
        calls.append(("write_file", json.loads(text)))
    events += [chunk({}, "tool_calls"), chunk(None, usage=_CHAT_USAGE), b"data: [DONE]\n\n"]
    return Stream("openai_chat_tools", "openai_chat", tuple(events), "", "", tuple(calls))


def _message_events(make: _Maker) -> tuple[list[dict[str, Any]], tuple[str, str, tuple[tuple[str, Any], ...]]]:
    thoughts, tokens = make.tokens(DELTAS // 4), make.tokens(DELTAS // 2)
    text, pieces = make.arguments(DELTAS // 4)
    usage = {"input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message = {
        "id": "msg_" + make.ident(24),
        "type": "message",
        "role": "assistant",
        "model": "bench-model",
        "content": [],
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        *(_delta(0, {"type": "thinking_delta", "thinking": t}) for t in thoughts),
        _delta(0, {"type": "signature_delta", "signature": make.ident(300)}),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(_delta(1, {"type": "text_delta", "text": t}) for t in tokens),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "toolu_" + make.ident(24), "name": "write_file", "input": {}},
        },
        *(_delta(2, {"type": "input_json_delta", "partial_json": p}) for p in pieces),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 2000},
        },
        {"type": "message_stop"},
    ]
    calls = (("write_file", json.loads(text)),)
    return events, ("".join(tokens), "".join(thoughts), calls)


def _messages(make: _Maker) -> Stream:
    events, said = _message_events(make)
    return Stream("anthropic_messages", "anthropic_messages", tuple(_sse(e, named=True) for e in events), *said)


def _invoke(make: _Maker) -> Stream:
    events, said = _message_events(make)
    return Stream("bedrock_invoke", "bedrock_invoke", bedrock.invoke(events), *said)


def _converse(make: _Maker) -> Stream:
    thoughts, tokens = make.tokens(DELTAS // 4), make.tokens(DELTAS // 2)
    text, pieces = make.arguments(DELTAS // 4)
    wire = bedrock.converse(thoughts, tokens, pieces, make.ident)
    calls = (("write_file", json.loads(text)),)
    return Stream("bedrock_converse", "bedrock_converse", wire, "".join(tokens), "".join(thoughts), calls)


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _responses(make: _Maker) -> Stream:
    tokens = make.tokens(DELTAS * 3 // 4)
    text, pieces = make.arguments(DELTAS // 4)
    message_id, call_id = "msg_" + make.ident(48), "fc_" + make.ident(48)
    response = {"id": "resp_" + make.ident(48), "object": "response", "created_at": 1764400000, "model": "bench-model"}
    message = {"id": message_id, "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    done_part = {**part, "text": "".join(tokens)}
    call = {"id": call_id, "type": "function_call", "call_id": "call_" + make.ident(24), "name": "write_file"}
    here: dict[str, Any] = {"item_id": message_id, "output_index": 0, "content_index": 0}
    there: dict[str, Any] = {"item_id": call_id, "output_index": 1}
    items = [
        {**message, "status": "completed", "content": [done_part]},
        {**call, "status": "completed", "arguments": text},
    ]
    usage = {
        "input_tokens": 40,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2000,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2040,
    }

    def events() -> Iterator[dict[str, Any]]:
        start = {**response, "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": start}
        yield {"type": "response.in_progress", "response": start}
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**message, "status": "in_progress"}}
        yield {"type": "response.content_part.added", **here, "part": part}
        for token in tokens:
            yield {
                "type": "response.output_text.delta",
                **here,
                "delta": token,
                "logprobs": [],
                "obfuscation": make.ident(9),
            }
        yield {"type": "response.output_text.done", **here, "text": done_part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **here, "part": done_part}
        yield {"type": "response.output_item.done", "output_index": 0, "item": items[0]}
        opened = {**call, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": 1, "item": opened}
        for piece in pieces:
            yield {
                "type": "response.function_call_arguments.delta",
                **there,
                "delta": piece,
                "obfuscation": make.ident(9),
            }
        yield {"type": "response.function_call_arguments.done", **there, "arguments": text}
        yield {"type": "response.output_item.done", "output_index": 1, "item": items[1]}
        yield {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": items, "usage": usage},
        }

    wire = tuple(_sse({**e, "sequence_number": n}, named=True) for n, e in enumerate(events()))
    return Stream(
        "openai_responses", "openai_responses", wire, "".join(tokens), "", (("write_file", json.loads(text)),)
    )


def _cohere(make: _Maker) -> Stream:
    """Version 2 of Cohere's chat: thinking, text, one call in pieces."""
    thoughts, tokens = make.tokens(DELTAS // 4), make.tokens(DELTAS // 2)
    text, pieces = make.arguments(DELTAS // 4)

    def part(index: int, kind: str, text: str, event: str = "content-delta") -> dict[str, Any]:
        content = {kind: text} if event == "content-delta" else {"type": kind, kind: text}
        return {"type": event, "index": index, "delta": {"message": {"content": content}}}

    def call(event: str, content: dict[str, Any]) -> dict[str, Any]:
        return {"type": event, "index": 0, "delta": {"message": {"tool_calls": content}}}

    function = {"name": "write_file", "arguments": ""}
    usage = {"billed_units": {"input_tokens": 40, "output_tokens": 2000}, "tokens": {"input_tokens": 400}}
    events = [
        {"type": "message-start", "id": make.ident(36), "delta": {"message": {"role": "assistant", "content": []}}},
        part(0, "thinking", "", "content-start"),
        *(part(0, "thinking", piece) for piece in thoughts),
        {"type": "content-end", "index": 0},
        part(1, "text", "", "content-start"),
        *(part(1, "text", piece) for piece in tokens),
        {"type": "content-end", "index": 1},
        call("tool-call-start", {"id": "write_file_" + make.ident(12), "type": "function", "function": function}),
        *(call("tool-call-delta", {"function": {"arguments": piece}}) for piece in pieces),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": usage}},
    ]
    wire = tuple(_sse(event, named=True) for event in events)
    calls = (("write_file", json.loads(text)),)
    return Stream("cohere_chat", "cohere_chat", wire, "".join(tokens), "".join(thoughts), calls)


def _ollama(make: _Maker) -> Stream:
    """Lines of Ollama's chat: thinking, text, one call, the counts."""
    thoughts, tokens = make.tokens(DELTAS // 4), make.tokens(DELTAS * 3 // 4)
    text, _ = make.arguments(DELTAS // 8)
    head = {"model": "tern:4b", "created_at": "2026-08-05T08:11:02.806664Z"}

    def line(message: dict[str, Any], **more: Any) -> bytes:
        value = {**head, "message": {"role": "assistant", **message}, "done": False, **more}
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    call = {"id": "call_" + make.ident(8), "function": {"name": "write_file", "arguments": json.loads(text)}}
    wire = (
        *(line({"content": "", "thinking": piece}) for piece in thoughts),
        *(line({"content": piece}) for piece in tokens),
        line({"content": "", "tool_calls": [call]}),
        line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=40, eval_count=2000),
    )
    calls = (("write_file", json.loads(text)),)
    return Stream("ollama_chat", "ollama_chat", wire, "".join(tokens), "".join(thoughts), calls)


def _gemini(make: _Maker) -> Stream:
    """Chunks of Gemini: thoughts, text with the counts in every chunk, one signed call."""
    thoughts, tokens = make.tokens(DELTAS // 4), make.tokens(DELTAS * 3 // 4)
    text, _ = make.arguments(DELTAS // 8)
    answer = make.ident(23)

    def chunk(part: dict[str, Any], at: int, **more: Any) -> bytes:
        usage = {
            "promptTokenCount": 40,
            "candidatesTokenCount": at,
            "totalTokenCount": 40 + at,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 40}],
        }
        candidate = {"content": {"parts": [part], "role": "model"}, **more, "index": 0}
        return _sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "tern-4", "responseId": answer})

    call = {"functionCall": {"name": "write_file", "args": json.loads(text)}, "thoughtSignature": make.ident(400)}
    wire = (
        *(chunk({"text": piece, "thought": True}, at) for at, piece in enumerate(thoughts)),
        *(chunk({"text": piece}, at) for at, piece in enumerate(tokens)),
        chunk(call, 1999),
        chunk({"text": ""}, 2000, finishReason="STOP"),
    )
    calls = (("write_file", json.loads(text)),)
    return Stream("google_gemini", "google_gemini", wire, "".join(tokens), "".join(thoughts), calls)


_MAKERS = {
    "openai_chat_text": _chat_text,
    "openai_chat_tools": _chat_tools,
    "anthropic_messages": _messages,
    "openai_responses": _responses,
    "bedrock_converse": _converse,
    "bedrock_invoke": _invoke,
}
NAMES = tuple(_MAKERS)
"""The streams that every bench has."""

_FURTHER = {"google_gemini": _gemini, "cohere_chat": _cohere, "ollama_chat": _ollama}
FURTHER = tuple(_FURTHER)
"""One stream of each further family, for the codec's bench."""


@functools.cache
def stream(name: str) -> Stream:
    """The stream of that name; one of `NAMES` or `FURTHER`."""
    return {**_MAKERS, **_FURTHER}[name](_Maker(name))
