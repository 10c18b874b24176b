"""Routes above the attempts: the chain by kind of failure, the breaker, and the evidence that each step leaves."""

import random
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.control import Clock, FakeError, FakeRequest, configured, failure, gateway

from headrace import calls
from headrace.breaker import OPEN_MOST_S, Breaker, BreakerPolicy, Breakers
from headrace.capabilities.search import SearchRequest
from headrace.config import ConfigurationError
from headrace.requests import AttemptSpec, Plan, Refusal, Settlement

ROWS = """
[[providers]]
id = "one"
kind = "openai_compatible"
base_url = "https://one.example/v1"
[providers.deadlines]
total = 60
[[providers.credentials]]
id = "a"
secret = "env:K1"
[[providers]]
id = "two"
kind = "anthropic"
[[providers.credentials]]
id = "b"
secret = "env:K2"
[[providers]]
id = "three"
kind = "openai_compatible"
base_url = "https://three.example/v1"
[profiles]
primary = "one/m"
light = "one/small"
"""
TEXT = (
    ROWS
    + """
[[routes]]
profile = "primary"
to = ["two/claude-x", "three/m"]
[[routes]]
profile = "primary"
on = ["context_length"]
to = ["three/long"]
"""
)
ENVIRON = {"K1": "sk-one", "K2": "sk-two"}


def begin(of, **facts):
    plan = of.decide(FakeRequest(**{"model": "primary", **facts}))
    assert isinstance(plan, Plan), plan
    return plan


def fail(of, plan, spec, kind="overloaded", **facts):
    return of.next(failure(kind, token=plan.token, attempt=spec.attempt, **facts))


def told(spec):
    return dict(spec.told)


def test_the_client_is_told_which_model_answers():
    assert told(begin(gateway(TEXT, ENVIRON)).spec) == {"x-headrace-model": "one/m"}
    assert told(begin(gateway(TEXT, ENVIRON), model="three/a b,é").spec) == {"x-headrace-model": "three/a%20b%2C%C3%A9"}


def test_a_model_that_failed_for_good_is_followed_by_the_next_of_its_profile():
    of = gateway(TEXT, ENVIRON)
    plan = begin(of)
    assert plan.relay == "verbatim"
    again = fail(of, plan, plan.spec, status=503)
    assert (again.provider, again.attempt) == ("one", 2)  # a lone member, once more
    step = fail(of, plan, again, status=503)
    assert (step.provider, step.attempt, step.protocol, step.relay) == ("two", 3, "anthropic_messages", "normalised")
    assert dict(step.headers)["x-api-key"] == "sk-two"
    assert "sk-one" not in str(step.headers)
    assert step.secrets == ("sk-two",)
    assert told(step) == {
        "x-headrace-model": "two/claude-x",
        "x-headrace-fallback": "one/m -> two/claude-x; reason=overloaded; capability=language_model",
    }
    last = fail(of, plan, step, "quota", status=402)
    assert (last.provider, last.attempt, last.secrets) == ("three", 4, ())
    end = fail(of, plan, last, "transport", phase="connect")
    assert isinstance(end, Refusal)
    of.settle(Settlement(token=plan.token, attempts=5, status=502, error=FakeError("transport")))


def test_the_evidence_names_every_attempt_and_every_step():
    of = gateway(TEXT, ENVIRON)
    plan = begin(of)
    step = fail(of, plan, plan.spec, "auth", status=401)
    running = of.way(plan.token)
    of.settle(Settlement(token=plan.token, attempts=step.attempt, status=200, finish="stop", bytes_sent=7))
    assert [(one.provider, one.credential, one.kind) for one in running.records] == [
        ("one", "a", "auth"),
        ("two", "b", None),
    ]
    assert running.records[-1].bytes_sent == 7
    (hop,) = running.hops
    assert (hop.came_from, hop.went_to, hop.reason, hop.after) == ("one/m", "two/claude-x", "auth", 1)
    assert running.runtime.provider == "two"
    assert running.runtime.credential == "b"
    assert "sk-" not in repr(running.records) + repr(running.hops) + repr(running.runtime)


