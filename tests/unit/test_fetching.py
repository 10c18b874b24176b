"""Our own fetch: what it may reach, what it takes, what it makes of a page."""

import codecs
import gzip
import shutil
import ssl
import subprocess
from contextlib import contextmanager
from ipaddress import ip_address

import anyio
import pytest

from headrace.capabilities import FetchRequest, ReadError
from headrace.errors import BadRequestError
from headrace.fetching import Fetcher, FetchSettings, Guard, NotAllowedError, _fetcher
from headrace.fetching._text import decoded
from headrace.registry import Registry
from headrace.testing import Drip, Reply, Stall, Upstream

PAGE = b"""<html><head><title> A &amp; B </title><style>p {}</style></head><body>
<h1>Head</h1><p>One <a href="/x">link</a> and <b>bold</b>.</p><script>alert('no')</script>
<ul><li>first</li><li>second</li></ul><form><input value="x"></form></body></html>"""


def html(body, kind="text/html; charset=utf-8", **more):
    headers = [("content-type", kind), *((name.replace("_", "-"), value) for name, value in more.items())]
    return Reply((body,), headers=tuple(headers))


def moved(where, status=302):
    return Reply((), status, (("location", where),))


@contextmanager
def site(script):
    with Upstream(script) as upstream:
        yield upstream, int(upstream.url.rpartition(":")[2])


def settings(port, **more):
    return FetchSettings(ports=(port,), danger_allow_networks=("127.0.0.1/32",), **more)


def fetch(url, made, *, resolve=None, **more):
    return anyio.run(Fetcher(made, resolve=resolve).fetch, FetchRequest(url=url, **more))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",  # noqa: S104
        "192.88.99.1",
        "10.0.0.1",
        "172.16.5.5",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001:db8::1",
        "2001:0:7f00:1::1",
    ],
)
def test_what_is_not_of_the_public_network_is_refused(text):
    assert not Guard().allows(ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_what_is_public_is_allowed(text):
    assert Guard().allows(ip_address(text))


def test_an_exception_is_named_by_its_network_and_holds_for_it_alone():
    guard = Guard(danger_allow_networks=["10.1.0.0/16", "fd00::/8"])
    for text, allowed in [("10.1.2.3", True), ("10.2.0.1", False), ("fd00::5", True), ("fe80::1", False)]:
        assert guard.allows(ip_address(text)) is allowed


def test_one_bad_address_among_good_ones_and_other_ports_are_refused():
    async def both(_host, _port):
        return ["1.1.1.1", "127.0.0.1"]

    async def go(guard, port):
        return await guard.addresses("mixed.example", port)

    with pytest.raises(NotAllowedError, match="public"):
        anyio.run(go, Guard(resolve=both), 443)
    with pytest.raises(NotAllowedError, match="port 22"):
        anyio.run(go, Guard(resolve=both), 22)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0/",
    ],
)
def test_every_spelling_of_this_machine_is_refused_without_a_connection(url):
    with pytest.raises(BadRequestError, match="public network"):
        fetch(url, FetchSettings())


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a.example/", "http://u:p@a.example/", "http:///x", "http://a.example/\r\nx: y"]
)
def test_what_is_no_page_is_no_request(url):
    with pytest.raises(BadRequestError) as caught:
        FetchRequest(url=url)
    assert caught.value.param == "url"


def test_a_name_that_changes_its_mind_is_asked_once_and_the_checked_address_is_used():
    """DNS rebinding: a public address for the check, this machine's for the connection."""
    with site({"*": html(b"<p>secret of this machine</p>")}) as (upstream, port):
        asked = []

        async def rebinding(host, _port):
            asked.append(host)
            return ["203.0.113.7"] if len(asked) == 1 else ["127.0.0.1"]

        # 203.0.113.7 is a documentation address: allowed here, and nobody answers there.
        made = FetchSettings(ports=(port,), danger_allow_networks=("203.0.113.0/24",), timeout=0.3)
        with pytest.raises(ReadError):
            fetch(f"http://rebind.example:{port}/", made, resolve=rebinding)
        assert asked == ["rebind.example"]
        assert upstream.facts().request_count == 0


