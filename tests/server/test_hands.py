"""The edge with a policy in Python: how often it is called, and what its answers become."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from dataclasses import replace

import httpx
import pytest

from headrace._bridge import DemoRef
from headrace.requests import REMOVE, Answer, AttemptSpec, Deadlines, Plan, Refusal, Request
from headrace.testing import Reply, Upstream
from tests.support.edge import listener

CHAT = "/v1/chat/completions"
ASK = {"model": "text", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def demo():
    running = DemoRef.start()
    yield running
    running.stop()


def spec(url: str, request: Request, *, protocol: str | None = None, **other) -> AttemptSpec:
    protocol = protocol or request.protocol
    body = request.body_for(protocol, model=request.model, **other)
    headers = (("content-type", "application/json"), ("authorization", "Bearer hush"))
    return AttemptSpec(method="POST", url=url, headers=headers, body=body, protocol=protocol, provider="demo")


class Counting:
    """Relays everything to one URL, and keeps what it was asked and told."""

    def __init__(self, url: str, relay: str = "verbatim") -> None:
        self.url = url
        self.relay = relay
        self.requests: list[Request] = []
        self.failures: list[object] = []
        self.settlements: list[object] = []
        self.settled = threading.Event()
        self.lapses = 0

    def decide(self, request):
        self.requests.append(request)
        return Plan(
            token=len(self.requests),
            spec=spec(self.url + request.path, request, protocol=None if self.relay == "verbatim" else "openai_chat"),
            client_protocol=request.protocol,
            relay=self.relay,
        )

    def next(self, failure):
        self.failures.append(failure)
        return Refusal(code="told", message="told", error=failure.error)

    def settle(self, settlement):
        self.settlements.append(settlement)
        self.settled.set()

    def lapse(self):
        self.lapses += 1


def url_of(edge) -> str:
    host, port = edge.address
    return f"http://{host}:{port}"


def wait_for(condition) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_python_runs_a_constant_number_of_times_however_long_the_stream_is(demo):
    policy = Counting(demo.url)
    with listener(policy) as edge, httpx.Client(base_url=url_of(edge), timeout=20) as client:
        chunks = 0
        for _ in range(3):
            with client.stream("POST", CHAT, json=ASK) as response:
                chunks += sum(line.startswith("data: ") for line in response.iter_lines())
        wait_for(lambda: len(policy.settlements) == 3)
        assert chunks > 60
        assert (len(policy.requests), len(policy.failures)) == (3, 0)
        counters = dict(edge.counters())
        assert (counters["decides"], counters["nexts"], counters["settles"]) == (3, 0, 3)
        # A ring for each decision; a settlement never rings, and waits for 15 ms at most.
        assert counters["rings"] == 3
        assert counters["takes"] <= 6


def test_a_spec_that_is_given_again_is_read_once_and_serves_each_request_with_its_own_body():
    class Again(Counting):
        kept = None

        def decide(self, request):
            plan = super().decide(request)
            if self.kept is None:
                self.kept = plan.spec
                self.kept.sealed = True
            # A copy is another spec, whatever was read of the one that it was made of.
            other = replace(self.kept, url=self.kept.url + "/other")
            return replace(plan, spec=other if request.id.endswith("2") else self.kept)

    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    with Upstream(Reply.json({**whole, "choices": [choice]})) as upstream:
        policy = Again(upstream.url)
        with listener(policy) as edge, httpx.Client(base_url=url_of(edge), timeout=20) as client:
            for n in range(4):
                asked = {**ASK, "stream": False, "messages": [{"role": "user", "content": f"question {n}"}]}
                assert client.post(CHAT, json=asked).status_code == 200
        seen = [(one.path, one.json()["messages"][0]["content"]) for one in upstream.facts().requests]
    assert seen == [(CHAT + ("/other" if n == 2 else ""), f"question {n}") for n in range(4)]
    assert policy.kept.sealed not in {True, False}
    assert "hush" not in repr(policy.kept.sealed)


def test_settlements_that_no_job_takes_along_are_written_when_they_have_waited(demo):
    policy = Counting(demo.url)
    with listener(policy) as edge:
        for n in range(1, 3):
            assert httpx.post(url_of(edge) + CHAT, json=ASK, timeout=20).status_code == 200
            wait_for(lambda n=n: policy.lapses >= n)
            # What was told comes first, then that it is to be written.
            assert len(policy.settlements) == n


def test_ten_thousand_events_cost_python_what_ten_cost():
    def chunk(**choice):
        told = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return b"data: %s\n\n" % json.dumps({**told, "choices": [{"index": 0, **choice}]}).encode()

    def stream(count):
        # In many writes, so that the edge reads many times.
        piece = chunk(delta={"content": "x"}, finish_reason=None) * 10
        end = chunk(delta={}, finish_reason="stop") + b"data: [DONE]\n\n"
        return Reply.stream(*[piece] * (count // 10), end)

    counted = []
    for count in (10, 10_000):
        for relay, client in (("verbatim", CHAT), ("normalised", "/v1/messages")):
            with Upstream(stream(count)) as upstream:
                policy = Counting(upstream.url, relay)
                with listener(policy) as edge:
                    text = httpx.post(url_of(edge) + client, json={**ASK, "max_tokens": 9}, timeout=20).text
                    assert text.count('"x"') == count
                    assert policy.settled.wait(10)
                    (settlement,) = policy.settlements
                    assert settlement.events >= count
                    counters = dict(edge.counters())
                    counted.append([counters[name] for name in ("decides", "nexts", "settles", "rings")])
                    assert counters["takes"] <= 2
    assert counted == [[1, 0, 1, 1]] * 4


def test_a_settlement_tells_what_was_learned_on_the_way(demo):
    policy = Counting(demo.url)
    with listener(policy) as edge:
        text = httpx.post(url_of(edge) + CHAT, json=ASK, timeout=20).text
        assert policy.settled.wait(10)
    (settlement,) = policy.settlements
    assert (settlement.token, settlement.attempts, settlement.status) == (1, 1, 200)
    assert (settlement.finish, settlement.error) == ("stop", None)
    assert settlement.bytes_received == len(text.encode())
    assert settlement.bytes_to_client > settlement.bytes_received
    assert settlement.bytes_sent > len(b"POST")
    assert settlement.events > 10
    assert 0 < settlement.decide_s < settlement.total_s
    assert settlement.first_byte_s < settlement.total_s
    assert settlement.model == "text"
    assert settlement.losses == ()
    assert "hush" not in repr(settlement) + repr(policy.requests[0])


def test_a_request_answers_facts_and_gives_its_body_away_when_the_answer_begins(demo):
    seen = {}

    class Asking(Counting):
        def decide(self, request):
            seen["body"] = request.body()
            return super().decide(request)

    policy = Asking(demo.url)
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    ask = {**ASK, "tools": [tool], "prompt_cache_key": "k", "stream_options": {"include_usage": True}}
    with listener(policy) as edge:
        headers = {"session-id": "s1", "x-odd": "ä".encode()}
        httpx.post(url_of(edge) + CHAT + "?a=b", json=ask, headers=headers, timeout=20)
        assert policy.settled.wait(10)
    (request,) = policy.requests
    assert (request.method, request.path, request.query) == ("POST", CHAT, "a=b")
    assert (request.protocol, request.operation, request.model) == ("openai_chat", "generate", "text")
    assert (request.stream, request.include_usage, request.has_images) == (True, True, False)
    assert (request.tool_names, request.prompt_cache_key, request.session) == (("look",), "k", "s1")
    assert request.body_size == len(seen["body"])
    assert request.header("Content-Type") == "application/json"
    assert request.header("x-odd") == "ä"
    assert ("session-id", "s1") in request.headers()
    assert request.peer.startswith("127.0.0.1:")
    assert request.id.startswith("req_")
    with pytest.raises(RuntimeError, match="gone"):
        request.body()


def test_edits_are_checked_when_they_are_given(demo):
    failures = []

    class Editing(Counting):
        def decide(self, request):
            for wrong in ({"/a": float("nan")}, {"/a": object()}, {"a": 1}, {"": 1}):
                try:
                    request.body_for("openai_chat", model="m", edits=wrong)
                except (TypeError, ValueError) as error:
                    failures.append(error)
            for wrong in ("no_such_protocol", ""):
                with pytest.raises(ValueError, match="protocol"):
                    request.body_for(wrong, model="m")
            with pytest.raises(ValueError, match="nonsense"):
                request.body_for("openai_chat", model="m", target_flags=("nonsense",))
            edits = {"/model": "text", "/user": REMOVE, "/metadata": {"a": [1, None, True, "é"]}}
            plan = super().decide(request)
            return replace(plan, spec=spec(self.url + request.path, request, edits=edits))

    policy = Editing(demo.url)
    with listener(policy) as edge:
        response = httpx.post(url_of(edge) + CHAT, json={**ASK, "model": "nothing", "user": "u"}, timeout=20)
        assert response.status_code == 200
    assert len(failures) == 4


def test_policy_may_wait_and_the_others_do_not_wait_for_it(demo):
    class Waiting(Counting):
        def __init__(self, url):
            super().__init__(url)
            self.gate = None

        def decide(self, request):
            plan = super().decide(request)
            return self.later(plan) if request.session == "slow" else plan

        async def later(self, plan):
            self.gate = asyncio.Event()
            self.loop = asyncio.get_running_loop()
            await self.gate.wait()
            return plan

    policy = Waiting(demo.url)
    with listener(policy) as edge, httpx.Client(base_url=url_of(edge), timeout=20) as client:
        results = []
        slow = threading.Thread(
            target=lambda: results.append(client.post(CHAT, json=ASK, headers={"session-id": "slow"}))
        )
        slow.start()
        wait_for(lambda: policy.gate is not None)
        assert client.post(CHAT, json=ASK).status_code == 200
        assert not results
        policy.loop.call_soon_threadsafe(policy.gate.set)
        slow.join(10)
        assert results[0].status_code == 200


class Answering:
    """Gives one answer to every question."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def decide(self, _request):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def next(self, _failure):
        raise AssertionError("nothing is attempted")

    def settle(self, _settlement):
        raise AssertionError("nothing is planned")

    def lapse(self):
        """Nothing was settled."""


