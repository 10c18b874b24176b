"""The way to a provider: which hosts go past a proxy, which rows have one, and what an address may be."""

import anyio
import pytest
from support.control import configured
from support.proxies import proxy
from support.tokens import token_server

from headrace.config import ConfigurationError
from headrace.credentials.oauth import TokenError, TokenRequest, ask, client
from headrace.proxies import Way, is_past, proxy_fault
from headrace.registry import Registry
from headrace.requests import Secret
from headrace.resolver import compile_rows

ROW = '[[providers]]\nid = "{0}"\nkind = "openai_compatible"\nbase_url = "{1}"\n'


@pytest.mark.parametrize(
    ("host", "past", "goes_past"),
    [
        ("api.example", ("example",), True),
        ("API.example.", (".Example",), True),
        ("example", ("example",), True),
        ("badexample", ("example",), False),
        ("example", ("api.example",), False),
        ("10.2.3.4", ("10.0.0.0/8",), True),
        ("11.2.3.4", ("10.0.0.0/8",), False),
        ("10.2.3.4", ("10.2.3.4",), True),
        ("10.2.3.45", ("10.2.3.4",), False),
        ("::1", ("::1/128",), True),
        ("fd00::1", ("fd00::/8", "10.0.0.0/8"), True),
        ("10.0.0.1.example", ("10.0.0.0/8",), False),
        ("a", (), False),
    ],
)
def test_hosts_go_past(host, past, goes_past):
    assert is_past(host, past) is goes_past


def test_metadata_services_are_never_asked_by_a_proxy():
    way = Way(Secret("http://p:1"))
    assert way.of("http://169.254.169.254/latest") is None
    assert way.of("http://metadata.google.internal/x") is None
    assert way.of("https://[::1]:8/x") is way.proxy


@pytest.mark.parametrize(
    "address",
    [
        "https://p:1",
        "socks5://p:1",
        "p:1",
        "http://p",
        "http://p:0",
        "http://p:99999",
        "http://:1",
        "http://p:1/x",
        "http://p:1?x",
        "http://u@p:1",
        "http://u%3a:p@p:1",
        "http://p q:1",
    ],
)
def test_other_addresses_are_refused(address):
    assert "must be http://HOST:PORT" in (proxy_fault(address) or "")


def test_rows_go_by_their_own_proxy_by_that_of_all_or_straight():
    text = '[server]\nproxy = "env:P"\nno_proxy = ["corp.example"]\n' + ROW.format("all", "https://a.example/v1")
    text += ROW.format("corp", "https://ai.corp.example/v1") + ROW.format("near", "http://127.0.0.1:9/v1")
    text += ROW.format("own", "http://127.0.0.1:9/v1") + 'proxy = "http://own:3128"\n'
    text += ROW.format("none", "https://a.example/v1") + 'proxy = "direct"\n'
    rows = compile_rows(configured(text, {"P": "http://me:pw-canary@all:3128"}), Registry(tuple))
    by = {name: row.way.of(row.base_url) if row.way else None for name, row in rows.items()}
    told = {name: secret.reveal() for name, secret in by.items() if secret is not None}
    assert told == {"all": "http://me:pw-canary@all:3128", "own": "http://own:3128"}
    assert "canary" not in repr(rows)


@pytest.mark.parametrize(
    ("line", "key", "words"),
    [
        ('proxy = "http://me:pw-canary@p:1"', "server.proxy", "server.danger_literal_secrets"),
        ('proxy = "env:NOT_THERE"', "server.proxy", "NOT_THERE is not set"),
        ('proxy = "env:BAD"', "server.proxy", "must be http://HOST:PORT"),
        ('proxy = "direct"', "server.proxy", "must be http://HOST:PORT"),
        ('no_proxy = ["10.0.0.0/99"]', "server.no_proxy[0]", "must be a name, an address or a network"),
        ('no_proxy = ["*.corp"]', "server.no_proxy[0]", "must be a name, an address or a network"),
    ],
)
def test_a_wrong_setting_is_refused_without_its_words(line, key, words):
    with pytest.raises(ConfigurationError) as caught:
        configured(f"[server]\n{line}\n", {"BAD": "https://me:pw-canary@p:1"})
    told = str(caught.value)
    assert key in told
    assert words in told
    assert "canary" not in told


def test_a_literal_password_needs_the_danger():
    config = configured('[server]\ndanger_literal_secrets = true\nproxy = "http://me:pw-canary@p:1"\n', {})
    assert config.server.proxy is not None
    assert "canary" not in repr(config)


def test_tokens_are_asked_for_by_the_rows_proxy():
    async def work(way, url):
        async with client(way) as http:
            return await ask(http, TokenRequest("POST", url, form={"grant_type": "x"}))

    with token_server() as server, proxy() as by:
        url = f"{server.url}/token"
        answer = anyio.run(work, Way(Secret(f"http://me:pw-canary@{by.host}")), url)
        assert answer.status in {200, 400}
        assert by.heads[0].startswith(f"POST {url} ")
        assert "proxy-authorization: basic bwu6chctY2FuYXJ5".lower() in by.heads[0].lower()
        anyio.run(work, Way(Secret(by.url), ("127.0.0.0/8",)), url)
        assert len(by.heads) == 1
        by.script.append(b"HTTP/1.1 407 no\r\ncontent-length: 0\r\n\r\n")
        with pytest.raises(TokenError) as caught:
            anyio.run(work, Way(Secret(f"http://me:pw-canary@{by.host}")), "https://127.0.0.1:9/token")
        assert (caught.value.lost, str(caught.value)) == (False, "the token endpoint cannot be reached (ProxyError)")
