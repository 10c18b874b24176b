"""The openai SDK, by its accumulating helpers."""

import openai
from adapter import HI, call, only, serve, usage


def read(case):
    only(case, "openai_chat", "openai_responses")
    client = openai.OpenAI(api_key="none", base_url=case["url"] + "/v1", max_retries=0, timeout=20)
    return (chat if case["family"] == "openai_chat" else responses)(client, case["is_stream"])


def chat(client, is_stream):
    ask = {"model": "m", "messages": [{"role": "user", "content": HI}]}
    if is_stream:
        try:
            with client.chat.completions.stream(**ask) as stream:
                for _ in stream:
                    pass
                completion = stream.get_final_completion()
        except openai.LengthFinishReasonError as end:  # its way to say so: the reason is told
            completion = end.completion
            completion.choices[0].message.tool_calls = None
        except openai.ContentFilterFinishReasonError:
            return {"finish": "content_filter"}
    else:
        completion = client.chat.completions.create(**ask)
    choice = completion.choices[0]
    message, counts = choice.message, completion.usage
    calls = []
    for one in message.tool_calls or []:
        if one.type == "custom":
            calls.append({"id": one.id, "name": one.custom.name, "input": one.custom.input})
        else:
            calls.append(call(one.function.name, one.function.arguments, one.id))
    if not calls and message.function_call:
        calls.append(call(message.function_call.name, message.function_call.arguments))
    return {
        "text": message.content or "",
        "refusal": message.refusal or "",
        "calls": calls,
        "usage": counts
        and usage(
            counts.prompt_tokens,
            counts.completion_tokens,
            counts.prompt_tokens_details and counts.prompt_tokens_details.cached_tokens,
            counts.completion_tokens_details and counts.completion_tokens_details.reasoning_tokens,
        ),
        "annotations": [one.url_citation.url for one in message.annotations or []],
        "finish": choice.finish_reason,
    }


def responses(client, is_stream):
    error = None
    if is_stream:
        with client.responses.stream(model="m", input=HI) as stream:
            response = None
            for event in stream:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    response = event.response
                elif event.type == "error":
                    error = {"type": "error event"}
            if response is None and error is None:
                response = stream.get_final_response()
    else:
        response = client.responses.create(model="m", input=HI)
    if error or response.status == "failed":
        return {"error": error or {"type": "status failed"}}
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    calls, reasoning, continuations = [], "", []
    for item in response.output:
        if item.type == "function_call":
            calls.append(call(item.name, item.arguments, item.call_id))
        elif item.type == "custom_tool_call":
            calls.append({"id": item.call_id, "name": item.name, "input": item.input})
        elif item.type == "reasoning":
            reasoning += "".join(part.text for part in [*item.summary, *(item.content or [])])
            continuations += [item.encrypted_content] if item.encrypted_content else []
    counts = response.usage
    return {
        "text": "".join(part.text for part in parts if part.type == "output_text"),
        "refusal": "".join(part.refusal for part in parts if part.type == "refusal"),
        "reasoning": reasoning,
        "continuations": continuations,
        "annotations": [one.url for part in parts if part.type == "output_text" for one in part.annotations],
        "calls": calls,
        "usage": counts
        and usage(
            counts.input_tokens,
            counts.output_tokens,
            counts.input_tokens_details.cached_tokens,
            counts.output_tokens_details.reasoning_tokens,
        ),
        "finish": response.incomplete_details.reason if response.incomplete_details else response.status,
    }


serve(["openai"], read)
