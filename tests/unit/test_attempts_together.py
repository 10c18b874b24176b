"""Many requests at once on one pool and two models: what no order of their failures and answers may do."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.control import Clock, failure

from headrace.attempts import BACKOFF_CAP_S, PATIENCE_S, CredentialAttempts
from headrace.credentials import STRATEGIES, Credential, Pool, Status
from headrace.plugins import bearer
from headrace.requests import AttemptSpec, Deadlines, PreparedRequest, Secret

FAILURES = [
    ("rate_limit", {"status": 429}),
    ("rate_limit", {"status": 429, "retry_after_s": 3.0}),
    ("quota", {"status": 402}),
    ("overloaded", {"status": 503}),
    ("transport", {"phase": "connect"}),
    ("transport", {"phase": "head", "reused": True}),
    ("timeout", {"phase": "head"}),
    ("auth", {"status": 401}),
    ("auth", {"status": 403}),
    ("bad_request", {"status": 400}),
    ("unknown", {"status": 302}),
]
TOTAL_S = 30.0


class Together(RuleBasedStateMachine):
    @initialize(size=st.integers(1, 4), strategy=st.sampled_from(sorted(STRATEGIES)), seed=st.integers(0, 99))
    def begin(self, size, strategy, seed):
        self.clock = Clock()
        self.random = random.Random(seed).random
        self.pool = Pool("acme", [Credential(f"c{at}", Secret(f"sk-{at}")) for at in range(size)], strategy=strategy)
        self.running = {}
        self.number = 0
        self.marked = []
        self.pool.on_mark = lambda credential, model, mark: self.marked.append((credential, model, mark))

    def states(self, model, now):
        return {one.id: one.status for one in self.pool.members(model, now)}

    def take(self, number, attempts, model, step):
        if not isinstance(step, AttemptSpec):
            self.running.pop(number, None)
            assert attempts.closed
            return
        now = self.clock.now + step.delay
        assert step.delay <= max(BACKOFF_CAP_S, PATIENCE_S)
        assert now - attempts_started(attempts) <= TOTAL_S
        assert self.states(model, now)[attempts.credential] is Status.READY or step.fresh_connection
        assert dict(step.headers)["authorization"] == f"Bearer sk-{attempts.credential[1:]}"
        assert step.provider == "acme"
        self.running[number] = (attempts, model, step)

    @rule(model=st.sampled_from(["m", "n"]), talk=st.sampled_from([None, "t", "u"]))
    def a_request(self, model, talk):
        self.number += 1
        now = self.clock.now
        attempts = CredentialAttempts(
            pool=self.pool, model=model, authorize=bearer, started=now, conversation=talk, dead_codes=()
        )
        ready = Status.READY in self.states(model, now).values()
        refused = attempts.choose(now=now, random=self.random)
        assert (refused is None) == ready
        if refused is None:
            prepared = PreparedRequest(
                url="https://acme.example/v1",
                headers=(),
                body=b"",
                protocol="openai_chat",
                deadlines=Deadlines(total=TOTAL_S),
            )
            self.take(self.number, attempts, model, attempts.begin(prepared, now=now))

    @precondition(lambda self: self.running)
    @rule(what=st.sampled_from(FAILURES), which=st.integers(0, 99))
    def one_fails(self, what, which):
        number = sorted(self.running)[which % len(self.running)]
        attempts, model, step = self.running[number]
        used, (kind, facts) = attempts.credential, what
        self.marked.clear()
        told = failure(kind, attempt=step.attempt, **facts)
        after = attempts.next(told, now=self.clock.now, random=self.random)
        # Only the credential that made the attempt, and where the limit is a model's only on that one.
        assert len(self.marked) <= 1
        for credential, scope, mark in self.marked:
            assert credential == used
            assert scope == (model if kind in {"rate_limit", "overloaded"} else None)
            assert mark.recheck > self.clock.now
        self.take(number, attempts, model, after)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), good=st.booleans())
    def one_ends(self, which, good):
        number = sorted(self.running)[which % len(self.running)]
        attempts, _, step = self.running.pop(number)
        before = {
            scope: mark for scope, mark in self.pool.marks().items() if mark.at(self.clock.now) is not Status.READY
        }
        if good:
            attempts.succeeded(now=self.clock.now)
            # An answer lifts no mark that still holds: it was made by a later failure.
            assert before.items() <= self.pool.marks().items()
        else:
            told = failure("stream_interrupted", attempt=step.attempt, received=5)
            attempts.interrupted(told, now=self.clock.now, random=self.random)
        assert attempts.closed
        # One record for each attempt, in their order.
        assert [one.attempt for one in attempts.records] == list(range(1, step.attempt + 1))

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds):
        self.clock.pass_(seconds)

    @rule(left=st.integers(0, 3), member=st.integers(0, 3), model=st.sampled_from(["m", "n"]))
    def a_limit_is_told(self, left, member, model):
        before = self.states(model, self.clock.now)
        headers = [("x-ratelimit-remaining-requests", str(left)), ("x-ratelimit-reset-requests", "20s")]
        self.pool.observe(f"c{member}", model, headers, self.clock.now)
        assert self.states(model, self.clock.now) == before  # a projection is no state

    @invariant()
    def no_request_has_two_attempts(self):
        if hasattr(self, "running"):
            for attempts, _, step in self.running.values():
                assert not attempts.closed
                assert len(attempts.records) == step.attempt - 1


def attempts_started(attempts):
    return attempts._started  # noqa: SLF001 - no caller needs it


TestTogether = Together.TestCase
TestTogether.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
