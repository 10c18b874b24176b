"""The loop over a real upstream, a real store and a tool that does something."""

import asyncio
import itertools
import json

import pytest

from headrace.config import Config, RouteTable
from headrace.log import payloads as p
from headrace.log.eventlog import EventLog, FencedError
from headrace.log.records import Record
from headrace.log.seals import SealKey
from headrace.log.state import fold
from headrace.loop import ACTS, Act, AskLater, GateClosed, NoTools, Settings, act_on, fork, resume
from headrace.messages import Options
from headrace.runtime import Runtime
from headrace.testing import Cut, Gate, Reply
from tests.support import harness as h
from tests.support.harness import Led

BUSY = Reply.json({"error": {"message": "slow down", "type": "rate_limit_error"}}, status=429)
TOO_LONG = Reply.json(
    {"error": {"message": "too long", "code": "context_length_exceeded", "type": "invalid_request_error"}}, status=400
)
ONCE = Settings(retries=0)


def runs(scenario):
    """Run a scenario in an event loop."""

    def test(tmp_path):
        asyncio.run(scenario(tmp_path))

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


async def allow(_request):
    return p.PermissionAnswer(decision="allow", scope="session")


async def deny(_request):
    return p.PermissionAnswer(decision="deny", reason="not today")


@runs
async def test_a_run_goes_from_its_goal_to_its_end(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}, {"line": "b"}, text="Let me."), h.says("Done.")) as led:
        state = await led.go()
        assert (state.status, state.reason, led.tools.lines) == ("finished", "completed", ["a", "b"])
        assert state.to_json() == fold(await led.log.read("r1")).to_json()
        assert (await led.log.verify("r1")).ok
        assert (await led.values("run.finished"))[0].text == "Done."
        assert led.asked[1]["messages"][-2:] == [
            {"role": "tool", "tool_call_id": "call_0", "content": "noted a"},
            {"role": "tool", "tool_call_id": "call_1", "content": "noted b"},
        ]


@runs
async def test_each_fact_is_durable_before_what_it_allows(tmp_path):
    """Request before bytes leave, intent before validation, decision before start, start before spawn."""
    seen = {}

    async with Led(tmp_path, h.calls({"line": "a"}, acts=(Gate("go"),)), h.says("Done.")) as led:
        reader = EventLog(led.store)

        def spawn(point):
            assert point in ("spawn", "end")
            seen[point] = [record.type for record in led.run.records]

        led.tools.before = spawn
        leading = asyncio.ensure_future(led.go())
        await led.upstream.until(lambda facts: facts.request_count == 1)
        assert [record.type for record in await reader.read("r1")][-1] == "model.requested"
        led.upstream.open("go")
        await leading
        assert seen["spawn"][-1] == "tool.execution.started"
        assert seen["end"] == seen["spawn"]
        order = await led.types()
        facts = [
            "model.finished",
            "tool.validated",
            "permission.decided",
            "tool.execution.started",
            "tool.execution.finished",
            "tool.observed",
        ]
        assert [one for one in order if one in facts][:6] == facts
        assert order.index("tool_intent.proposed") < order.index("model.finished")
        assert order.index("tool.observed") < len(order) - 1 - order[::-1].index("model.requested")