@pytest.mark.parametrize(
    ("kind", "facts", "provider"),
    [
        ("context_length", {"status": 400}, "three"),
        ("auth", {"status": 403}, "two"),
        ("bad_request", {"status": 400}, None),
        ("content_filter", {"status": 400}, None),
        ("unknown", {"status": 302}, "two"),
    ],
)
def test_the_kind_of_failure_decides(kind, facts, provider):
    of = gateway(TEXT, ENVIRON)
    plan = begin(of)
    step = fail(of, plan, plan.spec, kind, **facts)
    assert getattr(step, "provider", None) == provider


def test_without_a_route_no_other_provider_is_asked():
    of = gateway(TEXT, ENVIRON)
    for model in ("light", "one/m"):
        plan = begin(of, model=model)
        step = fail(of, plan, plan.spec, "auth", status=403)
        assert isinstance(step, Refusal)


def test_a_pool_with_nobody_ready_is_passed_over_at_once():
    of = gateway(TEXT, ENVIRON)
    plan = begin(of)
    fail(of, plan, plan.spec, "rate_limit", status=429, retry_after_s=60.0)
    of.settle(Settlement(token=plan.token, attempts=2, status=200, finish="stop"))
    plan = begin(of)
    assert (plan.spec.provider, plan.spec.attempt, plan.relay) == ("two", 1, "normalised")
    assert told(plan.spec)["x-headrace-fallback"].startswith("one/m -> two/claude-x; reason=rate_limit")


def test_a_fallback_that_sees_nothing_is_passed_over():
    text = TEXT + '[catalogue."two/claude-x"]\ninput = ["text"]\n'
    for images, provider in ((True, "three"), (False, "two")):
        of = gateway(text, ENVIRON)
        plan = begin(of, has_images=images)
        assert fail(of, plan, plan.spec, "auth", status=403).provider == provider


HEDGED = TEXT.replace('to = ["two/claude-x", "three/m"]', 'to = ["two/claude-x", "three/m"]\nhedge = 2')
BUDGET = '[[keys]]\nid = "k"\nsecret = "env:K1"\nbudget_usd = 5\n'
PRICE = '[catalogue."{}"]\nprice_input = 1\nprice_output = 2\n'


@pytest.mark.parametrize("text", [TEXT, HEDGED])
def test_a_key_with_a_budget_is_led_to_no_model_of_unknown_price(text):
    text += PRICE.format("one/m") + PRICE.format("three/m")
    sent = {"x-api-key": ENVIRON["K1"]}
    of = gateway(text + BUDGET, ENVIRON)
    plan = begin(of, sent=sent)
    assert plan.spec.hedge is None
    step = fail(of, plan, plan.spec, "auth", status=403)
    assert (step.provider, told(step)["x-headrace-fallback"].count("two/")) == ("three", 0)
    # With a price, or without a budget, it is asked.
    for more in (BUDGET + PRICE.format("two/claude-x"), BUDGET.replace("budget_usd = 5", "")):
        of = gateway(text + more, ENVIRON)
        plan = begin(of, sent=sent)
        assert (plan.spec.hedge is not None) == ("hedge" in text)
        if "hedge" not in text:
            assert fail(of, plan, plan.spec, "auth", status=403).provider == "two"


def test_the_clients_deadline_is_above_them_all():
    clock = Clock()
    of = gateway(TEXT, ENVIRON, clock=clock)
    plan = begin(of)
    clock.pass_(20)
    step = fail(of, plan, plan.spec, "auth", status=403)
    assert step.deadlines.total == pytest.approx(40)
    clock.pass_(40)
    assert isinstance(fail(of, plan, step, "auth", status=403), Refusal)


