"""The streams of Bedrock's two families that we wrote ourselves, in readable form.

`python -m tests.support.bedrock_fixtures` writes their bytes below `tests/fixtures/streams`; a test compares them.
"""

from __future__ import annotations

import json
import pathlib
import struct
import zlib
from typing import Any

from tests.support.eventstream import chunk, error, event, exception, message

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "streams"

START = event("messageStart", {"role": "assistant", "p": "abc"})
USAGE = {"inputTokens": 12, "outputTokens": 7, "totalTokens": 19}
METADATA = event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 40}, "p": "abcdef"})


def delta(index: int, what: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": what, "p": "abcde"})


def text(index: int, *pieces: str) -> bytes:
    return b"".join(delta(index, {"text": piece}) for piece in pieces)


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index, "p": "ab"})


def call(index: int, call_id: str, name: str, *pieces: str, kind: str | None = None) -> bytes:
    use = {"toolUseId": call_id, "name": name} | ({"type": kind} if kind else {})
    began = event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})
    return began + b"".join(delta(index, {"toolUse": {"input": piece}}) for piece in pieces)


def end(reason: str) -> bytes:
    return event("messageStop", {"stopReason": reason}) + METADATA


def whole(content: list[Any], reason: str = "end_turn", **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    body = {"output": {"message": message}, "stopReason": reason, "usage": USAGE, "metrics": {"latencyMs": 5}} | more
    return json.dumps(body).encode()


def reasoning(index: int, *parts: dict[str, str]) -> bytes:
    return b"".join(delta(index, {"reasoningContent": part}) for part in parts)


WEB = {"title": "Tides", "location": {"web": {"url": "https://tide.example/dorn", "domain": "tide.example"}}}
PAGE = {"location": {"documentPage": {"documentIndex": 0, "start": 2, "end": 3}}, "sourceContent": [{"text": "ebb"}]}
RESULT = {"toolUseId": "srv_1", "type": "tide_interpreter_result", "status": "success"}

PRELUDE = struct.pack(">II", 1 << 30, 0)
GIBIBYTE = PRELUDE + struct.pack(">I", zlib.crc32(PRELUDE))
"""The first bytes of a message that claims to be so long."""

CONVERSE: dict[str, bytes] = {
    "ok/text.eventstream": START + text(0, "High ", "water ", "at ", "noon.") + stop(0) + end("end_turn"),
    "ok/no-metadata.eventstream": START
    + text(0, "High water.")
    + stop(0)
    + event("messageStop", {"stopReason": "stop_sequence"}),
    "ok/reasoning-signed-in-pieces.eventstream": START
    + reasoning(0, {"text": "The tide "}, {"text": "turns."}, {"signature": "Eg=="}, {"signature": "ab=="})
    + stop(0)
    + text(1, "It turns.")
    + stop(1)
    + end("end_turn"),
    "ok/redacted-reasoning.eventstream": START
    + reasoning(0, {"redactedContent": "b25l"})
    + stop(0)
    + reasoning(1, {"redactedContent": "dHdv"}, {"redactedContent": "dGhyZWU="}, {"redactedContent": "IQ=="})
    + stop(1)
    + text(2, "No comment.")
    + stop(2)
    + end("end_turn"),
    "ok/two-calls.eventstream": START
    + text(0, "I look it up.")
    + stop(0)
    + call(1, "tooluse_a", "lookup_tide", "", '{"po', 'rt":"Dorn"}', kind="tool_use")
    + stop(1)
    + call(2, "tooluse_b", "lookup_tide", '{"port":"Wick"}')
    + stop(2)
    + end("tool_use"),
    "ok/call-without-arguments.eventstream": START
    + call(0, "tooluse_a", "now")
    + stop(0)
    + call(1, "tooluse_b", "now", "")
    + stop(1)
    + end("tool_use"),
    "ok/limit-before-the-first-argument.eventstream": START
    + call(0, "tooluse_a", "now", "{}")
    + stop(0)
    + call(1, "tooluse_b", "now")
    + stop(1)
    + end("max_tokens"),
    "ok/limit-inside-the-arguments.eventstream": START
    + call(0, "tooluse_a", "lookup_tide", '{"port":"Do')
    + end("model_context_window_exceeded"),
    "ok/tools-of-the-service.eventstream": START
    + call(0, "srv_1", "tide_interpreter", '{"snippet":', '"1+1"}', kind="server_tool_use")
    + stop(0)
    + event("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolResult": RESULT}})
    + delta(1, {"toolResult": [{"json": {"stdOut": "2"}}]})
    + delta(1, {"toolResult": [{"text": "done"}]})
    + stop(1)
    + event(
        "contentBlockStart",
        {
            "contentBlockIndex": 2,
            "start": {"toolResult": {"toolUseId": "srv_9", "type": "other_result", "status": "error"}},
        },
    )
    + stop(2)
    + text(3, "Two.")
    + stop(3)
    + end("end_turn"),
    "ok/citations.eventstream": START
    + delta(0, {"citation": WEB})
    + text(0, "Ebb ")
    + delta(0, {"citation": PAGE})
    + text(0, "at noon.")
    + stop(0)
    + end("end_turn"),
    "ok/image.eventstream": START
    + event("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}})
    + delta(0, {"image": {"source": {"bytes": "iVBORw0K"}}})
    + delta(0, {"image": {"source": {"bytes": "GgoAAAAN"}}})
    + stop(0)
    + end("end_turn"),
    "ok/guardrail-with-trace.eventstream": START
    + text(0, "Blocked.")
    + stop(0)
    + event("messageStop", {"stopReason": "guardrail_intervened"})
    + event("metadata", {"usage": USAGE, "trace": {"guardrail": {"modelOutput": ["x"], "actionReason": "topic"}}}),
    "ok/cache-counts.eventstream": START
    + text(0, "Ok.")
    + stop(0)
    + event("messageStop", {"stopReason": "end_turn"})
    + event("metadata", {"usage": USAGE | {"cacheReadInputTokens": 900, "cacheWriteInputTokens": 100}}),
    "ok/surrogates-over-deltas.eventstream": START
    + text(0, "wave ")
    + event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\\ud83c"}}')
    + event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\\udf0a ends"}}')
    + event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":" \\ud83c"}}')
    + stop(0)
    + end("end_turn"),
    "ok/unknown-events-are-passed-over.eventstream": event("initial-response", b"")
    + START
    + event("somethingNew", {"contentBlockIndex": 0, "delta": {"text": "no"}})
    + delta(0, {"somethingNew": {"text": "no"}})
    + event("contentBlockStart", {"contentBlockIndex": 4, "start": {"somethingNew": {}}})
    + text(0, "Yes.")
    + message({":message-type": "event"}, b"{}")
    + stop(0)
    + end("something_new"),
    "ok/whole-text.json": whole([{"text": "High water at noon."}]),
    "ok/whole-everything.json": whole(
        [
            {"reasoningContent": {"reasoningText": {"text": "The tide turns.", "signature": "Eg=="}}},
            {"reasoningContent": {"redactedContent": "b25l"}},
            {"text": "I look it up."},
            {"citationsContent": {"content": [{"text": "Ebb."}], "citations": [WEB, PAGE]}},
            {"image": {"format": "jpeg", "source": {"bytes": "/9j/"}}},
            {"toolUse": {"toolUseId": "srv_1", "name": "tide_interpreter", "input": {}, "type": "server_tool_use"}},
            {"toolResult": RESULT | {"content": [{"text": "2"}]}},
            {"toolUse": {"toolUseId": "tooluse_a", "name": "lookup_tide", "input": {"port": "Dorn"}}},
            {"toolUse": {"toolUseId": "tooluse_b", "name": "now", "input": {}}},
        ],
        "tool_use",
    ),
    "ok/whole-at-the-limit.json": whole(
        [
            {"toolUse": {"toolUseId": "tooluse_a", "name": "now", "input": {}}},
            {"toolUse": {"toolUseId": "tooluse_b", "name": "now", "input": {}}},
        ],
        "max_tokens",
        trace={"guardrail": {"actionReason": "none"}},
    ),
    "bad/throttled.eventstream": START
    + text(0, "High ")
    + exception("throttlingException", {"message": "Too many tokens, please wait before trying again."}),
    "bad/model-stream-error.eventstream": START
    + text(0, "High ")
    + exception(
        "modelStreamErrorException", {"message": "gone", "originalStatusCode": 500, "originalMessage": "worker died"}
    ),
    "bad/validation.eventstream": exception("validationException", {"message": "Input is too long for this model."}),
    "bad/unavailable.eventstream": START + exception("serviceUnavailableException", {"message": "busy"}),
    "bad/internal.eventstream": START + text(0, "Hi") + exception("internalServerException", {"message": "oops"}),
    "bad/error-message.eventstream": START + error("InternalError", "An internal server error occurred"),
    "bad/cut-in-a-message.eventstream": (START + text(0, "High water") + stop(0) + end("end_turn"))[:-20],
    "bad/cut-between-messages.eventstream": START + text(0, "High water"),
    "bad/left-over-bytes.eventstream": START
    + text(0, "High water")
    + stop(0)
    + event("messageStop", {"stopReason": "end_turn"})
    + METADATA[:30],
    "bad/checksum.eventstream": START + text(0, "High")[:-1] + b"\0",
    "bad/a-gibibyte.eventstream": START + GIBIBYTE,
    "bad/not-json.eventstream": START + event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hi"'),
    "bad/call-is-no-object.eventstream": START + call(0, "tooluse_a", "now", "[1]") + stop(0) + end("tool_use"),
    "bad/says-tools-and-sends-none.eventstream": START + text(0, "Hm.") + stop(0) + end("tool_use"),
    "bad/malformed-by-its-own-word.eventstream": START
    + call(0, "tooluse_a", "now", '{"po')
    + end("malformed_tool_use"),
    "bad/malformed-output.eventstream": START + text(0, "##") + stop(0) + end("malformed_model_output"),
    "bad/message-with-status-200.json": b'{"message":"The security token included in the request is expired",'
    b'"__type":"ExpiredTokenException"}',
    "hostile/wrong-types.eventstream": START
    + event("contentBlockDelta", {"contentBlockIndex": "0", "delta": {"text": 4, "toolUse": 3}})
    + event("contentBlockStart", {"contentBlockIndex": {}, "start": []})
    + event("contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": 3, "name": []}}})
    + delta(1, {"toolUse": {"input": {"port": 1}}})
    + stop(1)
    + event("contentBlockStop", [])
    + end("end_turn"),
    "hostile/after-the-end.eventstream": START
    + text(0, "One.")
    + stop(0)
    + end("end_turn")
    + text(1, "Two.")
    + exception("throttlingException", {"message": "late"}),
    "hostile/one-index-for-every-block.eventstream": START
    + text(0, "One")
    + call(0, "tooluse_a", "now", "{}")
    + stop(0)
    + text(0, " two")
    + stop(0)
    + stop(0)
    + end("tool_use"),
    "hostile/a-union-of-several.eventstream": START
    + delta(0, {"text": "said", "reasoningContent": {"text": "thought"}})
    + delta(0, {"text": " on"})
    + stop(0)
    + end("end_turn"),
}

