"""The keeper alone, with a store that fails when it is told to; and tokens from the library, on every face."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
import time
from dataclasses import replace

import anyio
import pytest

from headrace import errors
from headrace.attempts import _joined
from headrace.config import Config, Credential, Provider, Store
from headrace.credentials import Credential as Member
from headrace.credentials import Pool, Status, oauth
from headrace.credentials.oauth import Grant, Keeper, Login, Logins, Tokens
from headrace.credentials.sealed import SCHEMA as SECRETS_SCHEMA
from headrace.credentials.sealed import Secrets
from headrace.credentials.vault import StoreKey, Vault
from headrace.messages import Message, ModelRequest
from headrace.providers import anthropic
from headrace.registry import Registry
from headrace.requests import Secret
from headrace.resolver import compile_rows
from headrace.runtime import RefusedError, Runtime, SyncRuntime
from headrace.startup import check_credentials
from headrace.store import StoreUnavailable, open_store
from tests.support.control import configured
from tests.support.gateway import bearers
from tests.support.tokens import ACCOUNT, token_server

VAULT = Vault([StoreKey.of(b"k" * 32)])
ANSWER = json.dumps(
    {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    }
).encode()
ASK = ModelRequest("acme/m", (Message.user("ready?"),))


class Flaky:
    """A real store whose commits, or everything, fail while it is told so."""

    def __init__(self, inner):
        self.inner = inner
        self.fails = self.away = False
        self.commits = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @contextlib.asynccontextmanager
    async def transaction(self, *, read_only=False):
        if self.away:
            raise StoreUnavailable("away")
        async with self.inner.transaction(read_only=read_only) as tx:
            yield tx
            if not read_only:
                self.commits += 1
                if self.fails:
                    raise StoreUnavailable("it went away during the commit")


class Desk:
    """One keeper, its pool, and its store."""

    def __init__(self, keeper, pool, store, logins):
        self.keeper, self.pool, self.store, self.logins = keeper, pool, store, logins

    async def renew(self, refused=None):
        return await self.keeper.renew("acme", "c", refused)

    async def log_in(self, tokens, grant):
        async with self.store.inner.transaction() as tx:
            login = Login("acme", "c", grant.kind, grant.identity, oauth.login_id())
            await self.logins.write(tx, login, tokens, time.time())

    async def kept(self):
        async with self.store.inner.transaction() as tx:
            found = await self.logins.read(tx, "acme", "c")
        assert found is not None
        return found

    @property
    def token(self):
        member = self.pool.member("c")
        return member.secret.reveal()

    def status(self):
        return self.pool.members("m", time.time())[0].status


def run(grant, work, folder, *, before=None, opened=None):
    """Run a keeper over a store of its own."""

    async def go():
        store = Flaky(await open_store(f"sqlite:{folder}/store.db"))
        await store.migrate(SECRETS_SCHEMA, oauth.SCHEMA)
        logins = Logins(Secrets(lambda: VAULT, clock=time.time))

        async def opener(_url):
            if opened is not None:
                opened()
            return store

        keeper = Keeper("", vault=lambda: VAULT, clock=time.time, random=lambda: 0.5, opener=opener)
        pool = Pool("acme", [Member("c", Secret(""), grant)])
        desk = Desk(keeper, pool, store, logins)
        if before is not None:
            await desk.log_in(before, grant)
        keeper.watch([pool])
        await keeper.start()
        try:
            return await asyncio.wait_for(work(desk), 20)
        finally:
            await keeper.stop()

    return asyncio.run(go())


def left(server, seconds=3600.0):
    now = time.time()
    return Tokens(Secret(server.access), now - 3600, Secret(server.refresh), now + seconds, ACCOUNT)


async def until(there):
    for _ in range(500):
        if await there():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to that")


def test_a_new_refresh_token_is_not_lost_when_the_store_goes_away_during_its_commit(tmp_path):
    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            desk.store.fails = True
            old = desk.pool.member("c").secret
            assert await desk.renew(old) is None
            # Used at once, though nobody has written it down.
            assert desk.token == server.access_of(1)
            assert (await desk.kept())[1].refresh.reveal() == "refresh-canary-0"
            assert await desk.renew(desk.pool.member("c").secret) is not None
            desk.store.fails = False

            async def written():
                return (await desk.kept())[1].refresh.reveal() == server.refresh

            await until(written)
            return desk.status()

        run(grant, work, tmp_path, before=left(server))
    assert server.reused == 0


def test_what_could_not_be_written_yet_is_written_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.credentials.oauth._keeper.RETRY_S", 60.0)
    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            desk.store.fails = True
            assert await desk.renew(desk.pool.member("c").secret) is None
            desk.store.fails = False

        run(grant, work, tmp_path, before=left(server))

        async def look(desk):
            return (await desk.kept())[1].refresh.reveal()

        assert run(grant, look, tmp_path) == server.refresh


def test_a_credential_that_comes_with_another_configuration_hears_of_its_login(tmp_path):
    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            desk.keeper.watch([])
            assert str(await desk.renew()) == "nobody gets its tokens now"
            pool = Pool("acme", [Member("c", Secret(""), grant)])
            desk.keeper.watch([pool])
            desk.pool = pool

            async def heard():
                return desk.token == server.access

            await desk.log_in(left(server), grant)
            await until(heard)
            return desk.status()

        assert run(grant, work, tmp_path) is Status.READY


def test_while_the_store_is_away_no_refresh_token_is_used_up(tmp_path):
    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            desk.store.away = True
            wrong = await desk.renew(desk.pool.member("c").secret)
            assert wrong is not None
            assert not wrong.permanent
            assert "store is away" in str(wrong)
            return desk.status()

        assert run(grant, work, tmp_path, before=left(server)) is Status.EXHAUSTED
    assert server.asked == []


def test_while_the_store_is_away_what_uses_nothing_up_is_asked_for(tmp_path):
    with token_server(rotates=False) as server:
        grant = Grant("azure", issuer=server.url, tenant="t", client_id="c", client_secret=Secret("secret-canary"))

        async def work(desk):
            desk.store.away = True
            assert await desk.renew() is None
            return desk.token

        assert run(grant, work, tmp_path) == server.access_of(1)


def test_many_who_wait_are_one_refresh_and_one_who_leaves_ends_nothing(tmp_path):
    gate = threading.Event()
    with token_server(rotated=lambda _: gate.wait(10)) as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            old = desk.pool.member("c").secret
            waiting = [asyncio.create_task(desk.renew(old)) for _ in range(20)]

            async def asked():
                return bool(server.asked)

            await until(asked)
            waiting[0].cancel()
            gate.set()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(told[0], asyncio.CancelledError)
            assert told[1:] == [None] * 19
            # Who comes later with the old token gets the new one, unasked.
            assert await desk.renew(old) is None

        run(grant, work, tmp_path, before=left(server))
    assert server.refreshes == 1


def test_a_refresh_under_way_is_written_before_the_keeper_ends(tmp_path):
    begun = threading.Event()

    def rotated(_number):
        begun.set()
        time.sleep(0.2)

    with token_server(rotated=rotated) as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            task = asyncio.create_task(desk.renew(desk.pool.member("c").secret))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()

        run(grant, work, tmp_path, before=left(server))

        async def look(desk):
            return (await desk.kept())[1].refresh.reveal()

        assert run(grant, look, tmp_path) == server.refresh
    assert server.refreshes == 1


def test_a_passing_failure_is_not_asked_again_by_the_next_process(tmp_path):
    with token_server((500, {}, {})) as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(desk):
            wrong = await desk.renew()
            assert wrong is not None
            return wrong.permanent, desk.status()

        assert run(grant, work, tmp_path, before=left(server, -1)) == (False, Status.EXHAUSTED)
        assert run(grant, work, tmp_path) == (False, Status.EXHAUSTED)
    assert len(server.asked) == 1


def test_tokens_of_another_issuer_are_never_shown_to_this_one(tmp_path):
    with token_server() as server, token_server() as other:

        async def work(desk):
            wrong = await desk.renew()
            assert wrong is not None
            return str(wrong), desk.status(), desk.token

        async def nothing(_desk):
            return None

        run(Grant("chatgpt", issuer=server.url), nothing, tmp_path, before=left(server))
        told, status, token = run(Grant("chatgpt", issuer=other.url), work, tmp_path)
    assert told == "nobody is logged in: `headrace auth login acme/c`"
    assert (status, token) == (Status.DEAD, "")
    assert other.asked == []


def test_no_secret_is_in_a_log_or_a_repr(tmp_path, caplog):
    canary = {"error": "invalid_grant", "error_description": "canary", "refresh_token": "canary"}
    with caplog.at_level(logging.DEBUG), token_server((400, {}, canary)) as server:
        grant = Grant("chatgpt", issuer=server.url, client_secret=Secret("secret-canary"))

        async def work(desk):
            wrong = await desk.renew()
            assert wrong is not None
            shown = [repr(one) for one in (wrong, desk.keeper, desk.pool, desk.pool.grants(), await desk.kept(), grant)]
            login, _ = await desk.kept()
            return "\n".join([*shown, login.reason, str(wrong)])

        told = run(grant, work, tmp_path, before=left(server, -1))
    assert "invalid_grant" in told
    assert "canary" not in told + caplog.text


def test_a_pool_goes_on_with_its_tokens_in_a_new_configuration():
    grant = Grant("chatgpt")
    pool = Pool("acme", [Member("c", Secret(""), grant)])
    assert pool.grants()[0].is_stale(0.0)
    assert pool.peek(0.0) is None
    pool.renewed("c", Secret("t1"), login="l1", useless=100.0)
    first = pool.fingerprint("c")
    assert not pool.grants()[0].is_stale(99.0)
    assert pool.grants()[0].is_stale(100.0)
    pool.renewed("c", Secret("t2"), login="l1", useless=200.0)
    assert pool.fingerprint("c") == first
    same, other = (Pool("acme", [Member("c", Secret(""), one)]) for one in (grant, replace(grant, client_id="x")))
    assert same.serves_as(pool)
    assert not other.serves_as(pool)
    for one, token in ((same, "t2"), (other, "")):
        one.take_over(pool)
        member = one.member("c")
        assert member is not None
        assert member.secret.reveal() == token
    pool.renewed("c", Secret("t3"), login="l2", useless=None)
    assert pool.fingerprint("c") != first


def test_an_anthropic_login_is_a_bearer_with_its_beta_beside_those_that_were_asked():
    token = anthropic.authorize_token(Secret("t"))
    assert token == (("authorization", "Bearer t"), ("anthropic-beta", "oauth-2025-04-20"))
    assert _joined((("anthropic-version", "v"),), token) == (("anthropic-version", "v"), *token)
    joined = _joined((("anthropic-beta", "a, b"), ("x", "y")), token)
    assert joined == (("x", "y"), ("authorization", "Bearer t"), ("anthropic-beta", "a,b,oauth-2025-04-20"))


def library(provider, server, *, store="memory:", spare=False):
    """A configuration whose credential gets its tokens by a client's secret."""
    azure = Credential(
        id="app", oauth="azure", tenant="t", client_id="c", client_secret=Secret("secret-canary"), issuer=server.url
    )
    every = (azure, Credential(id="spare", secret=Secret("sk-spare"))) if spare else (azure,)
    row = Provider(id="acme", kind="openai_compatible", base_url=f"{provider.url}/v1", credentials=every)
    return Config(providers=(row,), store=Store(url=store))


