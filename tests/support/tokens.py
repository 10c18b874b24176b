"""A token server that really listens: it rotates refresh tokens, counts who asks, and does what its script says."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: As an access token's account.
ACCOUNT = "acct-7"


def jwt(claims: dict[str, Any]) -> str:
    """Make a token that looks like one; nobody checks its signature."""
    parts = [json.dumps(one).encode() for one in ({"alg": "none"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts), "sig"])


@dataclass
class Asked:
    """A request as the server saw it."""

    path: str
    headers: dict[str, str]
    values: dict[str, Any]
    method: str = "POST"


@dataclass
class TokenServer:
    """Refreshes whoever has the newest refresh token, unless the script says otherwise.

    - `script`: answers `(status, headers, values)` that come first, whatever is asked.
    - `life`: seconds, as `expires_in`; None leaves it out.
    - `forgiving`: the refresh token before the newest one is taken, too.
    - `rotated`: called once a refresh has happened, before it is answered.
    """

    url: str = ""
    script: list[tuple[int, dict[str, str], Any]] = field(default_factory=list)
    life: int | None = 3600
    forgiving: bool = False
    rotates: bool = True
    rotated: Callable[[int], None] | None = None
    asked: list[Asked] = field(default_factory=list)
    issued: int = 0
    reused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def refresh(self) -> str:
        """The refresh token that is good now."""
        return f"refresh-canary-{self.issued}"

    @property
    def access(self) -> str:
        """The access token that was given last."""
        return self.access_of(self.issued)

    def access_of(self, number: int) -> str:
        return jwt({"https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT}, "n": f"access-canary-{number}"})

    def answer(self, asked: Asked) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            self.asked.append(asked)
            if self.script:
                return self.script.pop(0)
            if asked.path.startswith("/oauth/authorize?"):
                query = dict(parse_qsl(urlsplit(asked.path).query))
                back = urlencode({"code": "code-canary", "state": query["state"]})
                return 302, {"location": f"{query['redirect_uri']}?{back}"}, {}
            if asked.path.endswith("/usercode"):
                return 200, {}, {"device_auth_id": "device-canary", "user_code": "ABCD-1234", "interval": "0"}
            if asked.path.endswith("/deviceauth/token"):
                return 200, {}, {"authorization_code": "code-canary", "code_verifier": "verifier-canary"}
            if asked.values.get("grant_type") == "refresh_token" and self.rotates:
                given = asked.values.get("refresh_token")
                good = {self.refresh} | ({f"refresh-canary-{self.issued - 1}"} if self.forgiving else set())
                if given not in good:
                    self.reused += 1
                    return 401, {}, {"error": {"code": "refresh_token_reused", "message": f"again {given}"}}
            self.issued += 1
            number = self.issued
            told: dict[str, Any] = {"access_token": self.access, "token_type": "Bearer"}
            if self.rotates:
                told["refresh_token"] = self.refresh
            if self.life is not None:
                told["expires_in"] = self.life
        if self.rotated is not None:
            self.rotated(number)
        return 200, {}, told

    @property
    def refreshes(self) -> int:
        """How many tokens were asked for by a grant."""
        return sum("grant_type" in one.values for one in self.asked)


@contextmanager
def token_server(*script: tuple[int, dict[str, str], Any], **how: Any) -> Iterator[TokenServer]:
    told = TokenServer(script=list(script), **how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            is_json = self.headers.get("content-type", "").startswith("application/json")
            values = json.loads(raw) if is_json and raw else dict(parse_qsl(raw.decode()))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, answer = told.answer(Asked(self.path, headers, values, self.command))
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # whoever asked is gone

        do_GET = do_POST  # noqa: N815 - the name that the class looks for

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with listening(Handler) as told.url:
        yield told
