"""What a model claims is checked before the run says so (T6), and the gate knows what the run itself changed (R3)."""

import asyncio

from headrace.log import payloads as p
from headrace.loop import Settings, resume
from tests.support import harness as h
from tests.support.harness import Led


def checks(*passed):
    """A check with these outcomes, the last one for ever."""
    left = list(passed)

    async def verify(_records):
        ok = left.pop(0) if len(left) > 1 else left[0]
        return p.VerificationRecorded(claim="the tests pass", method="command", passed=ok)

    return verify


def led(tmp_path, replies, **settings):
    async def act():
        async with Led(tmp_path, *replies) as one:
            state = await one.go(settings=Settings(**settings))
            return state, await one.values(), one.asked

    return asyncio.run(act())


def test_t6_a_run_is_verified_only_where_a_passed_check_is_recorded(tmp_path):
    state, values, _ = led(tmp_path, [h.says("Done.")], verify=checks(True))
    assert state.reason == "verified"
    [verification] = [at for at, one in enumerate(values, 1) if isinstance(one, p.VerificationRecorded)]
    assert values[-1] == p.RunFinished(outcome="verified", reason="stop", text="Done.", verification_seq=verification)
    state, values, _ = led(tmp_path, [h.says("Done.")])
    assert state.reason == "completed"


def test_t6_a_failed_check_goes_back_to_the_model_without_a_tools_words_and_not_for_ever(tmp_path):
    state, values, asked = led(tmp_path, [h.says("Done.")], verify=checks(False, True))
    assert state.reason == "verified"
    assert len(asked) == 2
    assert "does not hold yet: the tests pass" in str(asked[1])
    state, values, asked = led(tmp_path, [h.says("Done.")], verify=checks(False), verify_tries=1)
    assert state.reason == "completed"
    assert len(asked) == 2
    assert [one.passed for one in values if isinstance(one, p.VerificationRecorded)] == [False, False]


def test_r3_what_a_run_changed_itself_does_not_close_the_gate_behind_it(tmp_path):
    hashes = ["2" * 64]

    async def look():
        return hashes[0]

    async def act():
        async with Led(tmp_path, h.says("First."), h.says("Second.")) as one:
            opened = await one.begin(workspace="1" * 64)
            state = await one.lead(opened, settings=Settings(is_chat=True, look=look)).go()
            assert (state.status, state.workspace) == ("paused", "2" * 64)
            opened = await resume(one.log, "r1", workspace="2" * 64)
            assert opened.findings == ()
            state = await one.lead(opened, settings=Settings(look=look)).go()
            assert (state.status, state.workspace) == ("finished", "2" * 64)

    asyncio.run(act())


def test_a_check_that_is_called_off_pauses_the_run(tmp_path):
    async def act():
        async with Led(tmp_path, h.says("Done.")) as one:
            began = asyncio.Event()

            async def verify(_records):
                began.set()
                await asyncio.Event().wait()

            run = one.lead(await one.begin(), settings=Settings(verify=verify))
            leading = asyncio.ensure_future(run.go())
            await began.wait()
            assert run.cancel_step()
            state = await leading
            assert (state.status, state.reason) == ("paused", "interrupted")

    asyncio.run(act())