def test_a_hedge_is_prepared_and_leaves_no_trace_where_it_never_begins():
    of = gateway(HEDGED, ENVIRON)
    plan = begin(of)
    beside = plan.spec.hedge
    assert (beside.after, beside.spec.provider, beside.spec.attempt) == (2, "two", 2)
    assert (beside.spec.relay, dict(beside.spec.headers)["x-api-key"]) == ("normalised", "sk-two")
    assert told(beside.spec)["x-headrace-fallback"].endswith("two/claude-x; reason=hedge; capability=language_model")
    way = of.way(plan.token)
    of.settle(Settlement(token=plan.token, attempts=1, status=200, finish="stop"))
    assert (way.runtime.provider, way.hops, len(way.records)) == ("one", (), 1)
    # A failure before it began may still lead to that model.
    plan = begin(of)
    step = fail(of, plan, plan.spec, "auth", status=403)
    assert (step.provider, step.attempt, step.hedge) == ("two", 2, None)


def test_whose_head_came_first_is_the_way_and_the_other_is_recorded():
    for lane, provider, kinds in (("first", "one", ["aborted", None]), ("second", "two", ["aborted", None])):
        of = gateway(HEDGED, ENVIRON)
        plan = begin(of)
        way = of.way(plan.token)
        of.settle(Settlement(token=plan.token, attempts=2, status=200, finish="stop", lane=lane))
        assert way.runtime.provider == provider
        assert [one.kind for one in way.records] == kinds
        assert way.records[-1].provider == provider
        assert len(way.hops) == (lane == "second")


def test_a_client_that_leaves_in_the_race_leaves_a_record_of_both():
    of = gateway(HEDGED, ENVIRON)
    plan = begin(of)
    way = of.way(plan.token)
    left = FakeError("aborted")
    of.settle(Settlement(token=plan.token, attempts=2, status=0, error=left, lane="neither"))
    assert {(one.attempt, one.provider, one.kind) for one in way.records} == {
        (1, "one", "aborted"),
        (2, "two", "aborted"),
    }
    assert way.hops == ()


def test_what_fails_of_a_hedge_goes_on_with_the_numbers_in_order():
    of = gateway(HEDGED, ENVIRON)
    plan = begin(of)
    step = of.next(replace(failure("auth", token=plan.token, attempt=1, status=403), lane="first"))
    assert (step.provider, step.attempt) == ("three", 3)  # the hedge's model has had its turn
    of = gateway(HEDGED, ENVIRON)
    plan = begin(of)
    step = of.next(replace(failure("overloaded", token=plan.token, attempt=2, status=503), lane="second"))
    assert (step.provider, step.attempt) == ("two", 3)  # a lone member, once more


def test_without_a_hedge_there_is_one_attempt_at_a_time():
    assert begin(gateway(TEXT, ENVIRON)).spec.hedge is None


SEARCH = """
[[providers]]
id = "t"
kind = "tavily"
[[providers.credentials]]
id = "c"
secret = "env:K1"
[[providers]]
id = "e"
kind = "exa"
[[providers.credentials]]
id = "c"
secret = "env:K2"
[[providers]]
id = "mute"
kind = "openai_compatible"
base_url = "https://mute.example/v1"
[profiles]
web_search.news = "t/news"
[[routes]]
profile = "web_search.news"
to = ["mute/m", "e/web"]
"""


def test_a_search_goes_to_another_provider_that_can_search():
    of = gateway(SEARCH, ENVIRON)
    plan = of.call(calls.Call("web_search", SearchRequest(query="water", model="web_search.news")))
    assert plan.spec.provider == "t"
    step = fail(of, plan, plan.spec, "auth", status=401)
    assert (step.provider, step.attempt) == ("e", 2)
    assert step.url.startswith("https://api.exa.ai")
    (hop,) = of.way(plan.token).hops
    assert (hop.capability, hop.reason) == ("web_search", "auth")
    assert of.opened(plan.token).model == "web"


def broken(of, times, model="primary"):
    for _ in range(times):
        plan = begin(of, model=model)
        step = plan.spec
        while isinstance(step, AttemptSpec) and step.provider == plan.spec.provider:
            step = fail(of, plan, step, "transport", phase="connect")
        error = FakeError("transport") if isinstance(step, Refusal) else None
        of.settle(Settlement(token=plan.token, attempts=9, status=200, finish=None if error else "stop", error=error))


