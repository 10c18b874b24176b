"""The store's rows of logins: what may be shown in a table of its own, the tokens sealed among the other secrets.

1. Everything runs in the caller's transaction.
2. A row says nothing that a token could be found by. The tokens are one sealed field of the owner
   `oauth/PROVIDER/CREDENTIAL`, bound to that place.
3. Who changes a row tells the others on `CHANNEL`.

Never here: a request to anybody, a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.credentials.oauth._values import Tokens
from headrace.store import Schema

if TYPE_CHECKING:
    from headrace.credentials.sealed import Secrets
    from headrace.store import Transaction

__all__ = ["CHANNEL", "SCHEMA", "Login", "LoginState", "Logins", "lock_name"]

CHANNEL: Final = "headrace_oauth"
LoginState = Literal["ready", "waiting", "dead"]

SCHEMA: Final = Schema(
    "oauth",
    (
        """CREATE TABLE oauth_logins (
            provider TEXT NOT NULL,
            credential TEXT NOT NULL,
            kind TEXT NOT NULL,
            identity TEXT NOT NULL,
            login TEXT NOT NULL,
            account TEXT,
            expires DOUBLE PRECISION,
            state TEXT NOT NULL,
            reason TEXT NOT NULL,
            until_at DOUBLE PRECISION,
            failures BIGINT NOT NULL,
            changed DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (provider, credential))""",
    ),
)
_COLUMNS: Final = (
    "provider, credential, kind, identity, login, account, expires, state, reason, until_at, failures, changed"
)
_READ: Final = f"SELECT {_COLUMNS} FROM oauth_logins"  # noqa: S608 - our own names
_WRITE: Final = f"""INSERT INTO oauth_logins ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (provider, credential) DO UPDATE SET kind = excluded.kind, identity = excluded.identity,
    login = excluded.login, account = excluded.account, expires = excluded.expires, state = excluded.state,
    reason = excluded.reason, until_at = excluded.until_at, failures = excluded.failures, changed = excluded.changed
"""  # noqa: S608 - our own names
_FIELD: Final = "tokens"


@dataclass(frozen=True, slots=True)
class Login:
    """What may be told of a login.

    - `identity`: of the grant that it was made by.
    - `login`: tells one login from the next; a refresh keeps it.
    - `account`: whose it is, where that is known.
    - `expires`: of the token that is shown to the provider.
    - `reason`: why it is not ready, in words that may be shown.
    - `until`: when it is tried again, where it waits.
    """

    provider: str
    credential: str
    kind: str
    identity: str
    login: str
    account: str | None = None
    expires: float | None = None
    state: LoginState = "ready"
    reason: str = ""
    until: float | None = None
    failures: int = 0
    changed: float = 0.0

    @property
    def name(self) -> str:
        """As `provider/credential`."""
        return f"{self.provider}/{self.credential}"


def lock_name(provider: str, credential: str) -> str:
    """Give the name under which a login's row is locked."""
    return f"oauth/{provider}/{credential}"


class Logins:
    """The rows."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def read(self, tx: Transaction, provider: str, credential: str) -> tuple[Login, Tokens | None] | None:
        """Give a login with its tokens. None: there is none.

        Raises `VaultError`: the tokens do not open.
        """
        rows = await tx.fetch(f"{_READ} WHERE provider = ? AND credential = ?", provider, credential)
        if not rows:
            return None
        found = await self._secrets.read(tx, lock_name(provider, credential))
        return Login(*rows[0]), Tokens.of_text(found[_FIELD]) if _FIELD in found else None

    async def all(self, tx: Transaction) -> list[Login]:
        """Give what may be told of every login."""
        return [Login(*row) for row in await tx.fetch(f"{_READ} ORDER BY provider, credential")]

    async def write(self, tx: Transaction, login: Login, tokens: Tokens | None, now: float) -> Login:
        """Write a login; without tokens it keeps those that it has."""
        login = replace(login, changed=now)
        if tokens is not None:
            login = replace(login, account=tokens.account, expires=tokens.expires)
            changes = {_FIELD: tokens.to_text()}
            await self._secrets.update(tx, lock_name(login.provider, login.credential), changes)
        row: tuple[Any, ...] = (
            login.provider,
            login.credential,
            login.kind,
            login.identity,
            login.login,
            login.account,
            login.expires,
            login.state,
            login.reason,
            login.until,
            login.failures,
            login.changed,
        )
        await tx.execute(_WRITE, *row)
        await tx.notify(CHANNEL, login.name)
        return login

    async def remove(self, tx: Transaction, provider: str, credential: str) -> bool:
        """Take a login out. False: there was none."""
        await self._secrets.remove(tx, lock_name(provider, credential))
        gone = await tx.execute("DELETE FROM oauth_logins WHERE provider = ? AND credential = ?", provider, credential)
        await tx.notify(CHANNEL, f"{provider}/{credential}")
        return gone > 0