def test_the_library_gets_its_tokens_and_another_when_one_is_refused():
    with (
        token_server(rotates=False) as server,
        bearers(lambda _: True, ANSWER) as provider,
        SyncRuntime(library(provider, server)) as runtime,
    ):
        for _ in range(2):
            with runtime.stream(ASK) as stream:
                assert stream.result().text == "yes"
        old = server.access
        provider.takes = lambda token: token != old
        with runtime.stream(ASK) as stream:
            assert stream.result().text == "yes"
            first, second = stream.attempts
            assert (first.credential, second.credential) == ("app", "app")
    assert provider.seen == [server.access_of(1)] * 3 + [server.access_of(2)]
    assert server.refreshes == 2


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.mark.anyio
async def test_the_library_waits_on_both_loops_and_may_be_called_off():
    gate, begun = threading.Event(), threading.Event()

    def rotated(_number):
        begun.set()
        gate.wait(10)

    with (
        token_server(rotates=False, rotated=rotated) as server,
        bearers(lambda _: True, ANSWER) as provider,
    ):
        async with Runtime(library(provider, server)) as runtime:
            with anyio.move_on_after(0.3) as scope:
                async with runtime.stream(ASK):
                    pass
            assert scope.cancelled_caught
            assert begun.is_set()
            gate.set()
            async with runtime.stream(ASK) as stream:
                assert (await stream.result()).text == "yes"
            # The same in the middle: nothing of the request is lost by a wait that was called off.
            old = server.access
            provider.takes = lambda token: token != old
            gate.clear()
            async with runtime.stream(ASK) as stream:
                with anyio.move_on_after(0.3) as scope:
                    await stream.result()
                assert scope.cancelled_caught
                gate.set()
                assert (await stream.result()).text == "yes"
    assert server.refreshes == 2


