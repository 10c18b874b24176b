"""The mistralai SDK: its typed chunks, joined."""

import json

from adapter import HI, call, only, serve, usage
from mistralai.client import Mistral


def read(case):
    only(case, "mistral_chat")
    chat = Mistral(api_key="none", server_url=case["url"], timeout_ms=20_000).chat
    ask = {"model": "m", "messages": [{"role": "user", "content": HI}]}
    chunks = (event.data for event in chat.stream(**ask)) if case["is_stream"] else [chat.complete(**ask)]
    text, reasoning, calls, counts, finish = "", "", {}, None, None
    for chunk in chunks:
        counts = chunk.usage or counts
        for choice in chunk.choices:
            delta = choice.delta if case["is_stream"] else choice.message
            content = delta.content or ""
            for part in [content] if isinstance(content, str) else content:
                if isinstance(part, str):
                    text += part
                elif getattr(part, "thinking", None):
                    reasoning += "".join(getattr(one, "text", "") for one in part.thinking)
                else:
                    text += getattr(part, "text", None) or ""
            for one in delta.tool_calls or []:
                entry = calls.setdefault(one.index if case["is_stream"] else len(calls), ["", "", one.id])
                arguments = one.function.arguments
                entry[0] = one.function.name or entry[0]
                entry[1] += arguments if isinstance(arguments, str) else json.dumps(arguments)
            finish = choice.finish_reason or finish
    return {
        "text": text,
        "reasoning": reasoning,
        "refusal": "",
        "pieces": True,
        "calls": [call(*entry) for entry in calls.values()],
        "usage": counts and usage(counts.prompt_tokens, counts.completion_tokens),
        "finish": finish,
    }


serve(["mistralai"], read)
