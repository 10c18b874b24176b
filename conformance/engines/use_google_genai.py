"""The google-genai SDK: its typed chunks, joined."""

import base64

from adapter import HI, call, only, serve, usage
from google import genai


def read(case):
    only(case, "google_gemini")
    options = genai.types.HttpOptions(
        base_url=case["url"], timeout=20_000, retry_options=genai.types.HttpRetryOptions(attempts=1)
    )
    client = genai.Client(api_key="none", http_options=options)  # it closes what it opened when it is let go
    models = client.models
    ask = {"model": "m", "contents": HI}
    chunks = models.generate_content_stream(**ask) if case["is_stream"] else [models.generate_content(**ask)]
    said = {"text": "", "reasoning": "", "refusal": "", "calls": [], "continuations": [], "annotations": [],
            "media": [], "usage": None, "finish": None}  # fmt: skip
    for chunk in chunks:
        counts = chunk.usage_metadata
        if counts and (counts.prompt_token_count is not None or counts.candidates_token_count is not None):
            said["usage"] = usage(
                (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
                (counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
                counts.cached_content_token_count,
                counts.thoughts_token_count,
            )
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            said["finish"] = chunk.prompt_feedback.block_reason.value
        for candidate in (chunk.candidates or [])[:1]:
            if candidate.finish_reason:
                said["finish"] = candidate.finish_reason.value
            grounding = candidate.grounding_metadata
            if grounding and grounding.grounding_chunks:
                said["annotations"] += [one.web.uri for one in grounding.grounding_chunks if one.web]
            for part in (candidate.content and candidate.content.parts) or []:
                said["reasoning" if part.thought else "text"] += part.text or ""
                if part.thought_signature:
                    said["continuations"].append(base64.b64encode(part.thought_signature).decode())
                if part.inline_data:
                    said["media"].append(part.inline_data.mime_type)
                if part.function_call:
                    said["calls"].append(
                        call(part.function_call.name, part.function_call.args or {}, part.function_call.id)
                    )
    return said


serve(["google-genai"], read)
