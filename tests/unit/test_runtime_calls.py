"""The other capabilities through the library, synchronous and on both event loops, over a scripted provider."""

from __future__ import annotations

import contextlib
import json

import anyio
import pytest

from headrace import errors
from headrace.capabilities import (
    EmbedRequest,
    FetchRequest,
    ImageRequest,
    ImageResult,
    PartialImage,
    RerankRequest,
    SearchRequest,
)
from headrace.config import Config, Credential, Provider
from headrace.requests import Secret
from headrace.runtime import RefusedError, Runtime, SyncRuntime
from headrace.testing import Cut, Gate, Reply, Stall, Upstream

CANARY = "sk-canary-4711"
VECTOR = {"data": [{"index": 0, "embedding": [0.5, -0.25]}], "model": "v", "usage": {"prompt_tokens": 3}}
EMBED = EmbedRequest(model="oa/e", input=("a",))
IMAGE = ImageRequest(model="oa/i", prompt="p", partial_images=1)
PARTIAL = b'data: {"type":"image_generation.partial_image","b64_json":"QQ==","partial_image_index":0}\n\n'
DONE = b'data: {"type":"image_generation.completed","b64_json":"QUI=","usage":{"output_tokens":9}}\n\n'


def row(name, kind, url, **more):
    keys = tuple(Credential(id=one, secret=Secret(f"{CANARY}-{one}")) for one in ("one", "two"))
    return Provider(id=name, kind=kind, base_url=url, credentials=keys, **more)


@contextlib.contextmanager
def upstream(script):
    with Upstream(script) as running:
        url = running.url
        plain = {"ports": [int(url.rpartition(":")[2])], "danger_allow_networks": ["127.0.0.1/32"]}
        rows = (
            row("oa", "openai", f"{url}/v1"),
            row("jina", "jina", f"{url}/jina", settings={"search_url": f"{url}/s", "reader_url": f"{url}/r"}),
            row("claude", "anthropic", url),
            Provider(id="plain", kind="plain_fetch", settings=plain),
        )
        profiles = {"web_search": "jina/search", "web_fetch": "plain/page"}
        yield running, Config(providers=rows, profiles=profiles)


@pytest.fixture(params=["asyncio", "trio", "sync"])
def face(request):
    """Make one call by its name, in one of three ways."""

    def call(config, name, asked):
        if request.param == "sync":
            with SyncRuntime(config) as runtime:
                return getattr(runtime, name)(asked)

        async def once():
            async with Runtime(config) as runtime:
                return await getattr(runtime, name)(asked)

        return anyio.run(once, backend=request.param)

    def stream(config, asked):
        if request.param == "sync":
            with SyncRuntime(config) as runtime, runtime.image_stream(asked) as pictures:
                return list(pictures)

        async def every():
            async with Runtime(config) as runtime, runtime.image_stream(asked) as pictures:
                return [one async for one in pictures]

        return anyio.run(every, backend=request.param)

    call.stream = stream
    return call


def test_each_capability_gives_its_typed_result(face):
    page = Reply((b"<title>T</title><p>x</p>",), headers=(("content-type", "text/html"),))
    script = {
        "/v1/embeddings": Reply.json(VECTOR),
        "/jina/rerank": Reply.json({"results": [{"index": 1, "relevance_score": 0.5}]}),
        "/v1/images/generations": Reply.json({"data": [{"b64_json": "QUI="}]}),
        "/v1/images/edits": Reply.json({"data": [{"b64_json": "QUI="}]}),
        "/s/": Reply.json({"data": [{"url": "https://a", "title": "t", "description": "d"}]}),
        "/page": page,
    }
    with upstream(script) as (running, config):
        embedded = face(config, "embed", EMBED)
        assert embedded.embeddings[0].vector.tolist() == [0.5, -0.25]
        assert (embedded.model, embedded.usage.input_tokens) == ("v", 3)
        sent = running.facts().requests[-1]
        assert sent.json() == {"model": "e", "input": "a", "encoding_format": "base64"}
        assert sent.header("authorization") == f"Bearer {CANARY}-one"
        ranked = face(config, "rerank", RerankRequest(model="jina/r", query="q", documents=("a", "b")))
        assert [(one.index, one.document) for one in ranked.results] == [(1, "b")]
        assert face(config, "images", IMAGE).images[0].read() == b"AB"
        assert "stream" not in running.facts().requests[-1].json()
        found = face(config, "search", SearchRequest(query="q"))
        assert [(hit.url, hit.snippet) for hit in found.results] == [("https://a", "d")]
        fetched = face(config, "fetch", FetchRequest(url=f"{running.url}/page"))
        assert (fetched.title, fetched.content) == ("T", "x")


