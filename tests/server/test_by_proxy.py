"""Proxies towards providers, through the whole gateway and the library: whom they see, and whose fault what is."""

import json

import pytest
from support.gateway import served, upstream
from support.proxies import proxy
from support.tls import issued
from test_control import ASK, CHAT, ENVIRON, GOOD, row
from test_failover import ANTHROPIC, other

from headrace.config import Config, Credential, Provider
from headrace.messages import Message, ModelRequest
from headrace.requests import Secret
from headrace.runtime import SyncRuntime
from headrace.testing import Reply, Upstream

#: The proxy's credentials as the configuration has them, and as the proxy does.
USER = "me:hu%73h%40"
BASIC = "Basic bWU6aHVzaEA="
WANTS = b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"
BAD = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def start(tmp_path):
    """Write a configuration and serve it."""

    def begin(text, *arguments, **environ):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return served(path, *arguments, **ENVIRON, **environ)

    return begin


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return issued(tmp_path_factory.mktemp("tls"))


def test_plain_http_goes_by_the_rows_proxy_and_its_secret_no_further(start):
    with upstream(GOOD) as far, proxy() as by:
        text = row(far.url, 1, extra='proxy = "env:THE_PROXY"')
        with start(text, "--log-level", "debug", THE_PROXY=f"http://{USER}@{by.host}") as gateway:
            for _ in range(2):
                assert gateway.ask(CHAT, ASK)[0] == 200
            lines = list(gateway.lines)
    assert len(by.heads) == 1, "its connection is used again"
    assert by.heads[0].startswith(f"POST {far.url}/v1/chat/completions HTTP/1.1\r\n")
    assert f"proxy-authorization: {BASIC}" in by.heads[0]
    assert far.keys() == ["Bearer sk-up-1"] * 2
    assert not [name for name in far.seen[0].headers if name.startswith("proxy")]
    assert not [line for line in lines if "hush" in line or "hu%73h" in line or "bWU6" in line]


def test_what_the_proxy_refuses_marks_no_credential_and_names_it(start):
    with upstream(GOOD) as far, proxy(WANTS, WANTS, WANTS, WANTS) as by:
        text = row(far.url, 1, 2, extra=f'proxy = "{by.url}"')
        with start(text, "--log-level", "info") as gateway:
            status, _, body = gateway.ask(CHAT, ASK)
            assert (status, body["error"]["code"]) == (502, "upstream_response_failed")
            line = gateway.line("attempt 1 at acme/c1")
            assert f"(status 407) (by way of the proxy {by.url})" in line
            assert "no mark" in line
            assert far.seen == []
            # As soon as it leads on, the first credential serves: nothing was held against it.
            by.script.clear()
            assert gateway.ask(CHAT, ASK)[0] == 200
            assert far.keys() == ["Bearer sk-up-1"]


def test_a_route_leads_past_a_proxy_that_fails(start):
    with upstream(ANTHROPIC) as far, proxy(*[BAD] * 4) as by:
        text = f'[server]\nproxy = "{by.url}"\n' + row("https://acme.invalid", 1) + other(far.url)
        with start(text) as gateway:
            status, headers, body = gateway.ask(CHAT, {**ASK, "model": "primary"})
    assert (status, body["choices"][0]["message"]["content"]) == (200, "from the other")
    assert headers["x-headrace-fallback"].endswith("reason=transport; capability=language_model")
    assert by.heads
    assert all(head.startswith("CONNECT acme.invalid:443 HTTP/1.1\r\n") for head in by.heads), (
        "names are its to resolve"
    )


def test_a_tunnel_leads_to_a_provider_over_tls(start, certificate):
    authority, chain, key = certificate
    answer = Reply.json(json.loads(GOOD[2]))
    with Upstream(answer, tls=(chain.read_bytes(), key.read_bytes())) as far, proxy() as by:
        text = f'[server]\nproxy = "{by.url}"\nno_proxy = ["other.example"]\n'
        base = far.url.replace("127.0.0.1", "localhost")
        own = row(base, 1, extra=f'proxy = "{by.url}"')
        with start(text + own + row(base, 2, name="near"), SSL_CERT_FILE=str(authority)) as gateway:
            for _ in range(3):
                assert gateway.ask(CHAT, ASK)[0] == 200
            host = base.removeprefix("https://")
            assert [head.split("\r\n")[0] for head in by.heads] == [f"CONNECT {host} HTTP/1.1"]
            # The same machine is never asked by the proxy of all.
            assert gateway.ask(CHAT, {**ASK, "model": "near/m"})[0] == 200
    assert len(by.heads) == 1


def test_the_library_and_lists_of_models_go_the_same_way(start):
    request = ModelRequest("acme/m", (Message.user("hi"),))
    with upstream(GOOD) as far, proxy() as by:
        credential = Credential(id="c", secret=Secret("sk-lib"))
        row_ = {"id": "acme", "kind": "openai_compatible", "base_url": f"{far.url}/v1", "credentials": (credential,)}
        config = Config(providers=(Provider(**row_, proxy=Secret(f"http://{USER}@{by.host}")),))
        with SyncRuntime(config) as runtime, runtime.stream(request) as stream:
            assert stream.result().text == "yes"
        assert f"proxy-authorization: {BASIC}" in by.heads[0]
        assert "hu%73h" not in repr(config)
    listing = (200, {}, b'{"object": "list", "data": [{"id": "listed", "object": "model"}]}')
    with upstream(listing) as far, proxy() as by, start(row(far.url, 1, extra=f'proxy = "{by.url}"')) as gateway:
        _, _, told = gateway.ask("/v1/models")
        assert "acme/listed" in [one["id"] for one in told["data"]]
        assert by.heads[0].startswith(f"GET {far.url}/v1/models ")