@runs
async def test_c4_requests_log_their_menu_intents_the_tools_version_executions_their_circumstances(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done.")) as led:
        await led.go()
        requests = await led.values("model.requested")
        menu = json.loads(await led.log.artifacts.get(requests[0].menu))
        assert [(one["name"], one["version"]) for one in menu] == [("note", "1")]
        assert requests[0].menu == requests[1].menu == led.tools.menu().digest
        [intent] = await led.values("tool_intent.proposed")
        assert intent.tool_version == "1"
        [started] = await led.values("tool.execution.started")
        assert (started.executor, started.cwd, started.sandbox) == ("file", str(tmp_path), "none")
        assert started.limits == p.Limits()
        assert started.tool_version == "1"


@runs
async def test_c5_what_is_visible_and_what_is_allowed_are_two_gates(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Well."), permit="deny") as led:
        await led.go()
        assert led.asked[0]["tools"][0]["function"]["name"] == "note"
        assert led.tools.lines == []
        [observed] = await led.values("tool.observed")
        assert (observed.code, observed.phase) == ("permission_denied", "policy")
        assert "tool.execution.started" not in await led.types()
    async with Led(tmp_path, h.calls({"line": "a"}, tool="hidden"), h.says("Well.")) as led:
        await led.go()
        [observed] = await led.values("tool.observed")
        assert (observed.code, observed.phase) == ("unknown_tool", "lookup")


@runs
async def test_p4_a_rate_limit_is_a_provider_error_and_no_observation(tmp_path):
    async with Led(tmp_path, BUSY) as led:
        state = await led.go(settings=ONCE)
        errors = await led.values("provider.error")
        assert {one.kind for one in errors} == {"rate_limit"}
        assert all(one.retryable for one in errors)
        assert "tool.observed" not in await led.types()
        assert (state.status, state.reason) == ("paused", "provider")


@runs
async def test_p6_an_observation_reaches_a_provider_only_as_a_message_of_cores(tmp_path):
    async with Led(tmp_path, h.calls({"line": "planted-7"}), h.says("Done.")) as led:
        await led.go()
        first, second = led.asked
        assert "noted planted-7" not in json.dumps(first)
        where = [message["role"] for message in second["messages"] if "noted planted-7" in json.dumps(message)]
        assert where == ["tool"]
        projected = (await led.values("context.projected"))[1]
        assert any(entry.why == "observed" and entry.status == "included" for entry in projected.ledger)


@runs
async def test_p8_an_intent_says_what_it_was_assembled_from_and_by_whom(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}, text="Let me."), h.says("Done.")) as led:
        await led.go()
        [intent] = await led.values("tool_intent.proposed")
        assert intent.assembled_from.event_count == 1
        assert 0 < intent.assembled_from.first_offset <= intent.assembled_from.last_offset
        assert (intent.provider, intent.model, intent.provider_call_id) == ("acme", "m", "call_0")


@runs
async def test_p9_half_arguments_are_an_interrupted_stream_and_run_nothing(tmp_path):
    half = h.chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "note", "arguments": '{"line": "a'}}]})
    whole = h.chunk(
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "note", "arguments": '{"line":"a"}'}}]}
    )
    for cut in (half, whole):
        async with Led(tmp_path, Reply.stream(cut, Cut())) as led:
            state = await led.go(settings=ONCE)
            [error] = await led.values("provider.error")
            assert error.kind == "stream_interrupted"
            assert led.tools.lines == []
            assert {one.stage for one in state.intents.values()} <= {"void"}
            assert "tool.observed" not in await led.types()


@runs
async def test_p10_a_fallback_leaves_evidence_and_the_same_events(tmp_path):
    replies = [BUSY, h.calls({"line": "a"}), h.says("Done.")]
    async with Led(tmp_path, *replies, names=("acme", "spare")) as led:
        state = await led.go(settings=ONCE, fallbacks=("spare/m2",))
        [fallback] = await led.values("model.fallback")
        assert (fallback.from_model, fallback.to_model, fallback.reason) == ("acme/m", "spare/m2", "rate_limit")
        assert fallback.capability == "language_model,tools"
        used = await led.values("model.attempt.started")
        assert used[-1].provider == "spare"
        assert (state.status, led.tools.lines) == ("finished", ["a"])
        assert (await led.values("tool_intent.proposed"))[0].provider == "spare"


@runs
async def test_attempts_are_recorded_with_their_cause(tmp_path):
    async with Led(tmp_path, Reply.json({"error": {"message": "no"}}, status=503), h.says("Done.")) as led:
        await led.go()
        ended = await led.values("model.attempt.finished")
        assert [(one.outcome, one.kind) for one in ended] == [("failed", "overloaded"), ("finished", None)]