def test_the_library_takes_the_next_member_and_says_why_there_is_none():
    final = (401, {}, {"error": "invalid_client", "error_description": "secret-canary"})
    with bearers(lambda _: True, ANSWER) as provider:
        with (
            token_server(final) as server,
            SyncRuntime(library(provider, server, spare=True)) as runtime,
            runtime.stream(ASK) as stream,
        ):
            assert stream.result().text == "yes"
        assert provider.seen == ["sk-spare"]
        with token_server(final) as server, SyncRuntime(library(provider, server)) as runtime:
            with pytest.raises(RefusedError, match="invalid_client") as caught, runtime.stream(ASK):
                pass
            assert "canary" not in str(caught.value)
            with pytest.raises(RefusedError, match="app dead"), runtime.stream(ASK):
                pass
    assert len(server.asked) == 1


def test_the_library_ends_a_refused_stream_by_what_the_token_endpoint_said():
    with (
        token_server(rotates=False) as server,
        bearers(lambda _: True, ANSWER) as provider,
        SyncRuntime(library(provider, server)) as runtime,
    ):
        with runtime.stream(ASK) as stream:
            stream.result()
        provider.takes = lambda _: False
        server.script[:] = [(401, {}, {"error": "invalid_client"})]
        with runtime.stream(ASK) as stream, pytest.raises(errors.AuthError) as caught:
            stream.result()
    assert caught.value.event is not None
    assert "no token could be got" in caught.value.event.message
    assert "invalid_client" in caught.value.event.message


