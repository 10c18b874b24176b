"""Random interleavings of a run: deltas, cuts, denials, timeouts, deaths, duplicate appends. The rules hold in all.

The loop is the real one, over a log in memory; models and tools are scripts that do what the example says. After each
step the whole log is looked at: no start without an allowance that was not used up, no observation without an intent,
one at most for each, and nothing ever happens to an intent whose response did not finish.
"""

import asyncio
import contextlib
import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace import events as e
from headrace.log import payloads as p
from headrace.log.eventlog import EventLog, FencedError, KeyReusedError
from headrace.log.menus import Menu, MenuEntry
from headrace.log.state import IllegalEventError, fold
from headrace.loop import AskLater, Settings, fork, resume, start
from headrace.messages import Tool
from headrace.runtime import AttemptFacts, RouteFacts
from headrace.store import open_store

ENDS = st.sampled_from(["finish", "finish", "finish", "cut", "malformed", "limited"])
WAYS = st.sampled_from(
    ["ok", "deny", "later", "invalid", "error", "timeout", "die", "die_after", "unrecorded", "twice"]
)


class DeathError(BaseException):
    """The process is gone."""


class Stream:
    """One answer: some text, some calls, an end."""

    def __init__(self, turn_id, calls, end):
        self.turn_id, self.calls, self.end = turn_id, calls, end
        self.attempts = (AttemptFacts(1, "acme", "openai_chat"),)
        self.hops = ()

    async def batches(self):
        yield [e.ModelStarted("m"), e.TextDelta("a"), e.TextDelta("b")]
        for call in range(self.calls):
            yield [e.ToolIntentDelta(call=call, name="act", arguments_delta="{}")]
            yield [
                e.ToolIntentProposed(call=call, id=f"{self.turn_id}.{call}", tool_name="act", raw_input_text="{}"),
            ]
        kinds = {"cut": "stream_interrupted", "malformed": "malformed_tool_call", "limited": "rate_limit"}
        if self.end == "finish":
            yield [e.Usage(10, 1), e.ModelFinished("tool_intents" if self.calls else "stop")]
        else:
            yield [e.ProviderErrorEvent(kinds[self.end], True)]


class World:
    """What the example has decided: the models' answers, the tools' ways. Counts the effects for each intent."""

    def __init__(self):
        self.answers, self.ways = [], []
        self.effects = {}

    def route(self, selector):
        return RouteFacts("acme", "openai_chat", selector)

    @contextlib.asynccontextmanager
    async def stream(self, request):
        calls, end = self.answers.pop(0) if self.answers else (0, "finish")
        yield Stream(request.turn_id, calls, end)

    def menu(self):
        return Menu((MenuEntry(Tool("act", None, "{}"), "1"),))

    async def run(self, intent, *, state, record, ask):  # noqa: ARG002 - the protocol
        name = intent.intent_id
        way = self.ways.pop(0) if self.ways else "ok"
        if way == "invalid":
            await record(p.ToolValidated(intent_id=name, ok=False, phase="schema", code="schema_invalid"))
            return self.seen(name, "schema_invalid")
        await record(p.ToolValidated(intent_id=name, ok=True, phase="schema", intent_digest="d"))
        if way == "unrecorded":  # a tool runtime that forgets to have it allowed
            with contextlib.suppress(IllegalEventError):
                await self.execute(state, name, record)
                raise AssertionError("it started without an allowance")
        if way == "later":
            await record(p.PermissionRequested(intent_id=name, tool_name="act", intent_digest="d", summary="act"))
            raise AskLater("nobody")
        decision = "deny" if way == "deny" else "allow"
        await record(p.PermissionDecided(intent_id=name, decision=decision, by="policy"))
        if way == "deny":
            return self.seen(name, "permission_denied")
        ran = await self.execute(state, name, record)
        if way == "die":
            raise DeathError
        if way == "twice":
            with contextlib.suppress(IllegalEventError):
                await record(self.started(state, name))
                raise AssertionError("it started twice")
        outcome = {"error": "tool_error", "timeout": "timeout"}.get(way, "ok")
        await record(p.ExecutionFinished(intent_id=name, execution_id=ran, outcome=outcome))
        if way == "die_after":
            raise DeathError
        return self.seen(name, outcome)

    def started(self, state, name):
        ran = f"{name}/{state.intents[name].executions + 1}"
        return p.ExecutionStarted(intent_id=name, execution_id=ran, tool_name="act", executor="file", cwd="/")

    async def execute(self, state, name, record):
        started = self.started(state, name)
        await record(started)
        self.effects[name] = self.effects.get(name, 0) + 1
        return started.execution_id

    def seen(self, name, code):
        return p.ToolObserved(intent_id=name, phase="observe", code=code, text="")


