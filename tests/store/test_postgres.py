"""What only PostgreSQL can do to a store: end its connections one by one, and die without a word."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from headrace.store import Schema, StoreError, StoreUnavailable, open_store

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

SCHEMA = Schema("notes", ("CREATE TABLE notes_all (id BIGINT PRIMARY KEY)",))
END_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'headrace' AND pid <> pg_backend_pid()"""


def run(body: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await body()

    asyncio.run(whole())


def test_a_pooled_connection_that_was_ended_is_replaced(postgres: Postgres) -> None:
    async def body() -> None:
        store = await open_store(postgres.database())
        await store.migrate(SCHEMA)
        for n in range(3):
            await asyncio.to_thread(postgres.sql, END_ALL)
            async with store.transaction() as tx:
                await tx.execute("INSERT INTO notes_all VALUES (?)", n)

        async def cut_off() -> None:
            async with store.transaction() as tx:
                await tx.execute("INSERT INTO notes_all VALUES (?)", 9)
                await asyncio.to_thread(postgres.sql, END_ALL)
                await tx.execute("INSERT INTO notes_all VALUES (?)", 10)

        with pytest.raises(StoreUnavailable):
            await cut_off()
        async with store.transaction() as tx:
            assert await tx.fetch("SELECT id FROM notes_all ORDER BY id") == [(0,), (1,), (2,)]
        await store.close()

    run(body)


def test_a_listener_whose_connection_was_ended_hears_that_it_may_have_missed_something(postgres: Postgres) -> None:
    async def body() -> None:
        store = await open_store(postgres.database())
        async with store.listen("notes") as heard:
            await asyncio.to_thread(postgres.sql, END_ALL)
            async for text in heard:
                assert text is None
                break
            async with store.transaction() as tx:
                await tx.notify("notes", "again")
            async for text in heard:
                assert text == "again"
                break
        await store.close()

    run(body)


class Mute:
    """Passes bytes on to a server, until it is told to pass nothing more, and to end nothing either."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self.is_mute = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [near, far]
            # What was mute stays so; a new connection is one to a server that is there again.
            mute = self.is_mute
            self.is_mute = threading.Event() if mute.is_set() else mute
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass, args=(one, other, self.is_mute), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _pass(self, one: socket.socket, other: socket.socket, mute: threading.Event) -> None:
        try:
            while data := one.recv(65536):
                if not mute.is_set():
                    other.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        self._listener.close()
        for one in self._sockets:
            one.close()


def test_a_server_that_dies_without_a_word_is_found_out(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.store._postgres.ASK_S", 0.5)
    monkeypatch.setattr("headrace.store._postgres.CONNECT_S", 0.5)

    async def body() -> None:
        mute = Mute(postgres.port)
        store = await open_store(postgres.database().replace(f":{postgres.port}/", f":{mute.port}/"))
        async with store.listen("notes") as heard:
            mute.is_mute.set()
            async for text in heard:
                assert text is None
                break
        await store.close()
        mute.close()

    run(body)


def test_what_cannot_be_reached_or_read_is_said_without_its_password() -> None:
    async def body() -> None:
        with pytest.raises(StoreUnavailable) as refused:
            await open_store("postgresql://u:planted@127.0.0.1:1/none")
        assert "planted" not in str(refused.value)
        for url in ("postgresql://u:pla@nted/x@127.0.0.1:1/none", "postgresql://u:planted@host:planted/x"):
            with pytest.raises(StoreError) as wrong:
                await open_store(url)
            assert "planted" not in str(wrong.value)
            assert "nted" not in str(wrong.value)

    run(body)
