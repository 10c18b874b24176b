"""`headrace auth`: log in, see who is logged in, renew and log out.

Thin over `headrace.credentials.oauth`; a part of `headrace.cli`, whose rules hold here. No token is ever printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import httpx

    from headrace.credentials.oauth import Grant, Login, Logins, Tokens
    from headrace.store import Store

__all__ = ["auth"]

_CONFIG = click.option("--config", "path", type=click.Path(path_type=Path), help="The configuration file.")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


class _Desk:
    """The configured ways, and the store that logins are in."""

    def __init__(self, store: Store, logins: Logins, grants: Mapping[tuple[str, str], Grant]) -> None:
        self.store = store
        self.logins = logins
        self.grants = grants

    def named(self, name: str | None, *, login: bool = False) -> tuple[str, str]:
        """Find the credential that a person means. Ends the program with 2 where it is none."""
        from headrace.credentials.oauth import VENDORS

        able = [key for key, grant in self.grants.items() if not login or VENDORS[grant.kind].login is not None]
        if name is None and len(able) == 1:
            return able[0]
        key = tuple((name or "").split("/", 1))
        if len(key) == len(("provider", "credential")) and key in able:
            return key[0], key[1]
        what = "that a person logs in for" if login else "with oauth"
        listed = ", ".join("/".join(one) for one in able) or "none"
        asked = f"{name!r} is no credential {what}" if name is not None else f"name a credential {what}"
        raise _Wrong(f"{asked}; there are: {listed}")


class _Wrong(Exception):  # noqa: N818 - what a person asked for
    """What was asked for cannot be."""


@click.group(short_help="Log in for credentials that get their own tokens.")
def auth() -> None:
    """Log in where credentials get their tokens themselves: docs/CREDENTIALS.md."""


@auth.command()
@click.argument("name", required=False)
@click.option("--no-browser", is_flag=True, help="Open no browser here: the address is printed, the code is pasted.")
@_JSON
@_CONFIG
def login(name: str | None, path: Path | None, *, no_browser: bool, as_json: bool) -> None:
    """Log in for the credential NAME, as PROVIDER/CREDENTIAL. Ends with 1 if it comes to nothing."""
    import time

    from headrace.credentials.oauth import VENDORS, Login, client, login_id, put_login

    async def work(desk: _Desk) -> int:
        provider, credential = desk.named(name, login=True)
        grant = desk.grants[provider, credential]
        async with client(grant.way) as http:
            way = _by_device if VENDORS[grant.kind].login == "device" else _by_code
            tokens = await way(http, grant, browser=not no_browser, as_json=as_json)
        made = Login(provider, credential, grant.kind, grant.identity, login_id())
        made = await put_login(desk.store, desk.logins, made, tokens, time.time())
        if as_json:
            _print(made, as_json=True)
        else:
            click.echo(f"logged in: {made.name}" + (f", account {made.account}" if made.account else ""))
        return 0

    _at_the_desk(path, work, needs_store=True)


async def _by_device(http: httpx.AsyncClient, grant: Grant, *, browser: bool, as_json: bool) -> Tokens:
    import time

    from headrace.credentials.oauth import begin_device, wait_device

    begun = await begin_device(http, grant)
    _tell({"url": begun.url, "code": begun.user_code}, f"Open {begun.url} and type {begun.user_code}", as_json=as_json)
    if browser:
        await _open(begun.url)
    return await wait_device(http, grant, begun, clock=time.time)


async def _by_code(http: httpx.AsyncClient, grant: Grant, *, browser: bool, as_json: bool) -> Tokens:
    import asyncio
    import os
    import time

    from headrace.credentials.oauth import begin_code, finish_code, listen, pasted, redirected

    if browser:
        server, port, heard = await listen()
        begun = begin_code(grant, random=os.urandom, port=port)
        _tell({"url": begun.url}, f"Open {begun.url}", as_json=as_json)
        await _open(begun.url)
        code = await redirected(server, begun, heard)
    else:
        begun = begin_code(grant, random=os.urandom)
        _tell({"url": begun.url}, f"Open {begun.url}", as_json=as_json)
        text = await asyncio.to_thread(click.prompt, "Paste the code that it gives", hide_input=True, err=True)
        code = pasted(begun, text)
    return await finish_code(http, grant, begun, code, now=time.time())


def _tell(values: Mapping[str, str], text: str, *, as_json: bool) -> None:
    import orjson

    click.echo(orjson.dumps(values) if as_json else text)
    sys.stdout.flush()


async def _open(url: str) -> None:
    import asyncio
    import webbrowser

    await asyncio.to_thread(webbrowser.open, url)


@auth.command("list", short_help="List these credentials with account, end and state.")
@_JSON
@_CONFIG
def list_(path: Path | None, *, as_json: bool) -> None:
    """List the credentials that get their tokens themselves: name, kind, account, end of the token, state."""
    from headrace.credentials.oauth import VENDORS, Login

    async def work(desk: _Desk) -> int:
        async with desk.store.transaction(read_only=True) as tx:
            found = {(one.provider, one.credential): one for one in await desk.logins.all(tx)}
        for key, grant in desk.grants.items():
            known = found.pop(key, None)
            if known is not None and known.identity == grant.identity:
                _print(known, as_json=as_json)
                continue
            state = "nobody is logged in" if VENDORS[grant.kind].login is not None else "not used yet"
            state = state if VENDORS[grant.kind].shared else "each process asks for itself"
            _print(Login(*key, grant.kind, grant.identity, ""), as_json=as_json, state=state)
        for left in found.values():
            _print(left, as_json=as_json, state="not in the configuration")
        if not desk.grants and not found:
            click.echo("no credential gets its tokens itself: none has oauth = ...", err=True)
        return 0

    _at_the_desk(path, work)


def _print(one: Login, *, as_json: bool, state: str | None = None) -> None:
    import orjson

    told = state or one.state
    values = {"name": one.name, "kind": one.kind, "account": one.account, "expires": _when(one.expires), "state": told}
    if as_json:
        click.echo(orjson.dumps(values | {"reason": one.reason or None, "until": _when(one.until)}))
        return
    text = "\t".join(value or "-" for value in values.values())
    until = f" until {_when(one.until)}" if one.until is not None else ""
    click.echo(text + until + (f": {one.reason}" if one.reason else ""))


def _when(at: float | None) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else None


@auth.command()
@click.argument("names", nargs=-1)
@_JSON
@_CONFIG
def refresh(names: Sequence[str], path: Path | None, *, as_json: bool) -> None:
    """Get new tokens now for the credentials NAMES, or for all. Ends with 1 if there are none for one of them."""
    import time

    from headrace.credentials.oauth import Login, TokenError, client, refresh_login

    async def work(desk: _Desk) -> int:
        keys = [desk.named(name) for name in names] or list(desk.grants)
        failed = False
        for provider, credential in keys:
            grant = desk.grants[provider, credential]
            try:
                async with client(grant.way) as http:
                    got = await refresh_login(
                        desk.store,
                        desk.logins,
                        http,
                        provider=provider,
                        credential=credential,
                        grant=grant,
                        clock=time.time,
                    )
            except TokenError as error:
                failed = True
                wrong = Login(provider, credential, grant.kind, grant.identity, "", reason=str(error))
                _print(wrong, as_json=as_json, state="dead" if error.permanent else "failed")
            else:
                _print(got, as_json=as_json)
        return int(failed)

    _at_the_desk(path, work)


@auth.command()
@click.argument("name")
@_CONFIG
def remove(name: str, path: Path | None) -> None:
    """Take the login NAME out of the store. At the vendor it stays until you end it there.

    Ends with 1 if there is none.
    """
    from headrace.credentials.oauth import take_out

    async def work(desk: _Desk) -> int:
        # One that the configuration no longer has may be taken out, too.
        provider, _, credential = name.partition("/")
        gone = await take_out(desk.store, desk.logins, provider, credential)
        click.echo(f"taken out: {name}" if gone else f"there is no login {name!r}", err=not gone)
        return int(not gone)

    _at_the_desk(path, work)


def _at_the_desk(path: Path | None, work: Callable[[_Desk], Awaitable[int]], *, needs_store: bool = False) -> None:
    """Open the configured store for one piece of work; what cannot be is one line and exit status 2, a no is 1."""
    import asyncio
    import os
    import time

    from headrace.config import ConfigurationError
    from headrace.credentials.oauth import SCHEMA, Logins, TokenError
    from headrace.credentials.sealed import SCHEMA as SECRETS_SCHEMA
    from headrace.credentials.sealed import Secrets
    from headrace.credentials.vault import vault_of
    from headrace.errors import HeadraceError
    from headrace.resolver import grant_of, way_of
    from headrace.startup import configure
    from headrace.store import open_store

    async def whole() -> int:
        setup = configure(path, environ=os.environ)
        settings = setup.config.store
        if needs_store and settings.url.startswith("memory:"):
            raise _Wrong("the store is memory: and would forget the login at once; set [store] url")
        grants: dict[tuple[str, str], Grant] = {}
        for row in setup.config.providers:
            for one in row.credentials:
                grant = grant_of(one, way_of(row, setup.config.server))
                if grant is not None:
                    grants[row.id, one.id] = grant
        store = await open_store(settings.url)
        try:
            await store.migrate(SECRETS_SCHEMA, SCHEMA)
            secrets = Secrets(lambda: vault_of(settings.key, settings.url, os.environ), clock=time.time)
            return await work(_Desk(store, Logins(secrets), grants))
        finally:
            await store.close()

    status: Any
    try:
        status = asyncio.run(whole())
    except TokenError as error:
        click.echo(f"headrace: {error}", err=True)
        status = 1
    except (ConfigurationError, HeadraceError, _Wrong) as error:
        click.echo(f"headrace: {error}", err=True)
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
