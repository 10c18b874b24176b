"""What the vendors' own SDKs make of a body: text, refusal, calls, usage and the reason of the end.

The SDK reads the body from a real socket, through its own client and stream parser; only its accumulator is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import cohere
import mistralai.client
import ollama
import openai
from google import genai
from openai.lib.streaming.chat import ChatCompletionStreamState

ENVELOPE = {"type", "id", "call_id", "status", "created_by", "caller"}
"""Members of a Responses item that are no part of what it asks for."""
ACTIONS = {
    "computer_call",
    "local_shell_call",
    "apply_patch_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
}
"""Responses items that are carried out by the client, where they are not hosted."""

SHOWN = 60
"""A longer value stands in the exceptions by its digest."""


class Replay:
    """An HTTP server on loopback that answers every POST with the body that was set last."""

    def __init__(self) -> None:
        self.body, self.content_type = b"", ""
        #: What was posted last, parsed.
        self.asked: Any = None
        replay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", "0")))
                replay.asked = json.loads(sent) if sent else None
                self.send_response(200)
                self.send_header("content-type", replay.content_type)
                self.send_header("content-length", str(len(replay.body)))
                self.end_headers()
                self.wfile.write(replay.body)

            def log_message(self, *args: object) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.openai = openai.OpenAI(api_key="none", base_url=url + "/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key="none", base_url=url, max_retries=0)
        self.cohere = cohere.ClientV2(api_key="none", base_url=url)
        self.mistral = mistralai.client.Mistral(api_key="none", server_url=url)
        self.ollama = ollama.Client(host=url)
        self.google = google(url)

    def answer(self, body: bytes, content_type: str = "application/json") -> None:
        """Answer with this from now on."""
        self.body, self.content_type = body, content_type

    def close(self) -> None:
        """Stop the server and both clients."""
        self.openai.close()
        self.anthropic.close()
        self.google.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def replay() -> Iterator[Replay]:
    """A server for as long as the block lasts."""
    server = Replay()
    try:
        yield server
    finally:
        server.close()


def outcome(server: Replay, protocol: str, body: bytes, streaming: bool) -> dict[str, Any]:
    """What the SDK accumulates from this body; `{"raises": name}` where it refuses it."""
    server.body = body
    server.content_type = "text/event-stream" if streaming else "application/json"
    read = {
        "openai_chat": _chat,
        "openai_responses": _responses,
        "anthropic_messages": _messages,
        "google_gemini": _google,
        "mistral_chat": _mistral,
        "cohere_chat": _cohere,
        "ollama_chat": _ollama,
    }[protocol]
    try:
        return read(server, streaming)
    except Exception as error:  # noqa: BLE001 - the SDKs let many classes through, index errors among them
        return {"raises": type(error).__name__}


def _chat(server: Replay, streaming: bool) -> dict[str, Any]:
    ask: Any = server.openai.chat.completions.create
    if streaming:
        state = ChatCompletionStreamState()
        for chunk in ask(model="m", messages=[], stream=True):
            state.handle_chunk(chunk)
        completion: Any = state.current_completion_snapshot
    else:
        completion = ask(model="m", messages=[])
    choice = completion.choices[0]
    message = choice.message
    usage = completion.usage
    return {
        "text": message.content or "",
        "refusal": message.refusal or "",
        "calls": [call_of(c.function.name, c.function.arguments) for c in message.tool_calls or []],
        "usage": usage
        and counts(
            usage.prompt_tokens,
            usage.completion_tokens,
            getattr(usage.prompt_tokens_details, "cached_tokens", None),
            getattr(usage.completion_tokens_details, "reasoning_tokens", None),
        ),
        "finish": choice.finish_reason,
    }


def _responses(server: Replay, streaming: bool) -> dict[str, Any]:
    if streaming:
        response: Any = None
        with server.openai.responses.stream(model="m", input="") as stream:
            for event in stream:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    response = event.response
    else:
        response = server.openai.responses.create(model="m", input="")
    parts = [p for item in response.output if item.type == "message" for p in item.content]
    usage = response.usage
    return {
        "text": "".join(p.text for p in parts if p.type == "output_text"),
        "refusal": "".join(p.refusal for p in parts if p.type == "refusal"),
        "calls": [call for item in response.output if (call := item_call(item)) is not None],
        "usage": usage
        and counts(
            usage.input_tokens,
            usage.output_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens_details.reasoning_tokens,
        ),
        "finish": response.incomplete_details.reason if response.incomplete_details else response.status,
    }


def item_call(item: Any) -> list[Any] | None:
    if item.type == "function_call":
        # In one name with its namespace, but where that is its own.
        namespace = getattr(item, "namespace", None)
        name = f"{namespace}__{item.name}" if namespace and namespace != item.name else item.name
        return call_of(name, item.arguments)
    if item.type == "custom_tool_call":
        return [item.name, item.input]
    environment = getattr(item, "environment", None)
    hosted = getattr(item, "execution", None) == "server" or getattr(environment, "type", None) == "container_reference"
    if item.type not in ACTIONS or hosted:
        return None
    members = item.model_dump(mode="json", exclude_unset=True)
    return [item.type, {k: v for k, v in members.items() if k not in ENVELOPE}]


def _messages(server: Replay, streaming: bool) -> dict[str, Any]:
    messages: Any = server.anthropic.beta.messages
    if streaming:
        with messages.stream(max_tokens=1, model="m", messages=[]) as stream:
            message = stream.get_final_message()
    else:
        message = messages.create(max_tokens=1, model="m", messages=[])
    usage = message.usage
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "refusal": "",
        "calls": [[block.name, block.input] for block in message.content if block.type == "tool_use"],
        "usage": counts(
            usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0),
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens_details and usage.output_tokens_details.thinking_tokens,
        ),
        "finish": message.stop_reason,
    }


def google(url: str, key: str = "none") -> genai.Client:
    """Google's client, which does not try again."""
    options = genai.types.HttpOptions(
        base_url=url, timeout=20_000, retry_options=genai.types.HttpRetryOptions(attempts=1)
    )
    return genai.Client(api_key=key, http_options=options)


