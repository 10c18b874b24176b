"""The library faces over the demo provider and a scripted upstream, synchronous and on both event loops."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pathlib
import threading
from typing import TYPE_CHECKING

import anyio
import pytest

import headrace
from headrace import errors
from headrace.config import Config, Credential, Provider
from headrace.messages import Message, ModelRequest, Tool
from headrace.requests import Secret
from headrace.runtime import RefusedError, Runtime, SyncRuntime
from headrace.testing import Gate, Reply, Stall, Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What this process has open.
OPEN = pathlib.Path("/proc/self/fd")
DEMO = Config(providers=(Provider(id="demo", kind="demo"),))
CHUNK = b'data: {"id":"r1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
TOOL = Tool("get_weather", "Tell the weather.", '{"type":"object","properties":{"city":{"type":"string"}}}')


def ask(model: str, **more: object) -> ModelRequest:
    return ModelRequest(f"demo/{model}", (Message.user("How does the water run?"),), **more)  # type: ignore[arg-type]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def runtime() -> Iterator[SyncRuntime]:
    with SyncRuntime(DEMO) as made:
        yield made


def test_a_stream_is_events_in_order_with_one_terminal(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("text")) as stream:
        events = list(stream)
    assert isinstance(events[0], headrace.ModelStarted)
    assert isinstance(events[-1], headrace.ModelFinished)
    assert [event.seq for event in events] == list(range(len(events)))
    assert sum(isinstance(event, headrace.ModelFinished | headrace.ProviderErrorEvent) for event in events) == 1
    assert any(isinstance(event, headrace.Usage) for event in events)


def test_a_result_gathers_what_the_events_say(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("text")) as stream:
        text = "".join(event.text for event in stream if isinstance(event, headrace.TextDelta))
    with runtime.stream(ask("text")) as stream:
        result = stream.result()
    assert result.text == text
    assert text
    assert result.finish.reason == "stop"
    assert result.usage is not None
    assert result.usage.output_tokens


def test_intents_carry_the_turns_id(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("tools", tools=(TOOL,), turn_id="turn-7")) as stream:
        result = stream.result()
    assert result.finish.reason == "tool_intents"
    assert [intent.id for intent in result.intents] == [f"turn-7.{n}" for n in range(len(result.intents))]
    assert all(isinstance(intent.input, dict) for intent in result.intents)


def test_a_failure_is_yielded_and_raised_only_by_result(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("error-400")) as stream:
        events = list(stream)
    assert isinstance(events[-1], headrace.ProviderErrorEvent)
    assert (events[-1].kind, events[-1].status) == ("bad_request", 400)
    with runtime.stream(ask("error-400")) as stream, pytest.raises(errors.BadRequestError) as raised:
        stream.result()
    assert raised.value.event is not None
    assert (raised.value.event.kind, raised.value.event.message) == (events[-1].kind, events[-1].message)


def test_a_cut_stream_proposes_nothing_and_ends_in_an_error(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("cut")) as stream:
        events = list(stream)
    assert isinstance(events[-1], headrace.ProviderErrorEvent)
    assert events[-1].kind == "stream_interrupted"
    assert not any(isinstance(event, headrace.ToolIntentProposed) for event in events)


def test_an_iteration_that_was_left_goes_on(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("text")) as stream:
        events: list[headrace.ModelEvent] = []
        for event in stream:
            events.append(event)
            if len(events) == 2:
                break
        events += stream
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], headrace.ModelFinished)


def test_batches_are_never_empty_and_hold_every_event(runtime: SyncRuntime) -> None:
    with runtime.stream(ask("text")) as stream:
        batches = list(stream.batches())
    assert all(batches)
    with runtime.stream(ask("text")) as stream:
        assert [event.type for batch in batches for event in batch] == [event.type for event in stream]


def test_an_unknown_selector_is_refused_before_anything_is_sent(runtime: SyncRuntime) -> None:
    with pytest.raises(RefusedError) as raised, runtime.stream(ModelRequest("nobody/x", (Message.user("?"),))):
        pass
    assert (raised.value.code, raised.value.status) == ("unknown_model_selector", 422)
    assert "demo" in str(raised.value)


def test_a_stream_must_be_entered_and_a_closed_runtime_asks_nobody(runtime: SyncRuntime) -> None:
    with pytest.raises(RuntimeError, match="enter the stream"):
        next(iter(runtime.stream(ask("text"))))
    runtime.close()
    with pytest.raises(RuntimeError, match="closed"):
        runtime.stream(ask("text"))


def test_connections_are_used_again(runtime: SyncRuntime) -> None:
    kernel = runtime._kernel  # noqa: SLF001 - the pool has no public face
    assert kernel is not None
    for _ in range(3):
        with runtime.stream(ask("text")) as stream:
            list(stream)
        assert kernel.idle_connections == 1


def test_a_stream_that_is_left_closes_its_connection(runtime: SyncRuntime) -> None:
    kernel = runtime._kernel  # noqa: SLF001 - the pool has no public face
    assert kernel is not None
    with runtime.stream(ask("slow")) as stream:
        next(iter(stream))
    assert kernel.idle_connections == 0
    assert runtime._policies.gateway.running == 0  # noqa: SLF001 - a request that is never settled leaks here


def test_a_stream_that_another_thread_reads_is_not_closed_and_still_settles() -> None:
    with (
        Upstream(Reply.stream(CHUNK, Gate("go"), b"data: [DONE]\n\n")) as upstream,
        SyncRuntime(
            Config(providers=(Provider(id="acme", kind="openai_compatible", base_url=upstream.url),))
        ) as runtime,
    ):
        gateway = runtime._policies.gateway  # noqa: SLF001 - a request that is never settled leaks here
        with runtime.stream(ModelRequest("acme/m", (Message.user("?"),))) as stream:
            reader = threading.Thread(target=lambda: read.extend(stream))
            read: list[headrace.ModelEvent] = []
            reader.start()
            upstream.wait(lambda facts: any(one.waiting for one in facts.connections))
            with pytest.raises(RuntimeError, match="another thread"):
                stream.close()
            assert gateway.running == 1
            upstream.open("go")
            reader.join()
        assert isinstance(read[-1], headrace.ModelFinished)
        assert gateway.running == 0


def test_each_request_sends_its_own_words() -> None:
    """What was prepared for one is not another's, however alike they are."""
    with (
        Upstream(Reply.stream(CHUNK, b"data: [DONE]\n\n")) as upstream,
        SyncRuntime(
            Config(providers=(Provider(id="acme", kind="openai_compatible", base_url=upstream.url),))
        ) as runtime,
    ):
        for text in ("one", "two", "one"):
            with runtime.stream(ModelRequest("acme/m", (Message.user(text),))) as stream:
                stream.result()
        said = [seen.json()["messages"][-1]["content"] for seen in upstream.facts().requests]
    assert said == ["one", "two", "one"]


