"""One subject reads one stream over loopback: `python -m benches.sdk_subjects SUBJECT STREAM PORT`.

Prints JSON: `answer`, the text, the reasoning and the calls that it read, and `seconds`, the CPU of this process for
one reading in which every event is only looked at. The peers stand in an environment of their own, without headrace:
each subject imports only what is its own.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benches.measure import process_cpu

#: Reads the stream once; adds what it says to the answer, where there is one.
Read = Callable[["Answer | None"], object]
PROMPT = "How does the water run?"
MESSAGES = [{"role": "user", "content": PROMPT}]
LEAST_S = 1.0


class Answer:
    """What a stream says."""

    def __init__(self) -> None:
        self.text = self.reasoning = ""
        self.calls: list[list[Any]] = []

    def call(self, name: str | None, arguments: str | None) -> None:
        """Begin a call where there is a name, and go on with its arguments."""
        if name:
            self.calls.append([name, ""])
        if arguments:
            self.calls[-1][1] += arguments

    def told(self) -> list[Any]:
        """Text, reasoning, calls with parsed arguments."""
        parsed = [[name, json.loads(said) if isinstance(said, str) else said] for name, said in self.calls]
        return [self.text, self.reasoning, parsed]


def _headrace(name: str, root: str) -> Read:
    import headrace

    protocol = "anthropic_messages" if name == "anthropic_messages" else "openai_chat"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(
            '[[providers]]\nid = "bench"\nkind = "openai_compatible"\n'
            f'base_url = "{root}/v1"\nprotocol = "{protocol}"\n'
        )
        config.flush()
        runtime = headrace.SyncRuntime(pathlib.Path(config.name))
        runtime.__enter__()
    request = headrace.ModelRequest("bench/bench", (headrace.Message.user(PROMPT),))

    def read(answer: Answer | None) -> None:
        with runtime.stream(request) as stream:
            for event in stream:
                kind = event.type
                if answer is None:
                    continue
                if kind == "model.text_delta":
                    answer.text += event.text
                elif kind == "model.reasoning_delta":
                    answer.reasoning += event.text
                elif kind == "tool_intent.proposed":
                    answer.calls.append([event.tool_name, event.input])

    return read


def _chunks(chunks: Any, answer: Answer | None) -> None:
    for chunk in chunks:
        for choice in chunk.choices:
            delta = choice.delta
            if answer is not None:
                answer.text += delta.content or ""
                answer.reasoning += getattr(delta, "reasoning_content", None) or ""
                for call in delta.tool_calls or ():
                    answer.call(call.function.name, call.function.arguments)


def _openai(_name: str, root: str) -> Read:
    import openai

    client = openai.OpenAI(api_key="sk-bench", base_url=f"{root}/v1")
    return lambda answer: _chunks(client.chat.completions.create(model="bench", messages=MESSAGES, stream=True), answer)


def _anthropic(_name: str, root: str) -> Read:
    import anthropic

    client = anthropic.Anthropic(api_key="sk-bench", base_url=root)

    def read(answer: Answer | None) -> None:
        with client.messages.stream(model="bench", max_tokens=9999, messages=MESSAGES) as stream:
            for event in stream:
                event.type  # noqa: B018 - reading it is the work
            message = stream.get_final_message()
        if answer is not None:
            for block in message.content:
                if block.type == "text":
                    answer.text += block.text
                elif block.type == "thinking":
                    answer.reasoning += block.thinking
                elif block.type == "tool_use":
                    answer.calls.append([block.name, block.input])

    return read


def _litellm(name: str, root: str) -> Read:
    # Or it asks for a list of prices as it is imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    litellm.telemetry, litellm.suppress_debug_info = False, True
    vendor, base = ("anthropic", root) if name == "anthropic_messages" else ("openai", f"{root}/v1")

    def read(answer: Answer | None) -> None:
        chunks = litellm.completion(
            model=f"{vendor}/bench", messages=MESSAGES, stream=True, api_key="sk-bench", api_base=base, max_tokens=9999
        )
        _chunks(chunks, answer)

    return read


def _pydantic_ai(name: str, root: str) -> Read:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest

    model: Any
    if name == "anthropic_messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        model = AnthropicModel("bench", provider=AnthropicProvider(api_key="sk-bench", base_url=root))
    else:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        model = OpenAIChatModel("bench", provider=OpenAIProvider(api_key="sk-bench", base_url=f"{root}/v1"))
    runner = asyncio.Runner()
    atexit.register(runner.close)

    async def once(answer: Answer | None) -> None:
        async with model_request_stream(model, [ModelRequest.user_text_prompt(PROMPT)]) as stream:
            async for _ in stream:
                pass
            response = stream.get() if hasattr(stream, "get") else stream.response
        if answer is not None:
            for part in response.parts:
                if part.part_kind == "text":
                    answer.text += part.content
                elif part.part_kind == "thinking":
                    answer.reasoning += part.content
                elif part.part_kind == "tool-call":
                    answer.calls.append([part.tool_name, part.args])

    return lambda answer: runner.run(once(answer))


SUBJECTS: dict[str, Callable[[str, str], Read]] = {
    "headrace": _headrace,
    "openai": _openai,
    "anthropic": _anthropic,
    "litellm": _litellm,
    "pydantic-ai": _pydantic_ai,
}


def main() -> None:
    """Check, then measure."""
    subject, name, port = sys.argv[1:]
    read = SUBJECTS[subject](name, f"http://127.0.0.1:{port}/replay/{name}")
    answer = Answer()
    read(answer)
    seconds = process_cpu(lambda: read(None), LEAST_S)
    print(json.dumps({"answer": answer.told(), "seconds": seconds}))


if __name__ == "__main__":
    main()
