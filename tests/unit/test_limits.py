"""Rate limits in response headers: every vendor's set, resets in every form, and what a pool makes of them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.credentials import Credential, Limit, Mark, Pool, Status, emptied, read_limits
from headrace.credentials.limits import FARTHEST_S, projection, reset_at
from headrace.credentials.state import COOLING_MOST_S, EXHAUSTION_MOST_S
from headrace.requests import Secret

NOW = 1_800_000_000.0

RESETS = [
    ("12ms", 0.012),
    ("1s", 1),
    ("6m0s", 360),
    ("2m59.56s", 179.56),
    ("1h2m3s", 3723),
    ("30", 30),
    ("0.5", 0.5),
    (str(int(NOW) + 7), 7),
    (str((int(NOW) + 7) * 1000), 7),
    ("2027-01-15T08:00:30Z", 30),
    ("2027-01-15T08:00:30", 30),
]


@pytest.mark.parametrize(("text", "seconds"), RESETS)
def test_a_reset_is_read_in_every_form(text, seconds):
    assert reset_at(text, NOW) - NOW == pytest.approx(seconds, abs=1e-5)


@pytest.mark.parametrize(
    "text", ["", "soon", "inf", "nan", "-1", "1e9", "1d", "5 minutes", "9" * 400, "2999-01-01T00:00:00Z"]
)
def test_what_is_no_reset_is_none(text):
    assert reset_at(text, NOW) is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_header_breaks_the_reading(name, value):
    for prefix in ("", "x-ratelimit-remaining-", "anthropic-ratelimit-", "x-codex-primary-"):
        for one in read_limits([(prefix + name, value)], NOW):
            told = [n for n in (one.limit, one.remaining, one.used_percent, one.reset_at) if n is not None]
            assert told
            assert all(map(math.isfinite, told))


# vendor, headers, buckets as (scope, remaining, seconds to the reset)
VENDORS = [
    (
        "openai",
        {
            "x-ratelimit-limit-requests": "500",
            "x-ratelimit-remaining-requests": "499",
            "x-ratelimit-reset-requests": "120ms",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        {("requests", 499, 0.12), ("tokens", 0, 360)},
    ),
    ("azure", {"X-RateLimit-Remaining-Requests": "-1", "x-ratelimit-reset-tokens": "9"}, {("tokens", None, 9)}),
    (
        "anthropic",
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:30Z",
            "anthropic-ratelimit-input-tokens-remaining": "12000",
        },
        {("requests", 0, 30), ("input-tokens", 12000, None)},
    ),
    ("mistral", {"ratelimitbysize-remaining": "10", "ratelimitbysize-reset": "4"}, {("size.requests", 10, 4)}),
    (
        "cerebras",
        {"x-ratelimit-remaining-requests-day": "5", "x-ratelimit-reset-requests-day": "33011.382"},
        {("requests-day", 5, 33011.382)},
    ),
    (
        "brave",
        {"x-ratelimit-remaining": "1, 0", "x-ratelimit-reset": "1, 1419704"},
        {("requests", 1, 1), ("requests.1", 0, 1419704)},
    ),
    ("draft", {"ratelimit-remaining": "3", "ratelimit-reset": "60"}, {("requests", 3, 60)}),
    ("nothing", {"content-type": "application/json", "x-request-id": "ratelimit"}, set()),
]


@pytest.mark.parametrize(("headers", "buckets"), [row[1:] for row in VENDORS], ids=[row[0] for row in VENDORS])
def test_each_vendors_set_is_read(headers, buckets):
    found = {
        (one.scope, one.remaining, None if one.reset_at is None else round(one.reset_at - NOW, 3))
        for one in read_limits(headers.items(), NOW)
    }
    assert found == buckets


def test_a_plans_percentages_are_read():
    headers = {
        "x-codex-primary-used-percent": "100.0",
        "x-codex-primary-reset-at": str(int(NOW) + 600),
        "x-codex-bengalfox-secondary-used-percent": "12.5",
        "anthropic-ratelimit-unified-5h-utilization": "1.0",
        "anthropic-ratelimit-unified-5h-reset": str(int(NOW) + 60),
    }
    found = read_limits(headers.items(), NOW)
    assert Limit("codex-primary", used_percent=100.0, reset_at=NOW + 600) in found
    assert Limit("codex-bengalfox-secondary", used_percent=12.5) in found
    assert emptied(found, NOW) == NOW + 600
    assert emptied(found, NOW + 600) is None


def test_the_scarcest_count_of_requests_is_what_a_pool_knows():
    headers = {
        "x-ratelimit-remaining-requests": "7",
        "x-ratelimit-reset-requests": "10s",
        "x-ratelimit-remaining-tokens": "99",
        "x-ratelimit-reset-tokens": "20s",
    }
    found = projection(read_limits(headers.items(), NOW), NOW)
    assert (found.requests, found.until) == (7, NOW + 10)
    headers["x-ratelimit-remaining-tokens"] = "0"
    found = projection(read_limits(headers.items(), NOW), NOW)
    assert (found.requests, found.until) == (0, NOW + 20)
    assert projection(read_limits({"x-ratelimit-remaining-requests": "7"}.items(), NOW), NOW) is None


def pool(size=2, strategy="fill_first"):
    return Pool("acme", [Credential(f"c{at}", Secret(f"sk-{at}")) for at in range(size)], strategy=strategy)


def left(count, seconds=10):
    return [("x-ratelimit-remaining-requests", str(count)), ("x-ratelimit-reset-requests", f"{seconds}s")]


def take(members, now=NOW, model="m", **more):
    return members.choose(model, now=now, random=random.Random(1).random, **more).id


def test_an_emptied_member_comes_last_before_any_429():
    members = pool()
    members.observe("c0", "m", left(2), NOW)
    assert [take(members) for _ in range(4)] == ["c0", "c0", "c1", "c1"]  # two were left, and two were taken
    assert take(members, model="other") == "c0"
    assert take(members, now=NOW + 10) == "c0"


def test_where_all_are_emptied_one_is_tried_all_the_same():
    members = pool()
    for name in ("c0", "c1"):
        members.observe(name, "m", left(0), NOW)
    assert take(members) == "c0"
    assert all(one.status is Status.READY for one in members.members("m", NOW))


def test_a_conversation_leaves_an_emptied_member_and_an_answer_with_room_brings_it_back():
    members = pool()
    assert take(members, conversation="t") == "c0"
    members.observe("c0", "m", left(0), NOW)
    assert take(members, conversation="t") == "c1"
    members.observe("c0", "m", left(5), NOW)
    assert take(members, conversation="u") == "c0"
    members.observe("c0", "m", [("content-type", "x")], NOW)
    assert take(members, conversation="v") == "c0"


def test_a_far_wait_is_told_and_looked_at_again_before():
    cooling = Mark.cooling("rate_limit", NOW + 86400, NOW)
    assert cooling.until == NOW + 86400
    assert cooling.at(NOW + COOLING_MOST_S - 1) is Status.COOLING
    assert cooling.at(NOW + COOLING_MOST_S) is Status.READY
    used_up = Mark.exhausted("quota", NOW + 86400, NOW)
    assert used_up.at(NOW + EXHAUSTION_MOST_S - 1) is Status.EXHAUSTED
    assert used_up.at(NOW + EXHAUSTION_MOST_S) is Status.READY
    assert Mark.cooling("x", NOW + 1e300, NOW).until == NOW + FARTHEST_S


def test_marks_are_told_to_whoever_shares_them_and_not_back():
    members, told = pool(), []
    members.on_mark = lambda *what: told.append(what)
    mark = Mark.dead("auth")
    members.mark("c0", mark)
    members.mark("c1", mark, model="m", told=True)
    assert told == [("c0", None, mark)]
    assert members.marks() == {("c0", None): mark, ("c1", "m"): mark}
