"""The trace page, live: on loopback, for whoever has the address that it prints.

    GET /TOKEN/                the list of runs, or the page of the one run
    GET /TOKEN/RUN             a run's page
    GET /TOKEN/RUN/events      what is new of it, as server-sent events

1. It listens on 127.0.0.1 and nowhere else. Every path begins with a secret of its own, and the `Host` has to be a name
   of loopback: no other page of the user's browser can read a run.
2. It reads the log and writes nothing; it takes GET and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import orjson

from headrace.harness.page import gather, page
from headrace.log.records import LogError

if TYPE_CHECKING:
    from headrace.log.eventlog import EventLog

__all__ = ["TraceServer"]

HEAD_LIMIT: Final = 16 * 1024
"""Bytes of a request's head: a browser's is below 4 KiB."""
HEAD_S: Final = 10.0
LOOK_S: Final = 0.5
"""How often a run is looked at for more."""
_HOSTS: Final = ("127.0.0.1", "localhost")


class TraceServer:
    """Serves traces.

    - `run_id`: the one that `/` shows; None: `/` lists all.
    """

    def __init__(self, log: EventLog, run_id: str | None = None) -> None:
        self._log, self._run_id = log, run_id
        self._token = secrets.token_urlsafe(18)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def start(self, port: int = 0) -> str:
        """Listen. Gives the address.

        Raises `OSError`: the port is taken.
        """
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=HEAD_LIMIT)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/{self._token}/"

    async def close(self) -> None:
        """Stop, and end what is open."""
        self._is_closing = True
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # whoever asked has left, or asks nothing that we answer
        except asyncio.CancelledError:
            if not self._is_closing:
                raise  # else it ends in order: asyncio's streams take a cancelled handler for a fault
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
        first, *lines = head.decode("latin-1").split("\r\n")
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        method, _, rest = first.partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        again = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("last-event-id:")]
        after = [*again, query.removeprefix("after=")][0]
        parts = [unquote(one) for one in path.split("/")[1:]]
        is_ours = len(hosts) == 1 and hosts[0].rpartition(":")[0] in _HOSTS
        if method != "GET" or not is_ours or not secrets.compare_digest(parts[0].encode(), self._token.encode()):
            _reply(writer, "404 Not Found", b"not found\n", "text/plain")
            return
        try:
            await self._page(writer, parts[1:], int(after) if after.isdecimal() else 0)
        except LogError as error:
            _reply(writer, "404 Not Found", f"{error}\n".encode(), "text/plain")

    async def _page(self, writer: asyncio.StreamWriter, parts: list[str], after: int) -> None:
        name = self._run_id if parts in ([], [""]) else parts[0]
        if name is None:
            _reply(writer, "200 OK", await self._listing(), "text/html")
        elif parts[1:] == ["events"]:
            await self._events(writer, name, after)
        elif len(parts) <= 1:
            shown = await gather(self._log, name)
            live = f"/{self._token}/{quote(name, safe='')}/events?after={len(shown['steps'])}"
            _reply(writer, "200 OK", page([shown], live=live), "text/html")
        else:
            _reply(writer, "404 Not Found", b"not found\n", "text/plain")

    async def _listing(self) -> bytes:
        items = []
        for info in await self._log.runs():
            name = html.escape(info.run_id)
            items.append(f'<li><a href="/{self._token}/{quote(info.run_id, safe="")}">{name}</a> {info.head} events')
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        return f"{head}<title>Runs - Headrace</title><h1>Runs</h1><ul>{''.join(items)}</ul>".encode()

    async def _events(self, writer: asyncio.StreamWriter, run_id: str, known: int) -> None:
        """Send what is new of a run, as long as somebody listens.

        - `known`: the last seq that they have.
        """
        writer.write(_head("200 OK", "text/event-stream") + b"retry: 1000\n\n")
        while True:
            if (await self._log.info(run_id)).head > known:
                more = await gather(self._log, run_id, after=known)
                known += len(more["steps"])
                writer.write(b"id: %d\ndata: %b\n\n" % (known, orjson.dumps(more)))
            else:
                writer.write(b": \n\n")
            await writer.drain()
            await asyncio.sleep(LOOK_S)


def _head(status: str, kind: str, *more: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}; charset=utf-8",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
        "referrer-policy: no-referrer",
        "connection: close",
        *more,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _reply(writer: asyncio.StreamWriter, status: str, body: bytes, kind: str) -> None:
    writer.write(_head(status, kind, f"content-length: {len(body)}") + body)
