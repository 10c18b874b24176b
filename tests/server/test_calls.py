"""The other capabilities through the gateway: real sockets, the vendor's own SDK, a scripted provider."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from headrace import calls
from headrace.capabilities import embeddings
from headrace.config import parse
from headrace.gateway import Gateway
from headrace.registry import Registry
from headrace.startup import check_selectors
from headrace.testing import Cut, Gate, Reply, Stall, Upstream
from tests.support.edge import listener

CANARY = "sk-canary-4711"
OTHER = "sk-canary-4712"
VECTORS = [[0.5, -0.25], [1.0, 2.0]]
PACKED = [base64.b64encode(struct.pack("<2f", *one)).decode() for one in VECTORS]
PNG = b"\x89PNG\r\n\x1a\nnot really"


def embedding_list(values, **more):
    data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(values)]
    return {"object": "list", "data": data, "model": "up", "usage": {"prompt_tokens": 7, "total_tokens": 7}, **more}


ROWS = """
[server]
port = 0
[[providers]]
id = "oa"
kind = "openai"
base_url = "{url}/v1"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
[[providers.credentials]]
id = "two"
secret = "env:TWO"
[[providers]]
id = "voyage"
kind = "voyage"
base_url = "{url}/voyage"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
[[providers]]
id = "jina"
kind = "jina"
base_url = "{url}/jina"
[providers.settings]
search_url = "{url}/s"
reader_url = "{url}/r"
[[providers]]
id = "xai"
kind = "xai"
base_url = "{url}/xai"
[[providers]]
id = "claude"
kind = "anthropic"
base_url = "{url}"
[[providers]]
id = "brave"
kind = "brave"
base_url = "{url}/brave"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
[[providers]]
id = "plain"
kind = "plain_fetch"
[providers.settings]
ports = [{port}]
danger_allow_networks = ["127.0.0.1/32"]
[[providers]]
id = "guarded"
kind = "plain_fetch"
[profiles]
web_search = "brave/web"
web_fetch = "plain/page"
image_generate = "oa/gpt-image-1"
[defaults]
embeddings = "voyage/voyage-3"
[models]
"small" = "oa/text-embedding-3-small"
"""


class Told:
    """A gateway in front of a scripted upstream."""

    def __init__(self, upstream, edge, policy):
        self.upstream = upstream
        self.edge = edge
        self.policy = policy
        self.host, self.port = edge.address

    def sdk(self, key="none"):
        return openai.OpenAI(base_url=f"http://{self.host}:{self.port}/v1", api_key=key, max_retries=0, timeout=20)

    def post(self, path, body, headers=None, raw=False):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        with contextlib.closing(connection):
            data = body if isinstance(body, bytes) else json.dumps(body)
            connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            got = answer.read()
        return answer.status, dict(answer.getheaders()), got if raw else json.loads(got)

    def seen(self, at=-1):
        return self.upstream.facts().requests[at]

    def settled(self):
        end = time.monotonic() + 10
        while self.policy.running and time.monotonic() < end:
            time.sleep(0.005)
        assert self.policy.running == 0


@contextlib.contextmanager
def told(script, rows="", **environ):
    with Upstream(script) as upstream:
        text = (ROWS + rows).replace("{url}", upstream.url).replace("{port}", upstream.url.rpartition(":")[2])
        registry = Registry(tuple)
        environ = {"ONE": CANARY, "TWO": OTHER, **environ}
        config = parse(
            text, name="c.toml", environ=environ, folder=Path("/nowhere"), checks=(registry.check, check_selectors)
        )
        policy = Gateway(
            config, registry=registry, clock=time.time, random=random.Random(1).random, salt=b"0123456789abcdef"
        )
        with listener(policy, body_limit=8 << 20) as edge:
            yield Told(upstream, edge, policy)


def test_openais_sdk_gets_its_own_vendors_answer_byte_for_byte():
    answer = json.dumps(embedding_list(PACKED, odd={"kept": [1]}), indent=1).encode()
    reply = Reply((answer,), headers=(("content-type", "application/json"), ("x-request-id", "up-1")))
    with told({"/v1/embeddings": reply}) as gateway:
        with gateway.sdk() as client:
            result = client.embeddings.create(model="oa/e", input=["a", "b"], dimensions=2)
        assert [one.embedding for one in result.data] == VECTORS
        sent = gateway.seen()
        assert sent.json() == {"model": "e", "input": ["a", "b"], "dimensions": 2, "encoding_format": "base64"}
        assert sent.header("authorization") == f"Bearer {CANARY}"
        status, headers, body = gateway.post("/v1/embeddings", {"model": "small", "input": "a", "own": 1}, raw=True)
        assert (status, body, headers["x-request-id"]) == (200, answer, "up-1")
        assert gateway.seen().json() == {"model": "text-embedding-3-small", "input": "a", "own": 1}
        gateway.settled()
        counts = dict(gateway.edge.counters())
        # However large the answer is, policy runs thrice a call.
        assert [counts[name] for name in ("decides", "nexts", "reads", "settles")] == [2, 0, 2, 2]


@pytest.mark.parametrize("numbers", [VECTORS, PACKED])
def test_another_vendors_vectors_are_the_same_in_both_encodings(numbers):
    reply = Reply.json({"object": "list", "data": list(reversed(embedding_list(numbers)["data"])), "model": "v"})
    with told({"/voyage/embeddings": reply}) as gateway, gateway.sdk() as client:
        result = client.embeddings.create(model="voyage/voyage-3", input=["a", "b"])
        assert [one.embedding for one in result.data] == VECTORS
        assert gateway.seen().json() == {"model": "voyage-3", "input": ["a", "b"], "encoding_format": "base64"}
        floats = client.embeddings.create(model="voyage/voyage-3", input=["a", "b"], encoding_format="float")
        assert [one.embedding for one in floats.data] == VECTORS
        body = {"input": ["a", "b"], "user": "me", "own_field": 1, "input_type": "query"}
        status, headers, _ = gateway.post("/v1/embeddings", body)
        assert status == 200, "the configured default serves what names no model"
        assert headers["x-headrace-loss"] == "user;dropped, own_field;dropped"
        assert gateway.seen().json()["input_type"] == "query"


def test_a_large_answer_is_read_aside_and_stays_exact():
    one = [float(f"{(at % 97) / 97 - 0.5:.7f}") for at in range(1536)]
    wanted = list(struct.unpack("<1536f", struct.pack("<1536f", *one)))
    with told({"/voyage/embeddings": Reply.json(embedding_list([one] * 30))}) as gateway, gateway.sdk() as client:
        packed = client.embeddings.create(model="voyage/v", input=["a"] * 30)
        numbers = client.embeddings.create(model="voyage/v", input=["a"] * 30, encoding_format="float")
        assert packed.data[29].embedding == wanted
        assert struct.pack("<1536f", *numbers.data[29].embedding) == struct.pack("<1536f", *one)
        assert packed.usage.prompt_tokens == 7
        gateway.settled()


def test_a_large_request_is_read_beside_the_event_loop(monkeypatch):
    readers = []
    parse_body = embeddings.parse

    def parse(body):
        readers.append(threading.get_ident())
        return parse_body(body)

    operation = calls.OPERATIONS["embeddings"]
    monkeypatch.setattr(calls, "OPERATIONS", {**calls.OPERATIONS, "embeddings": replace(operation, parse=parse)})
    with told({"/v1/embeddings": Reply.json(embedding_list(VECTORS))}) as gateway:
        for texts in (["a", "b"], ["b" * 1000] * 400):
            status, _, _ = gateway.post("/v1/embeddings", {"model": "oa/m", "input": texts})
            assert (status, gateway.seen().json()["input"]) == (200, texts)
        gateway.settled()
    assert len(set(readers)) == 2


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("embeddings", {"model": "oa/m", "input": ["a"] * 20_000}, "input"),
        ("embeddings", {"model": "oa/m", "input": [1] * 1_100_000}, "input"),
        ("embeddings", {"model": "oa/m", "input": [[1] * 600_000, [2] * 600_000]}, "input"),
        ("rerank", {"model": "voyage/m", "query": "q", "documents": ["a"] * 20_000}, "documents"),
    ],
)
def test_more_than_any_vendor_takes_is_refused(path, body, param):
    with told({}) as gateway:
        status, _, answer = gateway.post(f"/v1/{path}", body)
        assert (status, answer["error"]["param"]) == (400, param)
        assert "several requests" in answer["error"]["message"]


@pytest.mark.parametrize("tokens", [-5, 2**63, True, 1e300, "7", None])
@pytest.mark.parametrize("path", ["oa", "voyage"])
def test_a_cost_that_is_none_is_unknown_and_spoils_no_answer(path, tokens):
    answer = embedding_list(VECTORS, usage={"prompt_tokens": tokens})
    with told({"/v1/embeddings": Reply.json(answer), "/voyage/embeddings": Reply.json(answer)}) as gateway:
        settled, settle = [], gateway.policy.settle
        gateway.policy.settle = lambda one: (settled.append(one.input_tokens), settle(one))
        status, _, got = gateway.post("/v1/embeddings", {"model": f"{path}/m", "input": ["a", "b"]})
        assert (status, len(got["data"])) == (200, 2)
        gateway.settled()
        assert settled == [None]


def test_a_failed_attempt_is_followed_by_the_next_member():
    limited = Reply.json({"error": {"message": f"slow down, {CANARY}"}}, status=429, headers=[("retry-after", "60")])
    with told({"/v1/embeddings": [limited, Reply.json(embedding_list(VECTORS[:1]))]}) as gateway:
        status, _, body = gateway.post("/v1/embeddings", {"model": "oa/e", "input": "a"})
        assert (status, body["data"][0]["embedding"]) == (200, VECTORS[0])
        keys = [one.header("authorization") for one in gateway.upstream.facts().requests]
        assert keys == [f"Bearer {CANARY}", f"Bearer {OTHER}"]
        gateway.settled()


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (Reply.json({"detail": f"bad key {CANARY}"}, status=401), 502, "upstream_response_failed"),
        (Reply.json({"detail": "too fast"}, status=429), 429, "credential_pool_exhausted"),
        (Reply.json({"detail": "input is wrong"}, status=400), 400, None),
        (Reply.json({"what": "is this"}), 502, "upstream_response_failed"),
        (Reply((b"<html>",), headers=(("content-type", "text/html"),)), 502, "upstream_response_failed"),
        (Reply.json(embedding_list(VECTORS)), 502, "upstream_response_failed"),
        (Reply((b'{"data":', Cut()), headers=(("content-type", "application/json"),), framing=90), 502, None),
    ],
)
def test_a_failure_is_told_in_openais_form_without_a_secret(reply, status, code):
    with told({"*": reply}) as gateway:
        got, headers, body = gateway.post("/v1/embeddings", {"model": "voyage/v", "input": "a"})
        assert got == status
        assert body["error"]["message"]
        if code is not None:
            assert body["error"]["code"] == code
        assert CANARY not in json.dumps(body) + str(headers)
        gateway.settled()


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/embeddings", {"model": "claude/c", "input": "a"}, 422, "unsupported_capability"),
        ("/v1/rerank", {"model": "oa/c", "query": "q", "documents": ["a"]}, 422, "unsupported_capability"),
        ("/v1/images/generations", {"model": "jina/c", "prompt": "q"}, 422, "unsupported_capability"),
        ("/v1/web_search", {"model": "oa/c", "query": "q"}, 422, "unsupported_capability"),
        ("/v1/web_fetch", {"model": "brave/c", "url": "https://a.example"}, 422, "unsupported_capability"),
        ("/v1/embeddings", {"model": "primary", "input": "a"}, 422, "model_binding_not_configured"),
        ("/v1/embeddings", {"model": "web_search", "input": "a"}, 422, "unsupported_capability"),
        ("/v1/embeddings", {"model": "nobody/c", "input": "a"}, 422, "unknown_model_selector"),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}, 422, "model_binding_not_configured"),
        ("/v1/embeddings", {"model": "oa/e", "input": [{"image": "https://a"}]}, 400, "unsupported_parameter"),
        ("/v1/embeddings", {"model": "oa/e"}, 400, "invalid_request"),
        ("/v1/embeddings", b"{", 400, "invalid_json"),
        ("/v1/images/edits", {"model": "oa/e", "prompt": "p"}, 400, "invalid_request"),
        (
            "/v1/images/edits",
            {"model": "xai/e", "prompt": "p", "image": "https://a/i", "mask": "https://a/i"},
            400,
            None,
        ),
        ("/v1/web_fetch", {"url": "http://169.254.169.254/", "model": "guarded/page"}, 400, "invalid_request"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(path, body, status, code):
    with told({"*": Reply.json({})}) as gateway:
        got, _, answer = gateway.post(path, body)
        assert (got, answer["error"]["code"]) == (status, code or answer["error"]["code"])
        assert gateway.upstream.facts().request_count == 0
        assert gateway.policy.running == 0


def test_rerank_gives_documents_back_by_their_index():
    own = Reply.json(
        {"results": [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}], "usage": {"total_tokens": 3}}
    )
    voyage = Reply.json(
        {"data": [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 0.9}], "model": "v"}
    )
    with told({"/jina/rerank": own, "/voyage/rerank": voyage}) as gateway:
        asked = {"query": "q", "documents": ["a", "b"], "top_n": 1}
        status, _, body = gateway.post("/v1/rerank", {"model": "jina/r", "own": True, **asked}, raw=True)
        assert (status, body) == (200, own.acts[0])
        assert gateway.seen().json() == {"model": "r", "own": True, **asked}
        status, _, body = gateway.post("/v1/rerank", {"model": "voyage/r", **asked})
        assert body == {"model": "v", "results": [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}]}
        assert gateway.seen().json()["top_k"] == 1


PARTIAL = {
    "type": "image_generation.partial_image",
    "b64_json": "QQ==",
    "partial_image_index": 0,
    "output_format": "png",
    "background": "auto",
    "created_at": 1,
    "quality": "low",
    "size": "auto",
}
USAGE = {
    "input_tokens": 5,
    "output_tokens": 9,
    "total_tokens": 14,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 5},
}
DONE = {**PARTIAL, "type": "image_generation.completed", "b64_json": "QUI=", "usage": USAGE}


def event(value):
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def test_openais_sdk_makes_pictures():
    answer = {"created": 1, "data": [{"b64_json": "QUI="}], "usage": USAGE}
    with told({"/v1/images/generations": Reply.json(answer)}) as gateway, gateway.sdk() as client:
        result = client.images.generate(
            model="oa/gpt-image-1", prompt="a mill", n=1, size="1024x1024", moderation="low"
        )
        assert (result.data[0].b64_json, result.usage.output_tokens) == ("QUI=", 9)
        assert gateway.seen().json() == {
            "model": "gpt-image-1",
            "prompt": "a mill",
            "n": 1,
            "size": "1024x1024",
            "moderation": "low",
        }
        status, _, _ = gateway.post("/v1/images/generations", {"prompt": "by the profile"})
        assert (status, gateway.seen().json()["model"]) == (200, "gpt-image-1")


def test_openais_sdk_sees_partial_pictures_as_they_come():
    reply = Reply.stream(event(PARTIAL), Gate("seen"), event({**PARTIAL, "partial_image_index": 1}), event(DONE))
    with told({"/v1/images/generations": reply}) as gateway, gateway.sdk() as client:
        stream = client.images.generate(model="oa/i", prompt="p", stream=True, partial_images=2)
        first = next(iter(stream))
        assert (first.type, first.partial_image_index) == ("image_generation.partial_image", 0)
        gateway.upstream.open("seen")
        rest = list(stream)
        assert [one.type for one in rest] == ["image_generation.partial_image", "image_generation.completed"]
        assert rest[-1].usage.output_tokens == 9
        sent = gateway.seen()
        assert (sent.json()["stream"], sent.json()["partial_images"]) == (True, 2)
        assert sent.header("accept") == "text/event-stream"
        gateway.settled()
        assert dict(gateway.edge.counters())["reads"] == 0


def test_openais_sdk_edits_pictures():
    with told({"*": Reply.json({"created": 1, "data": [{"b64_json": "QUI="}]})}) as gateway, gateway.sdk() as client:
        result = client.images.edit(
            model="oa/gpt-image-1", image=[("a.png", PNG), ("b.png", b"B")], mask=("m.png", b"M"), prompt="p", n=2
        )
        assert result.data[0].b64_json == "QUI="
        sent = gateway.seen()
        assert sent.path == "/v1/images/edits"
        assert sent.header("content-type").startswith("multipart/form-data; boundary=headrace-")
        for piece in (PNG, b'name="image[]"; filename="a.png"', b'name="mask"', b'name="n"\r\n\r\n2', b"gpt-image-1"):
            assert piece in sent.body
        assert b"oa/" not in sent.body
        client.images.edit(model="xai/grok", image=("a.png", PNG), prompt="p")
        sent = gateway.seen()
        assert sent.path == "/xai/images/edits"
        assert base64.b64decode(sent.json()["image"]["url"].partition(",")[2]) == PNG
        # And as JSON, with an address.
        body = {"model": "xai/grok", "prompt": "p", "image": {"image_url": "https://a.example/i.png"}}
        assert gateway.post("/v1/images/edits", body)[0] == 200
        assert gateway.seen().json()["image"]["url"] == "https://a.example/i.png"


def test_openais_sdk_gets_geminis_pictures_and_vectors():
    rows = """