CLAUDE = {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
METRICS = {"inputTokenCount": 12, "outputTokenCount": 7, "invocationLatency": 9, "firstByteLatency": 3}


def claude(*events: Any) -> bytes:
    began = {"type": "message_start", "message": CLAUDE | {"usage": {"input_tokens": 12, "output_tokens": 1}}}
    return chunk(began) + b"".join(chunk(one) for one in events)


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def said(*pieces: str) -> list[dict[str, Any]]:
    return block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def ended(reason: str) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
    ]


CALL = block(
    1,
    {"type": "tool_use", "id": "toolu_1", "name": "lookup_tide", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"port":'},
    {"type": "input_json_delta", "partial_json": '"Dorn"}'},
)
THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "The tide "},
    {"type": "thinking_delta", "thinking": "turns."},
    {"type": "signature_delta", "signature": "Eg=="},
)
CHAT = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "oss", "created": 1}


def chat(*deltas: dict[str, Any], reason: str) -> bytes:
    chunks = [CHAT | {"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas]
    chunks.append(
        CHAT
        | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "amazon-bedrock-invocationMetrics": METRICS}
    )
    return b"".join(chunk(one) for one in chunks)


INVOKE: dict[str, bytes] = {
    "ok/messages-text.eventstream": claude(*said("High ", "water ", "at ", "noon."), *ended("end_turn")),
    "ok/messages-thinking.eventstream": claude(*THOUGHT, *ended("end_turn")),
    "ok/messages-call.eventstream": claude(*said("I look."), *CALL, *ended("tool_use")),
    "ok/messages-limit.eventstream": claude(*said("I lo"), *ended("max_tokens")),
    "ok/messages-surrogates.eventstream": claude(*said("wave "))[: -len(chunk(said("")[-1]))]
    + chunk(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud83c"}}')
    + chunk(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\udf0a"}}')
    + b"".join(chunk(one) for one in [said("")[-1], *ended("end_turn")]),
    "ok/converse-inside.eventstream": b"".join(
        chunk(one)
        for one in [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"delta": {"text": "High"}, "contentBlockIndex": 0}},
            {"contentBlockDelta": {"delta": {"text": " water"}, "contentBlockIndex": 0}},
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadInputTokenCount": 3}}},
        ]
    ),
    "ok/chat-inside.eventstream": chat({"role": "assistant", "content": ""}, {"content": "High"}, reason="stop"),
    "ok/completions.eventstream": chunk({"completion": " High", "stop_reason": None, "stop": None})
    + chunk({"completion": " water", "stop_reason": None, "stop": None})
    + chunk(
        {"completion": "", "stop_reason": "stop_sequence", "stop": "x", "amazon-bedrock-invocationMetrics": METRICS}
    ),
    "ok/command.eventstream": chunk({"is_finished": False, "text": " High"})
    + chunk({"is_finished": True, "finish_reason": "COMPLETE", "amazon-bedrock-invocationMetrics": METRICS}),
    "ok/generation.eventstream": chunk({"generation": "High", "prompt_token_count": 5, "stop_reason": None})
    + chunk({"generation": " water", "generation_token_count": 2, "stop_reason": "length"}),
    "ok/output-text.eventstream": chunk({"outputText": "High", "index": 0, "completionReason": None})
    + chunk({"outputText": " water", "index": 0, "completionReason": "FINISH", "inputTextTokenCount": 4}),
    "ok/outputs.eventstream": chunk({"outputs": [{"text": "High", "stop_reason": None}]})
    + chunk({"outputs": [{"text": " water", "stop_reason": "stop"}], "amazon-bedrock-invocationMetrics": METRICS}),
    "ok/whole-messages.json": json.dumps(
        CLAUDE
        | {
            "content": [
                {"type": "text", "text": "High water."},
                CALL[0]["content_block"] | {"input": {"port": "Dorn"}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 12, "output_tokens": 7},
        }
    ).encode(),
    "ok/whole-converse.json": whole([{"text": "High water."}]),
    "ok/whole-results.json": json.dumps(
        {
            "inputTextTokenCount": 4,
            "results": [{"tokenCount": 2, "outputText": "High water", "completionReason": "LENGTH"}],
        }
    ).encode(),
    "ok/whole-generations.json": json.dumps(
        {"generations": [{"text": "High", "finish_reason": "COMPLETE"}, {"text": "Low", "finish_reason": "COMPLETE"}]}
    ).encode(),
    "bad/model-timeout.eventstream": claude(*said("High"))
    + exception("modelTimeoutException", {"message": "Model timed out"}),
    "bad/throttled.eventstream": exception("throttlingException", {"message": "Too many requests"}),
    "bad/messages-error.eventstream": claude(
        *said("High"), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ),
    "bad/not-base64.eventstream": event("chunk", {"bytes": "###"}),
    "bad/not-json-inside.eventstream": claude(*said("High")) + chunk(b'{"type":"content_block_delta"'),
    "bad/cut.eventstream": claude(*said("High"), *ended("end_turn"))[:-200],
    "bad/no-end.eventstream": chunk({"completion": " High", "stop_reason": None}),
    "bad/ends-in-error.eventstream": chunk({"is_finished": True, "finish_reason": "ERROR"}),
    "bad/whole-without-an-end.json": b'{"message":"Malformed input request: extraneous key"}',
    "hostile/formats-change.eventstream": claude(*said("High"))
    + chunk({"completion": " no", "stop_reason": "stop_sequence"})
    + chunk({"contentBlockDelta": {"delta": {"text": "no"}, "contentBlockIndex": 0}})
    + b"".join(chunk(one) for one in ended("end_turn")),
    "hostile/frames-of-other-kinds.eventstream": event("trace", {"guardrail": {}})
    + event("chunk", {"bytes": None})
    + chunk(b"")
    + claude(*said("High"), *ended("end_turn")),
}

FIXTURES = {"bedrock_converse": CONVERSE, "bedrock_invoke": INVOKE}


def main() -> None:
    for family, streams in FIXTURES.items():
        for name, body in streams.items():
            path = ROOT / family / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


if __name__ == "__main__":
    main()
