"""Ways to a token, over sockets that really listen: what is sent, what is taken, what is final, what is told."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.credentials import oauth
from headrace.credentials.oauth import Grant, Renewal, TokenError, Tokens
from headrace.requests import Secret
from tests.support.tokens import ACCOUNT, jwt, token_server

NOW = 1_790_000_000.0
NO_KEY = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----"


def with_client(work):
    async def go():
        async with oauth.client() as http:
            return await work(http)

    return asyncio.run(go())


def refresh(grant, tokens=None):
    """One refresh, as the keeper does it."""
    vendor = oauth.VENDORS[grant.kind]
    assert vendor.prepare is not None

    async def work(http):
        answer = await oauth.ask(http, vendor.prepare(grant, tokens, NOW))
        if (wrong := oauth.judge(vendor, answer)) is not None:
            raise wrong
        return oauth.taken(vendor, grant, answer, tokens, NOW)

    return with_client(work)


def tokens(refresh="refresh-canary-0", **facts):
    return Tokens(Secret("access-old"), NOW - 3600, Secret(refresh) if refresh else None, **facts)


def test_a_chatgpt_plan_is_refreshed_and_its_new_refresh_token_replaces_the_old():
    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)
        got = refresh(grant, tokens())
        again = refresh(grant, got)
    assert server.asked[0].path == "/oauth/token"
    assert server.asked[0].headers["content-type"] == "application/json"
    assert server.asked[0].values == {
        "client_id": "app_EMoamEEZ73f0CkXaXp7hrann",
        "grant_type": "refresh_token",
        "refresh_token": "refresh-canary-0",
    }
    assert got.refresh is not None
    assert got.refresh.reveal() == "refresh-canary-1"
    assert (got.expires, got.account) == (NOW + 3600, ACCOUNT)
    assert again.refresh is not None
    assert again.refresh.reveal() == "refresh-canary-2"


def test_what_an_answer_leaves_out_stays():
    with token_server((200, {}, {"access_token": "new"}), (200, {}, {"refresh_token": "newer"})) as server:
        grant = Grant("chatgpt", issuer=server.url)
        first = refresh(grant, tokens(account="a"))
        second = refresh(grant, first)
    assert first.refresh is not None
    assert second.refresh is not None
    assert (first.access.reveal(), first.refresh.reveal(), first.account) == ("new", "refresh-canary-0", "a")
    assert (second.access.reveal(), second.refresh.reveal()) == ("new", "newer")


def test_a_token_itself_says_when_it_ends_if_nobody_else_does():
    with token_server((200, {}, {"access_token": jwt({"exp": NOW + 77})})) as server:
        assert refresh(Grant("chatgpt", issuer=server.url), tokens()).expires == NOW + 77


@pytest.mark.parametrize(
    ("kind", "status", "values", "permanent"),
    [
        ("chatgpt", 401, {}, True),
        ("chatgpt", 400, {"error": {"code": "refresh_token_expired"}}, True),
        ("chatgpt", 400, {"error": "refresh_token_reused"}, True),
        ("chatgpt", 400, {"code": "refresh_token_invalidated"}, True),
        ("chatgpt", 400, {"error": "invalid_request"}, False),
        ("chatgpt", 500, {"error": "server_error"}, False),
        ("chatgpt", 429, {}, False),
        ("anthropic", 400, {"error": "invalid_grant", "error_description": "canary"}, True),
        ("anthropic", 401, {}, False),
        ("anthropic", 503, {}, False),
    ],
)
def test_what_is_final_and_what_passes(kind, status, values, permanent):
    with token_server((status, {"retry-after": "7"}, values)) as server, pytest.raises(TokenError) as caught:
        refresh(Grant(kind, issuer=server.url, client_id="c"), tokens())
    assert caught.value.permanent is permanent
    assert caught.value.retry_after == 7
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "values", [b"<html>", b"[]", b"{}", {"access_token": ""}, {"access_token": "a b"}, {"access_token": "a\r\nb"}]
)
def test_what_is_no_answer_is_a_passing_failure(values):
    with token_server((200, {}, values)) as server, pytest.raises(TokenError) as caught:
        refresh(Grant("azure", issuer=server.url, tenant="t", client_id="c", client_secret=Secret("s")))
    assert not caught.value.permanent


def test_an_answer_is_bounded_and_no_redirect_is_followed():
    with token_server((200, {}, b"x" * 300_000)) as server, pytest.raises(TokenError, match="too long"):
        refresh(Grant("chatgpt", issuer=server.url), tokens())
    with token_server() as other, token_server((307, {"location": f"{other.url}/oauth/token"}, {})) as server:
        with pytest.raises(TokenError, match="status 307"):
            refresh(Grant("chatgpt", issuer=server.url), tokens())
        assert not other.asked


def test_nobody_who_listens_is_a_passing_failure():
    with token_server() as server:
        url = server.url
    with pytest.raises(TokenError, match="cannot be reached") as caught:
        refresh(Grant("chatgpt", issuer=url), tokens())
    assert not caught.value.permanent


@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example/",
        "http://10.0.0.1/",
        "ftp://localhost/",
        "https://user@auth.example/",
        "https://",
        "x",
        "https://h:x/",
    ],
)
def test_tokens_go_over_https_or_stay_on_this_machine(url):
    with pytest.raises(TokenError):
        oauth.endpoint(url)


@pytest.mark.parametrize("url", ["https://auth.example/x", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"])
def test_addresses_that_tokens_may_go_to(url):
    assert oauth.endpoint(url) == url


def test_anthropic_is_refreshed_with_its_beta():
    with token_server() as server:
        got = refresh(Grant("anthropic", issuer=server.url, client_id="client-9"), tokens())
    (asked,) = server.asked
    assert (asked.path, asked.headers["anthropic-beta"]) == ("/v1/oauth/token", "oauth-2025-04-20")
    assert asked.values == {"grant_type": "refresh_token", "refresh_token": "refresh-canary-0", "client_id": "client-9"}
    assert got.refresh is not None
    assert got.refresh.reveal() == "refresh-canary-1"


def openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def rsa(tmp_path_factory):
    """A key as PKCS#8 and as PKCS#1, and the file of its public half."""
    folder = tmp_path_factory.mktemp("rsa")
    pkcs8 = openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    pkcs1 = openssl("rsa", "-traditional", given=pkcs8)
    public = folder / "public.pem"
    public.write_bytes(openssl("rsa", "-pubout", given=pkcs8))
    return {"pkcs8": pkcs8.decode(), "pkcs1": pkcs1.decode(), "public": public}


