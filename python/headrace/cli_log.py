"""`headrace log`: read, check, carry and erase what runs have left.

Thin over `headrace.log`; a part of `headrace.cli`, whose rules hold here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from headrace.log.eventlog import EventLog

__all__ = ["log"]

_STORE = click.option("--store", "url", help="The store's URL, instead of the configuration's.")
_CONFIG = click.option("--config", type=click.Path(path_type=Path), help="The configuration file.")


@click.group()
def log() -> None:
    """Look at the logs of runs."""


@log.command(short_help="Show a run's events, or list the newest runs.")
@click.argument("run", required=False)
@click.option("--type", "types", multiple=True, help="Only events of this type; may be given more than once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@_STORE
@_CONFIG
def show(run: str | None, types: Sequence[str], url: str | None, config: Path | None, *, as_json: bool) -> None:
    """Show a run's events, verified, or list the newest runs where no RUN is named."""
    import orjson

    from headrace.log.jsonl import record_line
    from headrace.log.payloads import CLASSES

    for one in types:
        if one not in CLASSES:
            raise click.UsageError(f"--type: there is no event type {one!r}; docs/LOG.md lists them")

    async def listed(events: EventLog) -> None:
        for info in await events.runs():
            line = {"run_id": info.run_id, "created_ms": info.created_ms, "events": info.head}
            click.echo(
                orjson.dumps(line) if as_json else f"{info.run_id}\t{_when(info.created_ms)}\t{info.head} events"
            )

    async def shown(events: EventLog) -> None:
        for record in await events.read(run or ""):
            if types and record.type not in types:
                continue
            if as_json:
                click.echo(record_line(record), nl=False)
            else:
                payload = "(erased)" if record.payload is None else record.payload.decode()
                click.echo(f"{record.seq}\t{_when(record.at_ms)}\t{record.type}\t{payload}")

    _with_log(shown if run else listed, url, config)


@log.command()
@click.argument("run")
@click.option("--key", "keys", multiple=True, help="A public key that may have sealed it; may be given more than once.")
@click.option("--file", "is_file", is_flag=True, help="RUN is an exported file, or - for standard input.")
@_STORE
@_CONFIG
def verify(run: str, keys: Sequence[str], url: str | None, config: Path | None, *, is_file: bool) -> None:
    """Check a run's events, chain and seals. Ends with 1 and the first event that is wrong."""
    from headrace.log.eventlog import Verdict
    from headrace.log.records import LogError

    trusted = keys or None
    if is_file:
        from headrace.log.jsonl import parse
        from headrace.log.seals import check_seals

        try:
            with click.open_file(run, "rb") as file:
                records, _ = parse(file)
            sealed = check_seals(records, trusted=trusted)
        except (LogError, OSError) as error:
            click.echo(f"headrace: {error}", err=True)
            sys.exit(1)
        erased = tuple(record.seq for record in records if record.is_erased)
        _told(Verdict(records[0].run_id if records else run, len(records), erased=erased, sealed=sealed))
        return

    async def checked(events: EventLog) -> None:
        _told(await events.verify(run, trusted=trusted))

    _with_log(checked, url, config)


@log.command()
@click.argument("run")
@click.option("--output", "-o", type=click.File("wb", atomic=True), default="-", help="Where to; by default, here.")
@click.option("--artifacts/--no-artifacts", default=True, help="With the large contents, or without.")
@_STORE
@_CONFIG
def export(run: str, output: IO[bytes], url: str | None, config: Path | None, *, artifacts: bool) -> None:
    """Write a run as JSON lines: the same bytes from every store."""
    from headrace.log.jsonl import export_run

    async def written(events: EventLog) -> None:
        output.writelines(await export_run(events, run, with_artifacts=artifacts))

    _with_log(written, url, config)


@log.command(name="import", short_help="Put an exported run into the store.")
@click.argument("file", type=click.File("rb"))
@_STORE
@_CONFIG
def import_(file: IO[bytes], url: str | None, config: Path | None) -> None:
    """Put an exported run into the store, whole and verified or not at all. FILE may be - for standard input."""
    from headrace.log.jsonl import import_run

    async def put(events: EventLog) -> None:
        click.echo(await import_run(events, file))

    _with_log(put, url, config)


@log.command()
@click.argument("run")
@click.option("--seq", "seqs", type=int, multiple=True, help="Only this event; may be given more than once.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_STORE
@_CONFIG
def erase(run: str, seqs: Sequence[int], url: str | None, config: Path | None, *, yes: bool) -> None:
    """Take a run's contents away. Its chain still verifies; the run can no longer be resumed."""
    what = f"event {', '.join(map(str, seqs))} of run {run}" if seqs else f"everything that run {run} says"

    async def erased(events: EventLog) -> None:
        await events.info(run)  # whether there is anything to ask about
        if not yes:
            click.confirm(f"Erase {what} for ever?", abort=True, err=True)
        click.echo(f"{await events.erase(run, seqs or None)} erased")

    _with_log(erased, url, config)


def _told(verdict: Any) -> None:
    """Say what a verification found, and end with 1 if it found something."""
    if not verdict.ok:
        click.echo(f"headrace: run {verdict.run_id}: event {verdict.bad_seq}: {verdict.why}", err=True)
        sys.exit(1)
    sealed = f", sealed up to event {verdict.sealed}" if verdict.sealed else ", not sealed"
    erased = f", {len(verdict.erased)} erased" if verdict.erased else ""
    click.echo(f"{verdict.run_id}: ok, {verdict.events} events{sealed}{erased}")


def _when(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _with_log(act: Callable[[EventLog], Awaitable[None]], url: str | None, config: Path | None) -> None:
    """Do something with the log of a store; a user's mistake is one line."""
    import asyncio
    import os

    from headrace.config import ConfigurationError
    from headrace.log.eventlog import EventLog
    from headrace.log.records import LogError, TamperedError
    from headrace.startup import configure
    from headrace.store import StoreError, open_store

    async def run(address: str) -> None:
        store = await open_store(address)
        try:
            await act(await EventLog.over(store))
        finally:
            await store.close()

    try:
        asyncio.run(run(url or configure(config, environ=os.environ).config.store.url))
    except ConfigurationError as error:
        click.echo(error, err=True)
        sys.exit(2)
    except (LogError, StoreError) as error:
        click.echo(f"headrace: {error}", err=True)
        sys.exit(1 if isinstance(error, TamperedError) else 2)