class Machine(RuleBasedStateMachine):
    """One run, its loop and its log, through whatever comes."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.store = self.do(open_store("memory:"))
        self.log = self.do(EventLog.over(self.store, clock=lambda: 1_700_000_000.0))
        begun = p.RunStarted(goal="go", model="acme/m", cwd="/", fallbacks=("spare/m",))
        self.opened = self.do(start(self.log, begun, run_id="r"))
        self.run_ = self.made(self.opened)
        self.stale = None
        self.forks = 0
        self.is_alive = True

    def do(self, act):
        return self.loop.run_until_complete(act)

    def made(self, opened):
        async def nothing(_):
            return None

        settings_ = Settings(retries=1, is_chat=True)
        return opened.run(models=self.world, tools=self.world, sleep=nothing, settings=settings_)

    def go(self):
        """Lead the run as far as it goes, or until its process dies."""
        try:
            self.do(self.run_.go())
        except DeathError:
            self.is_alive = False

    @precondition(lambda self: self.is_alive)
    @rule(answers=st.lists(st.tuples(st.integers(0, 3), ENDS), max_size=3), ways=st.lists(WAYS, max_size=5))
    def lead(self, answers, ways):
        """Say something and lead the run as far as it goes."""
        self.world.answers, self.world.ways = list(answers), list(ways)
        self.run_.say("more")
        self.go()

    @rule(allow=st.booleans(), ways=st.lists(WAYS, max_size=3))
    def take_up(self, allow, ways):
        """Another process takes the run: whoever led it is fenced, and what is in doubt is asked about."""
        self.stale = self.run_

        async def answer(_):
            return p.PermissionAnswer(decision="allow" if allow else "deny")

        self.world.answers, self.world.ways = [], list(ways)
        run = self.made(self.do(resume(self.log, "r")))
        run._ask = answer  # noqa: SLF001 - the same as what Run takes by name
        self.run_, self.is_alive = run, True
        self.go()

    @precondition(lambda self: self.stale is not None)
    @rule()
    def the_stale_writer_tries(self):
        try:
            self.do(self.stale.record(p.UserMessage(text="late")))
        except FencedError:
            return
        raise AssertionError("a stale writer was not fenced")

    @rule(at=st.integers(0, 400), change=st.booleans())
    def append_again(self, at, change):
        """Append what stands there already, under its key; or something else under it."""
        records = self.do(self.log.read("r"))
        record = records[at % len(records)]
        if "#" in record.key or any(one.key == f"{record.key}#1" for one in records):
            return
        head = self.run_.log.head
        payload = p.UserMessage(text="other") if change else record.value()
        try:
            assert self.do(self.run_.log.append(payload, key=record.key)) == [record]
            assert not change
        except KeyReusedError:
            assert change
        assert self.run_.log.head == head

    @rule(at=st.integers(1, 400))
    def fork_off(self, at):
        """A fork has nothing open, and leaves its parent alone."""
        records = self.do(self.log.read("r"))
        self.forks += 1
        forked = self.do(fork(self.log, "r", at=at % len(records) + 1, new_id=f"f{self.forks}"))
        assert not forked.state.turn
        assert all(one.stage != "started" for one in forked.state.open)
        assert self.do(self.log.read("r")) == records

    @invariant()
    def the_rules_hold(self):
        records = self.do(self.log.read("r"))
        state = fold(records)
        assert state.to_json() == self.run_.state.to_json()
        allowed, intents, finished, observed, started = {}, {}, set(), set(), {}
        for record in records:
            value = record.value()
            match value:
                case p.ToolIntent():
                    intents[value.intent_id] = value.turn_id
                case p.ModelEnded():
                    finished.add(value.turn_id)
                case p.PermissionDecided():
                    allowed[value.intent_id] = value.decision == "allow"
                case p.ExecutionStarted():
                    assert allowed.pop(value.intent_id)
                    started[value.intent_id] = started.get(value.intent_id, 0) + 1
                case p.ToolObserved():
                    assert value.intent_id in intents
                    assert value.intent_id not in observed
                    observed.add(value.intent_id)
                case _:
                    pass
            name = getattr(value, "intent_id", None)
            if name is not None and not isinstance(value, p.ToolIntent):
                assert intents[name] in finished, "something happened to a void intent"
        # Each effect had a start of its own, and each start at most one effect.
        assert self.world.effects == started
        void = {name for name, turn in intents.items() if turn not in finished}
        assert not void & (set(started) | observed)

    def teardown(self):
        self.do(self.store.close())
        self.loop.close()


EXAMPLES = 150 if os.environ.get("HEADRACE_LONG") else 40
Machine.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)
TestInterleavings = pytest.mark.timeout(600 if os.environ.get("HEADRACE_LONG") else 60)(Machine.TestCase)