def unpacked(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("form", ["pkcs8", "pkcs1"])
def test_a_service_account_signs_an_assertion_that_its_public_key_verifies(rsa, tmp_path, form):
    file = tmp_path / "key.json"
    with token_server(rotates=False) as server:
        uri = f"{server.url}/token"
        key = {"type": "service_account", "client_email": "me@x.example", "private_key": rsa[form]}
        file.write_text(json.dumps({**key, "private_key_id": "k1", "token_uri": uri}))
        got = refresh(Grant("google", file=str(file)))
    values = server.asked[0].values
    assert values["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    head, claims, signature = values["assertion"].split(".")
    assert json.loads(unpacked(head)) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert json.loads(unpacked(claims)) == {
        "iss": "me@x.example",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": uri,
        "iat": int(NOW),
        "exp": int(NOW) + 3600,
    }
    signed = tmp_path / "signature"
    signed.write_bytes(unpacked(signature))
    told = openssl(
        "dgst", "-sha256", "-verify", str(rsa["public"]), "-signature", str(signed), given=f"{head}.{claims}".encode()
    )
    assert told == b"Verified OK\n"
    assert got.access.reveal() == server.access
    assert got.refresh is None


def test_a_google_user_is_refreshed_by_the_file_of_gcloud(tmp_path):
    file = tmp_path / "adc.json"
    with token_server(rotates=False) as server:
        user = {"type": "authorized_user", "client_id": "c", "client_secret": "secret-canary"}
        file.write_text(json.dumps({**user, "refresh_token": "r", "token_uri": f"{server.url}/token"}))
        refresh(Grant("google", file=str(file)))
    assert server.asked[0].values == {
        "grant_type": "refresh_token",
        "client_id": "c",
        "client_secret": "secret-canary",
        "refresh_token": "r",
    }


@pytest.mark.parametrize(
    "text",
    [
        "no JSON canary",
        "[]",
        '{"type": "canary"}',
        '{"type": "service_account", "client_email": "a", "private_key": "canary"}',
        json.dumps({"type": "service_account", "client_email": "a", "private_key": NO_KEY}),
        '{"type": "authorized_user", "client_id": "canary"}',
        '{"type": "authorized_user", "token_uri": "http://canary.example/"}',
    ],
)
def test_a_file_that_is_no_key_is_final_and_not_repeated(tmp_path, text):
    file = tmp_path / "key.json"
    file.write_text(text)
    with pytest.raises(TokenError) as caught:
        refresh(Grant("google", file=str(file)))
    assert caught.value.permanent
    assert "canary" not in str(caught.value)
    with pytest.raises(TokenError, match="cannot be read"):
        refresh(Grant("google", file=str(tmp_path / "none")))


def test_metadata_services_are_asked_in_their_own_ways():
    with token_server(
        (200, {}, {"access_token": "g", "expires_in": 10}), (200, {}, {"access_token": "a", "expires_in": "20"})
    ) as server:
        google = refresh(Grant("google_metadata", issuer=server.url))
        azure = refresh(Grant("azure_identity", issuer=server.url, client_id="me"))
    first, second = server.asked
    assert (first.method, first.headers["metadata-flavor"]) == ("GET", "Google")
    assert first.path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert (second.method, second.headers["metadata"]) == ("GET", "true")
    assert parse_qs(urlsplit(second.path).query) == {
        "api-version": ["2018-02-01"],
        "resource": ["https://cognitiveservices.azure.com"],
        "client_id": ["me"],
    }
    assert (google.expires, azure.expires) == (NOW + 10, NOW + 20)


def test_an_azure_client_shows_its_secret_to_its_tenant_alone():
    with token_server(rotates=False) as server:
        grant = Grant(
            "azure", issuer=server.url, tenant="my tenant", client_id="me", client_secret=Secret("secret-canary")
        )
        refresh(grant)
    (asked,) = server.asked
    assert asked.path == "/my%20tenant/oauth2/v2.0/token"
    assert asked.values == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "secret-canary",
        "scope": "https://cognitiveservices.azure.com/.default",
    }
    assert "canary" not in repr(grant)
    assert grant.identity != Grant("azure", issuer=server.url, tenant="my tenant", client_id="me").identity


def test_a_device_login_waits_at_the_endpoints_pace():
    pending = (403, {}, {})
    naps = []

    async def sleep(seconds):
        naps.append(seconds)

    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(http):
            server.script[:] = [(200, {}, {"device_auth_id": "d", "user_code": "ABCD-1234", "interval": "3"})]
            login = await oauth.begin_device(http, grant)
            server.script[:] = [
                pending,
                (400, {}, {"error": "authorization_pending"}),
                (400, {}, {"error": "slow_down"}),
                (500, {}, b""),
                (404, {}, {}),
            ]
            return login, await oauth.wait_device(http, grant, login, clock=lambda: NOW, sleep=sleep)

        login, got = with_client(work)
    assert (login.url, login.user_code) == (f"{server.url}/codex/device", "ABCD-1234")
    assert naps == [3, 3, 3, 8, 8, 8]
    assert got.refresh is not None
    assert (got.access.reveal(), got.account) == (server.access, ACCOUNT)
    polled = server.asked[1].values
    assert polled == {"device_auth_id": "d", "user_code": "ABCD-1234"}
    assert server.asked[-1].values == {
        "grant_type": "authorization_code",
        "code": "code-canary",
        "redirect_uri": f"{server.url}/deviceauth/callback",
        "client_id": "app_EMoamEEZ73f0CkXaXp7hrann",
        "code_verifier": "verifier-canary",
    }
    assert "canary" not in repr(login)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {}, {"error": "access_denied"}), "denied"),
        ((400, {}, {"error": "expired_token"}), "expired"),
        ((401, {}, {}), "status 401"),
        ((200, {}, {}), "no code"),
    ],
)
def test_a_device_login_that_comes_to_nothing(answer, told):
    async def sleep(_):
        pass

    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(http):
            login = await oauth.begin_device(http, grant)
            server.script[:] = [answer]
            await oauth.wait_device(http, grant, login, clock=lambda: NOW, sleep=sleep)

        with pytest.raises(TokenError, match=told):
            with_client(work)


