"""One request to a token endpoint: bounded in time and size, to nobody but whom it is meant for.

1. https alone, but for this machine and the metadata services that no packet leaves the link for.
2. No redirect is followed, no proxy is asked but the provider row's own, no cookie is kept.
3. What went wrong is said by the status, and by an error code if it is one that we know: an endpoint's own words may
   repeat what it was sent.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headrace.credentials.oauth._values import TokenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from headrace.proxies import Way

__all__ = ["Answer", "TokenRequest", "ask", "client", "endpoint"]

#: Seconds for one request, from its first to its last byte. A lock is held meanwhile.
PATIENCE_S: Final = 30.0
#: Bytes of an answer: tokens have a few kilobytes.
ANSWER_LIMIT: Final = 256 * 1024
_LINK: Final = frozenset({"169.254.169.254", "metadata.google.internal"})
#: Error codes that may be repeated in our messages.
KNOWN: Final = frozenset(
    {
        "access_denied",
        "authorization_pending",
        "expired_token",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "refresh_token_expired",
        "refresh_token_invalidated",
        "refresh_token_reused",
        "slow_down",
        "temporarily_unavailable",
        "server_error",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What is sent to a token endpoint. It shows itself to nobody.

    - `form`, `body`: one of them where something is sent.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    body: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a JSON object, or nothing that is one.

    - `code`: the error's, if it is a known one.
    """

    status: int
    values: Mapping[str, Any] = field(repr=False)
    code: str | None = None
    retry_after: float | None = None

    @property
    def said(self) -> str:
        """In words that may be shown."""
        return f"{self.code} (status {self.status})" if self.code else f"status {self.status}"


def endpoint(url: str) -> str:
    """Give an address that tokens may be sent to.

    Raises `TokenError`: others could read them there.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        raise TokenError("a token endpoint's address is none", permanent=True) from None
    try:
        near = host in _LINK or ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not host or parts.username is not None or not (parts.scheme == "https" or (parts.scheme == "http" and near)):
        raise TokenError("a token endpoint is https, or on this machine", permanent=True)
    return url


def client(way: Way | None = None) -> httpx.AsyncClient:
    """Make a client for token endpoints alone.

    - `way`: by which proxy they are asked.
    """
    import httpx

    limits = httpx.Limits(max_connections=8, max_keepalive_connections=0)
    if way is None:
        return httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=PATIENCE_S, limits=limits)
    by = way.of
    straight = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)
    proxied = httpx.AsyncHTTPTransport(trust_env=False, limits=limits, proxy=way.proxy.reveal())

    class Ways(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            taken = straight if by(str(request.url)) is None else proxied
            return await taken.handle_async_request(request)

        async def aclose(self) -> None:
            await straight.aclose()
            await proxied.aclose()

    return httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=PATIENCE_S, transport=Ways())


async def ask(http: httpx.AsyncClient, request: TokenRequest) -> Answer:
    """Send one request and read the answer, whatever its status.

    Raises `TokenError`: it could not be asked, or did not answer as token endpoints do.
    If cancelled: the connection is closed; the endpoint may have done what it was asked.
    """
    import httpx

    url = endpoint(request.url)
    sent = False
    try:
        async with asyncio.timeout(PATIENCE_S):
            made = http.build_request(
                request.method,
                url,
                headers={"accept": "application/json", "user-agent": "headrace", **request.headers},
                data=request.form,
                json=request.body,
            )
            sent = True
            response = await http.send(made, stream=True)
            try:
                raw = bytearray()
                async for piece in response.aiter_bytes():
                    raw += piece
                    if len(raw) > ANSWER_LIMIT:
                        raise TokenError("the token endpoint's answer is far too long", lost=True)
            finally:
                await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise TokenError(f"the token endpoint cannot be reached ({type(error).__name__})") from None
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise TokenError(f"the token endpoint did not answer ({type(error).__name__})", lost=sent) from None
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        values = None
    found = values if isinstance(values, dict) else {}
    return Answer(response.status_code, found, _code(found), _seconds(response.headers.get("retry-after")))


def _code(values: Mapping[str, Any]) -> str | None:
    """Find the error's code: `error`, `error.code` or `code`."""
    error = values.get("error")
    inner = error.get("code") if isinstance(error, dict) else error
    return next((one for one in (inner, values.get("code")) if isinstance(one, str) and one in KNOWN), None)


def _seconds(text: str | None) -> float | None:
    # A date is not taken: the backoff serves as well.
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
