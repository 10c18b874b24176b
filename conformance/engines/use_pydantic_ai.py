"""pydantic-ai's model layer, without its agent: the response that a stream comes to."""

import asyncio
import base64

import pydantic_ai
from adapter import HI, NotOffered, call, only, serve, usage
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest

pydantic_ai.models.ALLOW_MODEL_REQUESTS = True


def model_for(family, url):
    if family in ("openai_chat", "openai_responses"):
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(api_key="none", base_url=url + "/v1", max_retries=0)
        kind = OpenAIChatModel if family == "openai_chat" else OpenAIResponsesModel
        return kind("m", provider=OpenAIProvider(openai_client=client))
    if family == "anthropic_messages":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(api_key="none", base_url=url, max_retries=0)
        return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(anthropic_client=client))
    if family == "google_gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel("gemini-2.5-pro", provider=GoogleProvider(api_key="none", base_url=url))
    if family == "mistral_chat":
        from mistralai.client import Mistral
        from pydantic_ai.models.mistral import MistralModel
        from pydantic_ai.providers.mistral import MistralProvider

        return MistralModel("m", provider=MistralProvider(mistral_client=Mistral(api_key="none", server_url=url)))
    if family == "cohere_chat":
        from cohere import AsyncClientV2
        from pydantic_ai.models.cohere import CohereModel
        from pydantic_ai.providers.cohere import CohereProvider

        return CohereModel("m", provider=CohereProvider(cohere_client=AsyncClientV2(api_key="none", base_url=url)))
    import boto3
    from botocore.config import Config
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-north-1",
        endpoint_url=url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20),
    )
    return BedrockConverseModel(
        "anthropic.claude-3-5-sonnet-20240620-v1:0", provider=BedrockProvider(bedrock_client=client)
    )


def read(case):
    only(
        case,
        *("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "mistral_chat", "cohere_chat"),
        "bedrock_converse",
    )
    if case["family"] == "anthropic_messages" and not case["is_stream"]:
        raise NotOffered("it asks Anthropic for a stream even so")
    response = asyncio.run(asked(case))

    def all_of(kind):
        return [part for part in response.parts if part.part_kind == kind]

    counts, details = response.usage, response.provider_details or {}
    kept = [again(case, part) for part in all_of("thinking") if part.signature]
    for part in [*all_of("text"), *all_of("tool-call")]:
        kept += [value] if (value := (part.provider_details or {}).get("thought_signature")) else []
    return {
        "text": "".join(part.content for part in all_of("text")),
        "reasoning": "".join(part.content for part in all_of("thinking")),
        "continuations": kept,
        "media": [part.content.media_type for part in all_of("file")],
        "calls": [
            call(part.tool_name, part.args, None if case["family"] == "google_gemini" else part.tool_call_id)
            for part in all_of("tool-call")
        ],
        "usage": usage(
            counts.input_tokens,
            counts.output_tokens,
            counts.cache_read_tokens,
            counts.details.get("reasoning_tokens", counts.details.get("thoughts_tokens")),
        )
        if counts.has_values()
        else None,
        "finish": response.finish_reason or details.get("finish_reason"),
    }


def again(case, part):
    """Converse's bytes, of which it makes text, as base64 again."""
    hidden = case["family"] == "bedrock_converse" and part.id == "redacted_content"
    return base64.b64encode(part.signature.encode()).decode() if hidden else part.signature


async def asked(case):
    model, messages = model_for(case["family"], case["url"]), [ModelRequest.user_text_prompt(HI)]
    if not case["is_stream"]:
        return await model_request(model, messages)
    try:
        async with model_request_stream(model, messages) as stream:
            async for _ in stream:
                pass
            return stream.get() if hasattr(stream, "get") else stream.response
    except NotImplementedError as error:
        raise NotOffered("its client for this family does not stream") from error


serve(["pydantic-ai-slim", "openai", "anthropic", "google-genai", "mistralai", "cohere", "boto3"], read)