def test_a_device_login_ends_by_itself():
    time = [NOW]

    async def sleep(_):
        time[0] += 400

    with token_server() as server:
        grant = Grant("chatgpt", issuer=server.url)

        async def work(http):
            login = await oauth.begin_device(http, grant)
            server.script[:] = [(403, {}, {})] * 9
            await oauth.wait_device(http, grant, login, clock=lambda: time[0], sleep=sleep)

        with pytest.raises(TokenError, match="expired"):
            with_client(work)
    assert len(server.asked) == 3


def test_a_code_is_exchanged_with_its_verifier_and_only_with_our_state():
    with token_server() as server:
        grant = Grant("anthropic", issuer=server.url, client_id="client-9")
        login = oauth.begin_code(grant, random=lambda size: b"r" * size)
        query = parse_qs(urlsplit(login.url).query)
        for wrong in ("code-canary", "code-canary#other", "#", "", "https://x.example/?code=c&state=o"):
            with pytest.raises(TokenError) as caught:
                oauth.pasted(login, wrong)
            assert "canary" not in str(caught.value)
        code = oauth.pasted(login, f" code-canary#{query['state'][0]}\n")
        assert code == oauth.pasted(login, f"{login.redirect}?code=code-canary&state={query['state'][0]}")
        got = with_client(lambda http: oauth.finish_code(http, grant, login, code, now=NOW))
    sent = server.asked[0].values
    assert (sent["code"], sent["redirect_uri"], sent["client_id"]) == (
        "code-canary",
        query["redirect_uri"][0],
        "client-9",
    )
    import hashlib

    challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert query["code_challenge"] == [challenge]
    assert query["code_challenge_method"] == ["S256"]
    assert login.verifier not in repr(login)
    assert got.access.reveal() == server.access