def test_a_name_is_resolved_and_its_host_header_is_the_names():
    with site({"*": html(PAGE)}) as (upstream, port):

        async def resolve(_host, _port):
            return ["127.0.0.1"]

        result = fetch(f"http://page.example:{port}/a?b=c", settings(port), resolve=resolve)
        seen = upstream.facts().requests[0]
    assert (seen.target, seen.header("host")) == ("/a?b=c", f"page.example:{port}")
    assert not {"cookie", "authorization", "referer"} & {name for name, _ in seen.headers}
    assert result.title == "A & B"
    assert result.content == "# Head\n\nOne [link](/x) and **bold**.\n\n- first\n- second"
    assert (result.content_type, result.truncated) == ("text/html", False)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="NO OPENSSL: it makes the test's certificate")
def test_tls_checks_the_name_that_was_asked_for_at_the_address_that_was_checked(tmp_path, monkeypatch):
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=page.example"
    command += " -addext subjectAltName=DNS:page.example -keyout key.pem -out chain.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    chain, key = (tmp_path / "chain.pem").read_bytes(), (tmp_path / "key.pem").read_bytes()

    async def resolve(_host, _port):
        return ["127.0.0.1"]

    with Upstream({"*": html(b"<p>safe</p>")}, tls=(chain, key)) as upstream:
        port = int(upstream.url.rpartition(":")[2])
        with pytest.raises(ReadError, match="could not be reached"):
            fetch(f"https://page.example:{port}/", settings(port), resolve=resolve)
        monkeypatch.setattr(_fetcher, "_tls", lambda: ssl.create_default_context(cadata=chain.decode()))
        assert fetch(f"https://page.example:{port}/", settings(port), resolve=resolve).content == "safe"
        with pytest.raises(ReadError, match="could not be reached"):
            fetch(f"https://other.example:{port}/", settings(port), resolve=resolve)
        assert upstream.facts().request_count == 1


def test_text_and_html_are_other_forms_of_a_page():
    with site({"*": html(PAGE)}) as (_, port):
        url = f"http://127.0.0.1:{port}/"
        assert fetch(url, settings(port), format="html").content == PAGE.decode()
        assert fetch(url, settings(port), format="text").content.split("\n")[:2] == ["Head", "One"]
        cut = fetch(url, settings(port), format="html", max_bytes=10)
    assert (cut.content, cut.truncated) == ("<html><hea", True)


def test_a_redirect_is_followed_and_checked_like_the_first():
    with site({"/a": moved("/b"), "/b": moved("c?x=1"), "/c": html(b"<p>there</p>")}) as (_, port):
        result = fetch(f"http://127.0.0.1:{port}/a", settings(port))
        assert (result.url, result.content) == (f"http://127.0.0.1:{port}/c?x=1", "there")
    for target in ("http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/", "file:///etc/passwd", "//u:p@x/"):
        with site({"*": moved(target)}) as (_, port), pytest.raises(BadRequestError) as caught:
            fetch(f"http://127.0.0.1:{port}/", settings(port))
        assert "169.254" not in str(caught.value)


def test_redirects_are_bounded():
    with site({"*": moved("/again")}) as (upstream, port):
        with pytest.raises(ReadError, match="more than 2 times"):
            fetch(f"http://127.0.0.1:{port}/", settings(port, redirects=2))
        assert upstream.facts().request_count == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (html(b"x", "image/png"), "no text"),
        (Reply((b"a\0b",)), "no text"),
        (Reply((b"gone",), 404, (("content-type", "text/html"),)), "status 404"),
        (html(b"\x1f\x8bnot gzip", content_encoding="gzip"), "compression is broken"),
        (html(b"x", content_encoding="br"), "not asked for"),
        (Reply.raw(b"no http at all\r\n\r\n"), "could not be reached"),
    ],
)
def test_what_is_no_text_is_told_in_our_words(reply, words):
    with site({"*": reply}) as (_, port), pytest.raises(ReadError, match=words):
        fetch(f"http://127.0.0.1:{port}/", settings(port))


def test_a_page_is_cut_at_its_bound_on_the_wire_and_unpacked():
    bomb = gzip.compress(b"a" * (64 << 20))
    for reply in (html(b"a" * 300_000, "text/plain"), html(bomb, "text/plain", content_encoding="gzip")):
        with site({"*": reply}) as (_, port):
            result = fetch(f"http://127.0.0.1:{port}/", settings(port, max_bytes=1000))
        assert (result.content, result.truncated) == ("a" * 1000, True)


