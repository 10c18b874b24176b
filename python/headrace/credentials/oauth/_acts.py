"""What a person does with a login by hand: puts one in, has it renewed now, takes it out.

1. Each is done under the lock that a refresh takes, so that none is lost in another.
2. What a person has done begins anew: whatever the credential was marked for is over, at every node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.credentials.oauth._keeper import fetch, login_id
from headrace.credentials.oauth._kept import Login, lock_name
from headrace.credentials.oauth._values import TokenError
from headrace.credentials.oauth._vendors import VENDORS

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from headrace.credentials.oauth._kept import Logins
    from headrace.credentials.oauth._values import Grant, Tokens
    from headrace.store import Store

__all__ = ["put_login", "refresh_login", "take_out"]


async def put_login(store: Store, logins: Logins, login: Login, tokens: Tokens, now: float) -> Login:
    """Put a new login in the place of whatever was there."""
    async with store.transaction() as tx:
        await tx.lock(lock_name(login.provider, login.credential))
        return await logins.write(tx, login, tokens, now)


async def refresh_login(
    store: Store,
    logins: Logins,
    http: httpx.AsyncClient,
    *,
    provider: str,
    credential: str,
    grant: Grant,
    clock: Callable[[], float],
) -> Login:
    """Get new tokens now, whatever the old ones' state.

    Raises `TokenError`: there are none. A final no is kept; a passing one changes nothing.
    """
    vendor = VENDORS[grant.kind]
    new = Login(provider, credential, grant.kind, grant.identity, login_id())
    if not vendor.shared:
        got = await fetch(http, grant, None, clock)
        return replace(new, account=got.account, expires=got.expires)
    wrong: TokenError | None = None
    async with store.transaction() as tx:
        await tx.lock(lock_name(provider, credential))
        found = await logins.read(tx, provider, credential)
        if found is not None and found[0].identity != grant.identity:
            found = None
        if vendor.login is not None and found is None:
            raise TokenError(f"nobody is logged in: `headrace auth login {new.name}`", permanent=True)
        try:
            got = await fetch(http, grant, found[1] if found is not None else None, clock)
        except TokenError as error:
            wrong = error
            if error.permanent and found is not None:
                await logins.write(tx, replace(found[0], state="dead", reason=str(error)), None, clock())
        else:
            new = await logins.write(tx, new, got, clock())
    if wrong is not None:
        raise wrong
    return new


async def take_out(store: Store, logins: Logins, provider: str, credential: str) -> bool:
    """Take a login out of the store. False: there was none."""
    async with store.transaction() as tx:
        await tx.lock(lock_name(provider, credential))
        return await logins.remove(tx, provider, credential)
