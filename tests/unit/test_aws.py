"""Where AWS credentials come from, with metadata services that really listen, on this machine."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from headrace.credentials.aws import (
    AwsCredentialsError,
    Cached,
    ContainerSource,
    EnvironmentSource,
    InstanceSource,
    ProfileSource,
    Session,
    source_of,
)
from headrace.requests import Secret

#: Named by the CLI, for the session `corp`.
CACHE = ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json"
NOW = 1_790_000_000.0
END = "2026-09-21T14:13:20Z"  # NOW in words, and then some


class Metadata:
    """Answers `METHOD PATH` by a table of status and text; remembers what it was asked."""

    def __init__(self, routes):
        self.routes = routes
        self.seen = []
        self.url = ""


@contextmanager
def metadata(routes):
    told = Metadata(routes)

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            told.seen.append((f"{self.command} {self.path}", {k.lower(): v for k, v in self.headers.items()}))
            status, text = told.routes.get(f"{self.command} {self.path}", (404, "no such thing"))
            self.send_response(status)
            if status == 302:
                self.send_header("location", text)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = answer  # noqa: N815 - the names that the class looks for

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch(source):
    async def go():
        async with httpx.AsyncClient(trust_env=False) as http:
            return await source.fetch(http)

    return asyncio.run(go())


def refused(source):
    with pytest.raises(AwsCredentialsError) as caught:
        fetch(source)
    return str(caught.value)


def keys(key="AKID", secret="hush", token="session", end=END):  # noqa: S107 - invented
    return json.dumps(
        {"Code": "Success", "AccessKeyId": key, "SecretAccessKey": secret, "Token": token, "Expiration": end}
    )


def test_the_environment_has_a_key_pair_or_a_bearer_key():
    pair = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "hush"}
    assert fetch(EnvironmentSource(pair)).secret.reveal() == "AKID:hush"
    assert fetch(EnvironmentSource({**pair, "AWS_SESSION_TOKEN": "t"})).secret.reveal() == "AKID:hush:t"
    assert fetch(EnvironmentSource({**pair, "AWS_BEARER_TOKEN_BEDROCK": "ABSK"})).secret.reveal() == "ABSK"
    assert "AWS_ACCESS_KEY_ID" in refused(EnvironmentSource({"AWS_ACCESS_KEY_ID": "AKID"}))
    assert "colon" in refused(EnvironmentSource({**pair, "AWS_SESSION_TOKEN": "a:b"}))
    assert "hush" not in repr(EnvironmentSource(pair)) + repr(fetch(EnvironmentSource(pair)))


def test_a_profile_stands_in_either_file(tmp_path):
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = A1\naws_secret_access_key = s1%x\n"
        "[work]\naws_access_key_id=A2\naws_secret_access_key=s2\naws_session_token=t2\n"
    )
    (tmp_path / "config").write_text("[profile far]\naws_access_key_id = A3\naws_secret_access_key = s3\n")
    environ = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    assert fetch(ProfileSource(environ)).secret.reveal() == "A1:s1%x"
    assert fetch(ProfileSource({**environ, "AWS_PROFILE": "work"})).secret.reveal() == "A2:s2:t2"
    assert fetch(ProfileSource(environ, "far")).secret.reveal() == "A3:s3"
    assert fetch(source_of("aws:profile=far", environ)).secret.reveal() == "A3:s3"
    assert "'none'" in refused(ProfileSource(environ, "none"))
    (tmp_path / "credentials").write_text("aws_secret_access_key = hush\n")
    said = refused(ProfileSource(environ))
    assert "cannot be read" in said
    assert "hush" not in said


def test_a_container_is_asked_with_its_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("from-file\n")
    with metadata({"GET /role": (200, keys())}) as agent:
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/role",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "plain",
        }
        session = fetch(ContainerSource(environ))
        assert session.secret.reveal() == "AKID:hush:session"
        assert session.expires == pytest.approx(NOW, abs=86_400)
        fetch(ContainerSource({**environ, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)}))
        assert [headers["authorization"] for _, headers in agent.seen] == ["plain", "from-file"]
        # With an agent named, the instance is not asked.
        assert fetch(source_of("aws:", environ)).secret.reveal() == "AKID:hush:session"
    assert "names no container" in refused(ContainerSource({}))


def test_an_instance_is_asked_by_the_second_version():
    base = "/latest/meta-data/iam/security-credentials/"
    routes = {
        "PUT /latest/api/token": (200, "tok"),
        f"GET {base}": (200, "a-role\n"),
        f"GET {base}a-role": (200, keys("AKIR")),
    }
    with metadata(routes) as service:
        environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url + "/"}
        assert fetch(InstanceSource(environ)).secret.reveal() == "AKIR:hush:session"
        assert fetch(source_of("aws:", environ)).secret.reveal() == "AKIR:hush:session"
        (put, life), *asked = service.seen
        assert put.startswith("PUT")
        assert int(life["x-aws-ec2-metadata-token-ttl-seconds"]) > 0
        assert all(headers.get("x-aws-ec2-metadata-token") == "tok" for one, headers in asked if one.startswith("GET"))
        routes[f"GET {base}"] = (200, "")
        assert "no role" in refused(InstanceSource(environ))
        routes["PUT /latest/api/token"] = (403, "")
        assert "403" in refused(InstanceSource(environ))
        assert "disabled" in refused(InstanceSource({**environ, "AWS_EC2_METADATA_DISABLED": "true"}))


def test_metadata_is_not_asked_of_strangers_and_redirects_are_not_followed():
    for url in ("http://example.com/role", "http://10.0.0.1/", "ftp://127.0.0.1/", "http://127.0.0.1.example/", "role"):
        assert "on this machine" in refused(ContainerSource({"AWS_CONTAINER_CREDENTIALS_FULL_URI": url})), url
    with metadata({"GET /role": (302, "http://127.0.0.1:1/other")}) as agent:
        assert "302" in refused(ContainerSource({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/role"}))
        for text in ("", "[]", "{}", '{"Code":"Failed"}', keys(secret=""), keys(end="soon"), keys(key="a:b")):
            agent.routes["GET /role"] = (200, text)
            said = refused(ContainerSource({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{agent.url}/role"}))
            assert "hush" not in said, text
    assert "did not answer" in refused(ContainerSource({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/"}))


@pytest.mark.parametrize("reference", ["aws:somewhere", "env:X", "aws:container=x", ""])
def test_a_reference_that_names_no_source_is_refused(reference):
    with pytest.raises(AwsCredentialsError, match="names no source"):
        source_of(reference, {})


class Counting:
    """A source that gives one session after the other, or fails where there is none."""

    def __init__(self, *sessions):
        self.sessions = list(sessions)
        self.asked = 0

    async def fetch(self, _http):
        self.asked += 1
        await asyncio.sleep(0)
        if not self.sessions:
            raise AwsCredentialsError("none left")
        return self.sessions.pop(0)


def session(name, ends_in=None):
    return Session(Secret(name), None if ends_in is None else NOW + ends_in)


def test_a_session_is_kept_until_shortly_before_its_end():
    async def go():
        now = [NOW]
        source = Counting(session("one", 3600), session("two", 7200))
        cached = Cached(source, http=None, clock=lambda: now[0])
        assert cached.current() is None
        many = await asyncio.gather(*(cached.get() for _ in range(20)))
        assert {one.secret.reveal() for one in many} == {"one"}
        assert source.asked == 1
        assert cached.current() is many[0]
        now[0] = NOW + 3600 - 299
        assert cached.current() is None
        assert (await cached.get()).secret.reveal() == "two"
        # It fails from here on, and the session still holds for a while.
        now[0] = NOW + 7200 - 299
        assert (await cached.get()).secret.reveal() == "two"
        with pytest.raises(AwsCredentialsError):
            await cached.get(anew=True)
        now[0] = NOW + 7200 - 29
        with pytest.raises(AwsCredentialsError, match="none left"):
            await cached.get()

    asyncio.run(go())


def test_a_refused_session_is_exchanged_once_for_all_who_had_it():
    async def go():
        source = Counting(session("one"), session("two"), session("three"))
        cached = Cached(source, http=None, clock=lambda: NOW)
        await cached.get()
        many = await asyncio.gather(*(cached.get(anew=True) for _ in range(5)))
        assert {one.secret.reveal() for one in many} == {"two"}
        assert source.asked == 2

    asyncio.run(go())


def test_a_fetch_that_is_cancelled_keeps_what_there_was():
    async def go():
        source = Counting(session("one", 400), session("two", 7200))
        now = [NOW]
        cached = Cached(source, http=None, clock=lambda: now[0])
        first = await cached.get()
        now[0] = NOW + 200
        task = asyncio.create_task(cached.get())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await cached.get()).secret.reveal() in {"two", first.secret.reveal()}

    asyncio.run(go())


def sso(folder, *, end="2099-01-01T00:00:00Z", url=""):
    """The files of a profile of Identity Center, with a login that the CLI keeps."""
    (folder / ".aws/sso/cache").mkdir(parents=True)
    (folder / ".aws/config").write_text(
        "[profile work]\nsso_session = corp\nsso_account_id = 123\nsso_role_name = reader of models\n"
        "[sso-session corp]\nsso_region = eu-central-1\nsso_start_url = https://corp.example\n"
    )
    (folder / CACHE).write_text(json.dumps({"accessToken": "login-canary", "expiresAt": end}))
    return ProfileSource({"HOME": str(folder), "AWS_ENDPOINT_URL_SSO": url}, "work")


def test_a_profile_of_identity_center_uses_the_clis_login(tmp_path):
    keys = {"accessKeyId": "ASIA1", "secretAccessKey": "s", "sessionToken": "t", "expiration": int(NOW * 1000)}
    path = "GET /federation/credentials?role_name=reader+of+models&account_id=123"
    with metadata({path: (200, json.dumps({"roleCredentials": keys}))}) as told:
        session = fetch(sso(tmp_path, url=told.url))
    assert session.secret.reveal() == "ASIA1:s:t"
    assert session.expires == NOW
    assert ("x-amz-sso_bearer_token", "login-canary") in told.seen[0][1].items()


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [(401, "login-canary", "answered 401"), (200, "login-canary", "no credentials"), (302, "/", "answered 302")],
)
def test_a_portal_that_gives_nothing_is_not_repeated(tmp_path, status, text, words):
    path = "GET /federation/credentials?role_name=reader+of+models&account_id=123"
    with metadata({path: (status, text)}) as told:
        message = refused(sso(tmp_path, url=told.url))
    assert words in message
    assert "canary" not in message


def test_a_login_that_is_over_or_was_never_there_says_what_to_do(tmp_path):
    assert "aws sso login" in refused(sso(tmp_path, end="2020-01-01T00:00:00Z"))
    next((tmp_path / ".aws/sso/cache").iterdir()).unlink()
    source = ProfileSource({"HOME": str(tmp_path)}, "work")
    assert "nobody is logged in" in refused(source)
    elsewhere = ProfileSource({"HOME": str(tmp_path), "AWS_ENDPOINT_URL_SSO": "http://portal.example"}, "work")
    (tmp_path / CACHE).write_text(json.dumps({"accessToken": "login-canary", "expiresAt": "2099-01-01T00:00:00Z"}))
    assert "https" in refused(elsewhere)
