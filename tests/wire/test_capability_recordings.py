"""What providers really sent, read to typed results; and requests as their SDKs would have them."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse, ImagesResponse

from headrace import Decoder
from headrace.calls import Call, Opened
from headrace.capabilities import (
    EmbedRequest,
    FetchRequest,
    ImageFile,
    ImageRequest,
    ImageResult,
    PartialImage,
    ReadError,
    RerankRequest,
    SearchRequest,
    Vector,
    embeddings,
)
from headrace.errors import UnsupportedFeature
from headrace.providers import _embeddings, _fetch, _images, _rerank, _search
from headrace.registry import Registry
from headrace.requests import RuntimeMap

DEFINITIONS = Registry(tuple).definitions


def body(shared, name):
    return (shared / "recordings" / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "inputs", "length", "dtype", "tokens"),
    [
        ("azure-ada", 1, 1536, "float", 2),
        ("bedrock-nova-2-multimodal-embeddings", 1, 256, "float", None),
        ("cohere-embed-english-v3.0", 1, 1024, "float", None),
        ("google-gemini-embedding-2", 1, 768, "float", 261),
        ("mistral-mistral-embed", 1, 1024, "float", 5),
        ("ollama-nomic-embed-text", 1, 768, "float", 9),
        ("openai-text-embedding-3-small", 1, 256, "float", 5),
        ("perplexity-pplx-embed-v1-0.6b", 3, 256, "int8", 3),
        ("voyage-voyage-3-lite", 2, 512, "float", 12),
    ],
)
def test_embeddings(shared, name, inputs, length, dtype, tokens):
    asked = EmbedRequest(model="asked", input=("x",) * inputs, dtype=dtype)
    raw = body(shared, f"embeddings/{name}.json")
    result = _embeddings.read(asked, raw)
    assert [one.index for one in result.embeddings] == list(range(inputs))
    assert {len(one.vector) for one in result.embeddings} == {length}
    assert result.usage.input_tokens == tokens
    if dtype == "float":
        norm = sum(value * value for value in result.embeddings[0].vector.values)
        assert norm == pytest.approx(1.0, abs=0.01)
    # The client's SDK reads what we write of it, in both encodings, to the same numbers.
    for encoding in ("float", "base64"):
        told = json.loads(embeddings.render(replace(asked, encoding=encoding), result))
        CreateEmbeddingResponse.model_validate(told if encoding == "float" else {**told, "data": []})
        got = told["data"][0]["embedding"]
        if encoding == "base64":
            got = list(memoryview(base64.b64decode(got)).cast("f" if dtype == "float" else "b"))
        # Numbers are written in the fewest digits that are the same float.
        assert Vector.of(got, dtype) == result.embeddings[0].vector


@pytest.mark.parametrize(
    ("name", "documents", "order", "tokens"),
    [
        ("bedrock-rerank-v3-5", 5, [2, 0, 4], None),
        ("cohere-rerank-english-v2.0", 3, [1, 0], None),
        ("cohere-rerank-v3.5", 3, [0, 2], None),
        ("llamacpp-bge-reranker-v2-m3-q4-k-m", 3, [], 55),
        ("openrouter-rerank-2.5-lite", 2, [1, 0], 17),
        ("together", 6, [0, 5], 2966),
        ("voyage-rerank-2-lite", 3, [0, 2], 43),
        ("voyage-vercel", 2, [1, 0], 12),
    ],
)
def test_rerank(shared, name, documents, order, tokens):
    texts = tuple(f"document {number}" for number in range(documents))
    asked = RerankRequest(model="asked", query="q", documents=texts)
    result = _rerank.read(asked, body(shared, f"rerank/{name}.json"))
    assert [one.index for one in result.results] == order
    assert [one.document for one in result.results] == [texts[index] for index in order]
    scores = [one.score for one in result.results]
    assert scores == sorted(scores, reverse=True)
    assert result.usage.input_tokens == tokens
    fewer = _rerank.read(replace(asked, top_n=1), body(shared, f"rerank/{name}.json"))
    assert fewer.results == result.results[:1]


@pytest.mark.parametrize(
    ("name", "count", "mime"),
    [
        ("openai-dall-e-2-generation", 1, None),
        ("openai-gpt-image-1-mini-generation", 1, None),
        ("openai-image-generation", 2, None),
        ("openai-na-generation", 1, None),
        ("xai-grok-imagine-image-generation", 1, "image/jpeg"),
        ("xai-grok-imagine-image-quality-edit", 1, "image/jpeg"),
    ],
)
def test_pictures(shared, name, count, mime):
    result = _images.read(ImageRequest(model="m", prompt="p"), body(shared, f"images/{name}.json"))
    assert len(result.images) == count
    assert all((image.data is None) != (image.url is None) for image in result.images)
    assert result.images[0].mime == mime
    from headrace.capabilities import images

    ImagesResponse.model_validate_json(images.render(replace(result, usage=type(result.usage)()), now=1))


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("exa-na-search", 10, "https://theconversation.com/"),
        ("firecrawl-na-search", 5, "https://www.firecrawl.dev/"),
        ("serpapi-na-search", 10, "https://"),
        ("serper-na-search", 10, "https://en.wikipedia.org/wiki/2022_FIFA_World_Cup_final"),
        ("tavily-na-search", 2, "https://opentelemetry.io/"),
    ],
)
def test_search(shared, name, count, first):
    raw = body(shared, f"web_search/{name}.json")
    result = _search.read(SearchRequest(query="q"), raw)
    assert len(result.results) == count
    assert result.results[0].url.startswith(first)
    assert all(hit.title and hit.url.startswith("http") and (hit.snippet or hit.content) for hit in result.results)
    assert [hit.source_index for hit in result.results] == list(range(count))
    assert _search.read(SearchRequest(query="q", max_results=1), raw).results == result.results[:1]


def test_error_bodies_of_these_capabilities_have_their_kind(shared):
    manifest = [json.loads(line) for line in (shared / "recordings/MANIFEST.jsonl").read_text().splitlines()]
    rows = {row["file"]: row for row in manifest}
    expected = [json.loads(line) for line in (shared / "recordings/errors.expected.jsonl").read_text().splitlines()]
    judged = [one for one in expected if one["decoder"] is None]
    assert len(judged) >= 3
    for one in judged:
        headers = list((rows[one["file"]].get("headers") or {}).items())
        decoder = Decoder("openai_chat", status=one["status"], headers=headers)
        (event,) = decoder.feed(body(shared, one["file"])) + decoder.finish("eof")
        assert (event.kind, event.retryable, event.code) == (one["kind"], one["retryable"], one["code"]), one["file"]


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, '{"detail":{"error":"Unauthorized: missing or invalid API key."}}', "auth"),
        (432, '{"detail":{"error":"This request exceeds your plan\'s set usage limit."}}', "bad_request"),
        (429, '{"detail":"Rate limit exceeded"}', "rate_limit"),
        (
            402,
            '{"code":402,"name":"InsufficientBalanceError","status":40203,"message":"Account balance not enough"}',
            "quota",
        ),
        (400, '{"detail":"Request to model failed. The example at index 0 has too many tokens"}', "context_length"),
        (
            422,
            '{"type":"ErrorResponse","error":{"status":422,"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"bad"}}',
            "bad_request",
        ),
        (503, '{"message":"upstream connect error"}', "overloaded"),
        (408, '{"success":false,"error":"Request timed out"}', "timeout"),
    ],
)
def test_other_vendors_errors_have_their_kind(status, text, kind):
    decoder = Decoder("openai_chat", status=status)
    (event,) = decoder.feed(text.encode()) + decoder.finish("eof")
    assert event.kind == kind


# Requests.


def runtime(kind, wire, model="m"):
    definition = DEFINITIONS[kind]
    settings = definition.settings() if definition.settings else None
    return RuntimeMap(
        provider="row",
        kind=kind,
        model=model,
        base_url=definition.base_url or "https://x.example",
        protocol=wire.protocol,
        settings=settings,
    )


def prepared(kind, wire, asked, model="m"):
    made = wire.prepare(runtime(kind, wire, model), asked)
    return made.method, made.url, (json.loads(made.body) if made.body else None)


def test_how_each_embedder_is_asked(shared):
    asked = EmbedRequest(model="r/m", input=("a", "b"), dimensions=256, purpose="query", truncate=True)
    recorded = {
        row["file"]: row["request"]
        for row in map(json.loads, (shared / "recordings/embeddings/requests.jsonl").read_text().splitlines())
    }
    assert prepared("openai", _embeddings.OPENAI, asked)[1:] == (
        "https://api.openai.com/v1/embeddings",
        {"model": "m", "input": ["a", "b"], "dimensions": 256, "encoding_format": "base64"},
    )
    assert prepared("voyage", _embeddings.VOYAGE, asked)[1:] == (
        "https://api.voyageai.com/v1/embeddings",
        {
            "model": "m",
            "input": ["a", "b"],
            "output_dimension": 256,
            "input_type": "query",
            "truncation": True,
            "encoding_format": "base64",
        },
    )
    assert prepared("jina", _embeddings.JINA, asked)[2]["task"] == "retrieval.query"
    assert prepared("jina", _embeddings.JINA, replace(asked, dtype="binary"))[2]["embedding_type"] == "binary"
    # What a recorder saw the vendor's own SDK send, said in our words.
    sent = recorded["embeddings/openai-text-embedding-3-small.json"]
    again = EmbedRequest(model="x", input=(sent["input"],), dimensions=256)
    assert prepared("openai", _embeddings.OPENAI, again, sent["model"])[2] == sent
    sent = {
        name: value for name, value in recorded["embeddings/voyage-voyage-3-lite.json"].items() if value is not None
    }
    again = EmbedRequest(model="x", input=tuple(sent["input"]), purpose="document", truncate=True)
    assert prepared("voyage", _embeddings.VOYAGE, again, sent["model"])[2] == sent
    with pytest.raises(UnsupportedFeature, match="pictures"):
        prepared("openai", _embeddings.OPENAI, EmbedRequest(model="m", input=({"image": "https://a"},)))
    with pytest.raises(UnsupportedFeature, match="int8"):
        prepared("openai", _embeddings.OPENAI, EmbedRequest(model="m", input=("a",), dtype="int8"))


def test_cohere_is_asked_as_its_sdk_would():
    cohere = pytest.importorskip("cohere")
    asked = EmbedRequest(model="r/m", input=("a",), purpose="query", truncate=False, dimensions=256)
    made = json.loads(_embeddings.COHERE.prepare(runtime("openai", _embeddings.COHERE), asked).body)
    assert made == {
        "model": "m",
        "texts": ["a"],
        "input_type": "search_query",
        "embedding_types": ["base64"],
        "output_dimension": 256,
        "truncate": "NONE",
    }
    picture = EmbedRequest(model="r/m", input=({"image": "data:image/png;base64,QQ=="},))
    made = json.loads(_embeddings.COHERE.prepare(runtime("openai", _embeddings.COHERE), picture).body)
    cohere.EmbedInput.model_validate(made["inputs"][0])
    ranked = RerankRequest(model="m", query="q", documents=("a", {"text": "b"}), top_n=1, max_tokens_per_document=9)
    made = json.loads(_rerank.COHERE.prepare(runtime("openai", _rerank.COHERE), ranked).body)
    assert made == {"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 1, "max_tokens_per_doc": 9}
    with pytest.raises(UnsupportedFeature, match="texts only"):
        _rerank.COHERE.prepare(runtime("openai", _rerank.COHERE), replace(ranked, documents=({"image": "x"},)))


def test_google_is_asked_as_its_types_say():
    types = pytest.importorskip("google.genai.types")
    one = EmbedRequest(model="r/m", input=("a",), purpose="document", dimensions=5)
    made = _embeddings.GOOGLE.prepare(runtime("openai", _embeddings.GOOGLE, "gemini-embedding-2"), one)
    assert made.url.endswith("/models/gemini-embedding-2:embedContent")
    made = json.loads(made.body)
    types.Content.model_validate(made["content"])
    types.EmbedContentConfig.model_validate({"taskType": made["taskType"], "outputDimensionality": 5})
    several = _embeddings.GOOGLE.prepare(
        runtime("openai", _embeddings.GOOGLE), replace(one, input=("a", {"image": "data:image/png;base64,QQ=="}))
    )
    assert several.url.endswith("/models/m:batchEmbedContents")
    for request in json.loads(several.body)["requests"]:
        types.Content.model_validate(request["content"])
    asked = ImageRequest(model="r/m", prompt="p", aspect_ratio="16:9", size="2K", images=(ImageFile(b"A"),))
    made = _images.GEMINI.prepare(runtime("openai", _images.GEMINI), asked)
    assert made.url.endswith("/models/m:generateContent")
    made = json.loads(made.body)
    types.Content.model_validate(made["contents"][0])
    types.GenerateContentConfig.model_validate(made["generationConfig"])
    made = _images.GEMINI.prepare(runtime("openai", _images.GEMINI, "imagen-4"), replace(asked, images=(), n=2))
    assert made.url.endswith("/models/imagen-4:predict")
    assert json.loads(made.body)["parameters"]["sampleCount"] == 2


WIRES = [(kind, one) for kind, definition in sorted(DEFINITIONS.items()) for one in definition.capabilities if one.read]
ASKED = {
    "embeddings": EmbedRequest(model="r/m", input=("a",)),
    "rerank": RerankRequest(model="r/m", query="q", documents=("a", "b")),
    "image_generate": ImageRequest(model="r/m", prompt="p"),
    "web_search": SearchRequest(query="q"),
    "web_fetch": FetchRequest(url="https://a.example/"),
}


@pytest.mark.parametrize(("kind", "wire"), WIRES, ids=[f"{kind}-{one.protocol}" for kind, one in WIRES])
def test_every_kind_prepares_its_other_capabilities_without_a_secret(kind, wire):
    made = wire.prepare(runtime(kind, wire), ASKED[wire.name])
    headers = dict(made.headers)
    assert made.url.startswith(("https://", "http://127.0.0.1:11434/"))
    assert (made.method, "content-type" in headers) in {("POST", True), ("GET", False)}
    assert not {"authorization", "x-api-key", "x-subscription-token", "api-key"} & set(headers)
    assert wire.prepare(runtime(kind, wire), ASKED[wire.name]).body == made.body
    assert wire.carries, "a wire says what it has a place for"


#: Fields that some vendor's answer has.
NAMES = (
    *("data", "embeddings", "embedding", "index", "values", "results", "relevance_score", "score", "candidates"),
    *("content", "parts", "choices", "message", "images", "predictions", "web", "organic", "url", "link", "title"),
    *("code", "success", "usage", "meta", "type", "float", "base64", "error"),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "AAAAPw==", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_an_answer_of_any_shape_is_a_result_or_one_error(value):
    raw = json.dumps(value).encode()
    told = []
    for wire in {one.protocol: one for _, one in WIRES}.values():
        opened = Opened(Call("embeddings", ASKED[wire.name]), wire, "m")
        for read in (opened.result, opened.event):
            # Anything else that is raised here fails the test.
            try:
                read(raw)
            except ReadError as error:
                told.append(str(error))
    assert all(told), "each says what is wrong"


def test_a_vendors_own_headers_and_addresses():
    asked = ASKED["embeddings"]
    azure = next(one for one in DEFINITIONS["azure_openai"].capabilities if one.name == "embeddings")
    here = replace(runtime("azure_openai", azure, "dep loy"), base_url="https://a.example/openai/v1")
    assert azure.prepare(here, asked).url == "https://a.example/openai/v1/embeddings"
    older = replace(here, settings=replace(here.settings, api_version="2024-10-21"))
    assert azure.prepare(older, asked).url == (
        "https://a.example/openai/deployments/dep%20loy/embeddings?api-version=2024-10-21"
    )
    router = next(one for one in DEFINITIONS["openrouter"].capabilities if one.name == "rerank")
    here = runtime("openrouter", router)
    made = router.prepare(
        replace(here, settings=replace(here.settings, title="t", headers={"X-A": "b"})), ASKED["rerank"]
    )
    assert made.url == "https://openrouter.ai/api/v1/rerank"
    assert {("x-title", "t"), ("x-a", "b")} <= set(made.headers)
    ours = next(one for one in DEFINITIONS["openai"].capabilities if one.name == "image_generate")
    here = runtime("openai", ours)
    made = ours.prepare(replace(here, settings=replace(here.settings, project="p")), ASKED["image_generate"])
    assert ("openai-project", "p") in made.headers
    for kind, url in [
        ("cohere", "https://api.cohere.com/v2/embed"),
        ("mistral", "https://api.mistral.ai/v1/embeddings"),
        ("google", "https://generativelanguage.googleapis.com/v1beta/models/m:embedContent"),
        ("ollama", "http://127.0.0.1:11434/api/embed"),
    ]:
        wire = next(one for one in DEFINITIONS[kind].capabilities if one.name == "embeddings")
        assert wire.prepare(runtime(kind, wire), asked).url == url


def test_how_each_reranker_is_asked(shared):
    asked = RerankRequest(model="r/m", query="q", documents=("a", "b"), top_n=1, truncate=False)
    assert prepared("voyage", _rerank.VOYAGE, asked)[2] == {
        "model": "m",
        "query": "q",
        "documents": ["a", "b"],
        "top_k": 1,
        "truncation": False,
    }
    rows = map(json.loads, (shared / "recordings/rerank/requests.jsonl").read_text().splitlines())
    sent = next(row["request"] for row in rows if "openrouter" in row["file"])
    again = RerankRequest(model="x", query=sent["query"], documents=tuple(sent["documents"]), top_n=sent.get("top_n"))
    assert prepared("jina", _rerank.JINA, again, sent["model"])[2] == sent


def test_how_each_engine_is_asked():
    asked = SearchRequest(query="a b", max_results=30, include_domains=("x.example",), freshness="week", country="de")
    method, url, none = prepared("brave", _search.BRAVE, asked)
    assert (method, none) == ("GET", None)
    assert url == (
        "https://api.search.brave.com/res/v1/web/search?q=a+b+site%3Ax.example&count=20&country=de&freshness=pw"
    )
    assert prepared("tavily", _search.TAVILY, asked)[2] == {
        "query": "a b",
        "max_results": 30,
        "include_domains": ["x.example"],
        "time_range": "week",
    }
    assert prepared("exa", _search.EXA, replace(asked, content=True), "fast")[2] == {
        "query": "a b",
        "numResults": 30,
        "includeDomains": ["x.example"],
        "userLocation": "de",
        "type": "fast",
        "contents": {"text": True, "highlights": True},
    }
    assert prepared("jina", _search.JINA, asked)[1:] == (
        "https://s.jina.ai/",
        {"q": "a b site:x.example", "num": 30, "gl": "de"},
    )
    assert "format=json" in prepared("searxng", _search.SEARXNG, asked)[1]
    assert prepared("firecrawl", _search.FIRECRAWL, asked)[2]["tbs"] == "qdr:w"
    assert prepared("serper", _search.SERPER, asked)[1] == "https://google.serper.dev/search"


def test_how_each_reader_of_pages_is_asked():
    asked = FetchRequest(url="https://a.example/x")
    made = _fetch.JINA.prepare(runtime("jina", _fetch.JINA), asked)
    assert (made.url, json.loads(made.body)) == ("https://r.jina.ai/", {"url": "https://a.example/x"})
    assert dict(made.headers)["x-return-format"] == "markdown"
    assert prepared("firecrawl", _fetch.FIRECRAWL, asked)[1:] == (
        "https://api.firecrawl.dev/v2/scrape",
        {"url": "https://a.example/x", "formats": ["markdown"]},
    )
    assert prepared("tavily", _fetch.TAVILY, asked)[2] == {"urls": ["https://a.example/x"], "format": "markdown"}
    with pytest.raises(UnsupportedFeature, match="format"):
        prepared("tavily", _fetch.TAVILY, replace(asked, format="html"))


@pytest.mark.parametrize(
    ("raw", "content", "title"),
    [
        ({"code": 200, "data": {"url": "https://a", "title": "T", "content": "c", "usage": {"tokens": 7}}}, "c", "T"),
        ({"success": True, "data": {"markdown": "m", "metadata": {"title": "T", "sourceURL": "https://a"}}}, "m", "T"),
        ({"results": [{"url": "https://a", "raw_content": "r"}], "failed_results": []}, "r", None),
    ],
)
def test_pages(raw, content, title):
    result = _fetch.read(FetchRequest(url="https://b"), json.dumps(raw).encode())
    assert (result.content, result.title, result.url) == (content, title, "https://a")


@pytest.mark.parametrize(
    "raw",
    [
        {"code": 451, "status": 45100, "message": "secret words"},
        {"success": False, "error": "secret words"},
        {"results": [], "failed_results": [{"url": "https://a", "error": "secret words"}]},
    ],
)
def test_a_page_that_failed_with_a_good_status_is_a_failure(raw):
    with pytest.raises(ReadError, match="could not fetch") as caught:
        _fetch.read(FetchRequest(url="https://b"), json.dumps(raw).encode())
    assert "secret" not in str(caught.value)


# Pictures that come otherwise.

INLINE = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}


def test_geminis_pictures_without_its_drafts():
    raw = {
        "candidates": [{"content": {"parts": [{"text": "here"}, {**INLINE, "thought": True}, INLINE]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1290, "totalTokenCount": 1293},
    }
    result = _images.read(ImageRequest(model="m", prompt="p"), json.dumps(raw).encode())
    assert [(one.data, one.mime) for one in result.images] == [("QQ==", "image/png")]
    assert (result.text, result.usage.input_tokens, result.usage.output_tokens) == ("here", 3, 1290)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, "content_filter"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "content_filter"),
        ({"candidates": [{"finishReason": "NO_IMAGE", "content": {"parts": [{"text": "no"}]}}]}, "unknown"),
        ({"predictions": [{"raiFilteredReason": "unsafe"}]}, "content_filter"),
        ({"data": []}, "unknown"),
        ({"choices": [{"message": {"content": "no picture"}}]}, "unknown"),
    ],
)
def test_no_picture_is_an_error_of_its_kind(raw, kind):
    with pytest.raises(ReadError) as caught:
        _images.read(ImageRequest(model="m", prompt="p"), json.dumps(raw).encode())
    assert caught.value.kind == kind


def test_imagens_and_chats_pictures():
    raw = {"predictions": [{"bytesBase64Encoded": "QQ==", "mimeType": "image/png"}, {"raiFilteredReason": "x"}]}
    assert len(_images.read(ImageRequest(model="m", prompt="p"), json.dumps(raw).encode()).images) == 1
    message = {"content": "hi", "images": [{"image_url": {"url": "data:image/webp;base64,QQ=="}}]}
    result = _images.read(ImageRequest(model="m", prompt="p"), json.dumps({"choices": [{"message": message}]}).encode())
    assert (result.images[0].mime, result.images[0].data, result.text) == ("image/webp", "QQ==", "hi")


def test_events_of_a_pictures_stream():
    asked = ImageRequest(model="m", prompt="p")
    partial = {"type": "image_edit.partial_image", "b64_json": "QQ==", "partial_image_index": 1, "output_format": "png"}
    assert _images.read_event(asked, json.dumps(partial).encode()) == PartialImage(
        index=1, data="QQ==", mime="image/png"
    )
    done = {"type": "image_generation.completed", "b64_json": "QUI=", "usage": {"input_tokens": 5, "output_tokens": 9}}
    result = _images.read_event(asked, json.dumps(done).encode())
    assert isinstance(result, ImageResult)
    assert (result.images[0].read(), result.usage.output_tokens) == (b"AB", 9)
    assert _images.read_event(asked, b'{"type":"something.new"}') is None
    failed = {"type": "error", "error": {"code": "moderation_blocked", "message": "secret words"}}
    with pytest.raises(ReadError) as caught:
        _images.read_event(asked, json.dumps(failed).encode())
    assert (caught.value.kind, "secret" in str(caught.value)) == ("content_filter", False)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], "gave 1 embeddings for 2"),
        ([{"index": 1, "embedding": [1.0]}], "gave 1 embeddings for 2"),
    ],
)
def test_a_missing_vector_is_never_filled_in(items, words):
    with pytest.raises(ReadError, match=words):
        _embeddings.read(EmbedRequest(model="m", input=("a", "b")), json.dumps({"data": items}).encode())


def test_vectors_go_to_their_index_and_several_stay_together():
    raw = {"data": [{"index": 1, "embedding": [[2.0, 3.0], [4.0, 5.0]]}, {"index": 0, "embedding": [1.0]}]}
    result = _embeddings.read(EmbedRequest(model="m", input=("a", "b")), json.dumps(raw).encode())
    assert [[one.tolist() for one in item.vectors] for item in result.embeddings] == [[[1.0]], [[2.0, 3.0], [4.0, 5.0]]]
    with pytest.raises(ValueError, match="too many values"):
        _ = result.embeddings[1].vector


def test_a_document_that_was_not_given_cannot_be_ranked():
    for index in (-1, 2, "0"):
        raw = {"results": [{"index": index, "relevance_score": 1}]}
        with pytest.raises(ReadError, match="not given"):
            _rerank.read(RerankRequest(model="m", query="q", documents=("a", "b")), json.dumps(raw).encode())