[[providers]]
id = "gem"
kind = "google"
base_url = "{url}/g"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
"""
    parts = [{"text": "here"}, {"inlineData": {"mimeType": "image/png", "data": "QUI="}}]
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12}
    picture = Reply.json({"candidates": [{"content": {"parts": parts}}], "usageMetadata": usage})
    script = {
        "/g/v1beta/models/nano:generateContent": picture,
        "/g/v1beta/models/e:embedContent": Reply.json({"embedding": {"values": VECTORS[0]}}),
        "/g/v1beta/models/e:batchEmbedContents": Reply.json({"embeddings": [{"values": one} for one in VECTORS]}),
    }
    with told(script, rows) as gateway, gateway.sdk() as client:
        result = client.images.edit(model="gem/nano", image=("a.png", PNG, "image/png"), prompt="p")
        assert result.data[0].b64_json == "QUI="
        sent = gateway.seen()
        inline = sent.json()["contents"][0]["parts"][1]["inlineData"]
        assert (inline["mimeType"], base64.b64decode(inline["data"])) == ("image/png", PNG)
        assert (sent.header("x-goog-api-key"), sent.header("authorization")) == (CANARY, None)
        events = list(client.images.generate(model="gem/nano", prompt="p", stream=True, quality="low"))
        assert [(one.type, one.b64_json) for one in events] == [("image_generation.completed", "QUI=")]
        assert client.embeddings.create(model="gem/e", input="a").data[0].embedding == VECTORS[0]
        many = client.embeddings.create(model="gem/e", input=["a", "b"])
        assert [one.embedding for one in many.data] == VECTORS


def test_a_vendor_without_streams_answers_a_stream_with_its_end():
    with told({"*": Reply.json({"data": [{"b64_json": "QUI="}]})}) as gateway, gateway.sdk() as client:
        events = list(client.images.generate(model="xai/grok", prompt="p", stream=True))
        assert [(one.type, one.b64_json) for one in events] == [("image_generation.completed", "QUI=")]


def test_search_and_fetch_by_their_profiles():
    found = {
        "query": {},
        "web": {"results": [{"title": "<strong>A</strong> &amp; B", "url": "https://a", "description": "d"}]},
    }
    page = Reply((b"<title>T</title><h1>H</h1><script>x</script>",), headers=(("content-type", "text/html"),))
    reader = Reply.json(
        {"code": 200, "data": {"url": "https://b", "title": "T", "content": "c", "usage": {"tokens": 3}}}
    )
    script = {"/brave/web/search": Reply.json(found), "/page": page, "/r/": reader}
    with told(script) as gateway:
        status, _, body = gateway.post("/v1/web_search", {"query": "mills & more", "max_results": 3})
        hit = {"url": "https://a", "title": "A & B", "snippet": "d", "source_index": 0}
        assert (status, body) == (200, {"object": "web_search", "query": "mills & more", "results": [hit]})
        sent = gateway.seen()
        assert (sent.method, sent.target) == ("GET", "/brave/web/search?q=mills+%26+more&count=3")
        assert sent.header("x-subscription-token") == CANARY
        status, _, body = gateway.post("/v1/web_fetch", {"url": f"{gateway.upstream.url}/page"})
        assert (status, body["title"], body["content"], body["truncated"]) == (200, "T", "# H", False)
        assert CANARY not in str(gateway.seen().headers)
        status, _, body = gateway.post("/v1/web_fetch", {"url": "https://x.example/", "model": "jina/reader"})
        assert (status, body["url"], body["content"]) == (200, "https://b", "c")
        assert gateway.seen().header("authorization") is None
        status, _, body = gateway.post("/v1/web_fetch", {"url": f"{gateway.upstream.url}/none"})
        assert (status, body["error"]["code"]) == (400, "invalid_request")


def test_a_page_that_does_not_come_in_time_is_a_timeout():
    rows = """
