"""Attempts: the table of causes, the lone member, rounds, backoff, and what no sequence of failures may do."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.control import Clock, FakeError, failure

from headrace.attempts import (
    BACKOFF_BASE_S,
    BACKOFF_CAP_S,
    INTERRUPTED_S,
    OVERLOAD_CAP_S,
    PATIENCE_S,
    RATE_LIMIT_CAP_S,
    ROWS,
    Cause,
    CredentialAttempts,
    backoff,
    cause_of,
)
from headrace.credentials import STRATEGIES, Credential, Mark, Pool, Status
from headrace.plugins import bearer
from headrace.requests import AttemptSpec, AwsKeys, Deadlines, PreparedRequest, Refusal, Secret, Signing, SigV4

NOW = 1_000_000.0


def prepared(**deadlines):
    return PreparedRequest(
        url="https://acme.example/v1/chat/completions",
        headers=(("content-type", "application/json"),),
        body=b"{}",
        protocol="openai_chat",
        deadlines=Deadlines(**deadlines),
    )


def pool(size, strategy="fill_first"):
    return Pool("acme", [Credential(f"c{at}", Secret(f"sk-{at}")) for at in range(size)], strategy=strategy)


def test_a_key_pair_becomes_a_signer_and_never_a_header():
    keys = AwsKeys("AKID", Secret("hush"), Secret("token"))
    attempts = CredentialAttempts(pool=pool(1), model="m", authorize=lambda _: keys, started=NOW)
    assert attempts.choose(now=NOW, random=lambda: 0.5) is None
    spec = attempts.begin(replace(prepared(), signing=Signing("eu-west-1", "bedrock")), now=NOW)
    assert spec.signer == SigV4(
        region="eu-west-1",
        service="bedrock",
        access_key_id="AKID",
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token,
    )
    assert spec.headers == prepared().headers
    assert "hush" not in repr(keys) + repr(spec) + repr(spec.signer)


def test_keys_of_a_request_that_nobody_prepared_for_signing_are_a_mistake_of_the_definition():
    attempts = CredentialAttempts(
        pool=pool(1), model="m", authorize=lambda _: AwsKeys("AKID", Secret("hush")), started=NOW
    )
    attempts.choose(now=NOW, random=lambda: 0.5)
    with pytest.raises(ValueError, match="without a region"):
        attempts.begin(prepared(), now=NOW)


class Run:
    """One request on a pool, with a clock that stands and the least jitter (or the most)."""

    def __init__(self, members, *, jitter=0.5, now=NOW, **deadlines):
        self.pool = members
        self.now = now
        self.jitter = jitter
        self.attempts = CredentialAttempts(pool=members, model="m", authorize=bearer, started=now)
        refused = self.attempts.choose(now=now, random=lambda: jitter)
        self.step = refused or self.attempts.begin(prepared(**deadlines), now=now)

    def fail(self, kind, **facts):
        self.step = self.attempts.next(
            failure(kind, attempt=self.step.attempt, **facts), now=self.now, random=lambda: self.jitter
        )
        return self.step

    def states(self):
        return [str(one) for one in self.pool.members("m", self.now)]

    @property
    def key(self):
        return dict(self.step.headers)["authorization"]


LIFE_OVER = "websocket_connection_limit_reached"

# kind, facts of the failure, cause
CAUSES = [
    ("rate_limit", {"status": 429}, Cause.RATE_LIMIT),
    ("rate_limit", {}, Cause.RATE_LIMIT),
    ("quota", {"status": 402}, Cause.QUOTA),
    ("overloaded", {"status": 503}, Cause.OVERLOADED),
    ("overloaded", {"status": 529}, Cause.OVERLOADED),
    ("unknown", {"status": 500}, Cause.OVERLOADED),
    ("unknown", {}, Cause.OVERLOADED),
    ("timeout", {"status": 504}, Cause.OVERLOADED),
    ("timeout", {"phase": "head"}, Cause.INTERRUPTED),
    ("timeout", {"phase": "connect"}, Cause.ENDPOINT),
    ("transport", {"phase": "connect"}, Cause.ENDPOINT),
    ("transport", {"phase": "request"}, Cause.INTERRUPTED),
    ("transport", {"phase": "head", "reused": True}, Cause.STALE_CONNECTION),
    ("transport", {"phase": "head", "reused": True, "received": 1}, Cause.INTERRUPTED),
    ("stream_interrupted", {"phase": "head", "reused": True}, Cause.STALE_CONNECTION),
    ("overloaded", {"status": 400, "code": LIFE_OVER, "reused": True, "received": 9}, Cause.STALE_CONNECTION),
    ("overloaded", {"status": 400, "code": LIFE_OVER, "received": 9}, Cause.OVERLOADED),
    ("stream_interrupted", {"phase": "before_commit", "received": 9}, Cause.INTERRUPTED),
    ("timeout", {"phase": "head", "reused": True}, Cause.INTERRUPTED),
    ("auth", {"status": 401}, Cause.UNAUTHORIZED),
    ("auth", {"status": 400, "code": "API_KEY_INVALID"}, Cause.UNAUTHORIZED),
    ("auth", {"status": 403}, Cause.FORBIDDEN),
    ("auth", {}, Cause.FORBIDDEN),
    ("auth", {"status": 403, "code": "gone"}, Cause.UNAUTHORIZED),
    ("malformed_tool_call", {"status": 400}, Cause.MALFORMED),
    ("bad_request", {"status": 400}, Cause.CLIENT),
    ("context_length", {"status": 400}, Cause.CLIENT),
    ("content_filter", {"status": 400}, Cause.CLIENT),
    ("unsupported_feature", {"status": 501}, Cause.CLIENT),
    ("aborted", {"status": 499}, Cause.CLIENT),
    ("unknown", {"status": 307}, Cause.REDIRECTED),
    ("auth", {"status": 403, "headers": (("CF-Mitigated", "challenge"),)}, Cause.CHALLENGED),
]


@pytest.mark.parametrize(("kind", "facts", "cause"), CAUSES)
def test_each_failure_has_its_cause(kind, facts, cause):
    assert cause_of(failure(kind, **facts), dead_codes={"gone"}) is cause


def test_the_table_has_every_cause():
    assert set(ROWS) == set(Cause)
    # What no failure says: whoever could get no token knows it.
    assert {cause for _, _, cause in CAUSES} == set(Cause) - {Cause.UNRENEWED}


# What one failure of the first of two members does to it, and whether the other is asked at once.
MARKS = [
    ("rate_limit", {"status": 429, "retry_after_s": 9.0}, "c0 cooling (rate_limit)", NOW + 9, True),
    ("rate_limit", {"status": 429}, "c0 cooling (rate_limit)", NOW + 0.75, True),
    ("quota", {"status": 429}, "c0 exhausted (quota)", None, True),
    ("quota", {"status": 429, "retry_after_s": 7200.0}, "c0 exhausted (quota)", NOW + 7200, True),
    ("overloaded", {"status": 503}, "c0 cooling (overloaded)", NOW + 0.75, True),
    ("overloaded", {"status": 503, "retry_after_s": 600.0}, "c0 cooling (overloaded)", NOW + OVERLOAD_CAP_S, True),
    ("transport", {"phase": "request"}, "c0 cooling (transport)", NOW + INTERRUPTED_S, True),
    ("timeout", {"phase": "head"}, "c0 cooling (timeout)", NOW + INTERRUPTED_S, True),
    ("auth", {"status": 401}, "c0 dead (auth)", None, True),
    ("auth", {"status": 403}, "c0 ready", None, True),
    ("transport", {"phase": "connect"}, "c0 ready", None, True),
    ("malformed_tool_call", {"status": 400}, "c0 ready", None, True),
    ("bad_request", {"status": 400}, "c0 ready", None, False),
    ("context_length", {"status": 400}, "c0 ready", None, False),
    ("aborted", {}, "c0 ready", None, False),
]


@pytest.mark.parametrize(("kind", "facts", "state", "until", "another"), MARKS)
def test_a_failure_marks_its_own_member_and_the_next_is_asked_at_once(kind, facts, state, until, another):
    run = Run(pool(2))
    assert run.key == "Bearer sk-0"
    step = run.fail(kind, **facts)
    assert run.states() == [state, "c1 ready"]
    assert run.pool.members("m", NOW)[0].until == until
    if another:
        assert (step.attempt, step.delay, run.key) == (2, 0.0, "Bearer sk-1")
        assert step.body == b"{}"
        assert dict(step.headers)["content-type"] == "application/json"
    else:
        assert isinstance(step, Refusal)
        assert step.error.kind == kind


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
def test_a_limit_of_a_model_leaves_the_members_other_models(kind):
    run = Run(pool(1))
    run.fail(kind, status=429)
    run.fail(kind, status=429)
    assert run.pool.choose("m", now=NOW, random=random.random) is None
    assert run.pool.choose("other", now=NOW, random=random.random).id == "c0"


@pytest.mark.parametrize(
    ("kind", "facts", "delay"),
    [
        ("rate_limit", {"status": 429}, BACKOFF_BASE_S / 2),
        ("rate_limit", {"status": 429, "retry_after_s": 1.5}, 1.5),
        ("rate_limit", {"status": 429, "retry_after_s": PATIENCE_S}, PATIENCE_S),
        ("overloaded", {"status": 503}, BACKOFF_BASE_S / 2),
        ("transport", {"phase": "connect"}, BACKOFF_BASE_S / 2),
        ("malformed_tool_call", {"status": 400}, BACKOFF_BASE_S / 2),
    ],
)
def test_a_lone_member_is_asked_once_more_before_its_mark(kind, facts, delay):
    run = Run(pool(1))
    step = run.fail(kind, **facts)
    assert (step.attempt, step.delay, run.key) == (2, delay, "Bearer sk-0")
    assert run.states() == ["c0 ready"]
    assert isinstance(run.fail(kind, **facts), Refusal)


@pytest.mark.parametrize(
    ("kind", "facts", "state"),
    [
        ("rate_limit", {"status": 429, "retry_after_s": PATIENCE_S + 0.1}, "c0 cooling (rate_limit)"),
        ("quota", {"status": 429}, "c0 exhausted (quota)"),
        ("auth", {"status": 401}, "c0 dead (auth)"),
        ("auth", {"status": 403}, "c0 ready"),
        ("bad_request", {"status": 400}, "c0 ready"),
    ],
)
def test_a_lone_member_is_not_asked_again_where_that_is_of_no_use(kind, facts, state):
    run = Run(pool(1))
    assert isinstance(run.fail(kind, **facts), Refusal)
    assert run.states() == [state]


def test_an_exhausted_pool_answers_429_with_safe_states_and_a_time_if_known():
    run = Run(pool(2))
    run.fail("rate_limit", status=429, retry_after_s=40.0)
    answer = run.fail("auth", status=401)
    assert (answer.status, answer.code) == (429, "credential_pool_exhausted")
    assert "c0 cooling (rate_limit) until 1970-01-12T13:47:20Z; c1 dead (auth)" in answer.message
    assert answer.retry_at == NOW + 40
    assert answer.should_retry is True
    assert answer.error is None
    again = Run(run.pool).step
    assert (again.status, again.code, again.retry_at) == (429, "credential_pool_exhausted", NOW + 40)


def test_a_far_or_unknown_time_is_no_business_of_an_automatic_retry():
    far = Run(pool(1)).fail("rate_limit", status=429, retry_after_s=3600.0)
    assert (far.retry_at, far.should_retry) == (NOW + 3600, False)
    unknown = Run(pool(1)).fail("quota", status=429)
    assert (unknown.retry_at, unknown.should_retry) == (None, False)


def test_a_pool_that_is_away_for_other_reasons_says_so():
    cooling = Run(pool(1))
    cooling.fail("overloaded", status=503)
    told = cooling.fail("overloaded", status=503)
    assert told.error.kind == "overloaded"  # the failure says more than the pool could
    later = Run(cooling.pool).step
    assert (later.status, later.code) == (503, "server_is_overloaded")
    assert later.retry_at is not None
    dead = Run(pool(1))
    dead.fail("auth", status=401)
    assert Run(dead.pool).step.status == 502


def test_without_credentials_nobody_is_marked_and_nothing_repeated():
    for kind in ("rate_limit", "overloaded", "transport", "auth"):
        run = Run(pool(0))
        assert "authorization" not in dict(run.step.headers)
        answer = run.fail(kind, status=429 if kind == "rate_limit" else None, phase="connect")
        assert answer.error.kind == kind


def test_a_connection_that_died_in_the_pool_is_nobodys_failure_once():
    for size in (0, 1, 2):
        run = Run(pool(size))
        first = run.key if size else None
        step = run.fail("transport", reused=True)
        assert (step.attempt, step.delay, step.fresh_connection) == (2, 0.0, True)
        assert not size or run.key == first
        assert all(state.endswith("ready") for state in run.states())
        run.fail("transport", reused=True)
        assert run.attempts.records[0].cause is Cause.STALE_CONNECTION
        assert run.attempts.records[1].cause is Cause.INTERRUPTED


def test_an_unattributed_failure_stops_after_one_round():
    run = Run(pool(3))
    assert run.fail("transport", phase="connect").attempt == 2
    assert run.fail("transport", phase="connect").attempt == 3
    assert isinstance(run.fail("transport", phase="connect"), Refusal)
    assert run.states() == ["c0 ready", "c1 ready", "c2 ready"]


def test_a_second_round_comes_after_a_backoff_and_takes_who_is_ready_by_then():
    run = Run(pool(2), jitter=1.0)
    run.fail("overloaded", status=503)
    run.now += 0.5
    step = run.fail("overloaded", status=503)
    assert (step.attempt, step.delay, run.key) == (3, 2 * BACKOFF_BASE_S, "Bearer sk-0")
    run.now += step.delay
    step = run.fail("overloaded", status=503)
    assert (step.attempt, step.delay, run.key) == (4, 0.0, "Bearer sk-1")
    assert isinstance(run.fail("overloaded", status=503), Refusal)
    assert [one.credential for one in run.attempts.records] == ["c0", "c1", "c0", "c1"]
    assert [one.next_in for one in run.attempts.records] == [0.0, 1.0, 0.0, None]


def test_no_attempt_begins_after_the_total_deadline():
    run = Run(pool(2), total=10.0)
    run.now += 4
    assert run.fail("overloaded", status=503).deadlines.total == 6.0
    run = Run(pool(2), total=10.0)
    run.now += 10
    assert isinstance(run.fail("overloaded", status=503), Refusal)
    run = Run(pool(1), total=0.2)
    assert isinstance(run.fail("overloaded", status=503), Refusal)


def test_only_the_running_attempt_can_fail_and_only_once():
    run = Run(pool(1))
    with pytest.raises(ValueError, match="attempt 2 is not running"):
        run.attempts.next(failure("overloaded", attempt=2), now=NOW, random=lambda: 0.5)
    run.fail("bad_request", status=400)
    with pytest.raises(ValueError, match="not running"):
        run.attempts.next(failure("bad_request", attempt=1), now=NOW, random=lambda: 0.5)


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_backoff_keeps_its_bounds(round_, jitter):
    wait = backoff(round_, lambda: jitter)
    assert 0 <= wait <= min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(round_, 32))


@given(st.integers(1, 60), st.floats(0, 1), st.sampled_from(["rate_limit", "overloaded"]))
def test_a_cooling_without_a_hint_grows_to_its_cap(times, jitter, kind):
    members = pool(2)
    now, cap = NOW, RATE_LIMIT_CAP_S if kind == "rate_limit" else OVERLOAD_CAP_S
    for turn in range(times):
        run = Run(members, now=now, jitter=jitter)
        run.fail(kind, status=503)
        until = members.members("m", now)[0].until
        assert 0 < until - now <= min(cap, 2.0**turn)
        assert until - now >= min(cap, 2.0**turn) / 2
        now = until


def test_what_the_client_has_seen_marks_and_is_not_repeated():
    run = Run(pool(2))
    run.attempts.interrupted(failure("rate_limit", status=None, received=9), now=NOW, random=lambda: 0.5)
    assert run.states()[0] == "c0 cooling (rate_limit)"
    assert run.attempts.closed
    # A cut answer of the only member takes nobody away from the next request.
    run = Run(pool(1))
    run.attempts.interrupted(failure("stream_interrupted", received=9), now=NOW, random=lambda: 0.5)
    assert run.states() == ["c0 ready"]


def test_a_lone_member_that_another_request_found_spent_is_not_asked_again():
    members = pool(1)
    one, other = Run(members), Run(members)
    other.fail("quota", status=402)
    assert isinstance(one.fail("overloaded", status=503), Refusal)
    one = Run(pool(1))
    one.pool.mark("c0", Mark.dead("auth"))
    assert isinstance(one.fail("transport", phase="head", reused=True), Refusal)


def test_a_dead_connection_is_not_followed_by_another_when_the_time_is_over():
    run = Run(pool(1), total=30.0)
    run.now += 31
    assert isinstance(run.fail("transport", phase="head", reused=True), Refusal)


FAILURES = st.sampled_from([(kind, facts) for kind, facts, _ in CAUSES])


class AnySequence(RuleBasedStateMachine):
    """Requests come and fail in any order, over one pool of any size and strategy."""

    @initialize(size=st.integers(0, 4), strategy=st.sampled_from(sorted(STRATEGIES)), seed=st.integers(0, 99))
    def begin(self, size, strategy, seed):
        self.clock = Clock()
        self.size = size
        self.pool = pool(size, strategy)
        self.random = random.Random(seed).random
        self.running = None

    def ready(self, now):
        return {one.id for one in self.pool.members("m", now) if one.status is Status.READY}

    def take(self, step, ready_at_the_start):
        if isinstance(step, Refusal):
            self.running = None
            return
        assert isinstance(step, AttemptSpec)
        assert step.url.startswith("https://acme.example/")
        assert step.provider == "acme"
        assert 0 <= step.delay <= max(BACKOFF_CAP_S, PATIENCE_S)
        if self.size:
            assert self.running[0].credential in ready_at_the_start or step.fresh_connection
            assert dict(step.headers)["authorization"] == f"Bearer sk-{self.running[0].credential[1:]}"
        assert step.attempt <= 2 * max(self.size, 1) + 1
        self.running = (self.running[0], step)

    @rule()
    def a_request(self):
        if self.running:
            return
        attempts = CredentialAttempts(pool=self.pool, model="m", authorize=bearer, started=self.clock.now)
        ready = self.ready(self.clock.now)
        refused = attempts.choose(now=self.clock.now, random=self.random)
        assert (refused is None) == bool(ready or not self.size)
        if refused is None:
            self.running = (attempts, None)
            self.take(attempts.begin(prepared(), now=self.clock.now), ready)

    @rule(what=FAILURES, hint=st.one_of(st.none(), st.floats(0.1, 100)))
    def it_fails(self, what, hint):
        if not self.running:
            return
        attempts, step = self.running
        kind, facts = what
        before = {one.id: one.status for one in self.pool.members("m", self.clock.now)}
        used = attempts.credential
        after = attempts.next(
            failure(kind, attempt=step.attempt, **{"retry_after_s": hint, **facts}),
            now=self.clock.now,
            random=self.random,
        )
        marked = {one.id for one in self.pool.members("m", self.clock.now) if one.status is not before[one.id]}
        assert marked <= {used}
        wait = after.delay if isinstance(after, AttemptSpec) else 0.0
        self.take(after, self.ready(self.clock.now + wait))

    @rule(received=st.booleans())
    def it_ends(self, received):
        if not self.running:
            return
        attempts, step = self.running
        self.running = None
        if received:
            attempts.succeeded(now=self.clock.now)
        else:
            attempts.interrupted(
                failure("stream_interrupted", attempt=step.attempt, received=1), now=self.clock.now, random=self.random
            )

    @rule(seconds=st.floats(0, 120))
    def time_passes(self, seconds):
        self.clock.pass_(seconds)

    @invariant()
    def no_secret_shows(self):
        if getattr(self, "running", None):
            shown = f"{self.running[0].records} {self.running[1]!r} {self.pool!r}"
            assert "sk-" not in shown


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def test_the_fake_error_has_what_policy_reads():
    from headrace.events import ProviderErrorEvent

    for name in ("kind", "status", "code", "retry_after_s", "phase", "retryable", "message"):
        assert hasattr(FakeError("auth"), name)
        assert hasattr(ProviderErrorEvent, name)
