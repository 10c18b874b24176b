"""The ollama SDK: its typed lines, joined."""

import ollama
from adapter import HI, call, only, serve, usage


def read(case):
    only(case, "ollama_chat")
    client = ollama.Client(host=case["url"], timeout=20)
    ask = {"model": "m", "messages": [{"role": "user", "content": HI}]}
    lines = client.chat(**ask, stream=True) if case["is_stream"] else [client.chat(**ask)]
    text, reasoning, calls, last = "", "", [], None
    for last in lines:
        text += last.message.content or ""
        reasoning += last.message.thinking or ""
        calls += [call(one.function.name, dict(one.function.arguments)) for one in last.message.tool_calls or []]
    return {
        "text": text,
        "reasoning": reasoning,
        "refusal": "",
        "calls": calls,
        "usage": usage(last.prompt_eval_count, last.eval_count) if last and last.eval_count is not None else None,
        "finish": last and last.done_reason,
    }


serve(["ollama"], read)