[[providers]]
id = "hasty"
kind = "plain_fetch"
[providers.settings]
ports = [{port}]
timeout = 0.2
danger_allow_networks = ["127.0.0.1/32"]
"""
    with told({"*": Reply((Stall(),), headers=(("content-type", "text/html"),), framing="chunked")}, rows) as gateway:
        asked = {"url": f"{gateway.upstream.url}/", "model": "hasty/page"}
        status, _, body = gateway.post("/v1/web_fetch", asked)
        assert (status, body["error"]["code"]) == (504, "upstream_timeout")


def test_a_search_goes_on_to_the_next_of_its_route():
    rows = """
[[providers]]
id = "tavily"
kind = "tavily"
base_url = "{url}/tavily"
[[routes]]
profile = "web_search"
to = ["tavily/search"]
"""
    found = {"results": [{"url": "https://a", "title": "t", "content": "c", "score": 0.5}], "request_id": "r"}
    script = {"/brave/web/search": Reply.json({}, status=503), "/tavily/search": Reply.json(found)}
    with told(script, rows) as gateway:
        status, headers, body = gateway.post("/v1/web_search", {"query": "q"})
        assert (status, body["id"]) == (200, "r")
        assert "tavily/search" in headers["x-headrace-fallback"]
        assert body["results"] == [{"url": "https://a", "title": "t", "snippet": "c", "score": 0.5, "source_index": 0}]
        assert gateway.seen().json() == {"query": "q"}, "prepared anew for the other vendor"
        gateway.settled()


def test_a_refusal_of_the_content_cools_no_credential():
    rows = """
