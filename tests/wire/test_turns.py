"""A turn goes round: what a provider answered, told to a client of another protocol and given back by it, is what the
provider said, in its own protocol: text, calls, and the state that lets it go on.
"""

import json

import pytest

from headrace import Decoder, Encoder, translate_request
from tests.support.recordings import load

CLIENTS = ("openai_chat", "openai_responses", "anthropic_messages", "google_gemini", "ollama_chat")


def answered(recording, client):
    """The decoded events, and the conversation that the client holds after the answer; None for one that was
    not whole."""
    decoder = Decoder(recording.protocol, status=recording.status, headers=recording.headers, provider="acme")
    events = decoder.feed(recording.body) + decoder.finish("eof")
    if events[-1].type != "model.finished" or events[-1].reason not in ("stop", "tool_intents"):
        return events, None
    encoder = Encoder(
        client, stream=False, model="m", response_id="r1", created=1, provider="acme", family=recording.protocol
    )
    told = json.loads(encoder.feed(events) + encoder.finish())
    if client == "openai_chat":
        return events, {"messages": [message] if (message := told.get("choices", [{}])[0].get("message")) else []}
    if client == "openai_responses":
        # Codex gives no raw reasoning back.
        items = [item | {"content": None} if item["type"] == "reasoning" else item for item in told.get("output", ())]
        return events, {"input": items}
    if client == "google_gemini":
        return events, {"contents": [candidate["content"] for candidate in told.get("candidates", ())]}
    if client == "ollama_chat":
        return events, {"messages": [told["message"]]}
    return events, {"max_tokens": 99, "messages": [{"role": "assistant", "content": told.get("content", [])}]}


READABLE = ("cohere_chat", "ollama_chat")
"""What these families' models think goes back as it can be read: there is no other state."""


def thought(body):
    """Readable reasoning of the assistant's in a request to one of `READABLE`."""
    text = ""
    for message in body["messages"]:
        text += message.get("tool_plan", "") + message.get("thinking", "")
        parts = message["content"] if isinstance(message.get("content"), list) else []
        text += "".join(part["thinking"] for part in parts if part["type"] == "thinking")
    return text


def said(body):
    """Text and calls of the assistant's in a request, whatever its protocol."""
    text, calls = "", []
    for part in gemini(body):
        text += part.get("text", "")
        if call := part.get("functionCall"):
            calls.append((call["name"], call.get("args", {})))
    for item in body.get("messages", body.get("input", ())):
        blocks = item["content"] if isinstance(item.get("content"), list) else []
        if isinstance(item.get("content"), str):
            text += item["content"]
        # Converse's blocks have no type: their one key is it.
        text += "".join(b["text"] for b in blocks if b.get("type", "text") == "text" and "text" in b)
        text += item.get("refusal") or ""
        calls += [(b["name"], b["input"]) for b in blocks if b.get("type") == "tool_use"]
        calls += [(b["toolUse"]["name"], b["toolUse"]["input"]) for b in blocks if "toolUse" in b]
        for call in item.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
            calls.append((call["function"]["name"], arguments))
        if item.get("type") == "function_call":
            calls.append((item["name"], json.loads(item["arguments"])))
    return text, calls


def gemini(body):
    """What the model said, of a Gemini body's parts; nothing of any other."""
    said_by_model = [content for content in body.get("contents", ()) if content.get("role") == "model"]
    return [part for content in said_by_model for part in content["parts"] if not part.get("thought")]


def state(protocol, body):
    """The opaque state that a request gives back."""
    if protocol == "google_gemini":
        return [part["thoughtSignature"] for part in gemini(body) if "thoughtSignature" in part]
    messages = body.get("messages", body.get("input", ()))
    if protocol == "openai_responses":
        return [item["encrypted_content"] for item in messages if item.get("type") == "reasoning"]
    if protocol in READABLE:
        return []
    if protocol == "bedrock_converse":
        thoughts = [b["reasoningContent"] for m in messages for b in m["content"] if "reasoningContent" in b]
        return [one.get("redactedContent") or one["reasoningText"].get("signature") for one in thoughts]
    if protocol == "openai_chat":
        return [detail for message in messages for detail in message.get("reasoning_details", ())]
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    return [b.get("signature") or b.get("data") for b in blocks if b["type"] in ("thinking", "redacted_thinking")]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_turn_comes_back_as_it_was_said(client, shared):
    turns = kept = echoed = 0
    for recording in load(shared):
        family = recording.protocol
        if family == client:
            continue
        events, body = answered(recording, client)
        # A picture or a sound that a model made is nothing that every other model takes.
        if any(event.type == "model.media" for event in events):
            continue
        if body is None or not any(body.get("messages") or body.get("input") or body.get("contents") or ()):
            continue
        made = translate_request(json.dumps(body).encode(), source=client, target=family, model="up", provider="acme")
        back = json.loads(made.body)
        intents = [e for e in events if e.type == "tool_intent.proposed"]
        text = "".join(e.text for e in events if e.type in ("model.text_delta", "model.refusal_delta"))
        if any(intent.kind == "custom" for intent in intents):
            continue
        got_text, got_calls = said(back)
        assert got_text == text, recording.file
        wanted = [(i.tool_name, json.loads(i.input) if isinstance(i.input, str) else i.input) for i in intents]
        assert got_calls == wanted, recording.file
        if family in READABLE:
            thinking = "".join(e.text for e in events if e.type == "model.reasoning_delta")
            # A turn of thinking alone is none.
            assert thought(back) == (thinking if text or intents else ""), recording.file
            echoed += bool(thought(back))
        given = [e.data for e in events if e.type == "model.continuation" and e.family == family]
        if family != "openai_chat":
            assert set(state(family, back)) <= set(given), recording.file
            kept += len(state(family, back))
        turns += 1
    assert turns > 40
    assert echoed >= 3 or client == "openai_responses"
    assert kept > 5 or client in ("anthropic_messages", "ollama_chat")