def test_a_browser_comes_back_to_this_machine():
    grant = Grant("anthropic", client_id="c")

    async def go(*targets):
        server, port, heard = await oauth.listen()
        login = oauth.begin_code(grant, random=lambda size: b"r" * size, port=port)
        waiting = asyncio.create_task(oauth.redirected(server, login, heard))
        async with httpx.AsyncClient(trust_env=False) as http:
            said = [
                (await http.get(f"http://127.0.0.1:{port}{one.replace('STATE', login.state)}")).status_code
                for one in targets
            ]
        assert login.redirect == f"http://localhost:{port}/callback"
        return said, await waiting

    said, code = asyncio.run(go("/favicon.ico", "/callback?code=evil&state=x", "/callback?code=good&state=STATE"))
    assert (said, code) == ([404, 200, 200], "good")
    with pytest.raises(TokenError, match="denied"):
        asyncio.run(go("/callback?error=access_denied&state=STATE"))


times = st.floats(0, 2e9)
chances = st.floats(0, 1, exclude_max=True)


@given(times, st.floats(1, 1e7), st.floats(0, 1e5), st.floats(0, 600), chances, chances)
def test_tokens_are_renewed_after_a_third_of_their_life_and_before_they_are_of_no_use(
    obtained, life, early, late, one, other
):
    got = Tokens(Secret("a"), obtained, None, obtained + life)
    policy = Renewal(early, min(late, early))
    at, useless = oauth.renew_at(got, policy, lambda: one), oauth.useless_at(got, policy)
    assert at is not None
    assert useless is not None
    slack = 1e-6 * max(obtained, life, 1)
    assert obtained + life / 3 - slack <= at <= obtained + life + slack
    assert obtained + life * 0.9 - slack <= useless <= obtained + life + slack
    # Those that share a login do not all come at once, and who comes earlier by chance comes earlier.
    again = oauth.renew_at(got, policy, lambda: other)
    assert again is not None
    assert (one <= other) == (again <= at) or abs(again - at) <= slack
    if early >= 30 and life >= 600:
        assert at <= useless + slack


@given(times, st.none() | st.floats(1, 1e7), st.floats(1, 1e7), chances)
def test_old_tokens_are_renewed_whatever_their_end(obtained, life, age, chance):
    got = Tokens(Secret("a"), obtained, None, None if life is None else obtained + life)
    at = oauth.renew_at(got, Renewal(age=age), lambda: chance)
    assert at is not None
    assert obtained <= at <= obtained + age + 1e-6 * max(obtained, 1)
    assert oauth.renew_at(Tokens(Secret("a"), obtained), Renewal(), lambda: chance) is None


@given(st.integers(1, 200), st.none() | st.floats(0, 1e9), chances)
def test_a_pause_grows_to_a_bound(failures, hint, chance):
    assert 0 < oauth.pause(failures, hint, lambda: chance) <= (3600 if hint else 300)
    if not hint:
        assert oauth.pause(failures, None, lambda: 0.0) <= oauth.pause(failures + 1, None, lambda: 0.0)


def test_tokens_are_written_and_read_and_never_shown():
    got = tokens(expires=NOW, account="acct")
    assert Tokens.of_text(Secret(got.to_text())).to_text() == got.to_text()
    assert "canary" not in repr(got)
    assert "access-old" not in repr(got)


def test_a_grant_that_lacks_something_or_says_too_much_is_told():
    assert oauth.check_grant(Grant("chatgpt")) == []
    assert [key for key, _ in oauth.check_grant(Grant("azure", file="x"))] == [
        "file",
        "tenant",
        "client_id",
        "client_secret",
    ]
    assert [key for key, _ in oauth.check_grant(Grant("nothing"))] == ["oauth"]
    assert [key for key, _ in oauth.check_grant(Grant("chatgpt", issuer="http://auth.example"))] == ["issuer"]
