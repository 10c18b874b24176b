"""The commands `headrace store ...`: what is done with all tables together, and with the key of sealed secrets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headrace.credentials.sealed import Secrets
    from headrace.credentials.vault import KeySource
    from headrace.store import Store

__all__ = ["store"]


@click.group()
def store() -> None:
    """Look after the store: its tables, its copies, its key."""


def _store_option(command: Callable[..., None]) -> Callable[..., None]:
    text = "The file that names the store; by default as `check` finds it."
    return click.option("--config", "path", type=click.Path(path_type=Path), help=text)(command)


@store.command()
@_store_option
def migrate(path: Path | None) -> None:
    """Bring every table up to date. `headrace serve` does so by itself."""
    from headrace.upkeep import SCHEMAS

    async def work(opened: Store, _: KeySource) -> None:
        before = await opened.versions()
        await opened.migrate(*SCHEMAS)
        for name, version in (await opened.versions()).items():
            click.echo(f"{name}: version {version}" + ("" if before.get(name) == version else " (new)"))

    _with_store(path, work)


@store.command("check", short_help="Check versions, the file and every sealed row.")
@_store_option
def check_(path: Path | None) -> None:
    """Check versions, the file and every sealed row: one line for each fault. Ends with 1 if there are any."""

    async def work(opened: Store, key: KeySource) -> None:
        from headrace.upkeep import check_store

        wrong = await check_store(opened, _secrets(key))
        click.echo("\n".join(wrong) or "ok")
        if wrong:
            sys.exit(1)

    _with_store(path, work)


@store.command()
@_store_option
@click.argument("file", type=click.File("wb"))
def export(path: Path | None, file: IO[bytes]) -> None:
    """Write every row to FILE, one JSON line each. Sealed secrets stay sealed: keep the key elsewhere."""

    async def work(opened: Store, _: KeySource) -> None:
        from headrace.upkeep import export_store

        async for line in export_store(opened):
            file.write(line)

    _with_store(path, work)


@store.command("import")
@_store_option
@click.argument("file", type=click.File("rb"))
def import_(path: Path | None, file: IO[bytes]) -> None:
    """Put an export into a new, empty store."""

    async def work(opened: Store, _: KeySource) -> None:
        from headrace.upkeep import import_store

        click.echo(f"{await import_store(opened, file)} rows")

    _with_store(path, work)


@store.command("new-key")
def new_key() -> None:
    """Print a new key for the store's secrets."""
    from headrace.credentials.vault import new_key

    click.echo(new_key())


@store.command("rotate-key")
@_store_option
@click.option("--forget-old", is_flag=True, help="Take the old keys away once nothing is sealed under them.")
def rotate_key(path: Path | None, *, forget_old: bool) -> None:
    """Seal every secret anew, under a new key.

    A key in a file or a keyring is made and put first there; one from the environment you put first yourself. The old
    one stays behind it until --forget-old: other nodes need both until they have the new one.
    """

    async def work(opened: Store, key: KeySource) -> None:
        from headrace.upkeep import SCHEMAS, rotate

        await opened.migrate(*SCHEMAS)
        click.echo(await rotate(opened, key, _secrets(key), forget_old=forget_old))

    _with_store(path, work)


def _secrets(key: KeySource) -> Secrets:
    import time

    from headrace.credentials.sealed import Secrets

    return Secrets(lambda: key.vault(make=True), clock=time.time)


def _with_store(path: Path | None, work: Callable[[Store, KeySource], Coroutine[Any, Any, None]]) -> None:
    """Open the configured store for one piece of work; what goes wrong is one line and exit status 2."""
    import asyncio
    import os

    from headrace.config import ConfigurationError
    from headrace.credentials.vault import KeySource
    from headrace.errors import HeadraceError
    from headrace.startup import configure
    from headrace.store import open_store

    async def whole() -> None:
        setup = configure(path, environ=os.environ)
        opened = await open_store(setup.config.store.url)
        try:
            await work(opened, KeySource(setup.config.store.key, os.environ))
        finally:
            await opened.close()

    try:
        asyncio.run(whole())
    except (ConfigurationError, HeadraceError) as error:
        click.echo(f"headrace: {error}", err=True)
        sys.exit(2)