def test_refusals_and_answers_reach_the_client_in_its_own_format():
    refusal = Refusal(
        code="credential_pool_exhausted",
        message="all are resting",
        status=429,
        param="model",
        retry_at=time.time() + 9,
        should_retry=False,
    )
    with listener(Answering(refusal)) as edge:
        response = httpx.post(url_of(edge) + CHAT, json=ASK)
        assert response.status_code == 429
        error = response.json()["error"]
        assert (error["code"], error["message"], error["param"]) == (refusal.code, refusal.message, "model")
        assert 7 <= int(response.headers["retry-after"]) <= 9
        assert response.headers["x-should-retry"] == "false"
        response = httpx.post(url_of(edge) + "/v1/messages", json=ASK)
        assert response.json()["type"] == "error"
        assert refusal.code in response.json()["error"]["message"]
        assert response.headers["request-id"].startswith("req_")
    answer = Answer(body=b'{"data":[]}', headers=(("x-headrace-estimate", "true"),))
    with listener(Answering(answer)) as edge:
        response = httpx.get(url_of(edge) + "/v1/models")
        assert (response.status_code, response.content) == (200, answer.body)
        assert response.headers["x-headrace-estimate"] == "true"
        assert httpx.head(url_of(edge) + "/v1/models").headers["content-length"] == str(len(answer.body))
        assert httpx.get(url_of(edge) + "/readyz").status_code == 503
        edge.set_ready(True)
        assert httpx.get(url_of(edge) + "/readyz").status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        RuntimeError("policy fell over"),
        "no answer at all",
        Plan(token=1, spec=None, client_protocol="openai_chat", relay="verbatim"),
        Answer(body=b"", headers=(("x", "a\r\nb"),)),
    ],
    ids=["raises", "str", "half", "header"],
)
def test_a_policy_that_fails_costs_its_own_client_a_500_and_nobody_else(wrong, caplog):
    policy = Answering(wrong)
    with listener(policy) as edge:
        response = httpx.post(url_of(edge) + CHAT, json=ASK)
        assert response.status_code == 500
        policy.answer = Answer(body=b"{}")
        assert httpx.get(url_of(edge) + "/v1/models").status_code == 200
    if not isinstance(wrong, Answer):
        assert caplog.records


