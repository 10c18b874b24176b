"""The boundary, as architecture: a provider proposes, and nothing of its side could do anything else (P1 to P13)."""

import ast
import asyncio
import contextlib
import gc
import pathlib
import weakref
from collections.abc import Iterator
from dataclasses import fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from headrace import Decoder, events
from headrace.config import Config, Provider
from headrace.log.payloads import CLASSES, Value
from headrace.loop import ACTS
from headrace.messages import Message, ModelRequest, Options, Tool
from headrace.runtime import AttemptFacts, RouteFacts, Runtime, SyncRuntime
from headrace.selectors import PROFILES
from tests.support import harness as h
from tests.support.harness import Led

PACKAGE = pathlib.Path(__file__).parent.parent / "python" / "headrace"
CODEC = PACKAGE.parent.parent / "rust" / "codec" / "src"

#: What prepares and reads a model call: it may have no idea that there are tools, runs and logs.
PROVIDER_SIDE = (
    "providers",
    "runtime",
    "credentials",
    "attempts.py",
    "gateway.py",
    "registry.py",
    "resolver.py",
    "translate.py",
    "plugins.py",
    "messages.py",
    "events.py",
    "requests.py",
    "selectors.py",
)
EXECUTORS = {"subprocess", "multiprocessing", "shutil", "tempfile", "pty", "concurrent.futures"}
HARNESS = {"headrace.tools", "headrace.loop", "headrace.context", "headrace.log"}
#: What prepares a provider's request touches nothing at all.
WORLD = EXECUTORS | {"os", "pathlib", "io", "socket", "ssl", "httpx", "asyncio", "anyio", "threading", "time", "random"}
MEMORY = {"messages", "history", "transcript"}
CALLS_A_MODEL = {"stream", "background", "blocking", "decide", "begin"}


def files(*names: str) -> list[pathlib.Path]:
    found = []
    for name in names:
        path = PACKAGE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def under(name: str, banned: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in banned)


def loops_over_a_model(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.While | ast.For | ast.AsyncFor):
            inside = [inner.func for inner in ast.walk(ast.Module(node.body, [])) if isinstance(inner, ast.Call)]
            if any(isinstance(one, ast.Attribute) and one.attr in CALLS_A_MODEL for one in inside):
                return True
    return False


def remembers(tree: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and node.attr.strip("_") in MEMORY
    }


