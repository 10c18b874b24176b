"""LiteLLM: `completion`, its own builder for the chunks, and `responses`."""

import base64
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no request of its own at import

import litellm
from adapter import HI, call, serve, usage

litellm.disable_aiohttp_transport = True
litellm.suppress_debug_info = True
litellm.telemetry = False
MODELS = {
    "openai_chat": ("openai/m", "/v1"),
    "mistral_chat": ("mistral/mistral-small-latest", "/v1"),
    "anthropic_messages": ("anthropic/claude-sonnet-4-5", ""),
    "google_gemini": ("gemini/gemini-2.5-pro", None),
    "cohere_chat": ("cohere_chat/command-a-03-2025", "/v2/chat"),
    "ollama_chat": ("ollama_chat/m", ""),
    "bedrock_converse": ("bedrock/converse/anthropic.claude-3-5-sonnet-20240620-v1:0", ""),
    "bedrock_invoke": ("bedrock/invoke/anthropic.claude-3-5-sonnet-20240620-v1:0", ""),
}
AWS = {"aws_access_key_id": "none", "aws_secret_access_key": "none", "aws_region_name": "eu-north-1"}


def read(case):
    if case["family"] == "openai_responses":
        return responses(case)
    model, path = MODELS[case["family"]]
    base = case["url"] + (path if path is not None else "/v1beta/models/gemini-2.5-pro")
    ask = {
        "model": model,
        "messages": [{"role": "user", "content": HI}],
        "api_base": base,
        "max_tokens": 64,
        "max_retries": 0,
        "timeout": 20,
    }
    if case["family"].startswith("bedrock"):
        ask |= AWS | {"aws_bedrock_runtime_endpoint": case["url"]}
        ask.pop("api_base")
    else:
        ask["api_key"] = "none"
    if case["is_stream"]:
        chunks = list(litellm.completion(**ask, stream=True, stream_options={"include_usage": True}))
        answer = litellm.stream_chunk_builder(chunks)
        counted = getattr(chunks[-1], "usage", None) if chunks else None
        if answer is None:
            return {"text": "", "calls": [], "finish": None}
    else:
        answer = litellm.completion(**ask)
        counted = answer.usage
    choice = answer.choices[0]
    message, counts = choice.message, counted and answer.usage
    blocks = getattr(message, "thinking_blocks", None) or []
    fields = getattr(message, "provider_specific_fields", None) or {}
    kept = [one.get("signature") or again(case, one.get("data")) for one in blocks] + list(
        fields.get("thought_signatures") or []
    )
    for one in message.tool_calls or []:
        kept += (
            [value]
            if (value := (getattr(one, "provider_specific_fields", None) or {}).get("thought_signature"))
            else []
        )
    return {
        "text": message.content or "",
        "reasoning": getattr(message, "reasoning_content", None) or "",
        "continuations": list(dict.fromkeys(one for one in kept if one)),
        "annotations": [one["url_citation"]["url"] for one in getattr(message, "annotations", None) or []],
        "calls": [
            call(one.function.name, one.function.arguments, one.id if case["family"] not in NO_IDS else None)
            for one in message.tool_calls or []
        ],
        "usage": counts
        and usage(
            counts.prompt_tokens,
            counts.completion_tokens,
            counts.prompt_tokens_details and counts.prompt_tokens_details.cached_tokens,
            counts.completion_tokens_details and counts.completion_tokens_details.reasoning_tokens,
        ),
        "finish": choice.finish_reason,
    }


def again(case, data):
    """Converse's bytes, of which it makes text, as base64 again."""
    return base64.b64encode(data.encode()).decode() if data and case["family"] == "bedrock_converse" else data


NO_IDS = {"google_gemini", "ollama_chat"}
"""Families whose calls it gives ids of its own."""


def responses(case):
    ask = {"model": "openai/gpt-5", "input": HI, "api_key": "none", "api_base": case["url"] + "/v1", "max_retries": 0}
    response = None
    if case["is_stream"]:
        for event in litellm.responses(**ask, stream=True):
            kind = str(getattr(event.type, "value", event.type))
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                response = event.response
            elif kind == "error":
                return {"error": {"type": "error event"}}
        if response is None:
            return {"text": "", "calls": [], "finish": None}
    else:
        response = litellm.responses(**ask)
    if response.status == "failed":
        return {"error": {"type": "status failed"}}
    items = [item if isinstance(item, dict) else item.model_dump() for item in response.output]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [item for item in items if item["type"] == "reasoning"]
    counts = response.usage
    return {
        "text": "".join(part["text"] for part in parts if part["type"] == "output_text"),
        "refusal": "".join(part["refusal"] for part in parts if part["type"] == "refusal"),
        "reasoning": "".join(
            part["text"] for item in thoughts for part in [*(item.get("summary") or []), *(item.get("content") or [])]
        ),
        "continuations": [item["encrypted_content"] for item in thoughts if item.get("encrypted_content")],
        "annotations": [one["url"] for part in parts for one in part.get("annotations") or []],
        "calls": [
            call(item["name"], item["arguments"], item["call_id"])
            if item["type"] == "function_call"
            else {"id": item["call_id"], "name": item["name"], "input": item["input"]}
            for item in items
            if item["type"] in ("function_call", "custom_tool_call")
        ],
        "usage": counts
        and usage(
            counts.input_tokens,
            counts.output_tokens,
            counts.input_tokens_details and counts.input_tokens_details.cached_tokens,
            counts.output_tokens_details and counts.output_tokens_details.reasoning_tokens,
        ),
        "finish": response.incomplete_details.reason if response.incomplete_details else response.status,
    }


serve(["litellm"], read)