def test_a_question_that_python_drops_is_answered_all_the_same(demo):
    class Dropping(Counting):
        def decide(self, _request):
            return self.never()

        async def never(self):
            raise asyncio.CancelledError

    with listener(Dropping(demo.url)) as edge:
        for _ in range(3):
            assert httpx.post(url_of(edge) + CHAT, json=ASK).status_code == 500
        gc.collect()


def test_another_attempt_follows_a_failure_and_the_client_sees_only_that(demo):
    class Again(Counting):
        def next(self, failure):
            self.failures.append(failure)
            request = self.requests[0]
            return replace(spec(self.url + request.path, request), attempt=2, deadlines=Deadlines(total=30.0))

        def decide(self, request):
            plan = super().decide(request)
            body = request.body_for(request.protocol, model="error-503")
            return replace(plan, spec=replace(plan.spec, body=body))

    policy = Again(demo.url)
    with listener(policy) as edge:
        response = httpx.post(url_of(edge) + CHAT, json=ASK, timeout=20)
        assert policy.settled.wait(10)
    assert response.status_code == 200
    (failure,) = policy.failures
    assert (failure.token, failure.attempt, failure.reused_socket) == (1, 1, False)
    assert (failure.error.kind, failure.error.status, failure.error.retryable) == ("overloaded", 503, True)
    assert failure.bytes_sent > 0
    assert policy.settlements[0].attempts == 2
