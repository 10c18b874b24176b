"""The cohere SDK: its typed events, joined."""

import cohere
from adapter import HI, call, only, serve, usage


def read(case):
    only(case, "cohere_chat")
    client = cohere.ClientV2(api_key="none", base_url=case["url"], timeout=20)
    ask = {"model": "m", "messages": [{"role": "user", "content": HI}]}
    options = {"request_options": {"max_retries": 0}}
    text, reasoning, calls, counts, finish = "", "", {}, None, None
    if case["is_stream"]:
        for event in client.chat_stream(**ask, **options):
            delta = getattr(event, "delta", None)
            match event.type:
                case "content-delta":
                    text += delta.message.content.text or ""
                    reasoning += delta.message.content.thinking or ""
                case "tool-plan-delta":
                    reasoning += delta.message.tool_plan or ""
                case "tool-call-start":
                    one = delta.message.tool_calls
                    calls[event.index] = [one.function.name, one.function.arguments or "", one.id]
                case "tool-call-delta":
                    calls[event.index][1] += delta.message.tool_calls.function.arguments
                case "message-end":
                    counts, finish = delta.usage, delta.finish_reason
    else:
        answer = client.chat(**ask, **options)
        counts, finish, reasoning = answer.usage, answer.finish_reason, answer.message.tool_plan or ""
        text = "".join(part.text for part in answer.message.content or [] if part.type == "text")
        for at, one in enumerate(answer.message.tool_calls or []):
            calls[at] = [one.function.name, one.function.arguments, one.id]
    tokens = counts and counts.tokens
    return {
        "text": text,
        "reasoning": reasoning,
        "refusal": "",
        "pieces": True,
        "calls": [call(*entry) for entry in calls.values()],
        "usage": tokens and usage(tokens.input_tokens, tokens.output_tokens, counts.cached_tokens),
        "finish": finish,
    }


serve(["cohere"], read)
