"""`headrace trace`: what runs have left, as a page. docs/HARNESS.md tells of it.

Thin over `headrace.harness`; a part of `headrace.cli`, whose rules hold here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["trace"]

_STORE = click.option("--store", help="The store's URL, instead of the configuration's.")
_CONFIG = click.option("--config", type=click.Path(path_type=Path), help="The configuration file.")
MOST = 2
"""Runs on one page."""


@click.group()
def trace() -> None:
    """Show what happened in a run, and what the model saw of it."""


@trace.command()
@click.argument("runs", metavar="RUN [RUN]", nargs=-1, required=True)
@click.option("--output", "-o", type=click.File("wb", atomic=True), default="-", help="Where to; by default, here.")
@_STORE
@_CONFIG
def report(runs: Sequence[str], output: IO[bytes], store: str | None, config: Path | None) -> None:
    """Write one HTML file that shows a run, or two beside each other. It needs no network and no other file.

    Ends with 1 if a run's chain is broken; the page says where.
    """
    if len(runs) > MOST:
        raise click.UsageError(f"{MOST} runs fit on a page, and these are {len(runs)}")
    from headrace.harness import commands
    from headrace.harness.host import open_log
    from headrace.harness.page import gather, page

    async def act() -> int:
        async with open_log(commands.store_of(config, store)) as log:
            shown = [await gather(log, run) for run in runs]
        output.write(page(shown))
        return 0 if all(one["chain"]["ok"] for one in shown) else 1

    sys.exit(commands.ended_with(None, act()))


@trace.command(short_help="Show RUN, or all runs, in a browser, live.")
@click.argument("run", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default, any free one.")
@_STORE
@_CONFIG
def serve(run: str | None, port: int, store: str | None, config: Path | None) -> None:
    """Show RUN, or all runs, in a browser on this machine, while they go on. Prints the address; ends with Ctrl-C."""
    import asyncio
    import signal

    from headrace.harness import commands
    from headrace.harness.host import open_log
    from headrace.harness.serve import TraceServer

    async def act() -> int:
        async with open_log(commands.store_of(config, store)) as log:
            if run is not None:
                await log.info(run)
            server = TraceServer(log, run)
            try:
                click.echo(f"headrace: traces at {await server.start(port)}", err=True)
            except OSError as error:
                click.echo(f"headrace: cannot listen on port {port}: {error.strerror or error}", err=True)
                return 1
            ended = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            try:
                await ended.wait()
            finally:
                await server.close()
        return 0

    sys.exit(commands.ended_with(None, act()))