[[providers]]
id = "painter"
kind = "openrouter"
base_url = "{url}/or"
[[providers.credentials]]
id = "one"
secret = "env:ONE"
"""
    refused = {"promptFeedback": {"blockReason": "SAFETY"}}
    picture = {"choices": [{"message": {"images": [{"image_url": {"url": "data:image/png;base64,QUI="}}]}}]}
    with told(
        {"/or/chat/completions": [Reply.json(refused), Reply.json(refused), Reply.json(picture)]}, rows
    ) as gateway:
        asked = {"model": "painter/m", "prompt": "p"}
        for _ in range(2):
            status, _, body = gateway.post("/v1/images/generations", asked)
            assert (status, body["error"]["code"]) == (400, "content_policy_violation")
        status, _, body = gateway.post("/v1/images/generations", asked)
        assert (status, body["data"]) == (200, [{"b64_json": "QUI=", "mime_type": "image/png"}])


def test_a_client_that_leaves_ends_the_call():
    with told({"*": Reply((Stall(),), headers=(("content-type", "application/json"),), framing=90)}) as gateway:
        connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=20)
        connection.request(
            "POST", "/v1/embeddings", json.dumps({"model": "oa/e", "input": "a"}), {"content-type": "application/json"}
        )
        gateway.upstream.wait(lambda facts: any(one.waiting for one in facts.connections))
        connection.close()
        facts = gateway.upstream.wait(lambda facts: facts.open_connections == 0)
        gateway.settled()
        assert facts.request_count == 1, "nobody is left to ask again for"


def test_a_key_asks_only_for_what_it_may():
    rows = '[[keys]]\nid = "team"\nsecret = "env:TEAM"\nmodels = ["oa/*"]\n'
    with told({"*": Reply.json(embedding_list(VECTORS[:1]))}, rows, TEAM="team-key") as gateway:
        bearer = {"authorization": "Bearer team-key"}
        assert gateway.post("/v1/embeddings", {"model": "oa/e", "input": "a"})[0] == 401
        assert gateway.post("/v1/embeddings", {"model": "voyage/e", "input": "a"}, bearer)[0] == 403
        assert gateway.post("/v1/embeddings", {"model": "oa/e", "input": "a"}, bearer)[0] == 200
        assert gateway.seen().header("authorization") == f"Bearer {CANARY}"


def test_a_body_of_countless_values_never_reaches_the_interpreter():
    with told({"/v1/embeddings": Reply.json(embedding_list(PACKED))}) as gateway:
        heavy = [
            b'{"model":"oa/e","input":[' + b"[]," * 2_000_000 + b"[]]}",
            b'{"model":"oa/e","input":[' + b"1," * 2_000_000 + b"1]}",
            b'{"model":"oa/e","input":"a",' + b'"k":0,' * 1_000_000 + b'"k":0}',
            b"[" * 2_000_000,
        ]
        for path in ("/v1/embeddings", "/v1/rerank", "/v1/images/edits", "/v1/web_search"):
            for body in heavy:
                status, _, told_ = gateway.post(path, body)
                assert (status, told_["error"]["code"]) == (413, "request_too_large")
        assert dict(gateway.edge.counters())["decides"] == 0
        # As many tokens as a vendor takes in one request are no such body, nor is a long text full of brackets.
        tokens = [[token] * 3000 for token in range(100)]
        for asked in (tokens, "[,:{" * 1_000_000):
            assert gateway.post("/v1/embeddings", {"model": "oa/e", "input": asked})[0] == 200
            assert gateway.seen().json()["input"] == asked


def test_a_form_without_a_boundary_is_no_json():
    with told({}) as gateway:
        headers = {"content-type": "multipart/form-data"}
        status, _, body = gateway.post("/v1/images/edits", b"[" * 2_000_000, headers)
        assert (status, "names no boundary" in body["error"]["message"]) == (400, True)
