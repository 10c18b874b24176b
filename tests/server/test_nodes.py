"""Gateways that share a store: one is killed under load, they agree on credentials, they hold a key's limits."""

from __future__ import annotations

import asyncio
import json
import pathlib
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from headrace.store import open_store
from headrace.testing import Reply, Upstream
from tests.support.gateway import Served, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Postgres

pytestmark = pytest.mark.timeout(90)

PLANTED = "sk-planted-3f9c"
TEAM = "team-planted-77aa"
ANSWER = Reply.json(
    {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
)
LIMITED = Reply.json({"error": {"message": "slow down", "type": "t"}}, status=429, headers=[("retry-after", "600")])
REFUSED = Reply.json({"error": {"message": f"wrong key {PLANTED}-1", "type": "t"}}, status=401)


def config(url: str, store: str, *, members: int = 1, key: str = "") -> str:
    text = f'[store]\nurl = "{store}"\n[server]\ndanger_literal_secrets = true\n'
    text += f'[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "{url}/v1"\n'
    for at in range(1, members + 1):
        text += f'[[providers.credentials]]\nid = "c{at}"\nsecret = "{PLANTED}-{at}"\n'
    if key:
        text += f'[[keys]]\nid = "team"\nsecret = "{TEAM}"\n{key}\n'
        text += '[catalogue."acme/m"]\nprice_input = 1.0\nprice_output = 2.0\n'
    return text


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/store.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.database()


def start(folder: pathlib.Path, name: str, text: str) -> Any:
    folder = folder / name
    folder.mkdir()
    (folder / "headrace.toml").write_text(text)
    return served(folder / "headrace.toml", "--log-level", "info")


def ask(near: Served, model: str, key: str = TEAM) -> tuple[int, Any]:
    body = json.dumps({"model": f"acme/{model}", "messages": [{"role": "user", "content": "ready?"}]}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"http://127.0.0.1:{near.port}/v1/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - an address of our own
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def rows(url: str, sql: str) -> list[Any]:
    async def body() -> list[Any]:
        store = await open_store(url)
        try:
            async with store.transaction() as tx:
                return await tx.fetch(sql)
        finally:
            await store.close()

    return asyncio.run(body())


def until(true: Callable[[], bool], limit: float) -> float:
    """Wait, and give the seconds that it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < limit
        time.sleep(0.01)
    return time.monotonic() - began


class Load:
    """Clients that ask without a pause, each request for a model of its own name."""

    def __init__(self, near: Served, name: str) -> None:
        self.answered: dict[str, float] = {}
        self._near = near
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(f"{name}-{n}",)) for n in range(4)]
        for thread in self._threads:
            thread.start()

    def _run(self, name: str) -> None:
        n = 0
        while not self._stop.is_set():
            model = f"{name}-{n}"
            n += 1
            try:
                status, _ = ask(self._near, model)
            except (OSError, urllib.error.URLError, ValueError):
                return
            assert status == 200
            self.answered[model] = time.monotonic()

    def stop(self) -> dict[str, float]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.answered


def test_a_gateway_that_is_killed_under_load_loses_no_settled_request_and_doubles_none(
    store_url: str, tmp_path: pathlib.Path
) -> None:
    with Upstream(ANSWER, record=0) as far:
        text = config(far.url, store_url)
        with start(tmp_path, "stays", text) as stays:
            dies_folder = start(tmp_path, "dies", text)
            dies = dies_folder.__enter__()
            loads = [Load(stays, "stays"), Load(dies, "dies")]
            until(lambda: min(len(load.answered) for load in loads) > 100, 30)
            time.sleep(1.5)
            dies.process.kill()
            killed = time.monotonic()
            until(lambda: dies.process.poll() is not None, 5)
            before = len(loads[0].answered)
            until(lambda: len(loads[0].answered) > before + 100, 30)
            stayed, died = (load.stop() for load in loads)
            _hear_out(dies)
        found = [model for (model,) in rows(store_url, "SELECT model FROM node_requests")]
        attempts = rows(store_url, "SELECT request, count(*) FROM node_every_attempt GROUP BY request")
        nodes = dict(rows(store_url, "SELECT node, count(*) FROM node_requests GROUP BY node"))
    assert len(found) == len(set(found)) == len(attempts)
    assert all(count == 1 for _, count in attempts)
    assert len(nodes) == 2
    # Of the one that went on and stopped in order, all.
    assert {model for model in found if model.startswith("stays")} == set(stayed)
    # Of the one that was killed, all but what came to its end in its last moment.
    of_killed = {model for model in found if model.startswith("dies")}
    missing = set(died) - of_killed
    assert all(killed - died[model] < 0.5 for model in missing), sorted(killed - died[model] for model in missing)
    assert len(of_killed) > len(missing)
    # And nothing that was never answered, but for what was under way.
    assert len(of_killed - set(died)) <= 4


def _hear_out(near: Served) -> None:
    near._reader.join()  # noqa: SLF001 - it was killed, and has no orderly end
    assert near.process.stderr
    near.process.stderr.close()


def test_gateways_agree_on_a_credential_within_a_second(store_url: str, tmp_path: pathlib.Path) -> None:
    script = {"/v1/chat/completions": [LIMITED, REFUSED, ANSWER]}
    with Upstream(script) as far:
        text = config(far.url, store_url, members=3)
        with start(tmp_path, "one", text) as one, start(tmp_path, "two", text) as two:
            assert ask(one, "m")[0] == 200
            asked = [seen.header("authorization") for seen in far.facts().requests]
            assert asked == [f"Bearer {PLANTED}-{n}" for n in (1, 2, 3)]
            marked = lambda: len(rows(store_url, "SELECT 1 FROM node_states")) == 2  # noqa: E731
            until(marked, 5)
            time.sleep(0.9)
            before = far.facts().request_count
            assert ask(two, "m")[0] == 200
            # The second gateway asks neither of the two that the first one found out about.
            later = [seen.header("authorization") for seen in far.facts().requests[before:]]
            assert later == [f"Bearer {PLANTED}-3"]
        # A gateway that starts later knows it, too; the dead one stays so.
        with start(tmp_path, "three", text) as three:
            assert ask(three, "m")[0] == 200
            assert far.facts().requests[-1].header("authorization") == f"Bearer {PLANTED}-3"
            assert far.facts().request_count == before + 2
    states = rows(store_url, "SELECT credential, status, reason FROM node_states ORDER BY credential")
    assert states == [("c1", "cooling", "rate_limit"), ("c2", "dead", "auth")]
    everything = json.dumps(rows(store_url, "SELECT * FROM node_requests"), default=str)
    everything += json.dumps(rows(store_url, "SELECT * FROM node_every_attempt"), default=str)
    everything += json.dumps(rows(store_url, "SELECT * FROM node_states"), default=str)
    assert PLANTED not in everything


def test_gateways_hold_a_keys_limit_together(store_url: str, tmp_path: pathlib.Path) -> None:
    with Upstream(ANSWER, record=0) as far:
        text = config(far.url, store_url, key="requests_per_minute = 30\nbudget_usd = 100")
        with start(tmp_path, "one", text) as one, start(tmp_path, "two", text) as two:
            # Not across the end of a minute.
            while time.time() % 60 > 52:
                time.sleep(0.5)
            answers = [ask(near, "m") for _ in range(25) for near in (one, two)]
            told = [status for status, _ in answers]
            assert told.count(200) == 30
            assert set(told) == {200, 429}
            refused = next(body for status, body in answers if status == 429)
            assert refused["error"]["code"] == "rate_limit_exceeded"
            unpriced = ask(one, "other")
            assert unpriced[0] in {403, 429}
    assert rows(store_url, "SELECT count(*), sum(cost_usd) FROM node_requests") == [(30, pytest.approx(30 * 20 / 1e6))]
    assert rows(store_url, "SELECT name FROM node_leases ORDER BY name") == [("team/money",), ("team/requests",)]


def test_the_ledger_tells_how_a_request_came_to_its_model(tmp_path: pathlib.Path) -> None:
    store = f"sqlite:{tmp_path}/store.db"
    with Upstream(LIMITED) as limited, Upstream(ANSWER) as far:
        text = config(far.url, store)
        text += f'[[providers]]\nid = "near"\nkind = "openai_compatible"\nbase_url = "{limited.url}/v1"\n'
        text += f'[[providers.credentials]]\nid = "n1"\nsecret = "{PLANTED}-n"\n'
        text += '[profiles]\nprimary = "near/m"\n[[routes]]\nprofile = "primary"\nto = ["acme/m"]\n'
        with start(tmp_path, "one", text) as one:
            body = json.dumps({"model": "primary", "messages": [{"role": "user", "content": "ready?"}]}).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{one.port}/v1/chat/completions", body, headers)
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - an address of our own
                assert answer.status == 200
    told = rows(store, "SELECT asked, provider, capability, route, attempts FROM node_requests")
    route = "near/m -> acme/m; reason=rate_limit; capability=language_model"
    assert told == [("primary", "acme", "language_model", route, 2)]
    told = rows(store, "SELECT attempt, provider, credential, kind, status FROM node_every_attempt ORDER BY attempt")
    assert told == [(1, "near", "n1", "rate_limit", 429), (2, "acme", "c1", None, 200)]


@pytest.fixture
def own_postgres(postgres: Postgres) -> Iterator[Postgres]:
    yield postgres
    # Whatever the test did to it.
    if not postgres.is_up():
        postgres.start()


def test_a_gateway_whose_store_is_away_serves_and_then_refuses(own_postgres: Postgres, tmp_path: pathlib.Path) -> None:
    url = own_postgres.database()
    with Upstream(ANSWER, record=0) as far:
        text = config(far.url, url).replace("[server]", "journal_limit = 20\n[server]")
        with start(tmp_path, "one", text) as near:
            assert ask(near, "before")[0] == 200
            own_postgres.stop()
            told = []
            for n in range(40):
                status, body = ask(near, f"away-{n}")
                told.append(status)
                if status == 503:
                    assert body["error"]["code"] == "store_unavailable"
                    break
            # The row of the one before may be in the journal, too.
            assert told.count(200) in {19, 20}
            assert told[-1] == 503
            own_postgres.start()
            near.line("the store is back")
            assert ask(near, "after")[0] == 200
    found = [model for (model,) in rows(url, "SELECT model FROM node_requests")]
    assert len(found) == len(set(found)) == told.count(200) + 2
