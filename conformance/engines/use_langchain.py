"""LangChain: the sum of what a model's `stream` gives, or what `invoke` gives."""

import base64
import os

os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "eu-north-1"}

from adapter import HI, call, serve, usage

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def model_for(family, url):
    if family in ("openai_chat", "openai_responses"):
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(
            model="m",
            api_key="none",
            base_url=url + "/v1",
            max_retries=0,
            use_responses_api=family == "openai_responses",
            stream_usage=True,
        )
    if family == "anthropic_messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="claude-sonnet-4-5", api_key="none", base_url=url, max_tokens=64, max_retries=0)
    if family == "google_gemini":
        from langchain_google_genai import ChatGoogleGenerativeAI

        return ChatGoogleGenerativeAI(model="gemini-2.5-pro", google_api_key="none", base_url=url, max_retries=1)
    if family == "mistral_chat":
        from langchain_mistralai import ChatMistralAI

        return ChatMistralAI(model="m", api_key="none", base_url=url + "/v1", max_retries=0)
    if family == "cohere_chat":
        from langchain_cohere import ChatCohere

        return ChatCohere(model="m", cohere_api_key="none", base_url=url)
    if family == "ollama_chat":
        from langchain_ollama import ChatOllama

        return ChatOllama(model="m", base_url=url, reasoning=True)
    from langchain_aws import ChatBedrock, ChatBedrockConverse

    kind = ChatBedrockConverse if family == "bedrock_converse" else ChatBedrock
    return kind(model=CLAUDE, endpoint_url=url, region_name="eu-north-1")


def read(case):
    model = model_for(case["family"], case["url"])
    if case["is_stream"]:
        message = None
        for chunk in model.stream(HI):
            message = chunk if message is None else message + chunk
    else:
        message = model.invoke(HI)
    if message is None:
        return {"text": "", "calls": [], "finish": None}
    blocks = message.content_blocks
    about, more = message.response_metadata, message.additional_kwargs
    counts = message.usage_metadata
    kept = []
    for block in blocks:
        extras = block.get("extras") or {}
        values = [block.get(key) or extras.get(key) for key in ("signature", "encrypted_content")]
        kept += [value for value in values if value]
        if hidden := extras.get("redacted_content"):
            kept.append(base64.b64encode(hidden).decode())
        if block["type"] == "non_standard":
            value = block["value"]
            kept += [data] if (data := value.get("data") or value.get("redactedContent")) else []
    kept += list((more.get("__gemini_function_call_thought_signatures__") or {}).values())
    finish = (
        about.get("finish_reason") or about.get("stop_reason") or about.get("stopReason") or about.get("done_reason")
    )
    if not finish and case["family"] == "openai_responses":
        finish = (about.get("incomplete_details") or {}).get("reason") or about.get("status")
    if blocked := (about.get("prompt_feedback") or {}).get("block_reason"):
        finish = blocked.value
    broken = message.invalid_tool_calls
    own = case["family"] in ("google_gemini", "ollama_chat")  # it makes ids of its own
    said = {
        "text": message.text if isinstance(message.text, str) else message.text(),
        "reasoning": "".join(block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"),
        "refusal": more.get("refusal")
        or "".join(block.get("refusal") or "" for block in blocks if block["type"] == "refusal"),
        "continuations": kept,
        "annotations": [
            one["url"]
            for block in blocks
            if block["type"] == "text"
            for one in block.get("annotations") or []
            if one.get("url")
        ],
        "media": [block["mime_type"] for block in blocks if block["type"] == "image"],
        "calls": [call(one["name"], one["args"], None if own else one["id"]) for one in message.tool_calls],
        "usage": counts
        and usage(
            counts["input_tokens"],
            counts["output_tokens"],
            (counts.get("input_token_details") or {}).get("cache_read"),
            (counts.get("output_token_details") or {}).get("reasoning"),
        ),
        "finish": finish,
    }
    if (
        case["family"] == "openai_chat"
    ):  # it reads what OpenAI itself sends; vendors with more have clients of their own
        del said["reasoning"], said["annotations"]
    if broken and str(finish).lower() in PROMISES:
        return {"error": {"type": "invalid_tool_calls"}}
    return said


PROMISES = {"tool_calls", "tool_use", "tool_call", "completed"}
"""Ends that promise calls: then an invalid one is its report that the answer is malformed."""


serve(
    [
        *("langchain-core", "langchain-openai", "langchain-anthropic", "langchain-google-genai", "langchain-mistralai"),
        *("langchain-cohere", "langchain-ollama", "langchain-aws"),
    ],
    read,
)
