"""The anthropic SDK, by its accumulating helper; its Bedrock client for InvokeModel."""

import anthropic
from adapter import HI, call, only, serve, usage


def read(case):
    only(case, "anthropic_messages", "bedrock_invoke")
    if case["family"] == "anthropic_messages":
        client = anthropic.Anthropic(api_key="none", base_url=case["url"], max_retries=0, timeout=20)
    else:
        client = anthropic.AnthropicBedrock(
            aws_access_key="none",
            aws_secret_key="none",
            aws_region="eu-north-1",
            base_url=case["url"],
            max_retries=0,
            timeout=20,
        )
    ask = {"max_tokens": 64, "model": "claude-x", "messages": [{"role": "user", "content": HI}]}
    if case["is_stream"]:
        with client.messages.stream(**ask) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**ask)
    blocks, counts = message.content, message.usage
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
        "refusal": "",
        "continuations": [
            block.signature if block.type == "thinking" else block.data
            for block in blocks
            if block.type in ("thinking", "redacted_thinking")
        ],
        "annotations": [
            one.url
            for block in blocks
            if block.type == "text"
            for one in block.citations or []
            if getattr(one, "url", None)
        ],
        "calls": [call(block.name, block.input, block.id) for block in blocks if block.type == "tool_use"],
        "usage": usage(
            counts.input_tokens + (counts.cache_creation_input_tokens or 0) + (counts.cache_read_input_tokens or 0),
            counts.output_tokens,
            counts.cache_read_input_tokens,
        ),
        "finish": message.stop_reason,
    }


serve(["anthropic"], read)
