"""The vendors' own SDKs against `headrace serve` with nothing but its embedded demo."""

from __future__ import annotations

import anthropic
import httpx
import openai
import pytest

from tests.support.edge import served

HI = [{"role": "user", "content": "hi"}]
WORDS = "This answer comes from the demo provider"
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
RESPONSES_TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
MESSAGES_TOOL = {"name": "weather", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def chatgpt(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def claude(gateway):
    with anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0, timeout=20) as client:
        yield client


def test_chat(chatgpt):
    with chatgpt.chat.completions.stream(model="demo/text", messages=HI) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    assert text.startswith(WORDS)
    assert (final.choices[0].message.content, final.choices[0].finish_reason) == (text, "stop")
    assert final.usage is None, "the gateway's own wish for usage is taken out again"
    whole = chatgpt.chat.completions.create(model="demo/text", messages=HI)
    assert whole.choices[0].message.content == text
    assert whole.usage.completion_tokens > 0
    asked = list(
        chatgpt.chat.completions.create(
            model="demo/text", messages=HI, stream=True, stream_options={"include_usage": True}
        )
    )
    assert asked[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_chat_tools(chatgpt):
    with chatgpt.chat.completions.stream(model="demo/tools", messages=HI, tools=[CHAT_TOOL]) as stream:
        final = stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Lisbon"}')
    assert final.choices[0].finish_reason == "tool_calls"


def test_responses(chatgpt):
    with chatgpt.responses.stream(model="demo/text", input="hi") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text.startswith(WORDS)
    assert (final.output_text, final.status) == (text, "completed")
    assert final.usage.output_tokens > 0
    assert chatgpt.responses.create(model="demo/text", input="hi").output_text == text
    tools = chatgpt.responses.create(model="demo/tools", input="hi", tools=[RESPONSES_TOOL])
    (call,) = [item for item in tools.output if item.type == "function_call"]
    assert (call.name, call.arguments) == ("weather", '{"city":"Lisbon"}')


def test_messages(claude):
    with claude.messages.stream(model="demo/text", messages=HI, max_tokens=99) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text.startswith(WORDS)
    assert (final.content[0].text, final.stop_reason) == (text, "end_turn")
    assert final.usage.output_tokens > 0
    whole = claude.messages.create(model="demo/text", messages=HI, max_tokens=99)
    assert whole.content[0].text == text
    tools = claude.messages.create(model="demo/tools", messages=HI, max_tokens=99, tools=[MESSAGES_TOOL])
    assert (tools.content[-1].name, tools.content[-1].input) == ("weather", {"city": "Lisbon"})
    with claude.messages.stream(model="demo/reasoning", messages=HI, max_tokens=99) as stream:
        reasoned = stream.get_final_message()
    assert reasoned.content[0].type == "thinking"
    assert reasoned.content[0].signature
    assert claude.messages.count_tokens(model="demo/text", messages=HI).input_tokens > 0


def test_errors_are_the_sdks_own(chatgpt, claude):
    with pytest.raises(openai.RateLimitError):
        chatgpt.chat.completions.create(model="demo/error-429", messages=HI)
    with pytest.raises(anthropic.RateLimitError):
        claude.messages.create(model="demo/error-429", messages=HI, max_tokens=9)
    with pytest.raises(openai.UnprocessableEntityError) as unknown:
        chatgpt.responses.create(model="nobody/knows", input="hi")
    assert unknown.value.code == "unknown_model_selector"
    with pytest.raises(openai.BadRequestError) as wrong:
        chatgpt.chat.completions.create(model="demo/text", messages=HI, extra_body={"stream": "yes"})
    assert wrong.value.param == "stream"


def test_a_cut_stream_is_an_error_in_each_sdk(chatgpt, claude):
    with pytest.raises(openai.APIError):
        list(chatgpt.chat.completions.create(model="demo/cut", messages=HI, stream=True))
    events = [event.type for event in chatgpt.responses.create(model="demo/cut", input="hi", stream=True)]
    assert events[-1] == "response.failed"
    with (
        pytest.raises(anthropic.APIStatusError),
        claude.messages.stream(model="demo/cut", messages=HI, max_tokens=9) as stream,
    ):
        stream.until_done()


def test_models_come_in_the_clients_shape(chatgpt, claude):
    assert "demo/text" in [model.id for model in chatgpt.models.list()]
    assert "demo/text" in [model.id for model in claude.models.list()]


def test_a_web_page_is_kept_out(gateway):
    ask = {"model": "demo/text", "messages": HI}
    url = f"{gateway.url}/v1/chat/completions"
    assert httpx.post(url, json=ask, headers={"origin": "https://evil.example"}).status_code == 403
    assert httpx.post(url, json=ask, headers={"host": "evil.example"}).status_code == 403
    assert httpx.post(url, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
