"""Intents that only read, side by side: as fast as the slowest of them, and the same log whoever was fast."""

import asyncio
import itertools
import json

import pytest

from headrace.log import payloads as p
from headrace.log.eventlog import FencedError
from headrace.log.records import Record
from headrace.loop import AskLater, BoxedTools, replay_trace, resume
from headrace.loop._run import SIDE_BY_SIDE
from headrace.testing import Reply
from headrace.tools.definition import Outcome, Prepared, ToolSpec
from headrace.tools.permission import Other
from headrace.tools.permission.policy import Layer, Policy
from headrace.tools.permission.rules import Rule
from headrace.tools.toolbox import Toolbox
from tests.support import harness as h
from tests.support.harness import Led

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
POLICY = Policy(
    (
        Layer(
            "user",
            (
                Rule(effect="allow", tool="note", why="it is asked for"),
                Rule(effect="ask", tool="peek", why="somebody wants to know"),
                Rule(effect="deny", tool="spy", why="nobody may"),
            ),
        ),
    )
)


class Desk:
    """Tools that end when a test says so. `ends`: the order in which those that run may end; None: each at once."""

    def __init__(self, ends=None):
        self.ends = list(ends) if ends is not None else None
        self.running, self.most, self.ran = set(), 0, []
        self._changed = asyncio.Event()

    def change(self):
        self._changed.set()
        self._changed = asyncio.Event()

    async def at_most(self, number):
        """Wait until so many run."""
        while len(self.running) < number:
            await self._changed.wait()

    async def work(self, number):
        self.running.add(number)
        self.most = max(self.most, len(self.running))
        self.change()
        try:
            while self.ends is not None and self.ends[:1] != [number]:
                await self._changed.wait()
        finally:
            self.running.discard(number)
            if self.ends is not None and number in self.ends:
                self.ends.remove(number)
            self.ran.append(number)
            self.change()


class Tool:
    def __init__(self, desk, name, effect="read"):
        self.spec = ToolSpec(
            name=name,
            description="Looks.",
            schema=SCHEMA,
            effects=(effect,),
            executor="desk",
            side_by_side=effect == "read",
        )
        self._desk, self._effect = desk, effect

    async def prepare(self, value):
        async def run(output):
            await self._desk.work(value["n"])
            output.write(f"saw {value['n']}".encode())
            return Outcome()

        return Prepared(normalised=value, acts=(Other(self._effect),), run=run, summary=f"{self.spec.name} {value}")


def tools(led, desk):
    box = Toolbox([*(Tool(desk, name) for name in ("look", "peek", "spy")), Tool(desk, "note", "write")])
    return BoxedTools(box, log=led.log, run_id="r1", policy=POLICY)


def wants(*names):
    """An answer that calls these tools, with n counting; a name with a `!` gives an input that does not fit."""
    pieces = []
    for number, name in enumerate(names):
        arguments = json.dumps({"n": "none" if name.endswith("!") else number})
        function = {"name": name.rstrip("!"), "arguments": arguments}
        pieces.append(h.chunk({"tool_calls": [{"index": number, "id": f"c{number}", "function": function}]}))
    return Reply.stream(*pieces, h.chunk({}, "tool_calls"), h.usage())


async def allow(_question):
    return p.PermissionAnswer(decision="allow", scope="once")


SHORT = {
    "tool.validated": "V",
    "permission.requested": "Q",
    "permission.decided": "D",
    "tool.execution.started": "S",
    "tool.execution.finished": "F",
    "tool.observed": "O",
}


async def told(led):
    """The facts of the intents in their order: a letter and the intent's number."""
    records = await led.log.read("r1")
    values = ((SHORT[one.type], one.value()) for one in records if one.type in SHORT)
    return " ".join(letter + value.intent_id.rpartition(".")[2] for letter, value in values)


def runs(scenario):
    """Run a scenario in an event loop."""

    def test(tmp_path):
        asyncio.run(scenario(tmp_path))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


@runs
async def test_three_that_read_run_at_once_and_are_observed_in_their_order(tmp_path):
    desk = Desk(ends=[2, 0, 1])
    async with Led(tmp_path, wants("look", "look", "look"), h.says("Seen.")) as led:
        state = await led.lead(await led.begin(), tools=tools(led, desk)).go()
        assert state.status == "finished"
        assert (desk.most, desk.ran) == (3, [2, 0, 1])
        assert await told(led) == "V0 D0 S0 V1 D1 S1 V2 D2 S2 F0 O0 F1 O1 F2 O2"
        said = [one["content"] for one in led.asked[1]["messages"] if one["role"] == "tool"]
        assert said == ["saw 0", "saw 1", "saw 2"]
        records = await led.log.read("r1")
        replayed = replay_trace(records)
        assert replayed.differing == ()
        assert replayed.state.to_json() == state.to_json()


@runs
async def test_the_log_is_the_same_whoever_was_fast(tmp_path):
    names = ("look", "peek", "look!", "look", "spy", "look")
    found = set()
    for number, ends in enumerate(itertools.permutations([0, 1, 3, 5])):
        # What asks is a barrier: what stands before it ends first, whatever order is tried behind it.
        desk = Desk(ends=[0, *(one for one in ends if one)])
        folder = tmp_path / str(number)
        folder.mkdir()
        async with Led(folder, wants(*names), h.says("Seen.")) as led:
            state = await led.lead(await led.begin(), tools=tools(led, desk), ask=allow).go()
            assert state.status == "finished"
            assert sorted(desk.ran) == [0, 1, 3, 5]
            found.add(await told(led))
    assert found == {"V0 D0 S0 V1 F0 O0 Q1 D1 S1 V2 V3 D3 S3 V4 D4 V5 D5 S5 F1 O1 O2 F3 O3 O4 F5 O5"}


