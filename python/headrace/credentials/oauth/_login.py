"""How a person logs in: by a code on another device, or by a page that sends a code back. The caller talks and waits.

1. A device login is polled at the endpoint's own interval, and slower when it says so.
2. A code is exchanged with the verifier that its request was made with (PKCE), and only if it comes with our state.

Never here: a terminal, a browser, a store.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from headrace.credentials.oauth._ask import TokenRequest, ask
from headrace.credentials.oauth._values import TokenError
from headrace.credentials.oauth._vendors import VENDORS, judge, taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx

    from headrace.credentials.oauth._values import Grant, Tokens

__all__ = [
    "CodeLogin",
    "DeviceLogin",
    "begin_code",
    "begin_device",
    "finish_code",
    "listen",
    "pasted",
    "redirected",
    "wait_device",
]

_CHATGPT: Final = "https://auth.openai.com"
_CHATGPT_CLIENT: Final = "app_EMoamEEZ73f0CkXaXp7hrann"
_AUTHORIZE: Final = "https://claude.ai/oauth/authorize"
_PASTE: Final = "https://console.anthropic.com/oauth/code/callback"
_SCOPE: Final = "user:profile user:inference"
#: Seconds between two polls where the endpoint names no interval, and what `slow_down` adds (RFC 8628).
INTERVAL_S: Final = 5.0
SLOWER_S: Final = 5.0
INTERVAL_MOST_S: Final = 60.0
#: Seconds that a person has.
LOGIN_S: Final = 900.0
#: Bytes of the request that a browser makes of the redirect.
HEAD_LIMIT: Final = 16 * 1024
_PENDING: Final = frozenset({403, 404})
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """What a person is told, and what is polled with."""

    url: str
    user_code: str
    interval: float
    expires_in: float
    device: str = field(repr=False)


async def begin_device(http: httpx.AsyncClient, grant: Grant) -> DeviceLogin:
    """Ask for a code that a person types in elsewhere.

    Raises `TokenError`.
    """
    base = (grant.issuer or _CHATGPT).rstrip("/")
    body = {"client_id": grant.client_id or _CHATGPT_CLIENT}
    answer = await ask(http, TokenRequest("POST", f"{base}/api/accounts/deviceauth/usercode", body=body))
    if (wrong := judge(VENDORS[grant.kind], answer)) is not None:
        raise wrong
    values = answer.values
    code = values.get("user_code") or values.get("usercode")
    device = values.get("device_auth_id")
    if not isinstance(code, str) or not code.isprintable() or not isinstance(device, str):
        raise TokenError("the answer holds no code for a device login")
    return DeviceLogin(
        f"{base}/codex/device",
        code,
        _number(values.get("interval"), INTERVAL_S, INTERVAL_MOST_S),
        _number(values.get("expires_in"), LOGIN_S, LOGIN_S),
        device,
    )


def _number(value: object, default: float, most: float) -> float:
    try:
        return min(max(float(str(value)), 0.0), most) if value is not None else default
    except ValueError:
        return default


async def wait_device(
    http: httpx.AsyncClient,
    grant: Grant,
    login: DeviceLogin,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Tokens:
    """Poll until the person has typed the code in, and give the tokens.

    Raises `TokenError`: it was denied, took too long, or the endpoint failed for good.
    If cancelled: nobody is logged in here; the login at the vendor may go on.
    """
    vendor, base = VENDORS[grant.kind], (grant.issuer or _CHATGPT).rstrip("/")
    request = TokenRequest(
        "POST",
        f"{base}/api/accounts/deviceauth/token",
        body={"device_auth_id": login.device, "user_code": login.user_code},
    )
    end, interval = clock() + login.expires_in, login.interval
    while True:
        await sleep(interval)
        if clock() >= end:
            raise TokenError("the code has expired; begin the login again", permanent=True)
        try:
            answer = await ask(http, request)
        except TokenError as error:
            if error.permanent:
                raise
            continue
        if answer.code == "slow_down":
            interval = min(interval + SLOWER_S, INTERVAL_MOST_S)
        elif answer.code == "access_denied":
            raise TokenError("the login was denied", permanent=True)
        elif answer.code == "expired_token":
            raise TokenError("the code has expired; begin the login again", permanent=True)
        elif answer.status == _OK:
            break
        elif answer.code != "authorization_pending" and answer.status not in _PENDING:
            wrong = judge(vendor, answer)
            if wrong is not None and wrong.permanent:
                raise wrong
    code, verifier = answer.values.get("authorization_code"), answer.values.get("code_verifier")
    if not isinstance(code, str) or not isinstance(verifier, str):
        raise TokenError("the answer holds no code to exchange")
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": f"{base}/deviceauth/callback",
        "client_id": grant.client_id or _CHATGPT_CLIENT,
        "code_verifier": verifier,
    }
    return await _exchanged(http, grant, TokenRequest("POST", f"{base}/oauth/token", form=form), clock())


async def _exchanged(http: httpx.AsyncClient, grant: Grant, request: TokenRequest, now: float) -> Tokens:
    vendor = VENDORS[grant.kind]
    answer = await ask(http, request)
    if (wrong := judge(vendor, answer)) is not None:
        raise wrong
    return taken(vendor, grant, answer, None, now)


@dataclass(frozen=True, slots=True)
class CodeLogin:
    """A page to be opened, and what the code that it gives is exchanged with."""

    url: str
    redirect: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)


def begin_code(grant: Grant, *, random: Callable[[int], bytes], port: int | None = None) -> CodeLogin:
    """Make the address of the page that asks a person.

    - `random`: gives secret random bytes.
    - `port`: of this machine, where `redirected` waits; None: the page shows the code, to be pasted.
    """
    verifier, state = _text(random(48)), _text(random(24))
    redirect = _PASTE if port is None else f"http://localhost:{port}/callback"
    query = {
        "code": "true",
        "client_id": grant.client_id or "",
        "response_type": "code",
        "redirect_uri": redirect,
        "scope": grant.scope or _SCOPE,
        "code_challenge": _text(hashlib.sha256(verifier.encode()).digest()),
        "code_challenge_method": "S256",
        "state": state,
    }
    page = f"{grant.issuer.rstrip('/')}/oauth/authorize" if grant.issuer else _AUTHORIZE
    return CodeLogin(f"{page}?{urlencode(query)}", redirect, state, verifier)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def pasted(login: CodeLogin, text: str) -> str:
    """Find the code in what a person has pasted: `CODE#STATE`, or the address that the browser ended at.

    Raises `TokenError`: it is another login's, or none.
    """
    text = text.strip()
    if text.startswith(("http://", "https://")):
        query = parse_qs(urlsplit(text).query)
        code, state = query.get("code", [""])[0], query.get("state", [""])[0]
    else:
        code, _, state = text.partition("#")
    if not code or not code.isascii() or not code.isprintable() or state != login.state:
        raise TokenError("this is no code of this login; begin it again", permanent=True)
    return code


async def redirected(server: asyncio.Server, login: CodeLogin, heard: asyncio.Queue[str]) -> str:
    """Wait until the browser comes back, and give the code.

    - `server`, `heard`: as `listen` gave them.

    Raises `TokenError`: the person has said no, or too much time has passed.
    """
    try:
        async with asyncio.timeout(LOGIN_S):
            while True:
                target = await heard.get()
                query = parse_qs(urlsplit(target).query)
                if query.get("state", [""])[0] != login.state:
                    continue  # somebody else's; ours may still come
                if "error" in query or "code" not in query:
                    raise TokenError("the login was denied", permanent=True)
                return query["code"][0]
    except TimeoutError:
        raise TokenError("nobody has logged in; begin the login again", permanent=True) from None
    finally:
        server.close()


async def listen() -> tuple[asyncio.Server, int, asyncio.Queue[str]]:
    """Listen on a free port of this machine for the browser: the server, its port, and the targets that are asked."""
    heard: asyncio.Queue[str] = asyncio.Queue(maxsize=16)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
            target = rest.partition(" ")[0]
            known = method == "GET" and urlsplit(target).path == "/callback"
            if known and not heard.full():
                heard.put_nowait(target)
            status, text = ("200 OK", "You may close this page.") if known else ("404 Not Found", "Nothing is here.")
            told = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
            writer.write(f"{told}connection: close\r\n\r\n{text}".encode())
            await writer.drain()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser of ours
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD_LIMIT)
    return server, server.sockets[0].getsockname()[1], heard


async def finish_code(http: httpx.AsyncClient, grant: Grant, login: CodeLogin, code: str, *, now: float) -> Tokens:
    """Exchange the code.

    Raises `TokenError`.
    """
    base = (grant.issuer or "https://api.anthropic.com").rstrip("/")
    body = {
        "grant_type": "authorization_code",
        "code": code,
        "state": login.state,
        "redirect_uri": login.redirect,
        "client_id": grant.client_id or "",
        "code_verifier": login.verifier,
    }
    request = TokenRequest("POST", f"{base}/v1/oauth/token", {"anthropic-beta": "oauth-2025-04-20"}, body=body)
    return await _exchanged(http, grant, request, now)