@runs
async def test_c6_every_event_has_its_place_in_a_ledger(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.calls({"line": "b"}), h.says("Done.")) as led:
        await led.go()
        records = await led.log.read("r1")
        ledgers = {}
        for record in records:
            if record.type != "context.projected":
                continue
            value = record.value()
            kept = [one for one in ledgers.get(value.base, []) if one.first < value.ledger[0].first]
            whole = ledgers[record.seq] = [*kept, *value.ledger]
            places = [seq for entry in whole for seq in range(entry.first, entry.last + 1)]
            assert places == list(range(1, value.upto + 1))
            assert all(entry.why for entry in whole)
        sizes = [len(record.payload) for record in records if record.type == "context.projected"]
        assert sizes[2] < sizes[1] * 1.5


@runs
async def test_a_retry_waits_as_the_provider_says_and_then_as_we_do(tmp_path):
    late = Reply.json({"error": {"message": "later"}}, status=429, headers=(("retry-after", "7"),))
    async with Led(tmp_path, late, h.says("Done.")) as led:
        state = await led.go()
        assert state.status == "finished"
        assert led.waits == [7.0]
    async with Led(tmp_path, Reply.stream(h.chunk({"content": "x"}), Cut())) as led:
        state = await led.go()
        assert (led.waits, state.reason, state.failures) == ([1.0, 2.0], "provider", 3)


@pytest.mark.parametrize("kind", ACTS)
def test_c7_each_kind_of_provider_error_has_an_owner(kind):
    end = ACTS[kind][-1]
    assert end in (Act.ASK, Act.FAIL)
    assert act_on(kind, failures=9, retries=2) is end
    assert act_on(kind, failures=9, retries=2, has_fallback=True) in (Act.FALL_BACK, end)


@runs
async def test_c7_a_context_that_is_too_long_is_compacted_and_asked_again(tmp_path):
    notes = [h.calls({"line": f"{n} " + "x" * 400}) for n in range(4)]
    async with Led(tmp_path, *notes, TOO_LONG, h.says("It noted four lines."), h.says("Done.")) as led:
        state = await led.go(settings=Settings(keep_tokens=150))
        assert state.status == "finished"
        [compacted] = await led.values("context.compacted")
        records = await led.log.read("r1")
        assert compacted.summary == "It noted four lines."
        assert compacted.chain == records[compacted.last - 1].chain.hex()
        assert set(compacted.replaced) <= set(range(compacted.first, compacted.last + 1))
        summary_asked, last = led.asked[-2:]
        assert "tools" not in summary_asked
        assert "MODEL CALLS note" in summary_asked["messages"][-1]["content"]
        assert [message["role"] for message in last["messages"][:3]] == ["system", "user", "user"]
        assert "It noted four lines." in last["messages"][2]["content"]
        assert len(json.dumps(last)) < len(json.dumps(led.asked[4]))
        assert [record.type for record in records].count("tool.observed") == 4


@runs
async def test_a_request_beyond_its_limit_is_compacted_first(tmp_path):
    notes = [h.calls({"line": f"{n} " + "x" * 400}) for n in range(3)]
    async with Led(tmp_path, *notes, h.says("Three lines."), h.says("Done.")) as led:
        await led.go(settings=Settings(context_tokens=600, keep_tokens=150))
        assert len(await led.values("context.compacted")) == 1
        assert "provider.error" not in await led.types()


@runs
async def test_c7_a_malformed_call_is_asked_for_again(tmp_path):
    async with Led(tmp_path, h.calls('{"line": '), h.calls({"line": "a"}), h.says("Done.")) as led:
        state = await led.go()
        assert [one.kind for one in await led.values("provider.error")] == ["malformed_tool_call"]
        assert (state.status, led.tools.lines) == ("finished", ["a"])


