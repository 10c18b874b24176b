"""One page: connect to a checked address, read within bounds, follow a few redirects, give text.

1. Every connection, a redirect's too, goes through the guard; the environment's proxies are not used.
2. Nothing is sent that names who asks: no cookie, no credential, no referrer.
3. Bounded in time, in bytes (on the wire and after decompression) and in redirects. A longer page is cut, and says so.
4. Failures of the page are told in our words; nothing of its body stands in them.

Never here: a cache, a retry.
"""

from __future__ import annotations

import functools
import threading
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from headrace.capabilities import FetchResult, ReadError
from headrace.capabilities.fetch import cut
from headrace.errors import BadRequestError
from headrace.fetching._guard import Guard, NotAllowedError
from headrace.fetching._text import decoded, is_html, is_text, readable

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from headrace.capabilities import FetchRequest
    from headrace.fetching._guard import Resolve

__all__ = ["FetchSettings", "Fetcher"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_FIRST_FAILURE: Final = 400
_OK: Final = 200
_MOST_SECONDS: Final = 600.0
#: A page may be longer on the wire than it is by this: a coding's own head.
CODED_MORE: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Bounds of our own fetch."""

    timeout: float = 20.0
    """Seconds for a page, redirects and all."""
    max_bytes: int = 2 << 20
    """Of a page, after decompression; the rest is not read."""
    redirects: int = 5
    """How many are followed."""
    concurrency: int = 32
    """Pages at a time; one more is refused as overloaded."""
    ports: tuple[int, ...] = (80, 443)
    """The only ones that are connected to."""
    user_agent: str = "headrace"
    """Sent as `user-agent`."""
    danger_allow_networks: tuple[str, ...] = ()
    """Networks that are not public and may be connected to all the same, as `10.1.0.0/16`. Whoever may fetch can then
    reach them."""

    def __post_init__(self) -> None:
        """Refuse bounds that are none, and networks that are none."""
        if not 0 < self.timeout <= _MOST_SECONDS:
            raise ValueError(f"timeout: must be above 0 and at most {_MOST_SECONDS:g} seconds")
        if self.max_bytes < 1 or self.concurrency < 1 or self.redirects < 0:
            raise ValueError("max_bytes: must be above 0, and so must concurrency; redirects not below it")
        if not (self.user_agent.isascii() and self.user_agent.isprintable()):
            raise ValueError("user_agent: has characters that no header may have")
        try:
            Guard(danger_allow_networks=self.danger_allow_networks)
        except ValueError:
            raise ValueError("danger_allow_networks: each must be a network, as 10.1.0.0/16") from None


class Fetcher:
    """Fetches pages.

    - `resolve`: finds a name's addresses; the system's resolver by default.
    """

    __slots__ = ("_guard", "_places", "_settings")

    def __init__(self, settings: FetchSettings, *, resolve: Resolve | None = None) -> None:
        self._settings = settings
        self._places = threading.BoundedSemaphore(settings.concurrency)
        self._guard = Guard(ports=settings.ports, danger_allow_networks=settings.danger_allow_networks, resolve=resolve)

    async def fetch(self, request: FetchRequest) -> FetchResult:
        """Fetch a page and give its text.

        - Raises `ReadError`: the page could not be had, or is not text; or too many are being fetched.
        - Raises `BadRequestError`: the address may not be asked.
        - Raises `UnsupportedFeature`: HTML cannot be read without the optional dependency.

        If cancelled: the connection is closed.
        """
        import anyio

        # A page costs memory and a thread; who asks for more than there is room for does not wait for it.
        if not self._places.acquire(blocking=False):
            raise ReadError("overloaded", f"{self._settings.concurrency} pages are being fetched already")
        try:
            with anyio.fail_after(self._settings.timeout):
                page = await self._get(request)
                # Reading HTML takes the processor for long; whoever else runs here must not wait for it.
                return await anyio.to_thread.run_sync(_page, request, page, abandon_on_cancel=True)
        except TimeoutError:
            raise ReadError("timeout", "the page did not come in time") from None
        except NotAllowedError as error:
            raise BadRequestError(f"url: {error}", param="url") from None
        finally:
            self._places.release()

    async def _get(self, request: FetchRequest) -> _Got:
        import httpcore

        url = request.url
        backend = _backend(self._guard)
        pool = httpcore.AsyncConnectionPool(ssl_context=_tls(), network_backend=backend, http1=True, http2=False)
        async with pool:
            for _ in range(self._settings.redirects + 1):
                try:
                    got = await self._once(pool, url)
                except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError):
                    raise ReadError("bad_request", "the page could not be reached") from None
                if isinstance(got, _Got):
                    return got
                # Checked as the first one was, and again by the guard when it is connected to.
                url = replace(request, url=got).url
        raise ReadError("bad_request", f"the page redirects more than {self._settings.redirects} times")

    async def _once(self, pool: Any, url: str) -> _Got | str:
        headers = [
            ("host", urlsplit(url).netloc),
            ("user-agent", self._settings.user_agent),
            ("accept", "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1"),
            ("accept-encoding", "gzip"),
        ]
        limit = self._settings.timeout
        timeouts = {"connect": limit, "read": limit, "write": limit, "pool": limit}
        async with pool.stream("GET", url, headers=headers, extensions={"timeout": timeouts}) as response:
            told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS and "location" in told:
                moved: str = urljoin(url, told["location"])
                return moved
            if response.status >= _FIRST_FAILURE or response.status < _OK:
                raise ReadError("bad_request", f"the page answered with status {response.status}")
            media, _, parameters = told.get("content-type", "").partition(";")
            media = media.strip().lower()
            if media and not is_text(media):
                raise ReadError("bad_request", "the page is no text")
            body, truncated = await self._body(response.aiter_stream(), told.get("content-encoding", ""))
        charset = next(
            (value.strip() for name, _, value in _pairs(parameters) if name.strip().lower() == "charset"), None
        )
        if not media and b"\0" in body:
            raise ReadError("bad_request", "the page is no text")
        return _Got(url, media, charset, body, truncated)

    async def _body(self, stream: AsyncIterator[bytes], coding: str) -> tuple[bytes, bool]:
        """Read a body up to the bound."""
        limit = self._settings.max_bytes
        coding = coding.strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise ReadError("bad_request", "the page is compressed in a way that was not asked for")
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if coding not in {"", "identity"} else None
        body = bytearray()
        wire = 0
        try:
            async for chunk in stream:
                wire += len(chunk)
                # Unpacked no further than the bound: a small bomb stays small.
                body += chunk if unpack is None else unpack.decompress(chunk, limit + 1 - len(body))
                if len(body) > limit or wire > limit + CODED_MORE:
                    return bytes(body[:limit]), True
                # What follows the end is not the page's, and would be kept and copied with every chunk.
                if unpack is not None and unpack.eof:
                    break
        except zlib.error:
            raise ReadError("bad_request", "the page's compression is broken") from None
        return bytes(body), False


def _pairs(parameters: str) -> list[tuple[str, str, str]]:
    return [one.partition("=") for one in parameters.split(";")]


@dataclass(frozen=True, slots=True)
class _Got:
    """A page as it came."""

    url: str
    media: str
    charset: str | None
    body: bytes
    truncated: bool


def _page(request: FetchRequest, got: _Got) -> FetchResult:
    html = is_html(got.media) or (not got.media and got.body.lstrip()[:1] == b"<")
    text, title = decoded(got.body, got.charset, html=html, truncated=got.truncated), None
    if html and request.format != "html":
        title, text = readable(text, request.format)
    text, shortened = cut(text, request.max_bytes)
    return FetchResult(
        url=got.url,
        content=text,
        title=title,
        format=request.format,
        content_type=got.media or None,
        truncated=got.truncated or shortened,
    )


@functools.cache
def _tls() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def _backend(guard: Guard) -> Any:
    """Make httpcore's way to the network, with the guard in it. TLS still checks the name that was asked for."""
    import httpcore

    class Guarded(httpcore.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._inner = httpcore.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own
            local_address: str | None = None,
            socket_options: Any = None,
        ) -> httpcore.AsyncNetworkStream:
            last: Exception = OSError("the name has no address")
            for address in await guard.addresses(host, port):
                try:
                    return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    last = error
            raise last

        async def connect_unix_socket(
            self,
            path: str,  # noqa: ARG002 - httpcore's own
            timeout: float | None = None,  # noqa: ARG002, ASYNC109
            socket_options: Any = None,  # noqa: ARG002
        ) -> httpcore.AsyncNetworkStream:
            raise NotAllowedError("a socket of this machine is no page")

        async def sleep(self, seconds: float) -> None:
            await self._inner.sleep(seconds)

    return Guarded()