def _google(server: Replay, streaming: bool) -> dict[str, Any]:
    """The SDK has no accumulator: its typed chunks are put together here."""
    ask = {"model": "m", "contents": "hi"}
    models = server.google.models
    chunks = models.generate_content_stream(**ask) if streaming else [models.generate_content(**ask)]
    return google_joined(chunks)


def google_joined(chunks: Any) -> dict[str, Any]:
    """What Google's chunks come to. `finish` is the last word for the end."""
    text, reasoning, calls, usage, finish, blocked = "", "", list[Any](), None, None, False
    for chunk in chunks:
        usage = google_usage(chunk.usage_metadata) or usage
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            finish, blocked = str(chunk.prompt_feedback.block_reason.value), True
        for candidate in (chunk.candidates or [])[:1]:
            finish = str(candidate.finish_reason.value) if candidate.finish_reason else finish
            for part in (candidate.content and candidate.content.parts) or []:
                if part.thought:
                    reasoning += part.text or ""
                else:
                    text += part.text or ""
                if part.function_call:
                    calls.append([part.function_call.name, part.function_call.args or {}])
    return {
        "text": text,
        "refusal": "",
        "reasoning": reasoning,
        "calls": calls,
        "usage": usage,
        "finish": finish,
        "blocked": blocked,
    }


