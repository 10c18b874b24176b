"""A pool: states, strategies, affinity, and what is carried over."""

import random
from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.credentials import READY, STRATEGIES, Credential, Mark, Pool, Status
from headrace.credentials.state import UNKNOWN_EXHAUSTION_S, worst
from headrace.requests import Secret

NOW = 1000.0


def pool(size=3, strategy="fill_first", **options):
    members = [Credential(f"c{at}", Secret(f"sk-{at}")) for at in range(size)]
    return Pool("acme", members, strategy=strategy, **options)


def taken(from_pool, times=1, now=NOW, seed=1, **options):
    source = random.Random(seed).random
    chosen = [from_pool.choose("m", now=now, random=source, **options) for _ in range(times)]
    return [one.id if one else None for one in chosen]


def test_marks_end_by_themselves_or_never():
    cooling = Mark.cooling("rate_limit", NOW + 10, NOW)
    assert cooling.at(NOW) is Status.COOLING
    assert cooling.at(NOW + 10) is Status.READY
    told = Mark.exhausted("quota", NOW + 100, NOW)
    assert (told.at(NOW + 99), told.at(NOW + 100), told.until) == (Status.EXHAUSTED, Status.READY, NOW + 100)
    unknown = Mark.exhausted("quota", None, NOW)
    assert unknown.until is None
    assert unknown.at(NOW + UNKNOWN_EXHAUSTION_S - 1) is Status.EXHAUSTED
    assert unknown.at(NOW + UNKNOWN_EXHAUSTION_S) is Status.READY
    assert Mark.dead("auth").at(NOW + 1e12) is Status.DEAD
    assert READY.at(-inf) is Status.READY


def test_the_worst_mark_counts():
    marks = (Mark.cooling("a", NOW + 5, NOW), Mark.exhausted("b", NOW + 2, NOW), Mark.cooling("c", NOW + 9, NOW))
    assert worst(marks, NOW).reason == "b"
    assert worst(marks, NOW + 3).reason == "c"
    assert worst((), NOW) is READY


def test_fill_first_takes_the_first_that_is_ready():
    members = pool()
    assert taken(members, 3) == ["c0", "c0", "c0"]
    members.mark("c0", Mark.cooling("x", NOW + 1, NOW))
    assert taken(members, 2) == ["c1", "c1"]
    assert taken(members, now=NOW + 1) == ["c0"]


def test_round_robin_goes_on_where_it_was():
    members = pool(strategy="round_robin")
    assert taken(members, 4) == ["c0", "c1", "c2", "c0"]
    members.mark("c1", Mark.dead("auth"))
    assert taken(members, 3) == ["c2", "c0", "c2"]


def test_least_used_levels_out():
    members = pool(strategy="least_used")
    members.mark("c2", Mark.cooling("x", NOW + 1, NOW))
    assert taken(members, 4) == ["c0", "c1", "c0", "c1"]
    assert taken(members, 2, now=NOW + 1) == ["c2", "c2"]


def test_random_takes_each():
    assert set(taken(pool(strategy="random"), 50)) == {"c0", "c1", "c2"}
    members = pool(strategy="random")
    assert members.choose("m", now=NOW, random=lambda: 1.0).id == "c2"


@given(st.sampled_from(["round_robin", "least_used"]), st.integers(1, 6), st.integers(1, 60))
def test_taking_turns_is_fair(strategy, size, times):
    counts = Counter(taken(pool(size, strategy), times))
    assert max(counts.values()) - min([counts[f"c{at}"] for at in range(size)]) <= 1


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["m", None, "n"]), st.integers(1, 30)), max_size=12),
    st.integers(0, 40),
    st.one_of(st.none(), st.sampled_from(["t1", "t2"])),
)
def test_no_member_is_taken_that_is_not_ready(strategy, marks, later, conversation):
    members = pool(4, strategy)
    taken(members, 2, conversation="t1")
    for at, model, seconds in marks:
        members.mark(f"c{at}", Mark.cooling("x", NOW + seconds, NOW), model=model)
    now = NOW + later
    (choice,) = taken(members, now=now, conversation=conversation, without=("c3",))
    ready = {one.id for one in members.members("m", now) if one.status is Status.READY} - {"c3"}
    assert choice in ready or (choice is None and not ready)