def _child(runtime: SyncRuntime, pipe: int) -> None:
    try:
        runtime.stream(ask("text")).__enter__()
    except RuntimeError as error:
        os.write(pipe, str(error).encode())


def test_a_fork_is_told_to_make_its_own(runtime: SyncRuntime) -> None:
    read, write = os.pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(runtime, write))
    child.start()
    child.join(10)
    os.close(write)
    assert b"fork" in os.read(read, 1000)
    os.close(read)


@pytest.mark.anyio
async def test_both_loops_see_what_the_synchronous_face_sees() -> None:
    with SyncRuntime(DEMO) as runtime, runtime.stream(ask("tools", tools=(TOOL,), turn_id="t")) as stream:
        expected = [(event.type, event.seq) for event in stream]
    async with Runtime(DEMO) as asynchronous, asynchronous.stream(ask("tools", tools=(TOOL,), turn_id="t")) as answer:
        assert [(event.type, event.seq) async for event in answer] == expected


@pytest.mark.anyio
async def test_many_streams_run_side_by_side() -> None:
    texts: list[str] = []

    async with Runtime(DEMO) as runtime:

        async def one() -> None:
            async with runtime.stream(ask("text")) as stream:
                texts.append((await stream.result()).text)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
    assert len(texts) == 20
    assert len(set(texts)) == 1


