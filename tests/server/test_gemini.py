"""What only Gemini's clients ask of the gateway: streams that are one array, keys in the query, lists, and counts."""

import contextlib
import json

import httpx
import pytest

from headrace.testing import Cut, Gate, Reply, Upstream
from tests.support import control
from tests.support.edge import listener
from tests.support.sdks import google

CHUNKS = (
    b'{"candidates":[{"content":{"parts":[{"text":"High "}],"role":"model"}}],"responseId":"r", "own" : 1.50}',
    b'{"candidates":[{"content":{"parts":[{"text":"noon"}]},"finishReason":"STOP"}],"responseId":"r"}',
)
STREAM = b"".join(b"data: " + chunk + b"\n\n" for chunk in CHUNKS)
COUNTED = Reply((b'{"totalTokens":31}',), headers=(("content-type", "application/json"),))
ROUTES = {
    "/v1beta/models/m:streamGenerateContent": Reply.stream(STREAM),
    "/v1beta/models/m:countTokens": COUNTED,
    "/v1beta/models/cut:streamGenerateContent": Reply.stream(b"data: " + CHUNKS[0] + b"\n\n", Gate("cut"), Cut()),
    "/v1beta/models/array:streamGenerateContent": Reply(
        (b"[" + CHUNKS[0] + b"\n,\r\n" + CHUNKS[1] + b"]",), headers=(("content-type", "application/json"),)
    ),
}
ASK = {"contents": [{"parts": [{"text": "hi"}]}]}


@pytest.fixture
def upstream():
    with Upstream(ROUTES) as one:
        yield one


@pytest.fixture
def gateway(upstream):
    with contextlib.ExitStack() as stack:
        rows = (
            f'[[providers]]\nid = "g"\nkind = "google"\nbase_url = "{upstream.url}"\n'
            f'[[providers]]\nid = "a"\nkind = "anthropic"\nbase_url = "{upstream.url}"\n'
            '[models]\n"mine" = "g/m"\n"cut" = "g/cut"\n"array" = "g/array"\n[[keys]]\nid = "k"\nsecret = "env:KEY"\n'
        )
        edge = stack.enter_context(listener(control.gateway(rows, {"KEY": "team/key"})))
        host, port = edge.address
        yield f"http://{host}:{port}"


def test_a_stream_without_alt_is_one_array_and_with_it_the_providers_bytes(gateway):
    url = f"{gateway}/v1beta/models/mine:streamGenerateContent"
    array = httpx.post(url, json=ASK, headers={"x-goog-api-key": "team/key"})
    assert array.headers["content-type"] == "application/json"
    # Each event's JSON is an element, byte for byte.
    assert array.content == b"[" + b"\n,".join(CHUNKS) + b"\n]\n"
    assert "x-headrace-loss" not in array.headers
    events = httpx.post(url + "?alt=sse", json=ASK, headers={"x-goog-api-key": "team/key"})
    assert events.headers["content-type"] == "text/event-stream"
    assert events.content == STREAM


def test_a_key_may_stand_in_the_query_and_no_key_is_refused_in_googles_words(gateway):
    url = f"{gateway}/v1/models/g/m:streamGenerateContent"
    assert httpx.post(url, params={"key": "team/key", "alt": "sse"}, json=ASK).status_code == 200
    refused = httpx.post(url, params={"key": "other"}, json=ASK)
    assert (refused.status_code, refused.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert httpx.post(url, json=ASK).json()["error"]["details"][0]["reason"] == "invalid_api_key"
    wrong = httpx.post(url, params={"key": "team/key"}, json={"contents": {}})
    assert (wrong.status_code, wrong.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_the_sdk_lists_models_and_counts(gateway):
    client = google(gateway, "team/key")
    assert "models/mine" in [model.name for model in client.models.list()]
    assert client.models.count_tokens(model="g/m", contents="hi").total_tokens == 31
    assert client.models.count_tokens(model="a/claude-x", contents="hi").total_tokens > 0
    client.close()


def test_a_body_reaches_gemini_without_what_the_url_says(gateway):
    body = json.dumps({"model": "models/mine", **ASK}).encode()
    head = {"x-goog-api-key": "team/key", "content-type": "application/json"}
    answer = httpx.post(f"{gateway}/v1beta/models/mine:countTokens", content=body, headers=head)
    assert answer.json() == {"totalTokens": 31}


def test_an_array_that_is_cut_ends_as_one(gateway, upstream):
    """What came before the cut has its bytes, and what follows is an element with the error."""
    url = f"{gateway}/v1beta/models/cut:streamGenerateContent"
    with httpx.stream("POST", url, json=ASK, headers={"x-goog-api-key": "team/key"}) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        assert first == b"[" + CHUNKS[0] + b"\n"
        upstream.open("cut")
        rest = b"".join(pieces)
    told = json.loads(first + rest)
    assert told[0] == json.loads(CHUNKS[0])
    assert (len(told), told[1]["error"]["code"]) == (2, 502)


def test_an_upstream_that_sends_an_array_of_its_own_is_read_all_the_same(gateway):
    url = f"{gateway}/v1beta/models/array:streamGenerateContent"
    array = httpx.post(url, json=ASK, headers={"x-goog-api-key": "team/key"})
    said = [p.get("text", "") for c in array.json() for p in c["candidates"][0]["content"].get("parts", [])]
    assert "".join(said) == "High noon"
