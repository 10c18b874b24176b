"""Gateways whose credentials get their tokens themselves: one refresh for all, whoever asks and whoever dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from headrace.credentials import oauth
from headrace.credentials.oauth import Grant, Login, Logins, Tokens
from headrace.credentials.sealed import SCHEMA as SECRETS_SCHEMA
from headrace.credentials.sealed import Secrets
from headrace.credentials.vault import StoreKey, Vault, new_key
from headrace.requests import Secret
from headrace.store import open_store
from headrace.upkeep import export_store
from tests.support.gateway import Bearers, Served, bearers, served, upstream
from tests.support.tokens import ACCOUNT, TokenServer, token_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Postgres

pytestmark = pytest.mark.timeout(90)

ANSWER = json.dumps(
    {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
).encode()
GOOD = (200, {}, ANSWER)
REFUSED = (401, {}, b'{"error": {"message": "token canary expired", "type": "t"}}')
KEY = new_key()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/store.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def sqlite(tmp_path: pathlib.Path) -> str:
    return f"sqlite:{tmp_path}/store.db"


def config(provider: str, tokens: TokenServer, store: str, *, more: str = "") -> str:
    text = f'[store]\nurl = "{store}"\nkey = "env:HEADRACE_TEST_KEY"\n[server]\ndanger_literal_secrets = true\n'
    text += f'[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "{provider}/v1"\n'
    text += f'[[providers.credentials]]\nid = "plan"\noauth = "chatgpt"\nissuer = "{tokens.url}"\n'
    return text + more


SECOND = '[[providers.credentials]]\nid = "spare"\nsecret = "sk-spare"\n'


def start(folder: pathlib.Path, text: str, name: str = "one") -> Any:
    folder = folder / name
    folder.mkdir()
    (folder / "headrace.toml").write_text(text)
    return served(folder / "headrace.toml", "--log-level", "info", HEADRACE_TEST_KEY=KEY)


def ask(near: Served) -> tuple[int, Any]:
    body = {"model": "acme/m", "messages": [{"role": "user", "content": "ready?"}]}
    status, _, answer = near.ask("/v1/chat/completions", body)
    return status, answer


def logins() -> Logins:
    return Logins(Secrets(lambda: Vault([StoreKey.read(KEY)]), clock=time.time))


def log_in(url: str, server: TokenServer, *, left: float = 3600.0) -> None:
    """Put a login into the store, whose token has `left` seconds."""

    async def go() -> None:
        store = await open_store(url)
        await store.migrate(SECRETS_SCHEMA, oauth.SCHEMA)
        now = time.time()
        got = Tokens(Secret(server.access), now + min(left, 0) - 3600, Secret(server.refresh), now + left, ACCOUNT)
        grant = Grant("chatgpt", issuer=server.url)
        async with store.transaction() as tx:
            login = Login("acme", "plan", "chatgpt", grant.identity, oauth.login_id())
            await logins().write(tx, login, got, now)
        await store.close()

    asyncio.run(go())


def kept(url: str) -> tuple[Login, Tokens | None]:
    """Read the login as the store has it."""

    async def go() -> tuple[Login, Tokens | None]:
        store = await open_store(url)
        async with store.transaction() as tx:
            found = await logins().read(tx, "acme", "plan")
        await store.close()
        assert found is not None
        return found

    return asyncio.run(go())


def shown(provider: Any) -> list[str]:
    """The bearer tokens that the provider has seen."""
    return [(key or "").removeprefix("Bearer ") for key in list(provider.keys())]


def test_a_token_that_has_ended_is_exchanged_before_the_request(tmp_path: pathlib.Path, sqlite: str) -> None:
    with token_server() as server, upstream(GOOD) as provider:
        log_in(sqlite, server, left=-10)
        with start(tmp_path, config(provider.url, server, sqlite)) as near:
            assert [ask(near)[0] for _ in range(3)] == [200, 200, 200]
    assert shown(provider) == [server.access_of(1)] * 3
    assert server.refreshes == 1
    assert kept(sqlite)[0].state == "ready"


def test_a_refused_token_is_exchanged_once_and_the_request_goes_on(tmp_path: pathlib.Path, sqlite: str) -> None:
    with token_server() as server, upstream(REFUSED, GOOD) as provider:
        log_in(sqlite, server)
        with start(tmp_path, config(provider.url, server, sqlite)) as near:
            assert ask(near)[0] == 200
            assert ask(near)[0] == 200
            assert "credential dead" not in "".join(near.lines)
    assert shown(provider) == [server.access_of(0), server.access_of(1), server.access_of(1)]
    assert server.refreshes == 1


def test_a_token_refused_twice_is_dead_and_the_next_member_is_taken(tmp_path: pathlib.Path, sqlite: str) -> None:
    with token_server() as server, upstream(REFUSED, REFUSED, GOOD) as provider:
        log_in(sqlite, server)
        with start(tmp_path, config(provider.url, server, sqlite, more=SECOND)) as near:
            assert ask(near)[0] == 200
            assert "credential dead" in near.line("attempt 2")
            assert ask(near)[0] == 200
    assert shown(provider) == [server.access_of(0), server.access_of(1), "sk-spare", "sk-spare"]
    assert server.refreshes == 1


def test_a_login_that_is_over_is_dead_and_says_how_to_log_in(tmp_path: pathlib.Path, sqlite: str) -> None:
    final = (400, {}, {"error": {"code": "refresh_token_expired", "message": "canary"}})
    with token_server(final) as server, upstream(REFUSED) as provider:
        log_in(sqlite, server)
        with start(tmp_path, config(provider.url, server, sqlite)) as near:
            status, answer = ask(near)
            told = near.line("could not be renewed")
            assert (status, ask(near)[0]) == (502, 502)
    assert "canary" not in told
    assert "headrace auth login acme/plan" in answer["error"]["message"]
    assert (server.refreshes, shown(provider)) == (1, [server.access_of(0)])
    login, tokens = kept(sqlite)
    assert login.state == "dead"
    assert "refresh_token_expired" in login.reason
    assert tokens is not None


def test_a_token_endpoint_that_is_down_exhausts_the_member_for_a_while(tmp_path: pathlib.Path, sqlite: str) -> None:
    with token_server((503, {}, {})) as server, upstream(GOOD) as provider:
        log_in(sqlite, server, left=-10)
        with start(tmp_path, config(provider.url, server, sqlite, more=SECOND)) as near:
            assert [ask(near)[0] for _ in range(2)] == [200, 200]
    assert shown(provider) == ["sk-spare", "sk-spare"]
    assert server.refreshes == 1
    login, _ = kept(sqlite)
    assert (login.state, login.failures) == ("waiting", 1)
    assert login.until is not None
    assert time.time() - 60 < login.until < time.time() + 6


def test_only_those_wait_that_need_a_token(tmp_path: pathlib.Path, sqlite: str) -> None:
    gate, begun = threading.Event(), threading.Event()

    def rotated(_number: int) -> None:
        begun.set()
        gate.wait(20)

    other = '[[providers]]\nid = "other"\nkind = "openai_compatible"\nbase_url = "{}/v1"\n'
    with token_server(rotated=rotated) as server, upstream(GOOD) as provider, ThreadPoolExecutor(1) as aside:
        log_in(sqlite, server, left=-10)
        with start(tmp_path, config(provider.url, server, sqlite, more=other.format(provider.url))) as near:
            waiting = aside.submit(ask, near)
            assert begun.wait(20)
            body = {"model": "other/m", "messages": [{"role": "user", "content": "x"}]}
            assert near.ask("/v1/chat/completions", body)[0] == 200
            assert not waiting.done()
            gate.set()
            assert waiting.result(20)[0] == 200


def test_a_token_near_its_end_is_renewed_beside_the_requests(tmp_path: pathlib.Path, sqlite: str) -> None:
    done = threading.Event()
    with token_server(rotated=lambda _: done.set()) as server, upstream(GOOD) as provider:
        log_in(sqlite, server, left=100)
        with start(tmp_path, config(provider.url, server, sqlite)) as near:
            assert done.wait(20)
            until(lambda: kept(sqlite)[0].expires > time.time() + 1000)
            assert ask(near)[0] == 200
    assert shown(provider) == [server.access_of(1)]


def until(there: Any) -> None:
    end = time.monotonic() + 20
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_login_is_heard_of_by_a_gateway_that_runs(tmp_path: pathlib.Path, store_url: str) -> None:
    with (
        token_server() as server,
        upstream(GOOD) as provider,
        start(tmp_path, config(provider.url, server, store_url)) as near,
    ):
        status, answer = ask(near)
        assert status == 502
        assert "plan dead (auth)" in answer["error"]["message"]
        log_in(store_url, server)
        until(lambda: ask(near)[0] == 200)
    assert set(shown(provider)) == {server.access_of(0)}


@pytest.fixture
def nodes(tmp_path: pathlib.Path) -> Iterator[Any]:
    """Start several gateways, and stop those that still run."""
    started: list[Any] = []

    def start_all(count: int, text: str) -> list[Served]:
        def one(number: int) -> Served:
            context = start(tmp_path, text, f"n{number}")
            started.append(context)
            return context.__enter__()

        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(one, range(count)))

    yield start_all
    for context in started:
        # One that was killed did not stop in order.
        with contextlib.suppress(AssertionError):
            context.__exit__(None, None, None)


def race(every: list[Served], count: int = 32) -> list[int]:
    """Ask all of them at once, several times each, and give the statuses."""
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda at: ask(every[at % len(every)])[0], range(count)))


def take_back(provider: Bearers, server: TokenServer) -> None:
    """From now on the provider refuses the token that was given last, long before its end."""
    old = server.access
    provider.takes = lambda token: token != old
    provider.seen.clear()


def kill_in_the_middle(server: TokenServer, doomed: Served) -> threading.Event:
    """Once the endpoint has exchanged a refresh token, kill whoever asked before he can write the new one down."""
    killed = threading.Event()

    def rotated(_number: int) -> None:
        if not killed.is_set():
            os.kill(doomed.process.pid, signal.SIGKILL)
            doomed.process.wait()
            killed.set()

    server.rotated = rotated
    return killed


def newest(url: str, server: TokenServer) -> bool:
    """Whether the store has the refresh token that is good now."""
    login, tokens = kept(url)
    has = tokens is not None and tokens.refresh is not None and tokens.refresh.reveal() == server.refresh
    return has and login.state == "ready"


def test_eight_processes_refresh_once_and_go_on_when_the_one_that_does_is_killed(store_url: str, nodes: Any) -> None:
    with token_server() as server, bearers(lambda _: True, ANSWER) as provider:
        # A token that has ended.
        log_in(store_url, server, left=-10)
        every = nodes(8, config(provider.url, server, store_url))
        assert race(every) == [200] * 32
        assert (server.refreshes, server.reused) == (1, 0)
        assert set(provider.seen) == {server.access_of(1)}
        assert newest(store_url, server)
        # One that the provider refuses.
        take_back(provider, server)
        assert race(every) == [200] * 32
        assert (server.refreshes, server.reused) == (2, 0)
        assert newest(store_url, server)
        # The same, and whoever refreshes is killed in the middle; the endpoint takes the old refresh token once more.
        server.forgiving = True
        killed = kill_in_the_middle(server, every[0])
        take_back(provider, server)
        with ThreadPoolExecutor(1) as threads:
            doomed = threads.submit(ask, every[0])
            assert killed.wait(20)
            assert race(every[1:], 28) == [200] * 28
            assert doomed.exception() is not None
        assert (server.refreshes, server.reused) == (4, 0)
        assert newest(store_url, server)
        assert set(provider.seen) == {server.access_of(2), server.access_of(4)}


def test_a_refresh_token_that_died_with_its_refresher_is_said_once_and_others_serve(sqlite: str, nodes: Any) -> None:
    with token_server() as server, bearers(lambda _: True, ANSWER) as provider:
        log_in(sqlite, server)
        first, *others = nodes(3, config(provider.url, server, sqlite, more=SECOND))
        killed = kill_in_the_middle(server, first)
        take_back(provider, server)
        with ThreadPoolExecutor(1) as threads:
            doomed = threads.submit(ask, first)
            assert killed.wait(20)
            assert race(others, 8) == [200] * 8
            assert doomed.exception() is not None
        # Nobody can have the newest one: the endpoint says so once, and the pool's other member serves.
        assert (server.refreshes, server.reused) == (2, 1)
        login, _ = kept(sqlite)
        assert login.state == "dead"
        assert "refresh_token_reused" in login.reason
        assert "headrace auth login acme/plan" in login.reason
        assert set(provider.seen) == {server.access_of(0), "sk-spare"}
        # A person logs in, and all go on with the plan.
        server.rotated = None
        log_in(sqlite, server)
        provider.takes = lambda _: True
        until(lambda: ask(others[0])[0] == 200 and provider.seen[-1] == server.access)
        until(lambda: ask(others[1])[0] == 200 and provider.seen[-1] == server.access)


def test_no_token_is_in_what_a_gateway_says_or_keeps(tmp_path: pathlib.Path, sqlite: str) -> None:
    more = SECOND + '[[keys]]\nid = "team"\nsecret = "team-key"\n'
    with token_server() as server, upstream(REFUSED, GOOD, REFUSED) as provider:
        log_in(sqlite, server)
        with start(tmp_path, config(provider.url, server, sqlite, more=more)) as near:
            headers = {"authorization": "Bearer team-key"}
            body = {"model": "acme/m", "messages": [{"role": "user", "content": "x"}]}
            answers = [near.ask("/v1/chat/completions", body, headers) for _ in range(2)]
            paths = ("/v1/models", "/metrics", "/healthz", "/")
            answers += [near.ask(path, headers=headers) for path in paths]
            assert answers[0][0] == 200
        said = "".join(near.lines) + "".join(f"{status}{told.as_string()}{text}" for status, told, text in answers)
    lines = asyncio.run(exported(sqlite))
    assert b"oauth_logins" in lines
    every = said.encode() + lines + b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    planted = [server.access_of(at) for at in range(server.issued + 1)]
    planted += ["token canary", *(f"refresh-canary-{at}" for at in range(server.issued + 1))]
    assert [one for one in planted if one.encode() in every] == []


async def exported(url: str) -> bytes:
    store = await open_store(url)
    lines = [line async for line in export_store(store)]
    await store.close()
    return b"".join(lines)