@pytest.mark.anyio
async def test_a_cancelled_wait_loses_nothing_and_leaving_settles() -> None:
    async with Runtime(DEMO) as runtime:
        async with runtime.stream(ask("slow")) as stream:
            first = await stream.next_batch()
            with anyio.move_on_after(0.001) as scope:
                while await stream.next_batch():
                    pass
            assert scope.cancelled_caught
            rest = await stream.next_batch()
            assert first is not None
            assert rest is not None
            assert rest[0].seq > first[-1].seq
        assert runtime._policies.gateway.running == 0  # noqa: SLF001 - as above


@pytest.mark.anyio
async def test_a_task_that_waits_hears_of_a_second_reader_of_leaving_and_of_the_runtimes_end() -> None:
    with Upstream(Reply.stream(CHUNK.replace(b'"stop"', b"null"), Stall())) as upstream:
        ends: list[object] = []

        async def read(stream: headrace.runtime.Stream) -> None:
            try:
                async for _ in stream:
                    pass
                ends.append("left")
            except RuntimeError as error:
                ends.append(str(error))

        row = Provider(id="acme", kind="openai_compatible", base_url=upstream.url)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks, Runtime(Config(providers=(row,))) as runtime:
                streams = [runtime.stream(ModelRequest("acme/m", (Message.user("?"),))) for _ in range(2)]
                for stream in streams:
                    await stream.__aenter__()
                    await stream.next_batch()
                    tasks.start_soon(read, stream)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(RuntimeError, match="another task"):
                    await streams[0].next_batch()
                await streams[0].__aexit__(None, None, None)
                await anyio.wait_all_tasks_blocked()
                assert ends == ["left"]
        assert ends == ["left", "the runtime is closed"]


@pytest.mark.anyio
async def test_a_stream_that_is_kept_keeps_no_connection_of_a_runtime_that_ended() -> None:
    request = ModelRequest("acme/m", (Message.user("?"),))
    with Upstream(Reply.stream(CHUNK, b"data: [DONE]\n\n")) as upstream:
        config = Config(providers=(Provider(id="acme", kind="openai_compatible", base_url=upstream.url),))
        async with Runtime(config) as runtime, runtime.stream(request) as kept:
            await kept.result()
        with SyncRuntime(config) as sync, sync.stream(request) as also_kept:
            also_kept.result()
        facts = await upstream.until(lambda facts: facts.open_connections == 0)
        assert (facts.request_count, repr(kept)) == (2, "Stream('acme/m')")


@pytest.mark.anyio
async def test_an_asynchronous_failure_has_its_class() -> None:
    async with Runtime(DEMO) as runtime, runtime.stream(ask("error-400")) as stream:
        with pytest.raises(errors.BadRequestError):
            await stream.result()


def test_nothing_is_left_open_when_a_runtime_is_dropped() -> None:
    before = len(list(OPEN.iterdir()))
    for _ in range(5):
        with SyncRuntime(DEMO) as runtime, runtime.stream(ask("text")) as stream:
            list(stream)
        del runtime, stream
    gc.collect()
    assert len(list(OPEN.iterdir())) <= before + 2


def test_a_stream_tells_who_was_asked_and_what_came_of_it() -> None:
    busy = Reply.json({"error": {"message": "later"}}, status=500)
    with Upstream({"*": [busy, Reply.stream(CHUNK, b"data: [DONE]\n\n")]}) as upstream:
        row = Provider(
            id="acme",
            kind="openai_compatible",
            base_url=f"{upstream.url}/v1",
            credentials=tuple(Credential(id=name, secret=Secret("planted")) for name in ("first", "second")),
        )
        with SyncRuntime(Config(providers=(row,))) as runtime:
            route = runtime.route("acme/m")
            assert (route.provider, route.protocol, route.model) == ("acme", "openai_chat", "m")
            with pytest.raises(RefusedError):
                runtime.route("nobody/m")
            with runtime.stream(ModelRequest("acme/m", (Message.user("?"),))) as stream:
                assert stream.attempts[0].outcome == "running"
                stream.result()
    first, second = stream.attempts
    assert (first.attempt, first.provider, first.credential, first.outcome) == (1, "acme", "first", "failed")
    assert first.error is not None
    assert first.error.status == 500
    assert (second.attempt, second.credential, second.outcome, second.error) == (2, "second", "finished", None)
    assert second.bytes_sent > 0
    assert second.duration_s > 0
    assert "planted" not in repr(stream.attempts)