def test_what_comes_behind_a_packed_page_is_not_waited_for():
    packed = gzip.compress(b"hello")
    behind = Reply(
        (packed, b"\0" * 65_536, Stall()),
        headers=(("content-type", "text/plain"), ("content-encoding", "gzip")),
        framing="chunked",
    )
    # Blocks that hold nothing, behind a head that is whole: a page that grows on the wire alone.
    empty = packed[:10] + b"\0\0\0\xff\xff" * 100_000
    nothing = Reply((empty, Stall()), headers=behind.headers, framing="chunked")
    with site({"/behind": behind, "/nothing": nothing}) as (upstream, port):
        made = settings(port, timeout=10, max_bytes=1000)
        page = fetch(f"{upstream.url}/behind", made)
        assert (page.content, page.truncated) == ("hello", False)
        page = fetch(f"{upstream.url}/nothing", made)
        assert (page.content, page.truncated) == ("", True)


def test_a_silent_and_a_dripping_page_end_in_time():
    drip = Reply((Drip(b"a" * 10_000, 1, 0.05),), headers=(("content-type", "text/plain"),))
    silent = Reply((b"a", Stall()), headers=(("content-type", "text/plain"),), framing="chunked")
    for reply in (silent, drip):
        with site({"*": reply}) as (_, port), pytest.raises(ReadError, match="in time"):
            fetch(f"http://127.0.0.1:{port}/", settings(port, timeout=0.3))


def test_more_pages_than_there_is_room_for_are_refused_and_room_comes_back():
    async def both(fetcher, upstream, url):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(fetcher.fetch, FetchRequest(url=url))
                await upstream.until(lambda facts: any(one.waiting for one in facts.connections))
                with pytest.raises(ReadError, match="1 pages") as caught:
                    await fetcher.fetch(FetchRequest(url=url))
                scope.cancel()
        assert caught.value.kind == "overloaded"
        return await fetcher.fetch(FetchRequest(url=url))

    silent = Reply((b"a", Stall()), headers=(("content-type", "text/plain"),), framing="chunked")
    with site({"*": [silent, html(b"then", "text/plain")]}) as (upstream, port):
        fetcher = Fetcher(settings(port, concurrency=1))
        assert anyio.run(both, fetcher, upstream, f"http://127.0.0.1:{port}/").content == "then"


def test_a_page_nested_without_end_ends_in_a_word():
    with site({"*": html(b"<div>" * 20_000 + b"x")}) as (_, port), pytest.raises(ReadError, match="too deep"):
        fetch(f"http://127.0.0.1:{port}/", settings(port))


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("é".encode(), None, "é"),
        ("é".encode("latin-1"), None, "é"),
        (b"\x93q\x94", "iso-8859-1", "“q”"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), "utf-8", "é"),
        ("語".encode("shift_jis"), "Shift_JIS", "語"),
        (b'<meta charset="koi8-r">' + "я".encode("koi8-r"), None, '<meta charset="koi8-r">я'),
        (b'<meta http-equiv=x content="text/html; charset=gbk">' + "语".encode("gbk"), None, "语"),
        (b"YQ==", "base64", "YQ=="),
        (b"\\u0041", "unicode_escape", "\\u0041"),
        ("é".encode()[:1], None, "Ã"),
        (b"x", "no-such-charset", "x"),
    ],
)
def test_charsets(body, charset, text):
    assert decoded(body, charset, html=True).endswith(text)


def test_a_cut_within_a_character_leaves_no_rubbish():
    assert decoded("aé".encode()[:2], None, html=False, truncated=True) == "a"


def test_without_its_dependency_html_is_refused_with_the_way_out(monkeypatch):
    import builtins

    real = builtins.__import__

    def missing(name, *rest):
        if name == "bs4":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with site({"*": html(PAGE)}) as (_, port), pytest.raises(BadRequestError.__mro__[1], match=r"headrace\[fetch\]"):
        fetch(f"http://127.0.0.1:{port}/", settings(port))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"timeout": 0.0}, "timeout"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"concurrency": 0}, "concurrency"),
        ({"user_agent": "a\nb"}, "user_agent"),
        ({"danger_allow_networks": ("10.0.0.1/8",)}, "danger_allow_networks"),
    ],
)
def test_bounds_that_are_none_are_refused(values, word):
    with pytest.raises(ValueError, match=word):
        FetchSettings(**values)


def test_it_is_a_kind_of_provider():
    definition = Registry(tuple).definitions["plain_fetch"]
    (able,) = definition.capabilities
    assert (able.name, able.run is not None) == ("web_fetch", True)