def test_partial_pictures_come_before_the_result(face):
    with upstream({"*": Reply.stream(PARTIAL, DONE)}) as (running, config):
        first, last = face.stream(config, IMAGE)
        assert (first, last.images[0].read()) == (PartialImage(index=0, data="QQ=="), b"AB")
        assert running.facts().requests[-1].json()["stream"] is True
    # A server that knows no streams answers whole.
    with upstream({"*": Reply.json({"data": [{"b64_json": "QUI="}]})}) as (_, config):
        (only,) = face.stream(config, IMAGE)
        assert isinstance(only, ImageResult)


@pytest.mark.parametrize("end", [(), (Cut(),)])
def test_a_pictures_stream_without_its_result_was_cut(face, end):
    with upstream({"*": Reply.stream(PARTIAL, *end)}) as (_, config), pytest.raises(errors.StreamInterruptedError):
        face.stream(config, IMAGE)


def test_a_failed_attempt_is_followed_by_another_until_something_was_given(face):
    limited = Reply.json({"error": {"message": CANARY}}, status=429, headers=[("retry-after", "60")])
    with upstream({"*": [limited, Reply.json(VECTOR)]}) as (running, config):
        assert len(face(config, "embed", EMBED).embeddings) == 1
        assert [one.header("authorization")[-3:] for one in running.facts().requests] == ["one", "two"]
    with upstream({"*": [limited, Reply.stream(PARTIAL, DONE)]}) as (_, config):
        assert len(face.stream(config, IMAGE)) == 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply.json({"detail": f"no, {CANARY}"}, status=400), errors.BadRequestError),
        (Reply.json({"message": "x"}, status=401), errors.AuthError),
        (Reply.json({"neither": f"this {CANARY}"}), errors.UnknownProviderError),
        (Reply((b"<html>",)), errors.UnknownProviderError),
        (Reply((b'{"data', Cut()), framing=90), errors.StreamInterruptedError),
    ],
)
def test_a_failure_raises_the_class_of_its_kind_without_a_secret(face, reply, kind):
    with upstream({"*": reply}) as (_, config), pytest.raises(kind) as caught:
        face(config, "embed", EMBED)
    assert CANARY not in str(caught.value)


def test_what_cannot_be_is_refused_before_anything_is_touched(face):
    with upstream({"*": Reply.json(VECTOR)}) as (running, config):
        with pytest.raises(RefusedError) as caught:
            face(config, "embed", EmbedRequest(model="claude/c", input=("a",)))
        assert (caught.value.code, caught.value.status) == ("unsupported_capability", 422)
        with pytest.raises(RefusedError, match="names no model"):
            face(config, "rerank", RerankRequest(model="", query="q", documents=("a",)))
        with pytest.raises(errors.UnsupportedFeature) as unsupported:
            face(config, "embed", EmbedRequest(model="oa/e", input=({"image": "https://a"},)))
        assert unsupported.value.param == "input"
        port = running.url.rpartition(":")[2]
        with pytest.raises(errors.BadRequestError, match="public network"):
            face(config, "fetch", FetchRequest(url=f"http://10.0.0.1:{port}/", model="plain/page"))
        assert running.facts().request_count == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_call_closes_its_connection(backend):
    async def leave(config, running):
        async with Runtime(config) as runtime:
            with anyio.move_on_after(5) as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(runtime.embed, EMBED)
                    await running.until(lambda facts: any(one.waiting for one in facts.connections))
                    group.cancel_scope.cancel()
            assert not scope.cancelled_caught
            await running.until(lambda facts: facts.open_connections == 0)

    with upstream({"*": Reply((b"{", Stall()), framing=90)}) as (running, config):
        anyio.run(leave, config, running, backend=backend)


def test_a_stream_that_is_left_closes_its_connection():
    with (
        upstream({"*": Reply.stream(PARTIAL, Gate("never"), DONE)}) as (running, config),
        SyncRuntime(config) as runtime,
    ):
        with runtime.image_stream(IMAGE) as pictures:
            assert isinstance(next(iter(pictures)), PartialImage)
        running.wait(lambda facts: facts.open_connections == 0)


def test_a_large_answer_is_read_once_and_whole():
    vectors = [{"index": at, "embedding": "AAAAPw=="} for at in range(2048)]
    with upstream({"*": Reply.json({"data": vectors, "model": "v"})}) as (_, config), SyncRuntime(config) as runtime:
        result = runtime.embed(EmbedRequest(model="oa/e", input=("a",) * 2048))
    assert len(result.embeddings) == 2048
    assert {one.vector.tolist()[0] for one in result.embeddings} == {0.5}
    assert len(json.dumps(vectors)) > 65536