def google_usage(usage: Any) -> list[int | None] | None:
    if usage is None or (usage.prompt_token_count is None and usage.candidates_token_count is None):
        return None
    thoughts = usage.thoughts_token_count
    return counts(
        (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        (usage.candidates_token_count or 0) + (thoughts or 0),
        usage.cached_content_token_count,
        thoughts,
    )


def _mistral(server: Replay, streaming: bool) -> dict[str, Any]:
    """The SDK has no accumulator: its typed chunks are put together here."""
    chat = server.mistral.chat
    text, calls, usage, finish = "", dict[Any, list[str]](), None, None
    chunks: Any = (
        (event.data for event in chat.stream(model="m", messages=[]))
        if streaming
        else [chat.complete(model="m", messages=[])]
    )
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            delta = choice.delta if streaming else choice.message
            content = delta.content or ""
            parts = [content] if isinstance(content, str) else [getattr(part, "text", "") for part in content]
            text += "".join(part for part in parts if isinstance(part, str))
            for call in delta.tool_calls or []:
                entry = calls.setdefault(call.index if streaming else len(calls), ["", ""])
                arguments = call.function.arguments
                entry[0] = call.function.name or entry[0]
                entry[1] += arguments if isinstance(arguments, str) else json.dumps(arguments)
            finish = choice.finish_reason or finish
    return {
        "text": text,
        "refusal": "",
        "calls": [call_of(*entry) for entry in calls.values()],
        "usage": usage
        and counts(usage.prompt_tokens, usage.completion_tokens, _cached(usage.model_dump(exclude_none=True)), None),
        "finish": finish,
    }


def _cached(usage: dict[str, Any]) -> int | None:
    """Counts that the SDK has no type for, and keeps as they came."""
    details = usage.get("prompt_tokens_details") or usage.get("prompt_token_details") or {}
    return details.get("cached_tokens", usage.get("num_cached_tokens"))


def _cohere(server: Replay, streaming: bool) -> dict[str, Any]:
    """The SDK has no accumulator: its typed events are put together here."""
    text, calls, usage, finish = "", dict[Any, list[str]](), None, None
    if streaming:
        for event in server.cohere.chat_stream(model="m", messages=[]):
            delta: Any = getattr(event, "delta", None)
            match event.type:
                case "content-delta":
                    text += delta.message.content.text or ""
                case "tool-call-start":
                    function = delta.message.tool_calls.function
                    calls[event.index] = [function.name, function.arguments]
                case "tool-call-delta":
                    calls[event.index][1] += delta.message.tool_calls.function.arguments
                case "message-end":
                    usage, finish = delta.usage, delta.finish_reason
    else:
        answer = server.cohere.chat(model="m", messages=[])
        usage, finish = answer.usage, answer.finish_reason
        text = "".join(part.text for part in answer.message.content or [] if part.type == "text")
        for at, call in enumerate(answer.message.tool_calls or []):
            calls[at] = [call.function.name, call.function.arguments]
    tokens = usage and usage.tokens
    return {
        "text": text,
        "refusal": "",
        "calls": [call_of(*entry) for entry in calls.values()],
        "usage": tokens
        and counts(
            int(tokens.input_tokens),
            int(tokens.output_tokens),
            usage.cached_tokens if usage.cached_tokens is None else int(usage.cached_tokens),
            getattr(tokens, "reasoning_tokens", None),
        ),
        "finish": finish,
    }


def _ollama(server: Replay, streaming: bool) -> dict[str, Any]:
    """The SDK has no accumulator: its typed lines are put together here."""
    ask: Any = server.ollama.chat
    lines = ask(model="m", messages=[], stream=True) if streaming else [ask(model="m", messages=[])]
    text, calls, last = "", list[Any](), None
    for line in lines:
        text += line.message.content or ""
        calls += [[call.function.name, dict(call.function.arguments)] for call in line.message.tool_calls or []]
        last = line
    return {
        "text": text,
        "refusal": "",
        "calls": calls,
        "usage": last and counts(last.prompt_eval_count, last.eval_count, None, None),
        "finish": last and last.done_reason,
    }


def call_of(name: str | None, arguments: str | None) -> list[Any]:
    """Name and parsed arguments; the text itself where it is not JSON."""
    try:
        return [name, json.loads(arguments or "{}")]
    except ValueError:
        return [name, arguments]


def counts(*numbers: int | None) -> list[int | None]:
    """Input, output, cached input, reasoning."""
    return list(numbers)


def shown(value: Any) -> Any:
    """The value, or the digest of a long one."""
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= SHOWN else "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]
