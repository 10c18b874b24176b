"""Start the gateway, keep it going, end it in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import resource
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace._bridge import DemoRef, GatewayConfig, GatewayRef
from headrace.config import ConfigurationError, is_loopback
from headrace.credentials.oauth import Keeper
from headrace.credentials.vault import vault_of
from headrace.gateway import Gateway
from headrace.metrics import Figures
from headrace.node import Node
from headrace.selectors import some_of
from headrace.server._figures import edge_families, process_families
from headrace.server._hands import Hands
from headrace.server._listings import Refresher
from headrace.store import default_path

if TYPE_CHECKING:
    from headrace.config import Config, Reloader
    from headrace.registry import Registry

__all__ = ["GRACE_S", "serve"]

_LOG = logging.getLogger("headrace.server")

#: Seconds that answers under way may go on after a stop was asked for: less than the 30 s that service managers wait.
GRACE_S: Final = 25.0
#: Seconds between two looks at the configuration file.
WATCH_S: Final = 1.0
#: Objects after which the collector looks for cycles. A request leaves none and holds some ten at a time; the default
#: of 700 goes over those of some dozens of requests again and again.
COLLECT_AFTER: Final = 10_000
#: Seconds after the start at which what starting took is given back.
TRIM_S: Final = 0.5
#: The default of 5 ms lets a busy thread keep the interpreter from the event loop for as long.
SWITCH_S: Final = 0.0005


def serve(config: Config, *, registry: Registry, reloader: Reloader | None = None) -> None:
    """Run the gateway in the foreground, until SIGTERM or SIGINT.

    - `config`: checked.
    - `reloader`: watched for another configuration; SIGHUP has it read at once.

    Says `headrace: listening on http://HOST:PORT`, and for whom, on standard error when it answers.

    Raises `OSError`: the address cannot be listened on. `StoreError`: the store is another version's, or is none.
    """
    sys.setswitchinterval(SWITCH_S)
    _allow_descriptors()
    demo = DemoRef.start() if any(row.kind == "demo" and row.base_url is None for row in config.providers) else None
    store = config.store
    books = Node(
        store.url,
        journals=_journals(store.url),
        clock=time.time,
        journal_limit=store.journal_limit,
        away_limit=store.away_limit,
        ledger_days=store.ledger_days,
    )
    keeper = Keeper(
        store.url,
        vault=lambda: vault_of(store.key, store.url, os.environ),
        clock=time.time,
        random=random.SystemRandom().random,
    )
    salt = os.urandom(16)
    figures = Figures(salt=salt)
    try:
        policy = Gateway(
            config,
            registry=registry,
            clock=time.time,
            random=random.SystemRandom().random,
            salt=salt,
            demo_url=f"{demo.url}/v1" if demo else None,
            books=books,
            keeper=keeper,
            figures=figures,
        )
        edge = GatewayRef.start(_edge_config(config))
        began = time.time()
        figures.process = lambda: [*edge_families(edge), *process_families(began)]
        asyncio.run(_Process(config, policy, edge, reloader, books, keeper).run())
    finally:
        if demo:
            demo.stop()


class _Process:
    """A running gateway, from its first answer to its last."""

    def __init__(  # noqa: PLR0917 - what it runs
        self,
        config: Config,
        policy: Gateway,
        edge: GatewayRef,
        reloader: Reloader | None,
        books: Node,
        keeper: Keeper,
    ) -> None:
        self._books = books
        self._keeper = keeper
        self._config = config
        self._policy = policy
        self._edge = edge
        self._reloader = reloader
        self._stopping = asyncio.Event()
        self._look: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._policy.refresh = Refresher(self._policy).refresh
        try:
            # The tokens first: a credential's state is known again by its login.
            await self._keeper.start()
            await self._books.start()
        except BaseException:
            self._edge.stop(0.0)
            raise
        hands = Hands(self._edge, self._policy)
        hands.attach(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload, True)
        if self._reloader:
            self._look = loop.call_later(WATCH_S, self._watch, loop)
        # What was loaded stays: the collector need not look at it again, nor now, when it would delay the start.
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, 10, 10)
        # After the first answer, most likely: it need not wait for this.
        loop.call_later(TRIM_S, self._edge.trim)
        self._edge.set_ready(True)
        host, port = self._edge.address
        where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        rows = some_of([row.id for row in self._config.providers])
        keys = len(self._config.keys) or "none"
        sys.stderr.write(f"headrace: listening on {where} (providers: {rows}; keys: {keys})\n")
        sys.stderr.flush()
        await self._stopping.wait()
        if self._look:
            self._look.cancel()
            self._look = None
        await asyncio.to_thread(self._edge.join)
        hands.detach()
        await self._keeper.stop()
        await self._books.stop()

    def _stop(self) -> None:
        """Stop in order; the second time, at once."""
        self._edge.set_ready(False)
        self._edge.stop(0.0 if self._stopping.is_set() else GRACE_S)
        self._stopping.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the configuration file now and then. A timer and no task: an idle gateway must cost nothing."""
        self._look = loop.call_later(WATCH_S, self._watch, loop)
        self._reload(False)

    def _reload(self, force: bool) -> None:
        if self._reloader is None or self._stopping.is_set():
            return
        found = self._reloader.poll(force=force)
        if isinstance(found, ConfigurationError):
            _say(f"the new configuration is refused, the old one stays\n{found}")
        elif found is not None:
            self._take(found)

    def _take(self, found: Config) -> None:
        # The listener was started with the old one's word on who may reach it.
        if _guards(found) != _guards(self._config):
            _say("the new configuration changes who may reach the gateway: restart it; the old one stays")
            return
        try:
            self._policy.reload(found)
        except ConfigurationError as error:
            _say(f"the new configuration is refused, the old one stays\n{error}")
            return
        if found.server != self._config.server or found.store != self._config.store:
            _say("took the new configuration, but for [server] and [store]: those need a restart")
            found = replace(found, server=self._config.server, store=self._config.store)
        else:
            _say("took the new configuration")
        self._config = found


def _allow_descriptors() -> None:
    """Take as many descriptors as the system allows: a stream needs two, and the usual soft limit is 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # where it may not be raised, fewer streams is what there is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _journals(url: str) -> Path | None:
    """Where the journal is: beside the database, or in the user's state directory; nowhere for a store in memory."""
    if url.startswith("memory:"):
        return None
    path = url.partition(":")[2].partition("?")[0] if url.startswith("sqlite:") else ""
    return (Path(path).expanduser() if path else default_path(os.environ)).parent / "journals"


def _guards(config: Config) -> bool:
    """Whether only local names may be asked for: without keys, a web page must not reach the gateway."""
    return not config.keys and (is_loopback(config.server.host) or not config.server.danger_open)


def _edge_config(config: Config) -> GatewayConfig:
    server = config.server
    found = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return GatewayConfig(
        host=str(found[0][4][0]),
        port=server.port,
        threads=server.threads,
        body_limit=server.body_limit,
        header_limit=server.header_limit,
        header_timeout=server.header_timeout,
        loopback_only=_guards(config),
        hosts=server.hosts,
        origins=server.origins,
    )


def _say(message: str) -> None:
    sys.stderr.write(f"headrace: {message}\n")
    sys.stderr.flush()