def test_aws_keys_come_from_their_source_and_are_kept_by_this_process_alone(tmp_path, monkeypatch):
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 900))
    keys = {"AccessKeyId": "AKIA1", "SecretAccessKey": "secret-canary", "Token": "token-canary", "Expiration": end}
    with token_server((200, {}, keys), (200, {}, keys | {"AccessKeyId": "AKIA2"})) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/role")
        monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", raising=False)
        grant = Grant("aws", source="aws:container")

        async def work(desk):
            assert await desk.renew() is None
            first = desk.pool.member("c")
            assert not first.is_stale(time.time())
            assert await desk.renew(first.secret) is None
            async with desk.store.inner.transaction() as tx:
                assert await desk.logins.all(tx) == []
            return first.secret.reveal(), desk.token

        told = run(grant, work, tmp_path, opened=lambda: pytest.fail("it needs no store"))
    assert told == ("AKIA1:secret-canary:token-canary", "AKIA2:secret-canary:token-canary")


def test_the_configuration_of_the_documentation_is_one(root, tmp_path):
    text = (root / "docs/CREDENTIALS.md").read_text(encoding="utf-8")
    example = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert example is not None
    (tmp_path / "key.json").write_text("{}")
    config = configured(example[1], {"AZURE_CLIENT_SECRET": "s"}, tmp_path)
    assert check_credentials(config) == []
    rows = compile_rows(config, Registry(tuple))
    grants = [member.grant for row in rows.values() for member in row.pool.grants()]
    assert [grant.kind for grant in grants if grant] == ["chatgpt", "anthropic", "google", "azure", "aws"]
    for kind in oauth.VENDORS:
        assert f"| `{kind}` |" in text
    assert rows["claude"].authorized(Member("c", Secret("t"), grants[1]))[0] == ("authorization", "Bearer t")
    assert rows["claude"].authorized(Member("c", Secret("t"))) == (("x-api-key", "t"),)
