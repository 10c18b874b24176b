"""What is known of a login: how it was set up, the tokens that it has, when they are renewed. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.errors import HeadraceError
from headrace.requests import Secret

if TYPE_CHECKING:
    from headrace.proxies import Way

__all__ = ["Grant", "Renewal", "TokenError", "Tokens", "pause", "renew_at", "useless_at"]

Random: TypeAlias = Callable[[], float]

#: So much earlier, at most, does one of many renew than it must: all of them would come at once.
JITTER: Final = 0.25
#: A passing failure is followed by 5 s, 10 s, 20 s, ... up to this.
PAUSE_S: Final = 5.0
PAUSE_MOST_S: Final = 300.0
#: However long a token endpoint says to wait.
HINT_MOST_S: Final = 3600.0


class TokenError(HeadraceError):
    """No token could be got. The message holds no secret and no word of the endpoint's.

    - `permanent`: a person has to do something; else it may work later.
    - `retry_after`: seconds, where the endpoint says so.
    - `lost`: the answer may have been given and not have come through.
    """

    def __init__(
        self, message: str, *, permanent: bool = False, retry_after: float | None = None, lost: bool = False
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Grant:
    """How a credential gets its tokens, as it is configured.

    - `kind`: which vendor's way (`VENDORS`).
    - `issuer`: where its endpoints are, in place of the vendor's own.
    - `way`: by which proxy they are asked; no part of its identity.
    """

    kind: str
    file: str | None = None
    tenant: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    source: str | None = None
    issuer: str | None = None
    way: Way | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        """What tells it from one that is configured otherwise; nothing can be found out by it."""
        secret = self.client_secret.reveal() if self.client_secret is not None else None
        parts = (self.kind, self.file, self.tenant, self.client_id, secret, self.scope, self.source, self.issuer)
        return blake2b(json.dumps(parts).encode(), digest_size=8, person=b"headrace-grant").hexdigest()


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a token endpoint gave.

    - `access`: what a provider is shown.
    - `refresh`: what the next one is got by; None where nothing of the kind is needed.
    - `obtained`, `expires`: seconds since the Unix epoch; `expires` None where nobody says.
    - `account`: whose it is, where that is known. No secret.
    """

    access: Secret
    obtained: float
    refresh: Secret | None = None
    expires: float | None = None
    account: str | None = None

    def to_text(self) -> str:
        """Write it down, to be sealed."""
        refresh = self.refresh.reveal() if self.refresh is not None else None
        parts = {"access": self.access.reveal(), "refresh": refresh, "obtained": self.obtained}
        return json.dumps(parts | {"expires": self.expires, "account": self.account})

    @classmethod
    def of_text(cls, secret: Secret) -> Tokens:
        """Read what `to_text` wrote."""
        parts: Any = json.loads(secret.reveal())
        refresh = parts["refresh"]
        return cls(
            Secret(parts["access"]),
            parts["obtained"],
            Secret(refresh) if refresh is not None else None,
            parts["expires"],
            parts["account"],
        )

    def followed_by(self, new: Tokens) -> Tokens:
        """Take what a refresh gave; what it left out stays."""
        return replace(new, refresh=new.refresh or self.refresh, account=new.account or self.account)


@dataclass(frozen=True, slots=True)
class Renewal:
    """When tokens are renewed.

    - `early`: seconds before its end at which it is done beside the requests.
    - `late`: seconds before its end at which requests wait for it.
    - `age`: seconds after which it is done whatever the end.
    """

    early: float = 300.0
    late: float = 30.0
    age: float | None = field(default=None)


def renew_at(tokens: Tokens, policy: Renewal, random: Random) -> float | None:
    """Say when tokens are renewed beside the requests. None: they last until somebody refuses them.

    Never in the first third of a token's life, however short that is.
    """
    ends = []
    if tokens.expires is not None:
        life = max(tokens.expires - tokens.obtained, 0.0)
        early = min(policy.early, life / 2)
        ends.append(tokens.expires - early * (1 + JITTER * random()))
    if policy.age is not None:
        ends.append(tokens.obtained + policy.age * (1 - JITTER * random()))
    return min(ends, default=None)


def useless_at(tokens: Tokens, policy: Renewal) -> float | None:
    """Say from when on no request is sent with these tokens. None: as long as nobody refuses them."""
    if tokens.expires is None:
        return None
    return tokens.expires - min(policy.late, max(tokens.expires - tokens.obtained, 0.0) / 10)


def pause(failures: int, hint: float | None, random: Random) -> float:
    """Say for how long nobody asks a token endpoint again after so many passing failures in a row (from 1)."""
    doubled: float = min(PAUSE_MOST_S, PAUSE_S * 2.0 ** min(max(failures - 1, 0), 16))
    if hint is not None and hint > 0:
        return min(hint, HINT_MOST_S)
    return doubled * (0.5 + 0.5 * random())