@runs
async def test_c7_a_call_that_does_not_fit_and_a_tool_that_fails_are_told_to_the_model(tmp_path):
    async with Led(tmp_path, h.calls({"row": 1}), h.calls({"line": "poison"}), h.says("Sorry.")) as led:
        state = await led.go()
        codes = [one.code for one in await led.values("tool.observed")]
        assert codes == ["schema_invalid", "tool_error"]
        assert "provider.error" not in await led.types()
        assert state.reason == "completed"


@runs
async def test_a_person_is_asked_and_the_answer_holds_as_long_as_it_says(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.calls({"line": "a"}), h.says("Done."), permit="ask") as led:
        state = await led.go(ask=allow)
        decided = await led.values("permission.decided")
        assert [(one.decision, one.by) for one in decided] == [("allow", "person"), ("allow", "grant")]
        assert len(await led.values("permission.requested")) == 1
        assert state.grants[0].scope == "session"
        assert led.tools.lines == ["a", "a"]
    async with Led(tmp_path, h.calls({"line": "b"}), h.says("Well."), permit="ask") as led:
        await led.go(ask=deny)
        assert [one.code for one in await led.values("tool.observed")] == ["permission_denied"]
        assert led.tools.lines == ["a", "a"]


@runs
async def test_where_nobody_is_there_the_run_is_paused_and_asks_when_it_is_resumed(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done."), permit="ask") as led:
        state = await led.go()
        assert (state.status, state.reason, led.tools.lines) == ("paused", "asked", [])
        opened = await resume(led.log, "r1")
        state = await led.lead(opened, ask=allow).go()
        assert (state.status, led.tools.lines) == ("finished", ["a"])


@runs
async def test_budgets_stop_a_run_before_the_step_that_would_go_over(tmp_path):
    cases = [
        (p.Budget(steps=1), "steps", 1),
        (p.Budget(tokens=100), "tokens", 110),
        (p.Budget(money_micros=5), "money", 7),
        (p.Budget(time_ms=0), "time", None),
    ]
    for budget, which, used in cases:
        async with Led(tmp_path, h.calls({"line": which}), h.says("Done.")) as led:
            settings = Settings(price=lambda _model, _usage: 7)
            state = await led.go(settings=settings, budget=budget)
            [over] = await led.values("budget.exceeded")
            assert over.which == which
            assert used is None or over.used == used
            assert (state.status, state.reason) == ("paused", "budget")
            with pytest.raises(GateClosed, match="budget_exhausted"):
                await resume(led.log, "r1")
            opened = await resume(led.log, "r1", budget=p.Budget())
            assert (await led.lead(opened).go()).status == "finished"


@runs
async def test_steering_is_heard_at_the_next_turn(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}, acts=(Gate("go"),)), h.says("Done.")) as led:
        run = led.lead(await led.begin())
        leading = asyncio.ensure_future(run.go())
        await led.upstream.until(lambda facts: facts.request_count == 1)
        run.say("and be quick")
        led.upstream.open("go")
        await leading
        said = await led.values("user.message")
        assert [(one.kind, one.text) for one in said] == [("task", "note it"), ("steering", "and be quick")]
        assert [message["role"] for message in led.asked[1]["messages"][-2:]] == ["tool", "user"]


@runs
async def test_a_response_that_is_called_off_is_void_and_the_run_stands_still(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}, acts=(Gate("go"),)), h.says("Yes.")) as led:
        run = led.lead(await led.begin())
        leading = asyncio.ensure_future(run.go())
        await led.upstream.until(lambda facts: facts.request_count == 1)
        assert run.cancel_step()
        state = await leading
        assert (state.status, state.reason) == ("paused", "interrupted")
        assert [one.kind for one in await led.values("provider.error")] == ["aborted"]
        assert led.tools.lines == []
        assert not run.cancel_step()
        run.say("go on")
        assert (await run.go()).status == "finished"


