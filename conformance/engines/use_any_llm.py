"""any-llm: `completion`, its chunks joined; `responses`."""

import os

os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "eu-north-1"}

import any_llm
from adapter import HI, call, only, serve, usage

PROVIDERS = {
    "openai_chat": ("openai", "/v1"),
    "anthropic_messages": ("anthropic", ""),
    "google_gemini": ("gemini", ""),
    "mistral_chat": ("mistral", ""),
    "cohere_chat": ("cohere", ""),
    "ollama_chat": ("ollama", ""),
    "bedrock_converse": ("bedrock", ""),
}


def read(case):
    only(case, *PROVIDERS, "openai_responses")
    if case["family"] == "openai_responses":
        return responses(case)
    provider, path = PROVIDERS[case["family"]]
    ask = {
        "model": "m",
        "provider": provider,
        "api_key": "none",
        "api_base": case["url"] + path,
        "messages": [{"role": "user", "content": HI}],
    }
    if provider in ("openai", "anthropic"):
        ask["client_args"] = {"max_retries": 0}
    if provider == "bedrock":
        del ask["api_key"]  # the environment's keys, and not a bearer's
    if provider == "cohere":
        ask["client_args"] = {"base_url": case["url"]}
    answer = any_llm.completion(**ask, stream=case["is_stream"])
    text, reasoning, refusal, calls, counts, finish = "", "", "", {}, None, None
    for chunk in answer if case["is_stream"] else [answer]:
        counts = chunk.usage or counts
        for choice in chunk.choices[:1]:
            delta = choice.delta if case["is_stream"] else choice.message
            text += delta.content or ""
            refusal += getattr(delta, "refusal", None) or ""
            thought = getattr(delta, "reasoning", None)
            reasoning += (getattr(thought, "content", thought) or "") if thought else ""
            for at, one in enumerate(delta.tool_calls or []):
                entry = calls.setdefault(one.index if case["is_stream"] else at, ["", "", None])
                entry[0] = one.function.name or entry[0]
                entry[1] += one.function.arguments or ""
                entry[2] = entry[2] or one.id
            finish = choice.finish_reason or finish
    ours = case["family"] in ("google_gemini", "ollama_chat")  # it makes ids of its own
    return {
        "text": text,
        "reasoning": reasoning,
        "refusal": refusal,
        "pieces": case["is_stream"],
        "calls": [call(name, arguments, None if ours else id) for name, arguments, id in calls.values()],
        "usage": counts
        and usage(
            counts.prompt_tokens,
            counts.completion_tokens,
            counts.prompt_tokens_details and counts.prompt_tokens_details.cached_tokens,
            counts.completion_tokens_details and counts.completion_tokens_details.reasoning_tokens,
        ),
        "finish": finish,
    }


def responses(case):
    ask = {
        "model": "m", "provider": "openai", "api_key": "none", "api_base": case["url"] + "/v1", "input_data": HI,
        "client_args": {"max_retries": 0},
    }  # fmt: skip
    answer = any_llm.responses(**ask, stream=case["is_stream"])
    response = None if case["is_stream"] else answer
    for event in answer if case["is_stream"] else []:
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            response = event.response
        elif event.type == "error":
            return {"error": {"type": "error event"}}
    if response is None:
        return {"text": "", "calls": [], "finish": None}
    if response.status == "failed":
        return {"error": {"type": "status failed"}}
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [item for item in response.output if item.type == "reasoning"]
    counts = response.usage
    return {
        "text": "".join(part.text for part in parts if part.type == "output_text"),
        "refusal": "".join(part.refusal for part in parts if part.type == "refusal"),
        "reasoning": "".join(
            part.text for item in thoughts for part in [*item.summary, *(getattr(item, "content", None) or [])]
        ),
        "continuations": [item.encrypted_content for item in thoughts if item.encrypted_content],
        "annotations": [one.url for part in parts if part.type == "output_text" for one in part.annotations],
        "calls": [
            call(item.name, item.arguments, item.call_id)
            if item.type == "function_call"
            else {"id": item.call_id, "name": item.name, "input": item.input}
            for item in response.output
            if item.type in ("function_call", "custom_tool_call")
        ],
        "usage": counts
        and usage(
            counts.input_tokens,
            counts.output_tokens,
            counts.input_tokens_details.cached_tokens,
            counts.output_tokens_details.reasoning_tokens,
        ),
        "finish": response.incomplete_details.reason if response.incomplete_details else response.status,
    }


serve(["any-llm-sdk", "openai", "anthropic", "google-genai", "mistralai", "cohere", "ollama", "boto3"], read)
