"""The gateway's own keys: who asks, and for which models.

1. A key is shown as a Bearer token or as `x-api-key`. Several may be there if they are the same.
2. What a comparison's time could tell is of no use: both sides are hashed under a secret salt of this process and only
   hashes are compared, so that nobody outside can steer or read what a lookup sees.
3. No answer says more than that a key is missing, unknown or not allowed this model.

Never here: providers' credentials, what is left of a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

from headrace.requests import Refusal, Request, Secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.selectors import Pattern

__all__ = ["GatewayKey", "KeyLimits", "KeyRing"]

#: No key is longer; what is, is not hashed.
SHOWN_LIMIT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """What a key may use. None: no limit.

    - `budget_usd`: in each `budget_period`, which begin at midnight UTC.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_usd: float | None = None
    budget_period: Literal["day", "month", "total"] = "month"


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """Who asks, once the key is known.

    - `models`: the names that this key may ask for; empty for all.
    - `subject`: whose bindings of profiles hold for it.
    """

    id: str
    models: tuple[Pattern, ...] = ()
    subject: str | None = None
    limits: KeyLimits | None = None

    def may_ask(self, name: str) -> bool:
        """Whether this key may name this model."""
        return not self.models or any(pattern.fits(name) for pattern in self.models)


class KeyRing:
    """All keys of one configuration.

    - `keys`: each with its secret. None at all: everybody may ask.
    - `salt`: 16 random bytes of this process, so that nobody can steer the hashes.
    """

    __slots__ = ("_by_hash", "_salt")

    def __init__(self, keys: Iterable[tuple[GatewayKey, Secret]], *, salt: bytes) -> None:
        self._salt = salt
        self._by_hash = {self._hash(secret.reveal()): key for key, secret in keys}

    def __len__(self) -> int:
        return len(self._by_hash)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(key.id for key in self._by_hash.values())})"

    def admit(self, request: Request) -> GatewayKey | Refusal | None:
        """Find out who asks. None: there are no keys, and everybody may."""
        if not self._by_hash:
            return None
        shown = _shown(request)
        if not shown:
            return Refusal(
                status=401,
                code="invalid_api_key",
                message="this gateway wants a key: send one of its own as a Bearer token, x-api-key or x-goog-api-key",
            )
        found = [self._find(text) for text in shown]
        key = found[0]
        if key is None or any(other is not key for other in found):
            return Refusal(status=401, code="invalid_api_key", message="the key is none of this gateway's")
        return key

    def _find(self, text: str) -> GatewayKey | None:
        if len(text) > SHOWN_LIMIT:
            return None
        return self._by_hash.get(self._hash(text))

    def _hash(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogateescape"), key=self._salt, digest_size=32).digest()


def _shown(request: Request) -> list[str]:
    """Give every key that is shown: of two headers of one name, a proxy may have looked at the other one."""
    shown = []
    for name, value in request.headers_named(("authorization", "x-api-key", "x-goog-api-key")):
        text = value.strip()
        if name == "authorization":
            scheme, _, token = text.partition(" ")
            text = token.strip() if scheme.lower() == "bearer" else ""
        if text:
            shown.append(text)
    return shown
