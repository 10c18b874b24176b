"""A user's program over the public face, for mypy and pyright in their strict modes. It is checked and never run."""

from __future__ import annotations

from typing import assert_type

import headrace
from headrace.capabilities import (
    EmbedRequest,
    EmbedResult,
    FetchRequest,
    ImageRequest,
    ImageResult,
    PartialImage,
    Ranked,
    RerankRequest,
    SearchRequest,
    SearchResult,
)
from headrace.codes import ErrorKind, FinishReason
from headrace.errors import KINDS, RateLimitError, from_event
from headrace.log.eventlog import EventLog
from headrace.log.payloads import RunStarted
from headrace.log.records import Record
from headrace.log.state import State
from headrace.loop import BoxedTools, NoTools, Settings, fork, replay_dry, replay_trace, resume, start
from headrace.runtime import Runtime, SyncRuntime
from headrace.testing import Gate, Reply, Upstream
from headrace.tools.toolbox import Toolbox


def told(event: headrace.ModelEvent) -> str:
    match event:
        case headrace.TextDelta(text, index):
            assert_type(text, str)
            assert_type(index, int)
            return text
        case headrace.ToolIntentProposed(tool_name=name, input=arguments):
            return f"{name}({arguments})"
        case headrace.ProviderErrorEvent():
            assert_type(event.kind, ErrorKind)
            assert_type(event.retry_after_s, float | None)
            raise from_event(event)
        case headrace.ModelFinished(reason):
            assert_type(reason, FinishReason)
            return reason
        case headrace.Continuation():
            assert_type(event.attach, headrace.Attach)
            return event.attach.to
        case _:
            return event.type


def made() -> list[headrace.ModelEvent]:
    usage = headrace.Usage(input_tokens=3)
    assert_type(usage.output_tokens, int | None)
    assert_type(usage.to_json(), bytes)
    intent = headrace.ToolIntentProposed(call=0, id="t0.0", tool_name="look", raw_input_text="{}")
    assert_type(intent.assembled_from, headrace.AssembledFrom)
    return [headrace.TextDelta("a", 0, seq=1), usage, intent, headrace.ModelFinished("stop")]


def caught(error: headrace.ProviderError) -> str:
    assert_type(KINDS["auth"], type[headrace.ProviderError])
    if isinstance(error, RateLimitError) and error.event is not None:
        return error.event.phase
    return error.param or str(error)


def sans_io(pieces: list[bytes]) -> bytes:
    decoder = headrace.Decoder("openai_chat", headers=[("content-type", "text/event-stream")], think_tags=True)
    encoder = headrace.Encoder("anthropic_messages", model="m", response_id="msg_1", created=0)
    out = b""
    for piece in pieces:
        events = decoder.feed(memoryview(piece))
        assert_type(events, list[headrace.ModelEvent])
        out += encoder.feed(event for event in events if event.type != "model.annotation")
    out += encoder.feed(decoder.finish("eof")) + encoder.finish()
    assert_type(encoder.losses, list[headrace.Loss])
    return out


def translated(body: bytes) -> list[str]:
    made = headrace.translate_request(
        body,
        source="openai_chat",
        target="openai_responses",
        model="m",
        edits={"/store": False, "/user": headrace.REMOVE},
    )
    new_body, losses = made
    assert_type(new_body, bytes)
    return [f"{loss.path} {loss.action}" for loss in losses]


def replied(event: headrace.ProviderErrorEvent) -> int:
    status, headers, body = headrace.error_reply("openai_chat", event)
    assert_type(headers, list[tuple[str, str]])
    assert_type(body, bytes)
    return status


async def asked(request: headrace.ModelRequest) -> str:
    async with headrace.Runtime() as runtime, runtime.stream(request) as stream:
        async for event in stream:
            assert_type(event, headrace.ModelEvent)
        async for batch in stream.batches():
            assert_type(batch[0], headrace.ModelEvent)
        result = await stream.result()
    return result.text


def asked_plainly(request: headrace.ModelRequest) -> str:
    with headrace.SyncRuntime() as runtime, runtime.stream(request) as stream:
        for event in stream:
            told(event)
        return stream.result().text


def scripted() -> None:
    with Upstream({"/": [Reply.stream(b"data: 1\n\n", Gate("go")), Reply.json({})]}) as upstream:
        facts = upstream.wait(lambda facts: facts.request_count == 1)
        assert_type(facts.requests[0].header("host"), str | None)
        upstream.open("go")


async def called(runtime: Runtime, plain: SyncRuntime) -> None:
    embedded = await runtime.embed(EmbedRequest(model="a/m", input=("x",)))
    assert_type(embedded, EmbedResult)
    assert_type(embedded.embeddings[0].vector.data, bytes)
    assert_type(plain.rerank(RerankRequest(model="a/m", query="q", documents=("x",))).results, tuple[Ranked, ...])
    assert_type(await runtime.search(SearchRequest(query="q")), SearchResult)
    assert_type(plain.fetch(FetchRequest(url="https://a.example")).content, str)
    async with runtime.image_stream(ImageRequest(model="a/m", prompt="p")) as pictures:
        async for picture in pictures:
            assert_type(picture, PartialImage | ImageResult)
    assert_type(plain.images(ImageRequest(model="a/m", prompt="p")), ImageResult)


async def led(log: EventLog, models: Runtime, toolbox: Toolbox) -> str:
    opened = await start(log, RunStarted(goal="g", model="primary", cwd="/"))
    tools = BoxedTools(toolbox, log=log, run_id=opened.log.run_id)
    state = await opened.run(models=models, tools=tools, settings=Settings(retries=1)).go()
    assert_type(state, State)
    again = await resume(log, state.run_id, accept=("workspace_changed",))
    await again.run(models=models, tools=NoTools()).go()
    records = await log.read(state.run_id)
    assert_type(records, list[Record])
    assert_type(replay_trace(records).differing, tuple[int, ...])
    assert_type((await replay_dry(records, tools))[0].now, str)
    return (await fork(log, state.run_id, at=3)).log.run_id