@runs
async def test_a_tool_that_is_called_off_is_observed_as_cancelled(tmp_path):
    async with Led(tmp_path, h.calls({"line": "wait"}), h.says("I see.")) as led:
        reached = asyncio.Event()
        led.tools.before = lambda _point: reached.set()
        run = led.lead(await led.begin())
        leading = asyncio.ensure_future(run.go())
        await reached.wait()
        run.cancel_step()
        state = await leading
        assert [one.code for one in await led.values("tool.observed")] == ["cancelled"]
        assert [one.outcome for one in await led.values("tool.execution.finished")] == ["cancelled"]
        assert state.status == "finished"


@runs
async def test_stop_ends_what_is_under_way_and_pauses(tmp_path):
    async with Led(tmp_path, h.calls({"line": "wait"}), h.says("Back.")) as led:
        reached = asyncio.Event()
        led.tools.before = lambda _point: reached.set()
        run = led.lead(await led.begin())
        leading = asyncio.ensure_future(run.go())
        await reached.wait()
        run.stop()
        state = await leading
        assert (state.status, state.reason) == ("paused", "interrupted")
        assert (await led.lead(await resume(led.log, "r1")).go()).status == "finished"


@runs
async def test_many_runs_share_a_process_and_disturb_each_other_not(tmp_path):
    async def one(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with Led(folder, h.calls({"line": f"{number}"}), h.says("Done.")) as led:
            state = await led.go()
            return state.status, led.tools.lines

    assert await asyncio.gather(*map(one, range(6))) == [("finished", [f"{number}"]) for number in range(6)]


@runs
async def test_a_chat_waits_for_the_user_after_each_answer(tmp_path):
    async with Led(tmp_path, h.says("Hello."), h.says("Fine.")) as led:
        run = led.lead(await led.begin(), settings=Settings(is_chat=True), tools=NoTools())
        assert (await run.go()).reason == "asked"
        run.say("How are you?")
        assert (await run.go()).reason == "asked"
        assert [message["role"] for message in led.asked[1]["messages"]] == ["system", "user", "assistant", "user"]
        assert "tools" not in led.asked[0]


@runs
async def test_t6_a_passed_verification_is_what_makes_a_run_verified(tmp_path):
    async with Led(tmp_path, h.says("Done.")) as led:
        run = led.lead(await led.begin())
        passed = p.VerificationRecorded(claim="tests pass", method="command", passed=True)
        [record] = await run.record(passed)
        state = await run.go()
        assert state.reason == "verified"
        assert (await led.values("run.finished"))[0].verification_seq == record.seq


@runs
async def test_a_run_that_another_process_took_stops_at_its_next_fact(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}, acts=(Gate("go"),))) as led:
        leading = asyncio.ensure_future(led.go())
        await led.upstream.until(lambda facts: facts.request_count == 1)
        await resume(led.log, "r1")
        led.upstream.open("go")
        with pytest.raises(FencedError):
            await leading
        assert led.tools.lines == []