@pytest.mark.parametrize("path", files(*PROVIDER_SIDE), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_p13_provider_code_executes_nothing_logs_nothing_remembers_nothing_and_loops_nowhere(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set(imported(tree))
    assert not {name for name in names if under(name, EXECUTORS | HARNESS)}
    assert not remembers(tree)
    assert not loops_over_a_model(tree)
    if path.parent.name == "providers":
        assert not {name for name in names if under(name, WORLD)}
        called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not {one.id for one in called if isinstance(one, ast.Name)} & {
            "open",
            "exec",
            "eval",
            "compile",
            "__import__",
        }
        # Nobody who cannot name a tool's result can cut it.
        assert not {name for name in names if name.endswith("ToolResult")}


def test_p13_the_checks_find_what_they_look_for():
    """A check that cannot fail is none."""
    bad = ast.parse(
        "import subprocess\nfrom headrace import tools\nclass A:\n"
        "    def f(self):\n        self.messages = []\n        while True:\n            self.runtime.stream(1)\n"
    )
    assert any(under(name, EXECUTORS) for name in imported(bad))
    assert any(under(name, HARNESS) for name in imported(bad))
    assert remembers(bad) == {"messages"}
    assert loops_over_a_model(bad)


def plain(hint: Any) -> bool:
    """Whether a field's type is JSON data or a value of ours."""
    if hint in (str, int, bool, NoneType):
        return True
    if get_origin(hint) is Literal:
        return all(isinstance(one, str) for one in get_args(hint))
    if get_args(hint):
        return all(plain(one) for one in get_args(hint) if one is not Ellipsis)
    return isinstance(hint, type) and issubclass(hint, Value) and all(map(plain, hints(hint)))


def hints(cls: type) -> list[Any]:
    found = get_type_hints(cls)
    return [found[spec.name] for spec in fields(cls)]


@pytest.mark.parametrize("cls", CLASSES.values(), ids=list(CLASSES))
def test_p13_no_event_of_the_log_holds_a_raw_provider_object(cls):
    assert all(map(plain, hints(cls)))
    assert not plain(object)


@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_p1_a_call_in_any_wire_shape_is_one_intent(protocol):
    config = Config(providers=(Provider(id="demo", kind="demo", protocol=protocol),))
    tool = Tool("get_weather", "Tell the weather.", '{"type":"object","properties":{"city":{"type":"string"}}}')
    with SyncRuntime(config) as runtime:
        assert runtime.route("demo/tools").protocol == protocol
        with runtime.stream(ModelRequest("demo/tools", (Message.user("?"),), (tool,))) as stream:
            told = list(stream)
    deltas = {event.call for event in told if isinstance(event, events.ToolIntentDelta)}
    intents = [event for event in told if isinstance(event, events.ToolIntentProposed)]
    assert sorted(event.call for event in intents) == sorted(deltas)
    assert all(event.tool_name and isinstance(event.input, dict) and event.provider_call_id for event in intents)


def test_p2_a_stream_calls_no_executor_and_a_tools_description_has_no_room_for_one(tmp_path):
    async def act():
        async with Led(tmp_path, h.calls({"line": "a"})) as led:
            spy = []
            led.tools.before = spy.append
            request = ModelRequest("acme/m", (Message.user("?"),), (h.NOTE,))
            async with led.models.stream(request) as stream:
                result = await stream.result()
            assert [one.tool_name for one in result.intents] == ["note"]
            assert spy == []
            assert led.tools.lines == []

    asyncio.run(act())
    assert not any("Callable" in str(spec.type) or spec.type == "Any" for spec in fields(Tool))


def test_p3_nothing_is_proposed_before_the_call_is_closed_even_if_its_text_parses():
    decoder = Decoder("openai_chat")
    call = {"index": 0, "id": "c", "function": {"name": "note", "arguments": "{}"}}
    open_ = decoder.feed(h.chunk({"tool_calls": [call]}))
    assert [event.type for event in open_] == ["model.started", "tool_intent.delta"]
    closed = decoder.feed(h.chunk({}, "tool_calls") + h.usage())
    types = [event.type for event in closed]
    assert types.index("tool_intent.proposed") < types.index("model.finished")
    assert types.count("tool_intent.proposed") == 1


def test_p5_two_requests_are_independent_and_their_state_dies_with_them(tmp_path):
    class Known(ModelRequest):
        """A request that a weak reference can follow."""

        __slots__ = ("__weakref__",)

    async def act():
        async with Led(tmp_path, h.says("one"), h.says("two")) as led:
            first, second = (Known("acme/m", (Message.user(f"planted {n}"),)) for n in (1, 2))
            followed = [weakref.ref(one) for one in (first, second)]
            async with led.models.stream(first) as one, led.models.stream(second) as two:
                texts = {(await one.result()).text, (await two.result()).text}
            assert texts == {"one", "two"}
            bodies = [str(body["messages"]) for body in led.asked]
            assert [("planted 1" in body) + ("planted 2" in body) for body in bodies] == [1, 1]
            public = [name for name in dir(led.models) if not name.startswith("_")]
            assert sorted(public) == sorted(name for name in dir(Runtime) if not name.startswith("_"))
            assert all(callable(getattr(led.models, name)) for name in public)
            del first, second, one, two
            gc.collect()
            assert [ref() for ref in followed] == [None, None]

    asyncio.run(act())


def test_p7_builder_normaliser_assembler_and_error_mapper_are_four_parts():
    for part in ("request", "normalize"):
        assert (CODEC / part / "mod.rs").is_file()
    for part in ("toolcall.rs", "error.rs"):
        text = (CODEC / part).read_text(encoding="utf-8")
        assert len(text.splitlines()) < 800
        assert "#[cfg(test)]" in text or (CODEC.parent / "tests" / part).is_file()


def test_p10_every_kind_of_error_may_lead_to_a_fallback_or_says_why_not():
    never = {kind for kind, acts in ACTS.items() if "FALL_BACK" not in {act.name for act in acts}}
    assert never == {"bad_request", "content_filter", "aborted"}


def test_p11_capabilities_are_ours_and_name_no_vendor():
    vendors = ("openai", "anthropic", "claude", "gpt", "gemini", "google", "mistral", "cohere", "bedrock", "thinking_")
    names = [spec.name for spec in fields(Options)] + list(PROFILES) + [spec.name for spec in fields(Config)]
    assert not [name for name in names if any(vendor in name for vendor in vendors)]


class Sdk:
    """A vendor's SDK: it streams parts of its own kind."""

    def __init__(self):
        self.given = []

    async def stream(self, **body):
        self.given.append(body)
        if len(self.given) == 1:
            yield {"kind": "call", "id": "c", "name": "note", "args": '{"line": "a"}'}
        else:
            yield {"kind": "text", "text": "Done."}


class Answer:
    """One answer of the SDK's, as our events."""

    attempts = (AttemptFacts(1, "sdk", "openai_chat"),)
    hops = ()

    def __init__(self, sdk, request):
        self.sdk, self.request = sdk, request

    async def batches(self):
        tools = [{"name": tool.name, "schema": tool.raw_schema} for tool in self.request.tools]
        reason = "stop"
        async for part in self.sdk.stream(messages=self.request.to_json(), tools=tools):
            if part["kind"] == "text":
                yield [events.TextDelta(part["text"])]
                continue
            reason = "tool_intents"
            intent = {"call": 0, "id": f"{self.request.turn_id}.0", "provider_call_id": part["id"]}
            yield [events.ToolIntentProposed(**intent, tool_name=part["name"], raw_input_text=part["args"])]
        yield [events.ModelFinished(reason)]


class Bridge:
    """The bridge: one more implementation of what the loop asks models through."""

    def __init__(self):
        self.sdk = Sdk()

    def route(self, selector):
        return RouteFacts("sdk", "openai_chat", selector)

    @contextlib.asynccontextmanager
    async def stream(self, request):
        yield Answer(self.sdk, request)


def callables(value):
    if isinstance(value, dict):
        return any(map(callables, value.values()))
    if isinstance(value, list | tuple):
        return any(map(callables, value))
    return callable(value)


def test_p12_a_bridge_to_an_sdk_is_one_more_runtime_and_hands_it_no_callable(tmp_path):
    async def act():
        bridge = Bridge()
        async with Led(tmp_path, h.says("unused")) as led:
            state = await led.lead(await led.begin(), models=bridge).go()
            assert (state.status, led.tools.lines) == ("finished", ["a"])
            assert len(bridge.sdk.given) == 2
            assert not callables(bridge.sdk.given)
            assert led.asked == []

    asyncio.run(act())