def test_a_conversation_stays_before_any_strategy():
    members = pool(strategy="round_robin")
    assert taken(members, 3, conversation="a") == ["c0", "c0", "c0"]
    assert taken(members, 2, conversation="b") == ["c1", "c1"]
    members.mark("c0", Mark.cooling("x", NOW + 1, NOW))
    assert taken(members, 1, conversation="a") == ["c2"]
    # It has moved, and stays where its cache now is.
    assert taken(members, 2, now=NOW + 5, conversation="a") == ["c2", "c2"]


def test_affinity_can_be_switched_off():
    assert taken(pool(strategy="round_robin", affinity=False), 2, conversation="a") == ["c0", "c1"]


def test_conversations_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr("headrace.credentials.pool.CONVERSATIONS", 2)
    members = pool(strategy="round_robin")
    assert [taken(members, conversation=talk)[0] for talk in "abc"] == ["c0", "c1", "c2"]
    assert taken(members, conversation="b") == ["c1"]
    assert taken(members, conversation="a") == ["c2"]  # anew: round robin goes on after c1


def test_a_mark_on_a_model_leaves_the_others():
    members = pool(1)
    members.mark("c0", Mark.cooling("rate_limit", NOW + 5, NOW), model="m")
    assert taken(members) == [None]
    assert members.choose("n", now=NOW, random=random.random).id == "c0"
    (told,) = members.members("m", NOW)
    assert (told.id, told.status, told.reason, told.until) == ("c0", "cooling", "rate_limit", NOW + 5)
    assert str(told) == "c0 cooling (rate_limit)"
    assert str(members.members("m", NOW + 5)[0]) == "c0 ready"


def test_a_mark_on_nobody_is_none():
    members = pool(1)
    members.mark("stranger", Mark.dead("auth"))
    assert taken(members) == ["c0"]


def test_an_answer_forgets_old_failures_and_no_new_mark():
    members = pool(1)
    members.mark("c0", Mark.cooling("x", NOW + 5, NOW, failures=3), model="m")
    members.succeeded("c0", "m", NOW + 1)
    assert members.failures("c0", model="m") == 3
    members.succeeded("c0", "m", NOW + 5)
    assert members.failures("c0", model="m") == 0


def test_a_pool_of_nobody_has_nobody():
    assert len(pool(0)) == 0
    assert taken(pool(0)) == [None]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_was_learnt_goes_over_to_the_same_members(strategy):
    before = pool(4, strategy)
    before.mark("c0", Mark.cooling("x", NOW + 50, NOW))
    before.mark("c1", Mark.cooling("x", NOW + 50, NOW))
    before.mark("c2", Mark.dead("auth"))
    after = Pool(
        "acme",
        [Credential("c0", Secret("sk-0")), Credential("c1", Secret("new")), Credential("c2", Secret("sk-2"))],
        strategy=strategy,
    )
    after.take_over(before)
    states = {one.id: one.status for one in after.members("m", NOW)}
    assert states == {"c0": "cooling", "c1": "ready", "c2": "ready"}


def test_a_pool_serves_as_one_that_is_the_same():
    assert pool().serves_as(pool())
    assert not pool(2).serves_as(pool())
    assert not pool(strategy="random").serves_as(pool())
    assert not pool(affinity=False).serves_as(pool())
    assert not pool(1).serves_as(Pool("acme", [Credential("c0", Secret("new"))]))


def test_the_dead_are_revived_and_nobody_else():
    members = pool()
    members.mark("c0", Mark.dead("auth"))
    members.mark("c1", Mark.cooling("x", NOW + 5, NOW))
    members.revive()
    assert [one.status for one in members.members("m", NOW)] == ["ready", "cooling", "ready"]


def test_of_two_marks_on_one_scope_the_longer_stays():
    members = pool(1)
    members.mark("c0", Mark.dead("auth"))
    members.mark("c0", Mark.cooling("rate_limit", NOW + 5, NOW))
    assert [str(one) for one in members.members("m", NOW)] == ["c0 dead (auth)"]
    members.lift("c0")
    assert members.is_ready("c0", "m", NOW)
    members.mark("c0", Mark.cooling("rate_limit", NOW + 5, NOW))
    members.mark("c0", Mark.exhausted("quota", NOW + 60, NOW))
    assert [str(one) for one in members.members("m", NOW + 5)] == ["c0 exhausted (quota)"]