@runs
async def test_r3_the_gate_looks_at_what_the_run_relied_on(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done."), permit="ask") as led:
        await led.go(workspace="1" * 64, policy="2" * 64)
        before = await led.types()
        with pytest.raises(GateClosed) as caught:
            await resume(led.log, "r1", workspace="9" * 64, policy="8" * 64)
        assert [one.name for one in caught.value.findings] == ["workspace_changed", "policy_changed"]
        assert await led.types() == before
        assert (await led.log.info("r1")).epoch == 1
        accept = ("workspace_changed", "policy_changed")
        opened = await resume(led.log, "r1", workspace="9" * 64, policy="8" * 64, accept=accept)
        assert (opened.state.workspace, opened.state.policy) == ("9" * 64, "8" * 64)
        assert (await led.values("run.resumed"))[0].accepted == ("policy_changed", "workspace_changed")
        async with led.store.transaction() as tx:
            await tx.execute("DELETE FROM log_artifact_runs")
            await tx.execute("DELETE FROM log_artifacts")
        with pytest.raises(GateClosed, match="artifacts_missing"):
            await resume(led.log, "r1")
        await led.log.erase("r1", [2])
        with pytest.raises(GateClosed, match="erased"):
            await resume(led.log, "r1", accept=("erased", "artifacts_missing"))
        with pytest.raises(ValueError, match="accept: 'everything' is no finding; there are workspace_changed"):
            await resume(led.log, "r1", accept=("everything",))


@runs
async def test_r3_an_execution_without_an_end_is_in_doubt_and_asks(tmp_path):
    class Death(BaseException):
        """What ends a process between a start and its end."""

    def die(point):
        if point == "end":
            raise Death

    questions = []

    async def later(request):
        questions.append(request)
        raise AskLater("nobody")

    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done.")) as led:
        led.tools.before = die
        with pytest.raises(Death):
            await led.go()
        led.tools.before = lambda _point: None
        opened = await resume(led.log, "r1")
        assert [one.name for one in opened.findings] == ["in_doubt"]
        state = await led.lead(opened, ask=later).go()
        assert (state.status, state.reason, led.tools.lines) == ("paused", "in_doubt", ["a"])
        assert "nobody saw its end" in questions[0].summary
        opened = await resume(led.log, "r1")
        state = await led.lead(opened, ask=deny).go()
        assert (state.status, led.tools.lines) == ("finished", ["a"])
        [observed] = await led.values("tool.observed")
        assert observed.code == "in_doubt"
        assert "not today" in observed.text
    async with Led(tmp_path, h.calls({"line": "b"}), h.says("Done.")) as led:
        led.tools.before = die
        with pytest.raises(Death):
            await led.go()
        led.tools.before = lambda _point: None
        state = await led.lead(await resume(led.log, "r1"), ask=allow).go()
        assert (state.status, led.tools.lines) == ("finished", ["a", "b", "b"])


@runs
async def test_a_fork_goes_its_own_way_and_its_parent_stays(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done."), h.says("Other.")) as led:
        await led.go()
        before = await led.log.read("r1")
        at = [record.type for record in before].index("tool.observed") + 1
        forked = await fork(led.log, "r1", at=at, new_id="r2", model="acme/m9", why="try another")
        assert forked.state.status == "paused"
        state = await led.lead(await resume(led.log, "r2")).go()
        assert (state.status, state.model, led.tools.lines) == ("finished", "acme/m9", ["a"])
        assert led.asked[-1]["model"] == "m9"
        child = await led.log.read("r2")
        assert [record.payload for record in child[:at]] == [record.payload for record in before[:at]]
        [told] = [record.value() for record in child if record.type == "run.forked"]
        assert (told.from_run, told.from_seq, told.from_chain) == ("r1", at, before[at - 1].chain.hex())
        assert await led.log.read("r1") == before
        assert (await led.log.verify("r2")).ok


@runs
async def test_a_fork_in_the_middle_leaves_nothing_open(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done.")) as led:
        await led.go()
        for at, type_ in enumerate(await led.types(), 1):
            forked = await fork(led.log, "r1", at=at, new_id=f"at{at}")
            assert not forked.state.turn, type_
            assert all(one.stage != "started" for one in forked.state.open), type_


@runs
async def test_requests_share_their_beginning_byte_for_byte(tmp_path):
    notes = [h.calls({"line": f"{n}"}, text="Next.") for n in range(4)]
    async with Led(tmp_path, *notes, h.says("Done.")) as led:
        await led.go(settings=Settings(options=Options(temperature=0.5)))
        bodies = [seen.body for seen in led.upstream.facts().requests]
        for shorter, longer in itertools.pairwise(bodies):
            assert longer.startswith(shorter[: shorter.rindex(b"]")])


@runs
async def test_a_run_is_sealed_whenever_it_comes_to_a_stand(tmp_path):
    key = SealKey(bytes(32))
    async with Led(tmp_path, h.says("Hello."), h.says("Fine.")) as led:
        run = led.lead(await led.begin(), settings=Settings(is_chat=True, seal=key), tools=NoTools())
        await run.go()
        await run.go()
        run.say("And you?")
        await run.go()
        assert len(await led.values("log.sealed")) == 2
        verdict = await led.log.verify("r1", trusted=[key.public])
        assert (verdict.ok, verdict.sealed) == (True, verdict.events - 1)


@runs
async def test_p10_a_step_along_a_route_is_recorded_and_the_runs_selector_stays(tmp_path):
    async with Led(tmp_path, BUSY, h.says("Done."), names=("acme", "spare")) as led:
        rows = led.config.providers
        config = Config(
            providers=rows,
            profiles={"primary": "acme/m"},
            routes=(RouteTable(profile="primary", to=("spare/m2",)),),
        )
        async with Runtime(config) as models:
            state = await led.lead(await led.begin(model="primary"), models=models).go()
        [fallback] = await led.values("model.fallback")
        assert (fallback.from_model, fallback.to_model, fallback.reason) == ("acme/m", "spare/m2", "rate_limit")
        assert fallback.capability == "language_model"
        assert (state.status, state.model) == ("finished", "primary")
        types = await led.types()
        assert types.index("model.fallback") > types.index("model.attempt.finished")


@runs
async def test_what_a_provider_says_about_a_key_is_not_recorded(tmp_path):
    quoted = {"error": {"message": "Incorrect API key provided: sk-planted-4711", "type": "invalid_request_error"}}
    async with Led(tmp_path, Reply.json(quoted, status=401)) as led:
        await led.go(settings=ONCE)
        assert "sk-planted" not in str(await led.log.read("r1"))
        assert (await led.values("provider.error"))[0].kind == "auth"
    quoted = {"error": {"message": "bad: sk-planted-4711"}}
    async with Led(tmp_path, Reply.json(quoted, status=400)) as led:
        redact = Settings(retries=0, redact=lambda text: text.replace("sk-planted-4711", "[redacted]"))
        await led.go(settings=redact)
        assert "sk-planted" not in str(await led.log.read("r1"))
        assert "[redacted]" in str(await led.log.read("r1"))


@runs
async def test_an_answer_that_was_recorded_is_not_asked_for_again(tmp_path):
    class DeathError(BaseException):
        """Ends the process right after the answer is durable."""

    def seen(event):
        if isinstance(event, Record) and event.type == "model.finished":
            raise DeathError

    async with Led(tmp_path, h.says("Done."), h.says("Once more.")) as led:
        with pytest.raises(DeathError):
            await led.lead(await led.begin(), seen=seen).go()
        state = await led.lead(await resume(led.log, "r1")).go()
        assert (state.status, len(led.asked)) == ("finished", 1)
        assert (await led.values("run.finished"))[0].text == "Done."
        run = led.lead(await resume(led.log, "r1"))
        assert (await run.go()).status == "finished"
        run.say("And then?")
        assert (await run.go()).status == "finished"
        assert len(led.asked) == 2


@runs
async def test_a_run_that_is_to_stop_begins_nothing_more(tmp_path):
    async with Led(tmp_path, h.calls({"line": "a"}), h.says("Done.")) as led:

        def seen(event):
            if isinstance(event, Record) and event.type in ("model.requested", "tool.validated"):
                led.run.stop()

        state = await led.lead(await led.begin(), seen=seen).go()
        assert (state.status, state.reason, led.asked) == ("paused", "interrupted", [])
        state = await led.lead(await resume(led.log, "r1")).go()
        assert (state.status, led.tools.lines) == ("finished", ["a"])