def test_an_open_breaker_is_gone_past_and_probed_again():
    clock = Clock()
    of = gateway(TEXT, ENVIRON, clock=clock)
    broken(of, 3)  # two attempts each, and five open it
    assert told(begin(of).spec)["x-headrace-fallback"].startswith("one/m -> two/claude-x; reason=circuit_open")
    clock.pass_(10)
    plan = begin(of)
    assert plan.spec.provider == "one"  # the probe
    assert begin(of).spec.provider == "two"  # one only
    of.settle(Settlement(token=plan.token, attempts=1, status=200, finish="stop"))
    assert begin(of).spec.provider == "one"


def test_an_open_breaker_without_another_way_lets_pass_or_fails_fast():
    of = gateway(ROWS, ENVIRON)
    broken(of, 5)
    assert begin(of).spec.provider == "one"
    of = gateway(
        ROWS.replace("[providers.deadlines]", "[providers.breaker]\nfail_fast = true\n[providers.deadlines]"), ENVIRON
    )
    broken(of, 3)
    no = of.decide(FakeRequest(model="primary"))
    assert (no.status, no.code, no.should_retry) == (503, "server_is_overloaded", True)
    assert no.retry_at


def test_a_breaker_that_stays_broken_is_probed_ever_more_rarely():
    one, now, waits = Breaker(BreakerPolicy(failures=1, open_s=10)), 0.0, []
    for _ in range(8):
        one.failed(now, lambda: 1.0)
        waits.append(one.until - now)
        now = one.until
        assert one.admits(now)
        assert not one.admits(now)
    assert waits == [10, 20, 40, 80, 160, OPEN_MOST_S, OPEN_MOST_S, OPEN_MOST_S]
    one.succeeded()
    assert one.admits(now)


class AnyFailures(RuleBasedStateMachine):
    """Whatever fails: no more than one probe while a breaker is open, and no shorter pause than half of what is due."""

    @initialize(failures=st.integers(0, 4), seed=st.integers(0, 99))
    def begin(self, failures, seed):
        self.policy = BreakerPolicy(failures=failures, open_s=10)
        self.random = random.Random(seed).random
        self.breakers = Breakers()
        self.now, self.row = 0.0, 0

    @rule()
    def it_fails(self):
        self.row += 1
        self.breakers.failed("p", "m", self.policy, now=self.now, random=self.random)

    @rule()
    def it_answers(self):
        self.row = 0
        self.breakers.succeeded("p", "m")
        assert self.breakers.admits("p", "m", self.now)

    @rule(seconds=st.floats(0, 400))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def two_ask(self):
        asked = [self.breakers.admits("p", "m", self.now) for _ in range(2)]
        closed = not self.policy.failures or self.row < self.policy.failures
        assert asked == [True, True] if closed else asked[1] is False
        assert self.breakers.admits("p", "other", self.now)


TestAnyFailures = AnyFailures.TestCase
TestAnyFailures.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('[[routes]]\nprofile = "best"\nto = ["one/m"]\n', "routes[0].profile", "no profile"),
        ('[[routes]]\nprofile = "heavy"\nto = ["one/m"]\n', "routes[0].profile", "nothing is bound"),
        ('[[routes]]\nprofile = "primary"\nto = ["nobody/m"]\n', "routes[0].to[0]", "no provider 'nobody'"),
        ('[[routes]]\nprofile = "primary"\nto = ["light"]\n', "routes[0].to[0]", "provider_id/model"),
        ('[[routes]]\nprofile = "primary"\nto = []\n', "routes[0].to", "at least 1"),
        ('[[routes]]\nprofile = "primary"\nto = ["one/m"]\non = ["bad luck"]\n', "routes[0].on[0]", "must be"),
    ],
)
def test_a_wrong_route_is_told_with_its_place(text, key, words):
    with pytest.raises(ConfigurationError) as caught:
        configured(ROWS + text, ENVIRON)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert words in problem.message
    assert problem.line