@runs
async def test_what_writes_is_alone(tmp_path):
    desk = Desk(ends=[1, 0, 2, 3, 4])
    async with Led(tmp_path, wants("look", "look", "note", "note", "look"), h.says("Seen.")) as led:
        await led.lead(await led.begin(), tools=tools(led, desk)).go()
        assert await told(led) == "V0 D0 S0 V1 D1 S1 F0 O0 F1 O1 V2 D2 S2 F2 O2 V3 D3 S3 F3 O3 V4 D4 S4 F4 O4"
        assert desk.most == 2


@runs
async def test_so_many_at_once_and_no_more(tmp_path):
    desk = Desk(ends=[*range(7, -1, -1), *range(15, 7, -1), *range(19, 15, -1)])
    async with Led(tmp_path, wants(*["look"] * 20), h.says("Seen.")) as led:
        await led.lead(await led.begin(), tools=tools(led, desk)).go()
        assert desk.most == SIDE_BY_SIDE
        assert len(desk.ran) == 20


@runs
async def test_where_nobody_answers_those_before_are_observed_and_those_behind_have_not_begun(tmp_path):
    desk = Desk()

    async def later(question):
        raise AskLater(question.summary)

    async with Led(tmp_path, wants("look", "peek", "look"), h.says("Seen.")) as led:
        state = await led.lead(await led.begin(), tools=tools(led, desk), ask=later).go()
        assert (state.status, state.reason) == ("paused", "asked")
        assert await told(led) == "V0 D0 S0 V1 F0 O0 Q1"
        assert desk.ran == [0]
        state = await led.lead(await resume(led.log, "r1"), tools=tools(led, desk), ask=allow).go()
        assert state.status == "finished"
        assert sorted(desk.ran) == [0, 1, 2]
        assert [one.code for one in await led.values("tool.observed")] == ["ok"] * 3


@runs
async def test_called_off_all_end_and_each_is_observed_once(tmp_path):
    desk = Desk(ends=[9])
    async with Led(tmp_path, wants("look", "look", "look"), h.says("Seen.")) as led:
        run = led.lead(await led.begin(), tools=tools(led, desk))
        going = asyncio.ensure_future(run.go())
        await desk.at_most(3)
        assert run.cancel_step()
        assert (await going).status == "finished"
        assert desk.running == set()
        assert [one.code for one in await led.values("tool.observed")] == ["cancelled"] * 3
        assert (await told(led)).endswith("F0 O0 F1 O1 F2 O2")


@runs
async def test_a_writer_that_was_fenced_stops_all(tmp_path):
    desk = Desk(ends=[9])
    async with Led(tmp_path, wants("look", "look", "look"), h.says("Seen.")) as led:
        run = led.lead(await led.begin(), tools=tools(led, desk))
        going = asyncio.ensure_future(run.go())
        await desk.at_most(3)
        await led.log.open("r1")
        desk.ends[:] = [1, 0, 2]
        desk.change()
        with pytest.raises(FencedError):
            await going
        assert desk.running == set()
        assert await told(led) == "V0 D0 S0 V1 D1 S1 V2 D2 S2"
        # All of them have started and have no end: each is in doubt, and none runs again by itself.
        opened = await resume(led.log, "r1")
        assert [one.stage for one in opened.state.open] == ["in_doubt"] * 3


@runs
async def test_a_start_is_durable_before_its_execution_begins(tmp_path):
    seen, began = [], []

    class Watched(Desk):
        async def work(self, number):
            began.append((number, tuple(seen)))
            await super().work(number)

    def note(event):
        if isinstance(event, Record) and event.type == "tool.execution.started":
            seen.append(int(event.value().intent_id.rpartition(".")[2]))

    async with Led(tmp_path, wants("look", "look", "look"), h.says("Seen.")) as led:
        await led.lead(await led.begin(), tools=tools(led, Watched()), seen=note).go()
    assert sorted(number for number, _ in began) == [0, 1, 2]
    assert all(number in known for number, known in began)


@runs
async def test_ended_at_any_event_it_goes_on_and_runs_nothing_twice_by_itself(tmp_path):
    """As if the process had died there: what had started and has no end is in doubt, whichever of the three it is."""
    in_doubt = set()

    async def deny(_question):
        return p.PermissionAnswer(decision="deny", reason="not again")

    for last in range(3, 25):
        desk = Desk()
        folder = tmp_path / str(last)
        folder.mkdir()
        async with Led(folder, wants("look", "look", "look"), h.says("Seen."), h.says("Seen.")) as led:
            going = []

            def seen(event, last=last, going=going):
                if isinstance(event, Record) and event.seq == last:
                    going[0].cancel()

            run = led.lead(await led.begin(), tools=tools(led, desk), seen=seen)
            going.append(asyncio.ensure_future(run.go()))
            await asyncio.wait(going)
            assert desk.running == set()
            if not going[0].cancelled():
                break
            if (await led.values())[-1].type == "run.finished":
                continue
            state = await led.lead(await resume(led.log, "r1"), tools=tools(led, desk), ask=deny).go()
            assert state.status == "finished", last
            observed = await led.values("tool.observed")
            counted = [one.intent_id for one in state.intents.values() if one.stage != "void"]
            assert [one.intent_id for one in observed] == counted, last
            started = [one.intent_id for one in await led.values("tool.execution.started")]
            assert sorted(started) == sorted(set(started)), last
            in_doubt.update(one.code for one in observed)
            assert (await led.log.verify("r1")).ok
    assert {"ok", "cancelled"} <= in_doubt


def test_what_does_more_than_read_cannot_declare_it():
    with pytest.raises(ValueError, match="note does more than read"):
        ToolSpec(name="note", description="", schema="{}", effects=("read", "write"), side_by_side=True)
