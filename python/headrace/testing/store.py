"""What every store has to hold to, as tests that any store can inherit.

    class TestMine(StoreContract):
        def new_url(self) -> str:
            return ...  # of an empty store, another for every test

1. The tests say nothing of how a store does it, and a great deal about what others see of it: order, conflicts, locks
   between processes, rollback, a cancellation at every await, migrations by many at once.
2. Other processes are real ones: this file is also the program that they run.

pytest collects the subclass; this module does not need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.store import (
    ConstraintViolated,
    Migration,
    Schema,
    SchemaTooNew,
    Store,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    ValueRefused,
    open_store,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator

__all__ = ["SCHEMA", "StoreContract", "cancelled_at"]

SCHEMA: Final = Schema(
    "contract",
    (
        "CREATE TABLE contract_counts (name TEXT PRIMARY KEY, n BIGINT NOT NULL)",
        Migration(
            sqlite="CREATE TABLE contract_log (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)",
            postgresql="CREATE TABLE contract_log ("
            "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text TEXT NOT NULL)",
        ),
        "CREATE TABLE contract_values (id BIGINT PRIMARY KEY, i BIGINT, t TEXT, b BYTEA, f DOUBLE PRECISION)",
    ),
)
NEWER: Final = Schema("contract", (*SCHEMA.migrations, "CREATE TABLE contract_later (id BIGINT PRIMARY KEY)"))
COUNT: Final = "INSERT INTO contract_counts VALUES (?, ?)"
#: Seconds that no test of these should need.
LIMIT_S: Final = 20.0
PROCESSES: Final = 3
ROUNDS: Final = 15


class StoreContract:
    """The tests. `shared`: other processes can open the same store."""

    shared: ClassVar[bool] = True

    def new_url(self) -> str:
        """Give the URL of a new, empty store."""
        raise NotImplementedError

    def test_what_is_written_is_read_and_its_rows_are_counted(self) -> None:
        """Each type of value comes back as it went in."""

        async def body(store: Store) -> None:
            rows = [
                (1, 2**63 - 1, "snow \N{SNOWMAN} and 'quotes' and ?", b"\x00\xff", 0.1),
                (2, -(2**63), "", b"", -1e300),
                (3, None, None, None, None),
            ]
            async with store.transaction() as tx:
                assert await tx.execute("INSERT INTO contract_values VALUES (?, ?, ?, ?, ?)", *rows[0]) == 1
                await tx.execute_many("INSERT INTO contract_values VALUES (?, ?, ?, ?, ?)", rows[1:])
            async with store.transaction() as tx:
                assert await tx.fetch("SELECT id, i, t, b, f FROM contract_values ORDER BY id") == rows
                assert await tx.execute("UPDATE contract_values SET t = '?' WHERE id > ?", 1) == 2
                assert await tx.fetch("SELECT t FROM contract_values WHERE id = ?", 2) == [("?",)]
                assert await tx.execute("DELETE FROM contract_values WHERE id = ?", 9) == 0
                added = "INSERT INTO contract_log (text) VALUES (?) RETURNING text"
                assert await tx.fetch(added, "one") == [("one",)]

        self._run(body)

    def test_transactions_keep_their_order(self) -> None:
        """Each sees those before it, and ids rise in the order of commits."""

        async def body(store: Store) -> None:
            async def one(n: int) -> None:
                async with store.transaction() as tx:
                    await tx.lock("order")
                    (before,) = (await tx.fetch("SELECT count(*) FROM contract_log"))[0]
                    await tx.execute("INSERT INTO contract_log (text) VALUES (?)", f"{before}:{n}")

            await asyncio.gather(*(one(n) for n in range(30)))
            async with store.transaction(read_only=True) as tx:
                found = [text for (text,) in await tx.fetch("SELECT text FROM contract_log ORDER BY id")]
            assert [int(text.split(":")[0]) for text in found] == list(range(30))
            assert sorted(int(text.split(":")[1]) for text in found) == list(range(30))

        self._run(body)

    def test_writes_to_one_row_at_once_all_count(self) -> None:
        """No update is lost, with or without a lock, if the statement itself adds."""

        async def body(store: Store) -> None:
            await _count(store, "row", 0)

            async def one() -> None:
                async with store.transaction() as tx:
                    assert await tx.execute("UPDATE contract_counts SET n = n + 1 WHERE name = ?", "row") == 1

            await asyncio.gather(*(one() for _ in range(40)))
            assert await _counted(store, "row") == 40

        self._run(body)

    def test_a_row_read_for_update_does_not_change_before_the_write(self) -> None:
        """Read, wait, write: `FOR UPDATE` keeps the others out."""

        async def body(store: Store) -> None:
            await _count(store, "row", 0)

            async def one() -> None:
                async with store.transaction() as tx:
                    found = await tx.fetch("SELECT n FROM contract_counts WHERE name = ? FOR UPDATE", "row")
                    await asyncio.sleep(0)
                    await tx.execute("UPDATE contract_counts SET n = ? WHERE name = ?", found[0][0] + 1, "row")

            await asyncio.gather(*(one() for _ in range(20)))
            assert await _counted(store, "row") == 20

        self._run(body)

    def test_a_row_is_taken_from_a_queue_once(self) -> None:
        """`FOR UPDATE SKIP LOCKED`, the usual queue: nobody gets what another has."""

        async def body(store: Store) -> None:
            async with store.transaction() as tx:
                await tx.execute_many("INSERT INTO contract_log (text) VALUES (?)", [(f"job {n}",) for n in range(12)])

            taken: list[str] = []

            async def worker() -> None:
                while True:
                    async with store.transaction() as tx:
                        sql = "SELECT id, text FROM contract_log ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
                        found = await tx.fetch(sql)
                        if not found:
                            return
                        await tx.execute("DELETE FROM contract_log WHERE id = ?", found[0][0])
                        taken.append(found[0][1])

            await asyncio.gather(*(worker() for _ in range(4)))
            assert sorted(taken) == sorted(f"job {n}" for n in range(12))

        self._run(body)

    def test_an_exception_rolls_back(self) -> None:
        """Nothing of the block is kept, and the next one works."""

        async def body(store: Store) -> None:
            with _raises(ZeroDivisionError):
                async with store.transaction() as tx:
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "gone", 1)
                    assert await tx.fetch("SELECT n FROM contract_counts WHERE name = ?", "gone") == [(1,)]
                    await tx.notify("contract", "gone")
                    raise ZeroDivisionError
            assert await _counted(store, "gone") is None
            await _count(store, "kept", 1)
            assert await _counted(store, "kept") == 1

        self._run(body)

    def test_a_broken_constraint_ends_the_transaction(self) -> None:
        """It has its own class, the transaction is of no further use, and passing over it is an error."""

        async def body(store: Store) -> None:
            await _count(store, "one", 1)
            with _raises(ConstraintViolated):
                await _count(store, "one", 2)
            with _raises(StoreError):
                async with store.transaction() as tx:
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "two", 2)
                    with contextlib.suppress(ConstraintViolated):
                        await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "one", 2)
                    with _raises(StoreError):
                        await tx.fetch("SELECT 1")
            assert await _counted(store, "two") is None
            assert await _counted(store, "one") == 1
            with _raises(StoreError):
                async with store.transaction() as tx:
                    await tx.execute("no such statement")
            with _raises(StoreError):
                await tx.fetch("SELECT 1")

        self._run(body)

    def test_a_value_that_no_column_holds_has_its_own_class(self) -> None:
        """And nothing of the transaction is kept."""

        async def body(store: Store) -> None:
            for n, value in enumerate((2**63, -(2**63) - 1, 2**80)):
                with _raises(ValueRefused):
                    async with store.transaction() as tx:
                        await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"before {n}", 1)
                        await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"great {n}", value)
                with _raises(ValueRefused):
                    async with store.transaction() as tx:
                        await tx.execute_many("INSERT INTO contract_counts VALUES (?, ?)", [("a", 1), ("b", value)])
            async with store.transaction() as tx:
                assert await tx.fetch("SELECT * FROM contract_counts") == []

        self._run(body)

    def test_a_write_is_a_transaction_of_its_own(self) -> None:
        """All its statements or none, however many rows; others that come at once lose nothing by one that fails."""

        async def body(store: Store) -> None:
            values = "INSERT INTO contract_values (id, i, t, b, f) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            counts = "INSERT INTO contract_counts VALUES (?, ?)"
            # In statements of one row and of many: 1, 3, 4, 32, ...
            rows = [(n, n - 50, f"text {n} ?", b"\x00%d" % n, n / 7) for n in range(120)]
            for begin, end in ((0, 1), (1, 4), (4, 8), (8, 40), (40, 40), (40, 120)):
                await store.write((values, rows[begin:end]))
            await store.write((values, rows[:50]), (counts, [("first", 1)]))
            async with store.transaction(read_only=True) as tx:
                assert await tx.fetch("SELECT id, i, t, b, f FROM contract_values ORDER BY id") == rows
            with _raises(ConstraintViolated):
                await store.write((counts, [(f"row {n}", n) for n in range(70)]), (counts, [("first", 2)]))
            with _raises(ConstraintViolated):
                await store.write((counts, [*((f"row {n}", n) for n in range(70)), ("row 3", 0)]))
            with _raises(ValueRefused):
                await store.write((counts, [*((f"row {n}", n) for n in range(70)), ("great", 2**70)]))
            async with store.transaction() as tx:
                assert await tx.fetch("SELECT name, n FROM contract_counts") == [("first", 1)]
            # Those that come together each have their own, and one that fails takes nobody's with it.
            rounds = [store.write((counts, [(f"{n} {m}", m) for m in range(9)])) for n in range(20)]
            rounds += [_count(store, f"other {n}", n) for n in range(20)]
            with _raises(ConstraintViolated):
                await asyncio.gather(*rounds[:20], store.write((counts, [("first", 3)])), *rounds[20:])
            async with asyncio.timeout(LIMIT_S):
                while True:
                    async with store.transaction() as tx:
                        if await tx.fetch("SELECT count(*) FROM contract_counts") == [(1 + 20 * 9 + 20,)]:
                            return

        self._run(body)

    def test_a_write_that_is_cancelled_leaves_all_or_nothing(self) -> None:
        """And the store goes on."""

        async def body(store: Store) -> None:
            sql = "INSERT INTO contract_counts VALUES (?, ?)"
            for n in range(12):
                with contextlib.suppress(asyncio.CancelledError):
                    await cancelled_at(store.write((sql, [(f"{n:02} {m}", m) for m in range(40)])), n)
                await _count(store, f"after {n}", n)
            async with store.transaction() as tx:
                found = await tx.fetch(
                    "SELECT count(*) FROM contract_counts WHERE name NOT LIKE 'after%' GROUP BY substr(name, 1, 2)"
                )
            assert {count for (count,) in found} <= {40}

        self._run(body)

    def test_a_reading_transaction_sees_one_state_and_cannot_write(self) -> None:
        """What others commit meanwhile does not show."""

        async def body(store: Store) -> None:
            await _count(store, "one", 1)
            async with store.transaction(read_only=True) as tx:
                assert await tx.fetch("SELECT n FROM contract_counts") == [(1,)]
                other = asyncio.create_task(_count(store, "two", 2))
                if self.shared:
                    await other
                assert await tx.fetch("SELECT n FROM contract_counts") == [(1,)]
                assert await tx.fetch("WITH all_of AS (SELECT n FROM contract_counts) SELECT * FROM all_of") == [(1,)]
            await other
            with _raises(StoreError):
                async with store.transaction(read_only=True) as tx:
                    await tx.execute("DELETE FROM contract_counts")
            async with store.transaction(read_only=True) as tx:
                assert await tx.fetch("SELECT count(*) FROM contract_counts") == [(2,)]

        self._run(body)

    def test_a_lock_is_one_holder_at_a_time_and_stops_nobody_else(self) -> None:
        """Its holder may wait for the world; those who want something else go on."""

        async def body(store: Store) -> None:
            held = asyncio.Event()
            leave = asyncio.Event()

            async def holder() -> None:
                async with store.transaction() as tx:
                    await tx.lock("name")
                    await tx.lock("name")
                    assert await tx.fetch("SELECT n FROM contract_counts WHERE name = 'a'") == []
                    held.set()
                    await leave.wait()
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "a", 1)

            holding = asyncio.create_task(holder())
            await held.wait()
            await _count(store, "b", 2)
            async with store.transaction() as tx:
                await tx.lock("another name")
            with _raises(StoreConflict):
                async with store.transaction() as tx:
                    await tx.lock("name", wait=0.05)

            async def next_one() -> Any:
                async with store.transaction() as tx:
                    await tx.lock("name")
                    return await tx.fetch("SELECT n FROM contract_counts WHERE name = 'a'")

            waiting = asyncio.create_task(next_one())
            cancelled = asyncio.create_task(next_one())
            await asyncio.sleep(0.02)
            cancelled.cancel()
            leave.set()
            await holding
            assert await waiting == [(1,)]
            with _raises(asyncio.CancelledError):
                await cancelled

        self._run(body)

    def test_many_that_wait_for_locks_do_not_stop_the_others(self) -> None:
        """However many there are: each waits for its own, and who needs none goes on."""

        async def body(store: Store) -> None:
            leave = asyncio.Event()
            holding: list[int] = []

            async def holder(n: int) -> None:
                async with store.transaction() as tx:
                    await tx.lock(f"name {n % 12}", wait=LIMIT_S)
                    holding.append(n)
                    await leave.wait()
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"held {n}", n)

            tasks = [asyncio.create_task(holder(n)) for n in range(36)]
            while len(holding) < 4:  # noqa: ASYNC110 - how many there may be is the store's to know
                await asyncio.sleep(0.01)
            async with asyncio.timeout(3):
                for n in range(5):
                    await _count(store, f"free {n}", n)
                    assert await _counted(store, f"free {n}") == n
            leave.set()
            await asyncio.gather(*tasks)
            assert sorted(holding) == list(range(36))

        self._run(body)

    def test_a_lock_comes_before_the_first_write(self) -> None:
        """The other way round two could wait for each other."""

        async def body(store: Store) -> None:
            with _raises(ValueError):
                async with store.transaction() as tx:
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "a", 1)
                    await tx.lock("late")
            assert await _counted(store, "a") is None

        self._run(body)

    def test_a_cancellation_at_every_await_leaves_all_or_nothing(self) -> None:
        """Both rows or none, no lock that stays, no connection that is lost."""

        async def body(store: Store) -> None:
            async def both(mark: str) -> None:
                async with store.transaction() as tx:
                    await tx.lock("both")
                    await tx.fetch("SELECT count(*) FROM contract_counts")
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"{mark} first", 1)
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"{mark} second", 2)
                    await tx.notify("contract", mark)

            at = 0
            went_through = False
            while not went_through:
                at += 1
                try:
                    await cancelled_at(both(f"at {at}"), at)
                    went_through = True
                except asyncio.CancelledError:
                    went_through = False
                async with store.transaction() as tx:
                    await tx.lock("both", wait=LIMIT_S)
                    found = await tx.fetch("SELECT n FROM contract_counts WHERE name LIKE ?", f"at {at} %")
                    assert len(found) in {0, 2}, f"cancelled at await {at}: {found}"
                    if went_through:
                        assert len(found) == 2
                assert at < 100
            assert at > 3

        self._run(body)

    def test_many_at_once_and_cancelled_at_random_are_each_all_or_nothing(self) -> None:
        """Who was told that it is committed is there, who failed is not, and nobody waits for ever."""

        async def body(store: Store) -> None:
            random = Random(7)  # noqa: S311 - the same each time
            committed: set[str] = set()
            failed: set[str] = set()

            async def whole(name: str, *, fails: bool) -> None:
                first, second = (
                    (f"{name} {which}", n) for n, which in enumerate(("first", "first" if fails else "second"))
                )
                with contextlib.suppress(ConstraintViolated):
                    await store.at_once((COUNT, first), (COUNT, [second]))
                    committed.add(name)
                failed.update([name] if fails else [])

            async def one(name: str, *, fails: bool, locks: bool) -> None:
                async with store.transaction() as tx:
                    if locks:
                        await tx.lock(f"lock {len(name) % 3}", wait=LIMIT_S)
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"{name} first", 1)
                    await asyncio.sleep(0)
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", f"{name} second", 2)
                    if fails:
                        failed.add(name)
                        raise ZeroDivisionError
                committed.add(name)

            async def tried(n: int) -> None:
                fails = random.random() < 0.2
                doing = (
                    whole(f"{n}", fails=fails) if n % 3 == 0 else one(f"{n}", fails=fails, locks=random.random() < 0.3)
                )
                at = random.randrange(1, 12) if random.random() < 0.5 else 1000
                with contextlib.suppress(asyncio.CancelledError, ZeroDivisionError):
                    await cancelled_at(doing, at)

            for turn in range(6):
                await asyncio.gather(*(tried(turn * 40 + n) for n in range(40)))
            # A commit that was cancelled may end after the one who waited for it has left.
            async with store.transaction() as tx:
                await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "last", 1)
            async with store.transaction(read_only=True) as tx:
                found = await tx.fetch("SELECT name FROM contract_counts WHERE name <> 'last' ORDER BY name")
            firsts = {name.split()[0] for (name,) in found if name.endswith("first")}
            seconds = {name.split()[0] for (name,) in found if name.endswith("second")}
            assert firsts == seconds
            assert committed <= firsts
            assert not failed & firsts
            assert 20 < len(committed) < 230

        self._run(body)

    def test_a_whole_transaction_is_its_guards_and_all_or_nothing(self) -> None:
        """Nothing without the guard's row, nothing after an error, and what was told is committed."""

        async def body(store: Store) -> None:
            await _count(store, "row", 0)
            move = "UPDATE contract_counts SET n = ? WHERE name = 'row' AND n = ?"
            assert await store.at_once((move, (1, 0)), (COUNT, [("a", 1), ("b", 2)]), (COUNT, [("c", 3)]))
            assert not await store.at_once((move, (7, 0)), (COUNT, [("d", 4)]))
            assert await store.at_once((move, (2, 1)))
            assert not await store.at_once((move, (3, 1)))
            with _raises(ConstraintViolated):
                await store.at_once((move, (3, 2)), (COUNT, [("e", 5), ("a", 6)]))
            with _raises(ConstraintViolated):
                await store.at_once((COUNT, ("a", 9)))
            with _raises(ValueRefused):
                await store.at_once((move, (3, 2)), (COUNT, [("great", 2**63)]))
            with _raises(StoreError):
                await store.at_once(("no such statement", ()))
            async with store.transaction(read_only=True) as tx:
                found = await tx.fetch("SELECT name, n FROM contract_counts ORDER BY name")
            assert found == [("a", 1), ("b", 2), ("c", 3), ("row", 2)]

        self._run(body)

    def test_whole_transactions_at_once_all_count_beside_others(self) -> None:
        """Of those that want the same step one gets it; those that share a commit with an error are not lost."""

        async def body(store: Store) -> None:
            await _count(store, "row", 0)
            move = "UPDATE contract_counts SET n = n + 1 WHERE name = 'row' AND n = ?"
            got: list[int] = []

            async def step(n: int) -> None:
                if await store.at_once((move, (n // 4,)), (COUNT, [(f"step {n // 4}", n)])):
                    got.append(n // 4)

            async def other(n: int) -> None:
                await _count(store, f"other {n}", n)

            async def wrong() -> None:
                with _raises(ConstraintViolated):
                    await store.at_once((COUNT, ("new", 1)), (COUNT, [("row", 1)]))

            for start in range(0, 24, 4):
                steps = [step(start + n) for n in range(4)]
                await asyncio.gather(other(start), steps[0], wrong(), *steps[1:], wrong(), other(start + 1))
            assert got == list(range(6))
            assert await _counted(store, "row") == 6
            assert [await _counted(store, f"other {n}") for n in (0, 1, 20, 21)] == [0, 1, 20, 21]
            assert await _counted(store, "new") is None

        self._run(body)

    def test_a_notice_is_heard_after_its_commit_and_in_order(self) -> None:
        """By whoever listened then; not that of a transaction that was rolled back, nor another channel's."""

        async def body(store: Store) -> None:
            async with store.transaction() as tx:
                await tx.notify("contract", "before anybody listened")
            async with store.listen("contract") as first, store.listen("contract") as second:
                for text in ("one", "two"):
                    async with store.transaction() as tx:
                        await tx.execute("INSERT INTO contract_log (text) VALUES (?)", text)
                        await tx.notify("contract", text)
                        await tx.notify("another", text)
                    with _raises(ZeroDivisionError):
                        async with store.transaction() as tx:
                            await tx.notify("contract", "never")
                            raise ZeroDivisionError
                assert await _hear(first, 2) == ["one", "two"]
                assert await _hear(second, 2) == ["one", "two"]
            with _raises(ValueError):
                async with store.transaction() as tx:
                    await tx.notify("contract", "x" * 4001)

        self._run(body)

    def test_a_newer_schema_is_refused_and_left_alone(self) -> None:
        """It says which versions, and nothing is changed."""

        async def body(store: Store) -> None:
            await store.migrate(NEWER, Schema("other", ("CREATE TABLE other_one (id BIGINT PRIMARY KEY)",)))
            assert await store.versions() == {"contract": 4, "other": 1}
            more = Schema(
                "other", ("CREATE TABLE other_one (id BIGINT PRIMARY KEY)", "CREATE TABLE other_two (id BIGINT)")
            )
            with _raises(SchemaTooNew) as caught:
                await store.migrate(more, SCHEMA)
            assert (caught[0].component, caught[0].found, caught[0].known) == ("contract", 4, 3)
            assert await store.versions() == {"contract": 4, "other": 1}

        self._run(body)

    def test_a_migration_that_fails_leaves_the_version_before_it(self) -> None:
        """All of its steps, or none."""

        async def body(store: Store) -> None:
            broken = Schema("contract", (*SCHEMA.migrations, "CREATE TABLE contract_later (id BIGINT)", "no statement"))
            with _raises(StoreError):
                await store.migrate(broken)
            assert await store.versions() == {"contract": 3}
            await store.migrate(NEWER)
            assert await store.versions() == {"contract": 4}

        self._run(body)

    def test_a_closed_store_says_so(self) -> None:
        """Closing twice is fine, using it is not."""

        async def body(store: Store) -> None:
            await store.close()
            await store.close()
            with _raises(StoreUnavailable):
                await _count(store, "late", 1)

        self._run(body)

    def test_processes_migrate_at_once(self) -> None:
        """However many start together, the tables are made once."""
        if not self.shared:
            return
        url = self.new_url()
        started = [_process(url, "migrate") for _ in range(PROCESSES)]
        assert [_ended(process) for process in started] == ["3"] * PROCESSES

    def test_processes_exclude_each_other_by_a_lock(self) -> None:
        """Read, add one, write, by several at once: none is lost. And one that is killed lets go."""
        if not self.shared:
            return

        async def body(store: Store) -> None:
            await _count(store, "row", 0)
            adding = [_process(self._url, "add") for _ in range(PROCESSES)]
            for process in adding:
                assert await asyncio.to_thread(_ended, process) == str(ROUNDS)
            assert await _counted(store, "row") == PROCESSES * ROUNDS
            holder = _process(self._url, "hold")
            try:
                assert holder.stdout is not None
                assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
                with _raises(StoreConflict):
                    async with store.transaction() as tx:
                        await tx.lock("held", wait=0.1)
                holder.kill()
                async with store.transaction() as tx:
                    await tx.lock("held", wait=LIMIT_S)
                    # What the killed one had written is gone.
                    await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "held", 2)
            finally:
                holder.kill()
                holder.communicate()

        self._run(body)

    def test_a_notice_goes_between_processes_within_a_second(self) -> None:
        """As fast as nodes have to agree."""
        if not self.shared:
            return

        async def body(store: Store) -> None:
            async with store.listen("contract") as listener:
                teller = _process(self._url, "tell")
                assert await asyncio.to_thread(_ended, teller) == "told"
                async with asyncio.timeout(1.0):
                    assert await _hear(listener, 2) == ["first", "second"]

        self._run(body)

    def _run(self, body: Callable[[Store], Awaitable[None]]) -> None:
        self._url = self.new_url()

        async def whole() -> None:
            async with asyncio.timeout(LIMIT_S), _opened(self._url) as store:
                await body(store)

        asyncio.run(whole())


async def cancelled_at(doing: Coroutine[Any, Any, None], at: int) -> None:
    """Run a coroutine in a task that is cancelled while it waits for the `at`-th time.

    Raises `asyncio.CancelledError` if it came to that, unless the coroutine was done all the same.
    """
    task: asyncio.Task[None] | None = None

    class Counted:
        def __await__(self) -> Generator[Any, Any, None]:
            inner = doing.__await__()
            waits = 0
            error: BaseException | None = None
            while True:
                try:
                    waited = inner.throw(error) if error is not None else next(inner)
                except StopIteration:
                    return
                waits += 1
                if waits == at and task is not None:
                    asyncio.get_running_loop().call_soon(task.cancel)
                error = None
                try:
                    yield waited
                except BaseException as thrown:  # noqa: BLE001 - handed on, whatever it is
                    error = thrown

    async def counted() -> None:
        await Counted()

    task = asyncio.create_task(counted())
    await task


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url)
    try:
        await store.migrate(SCHEMA)
        yield store
    finally:
        await store.close()


async def _count(store: Store, name: str, n: int) -> None:
    async with store.transaction() as tx:
        await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", name, n)


async def _counted(store: Store, name: str) -> int | None:
    async with store.transaction() as tx:
        found = await tx.fetch("SELECT n FROM contract_counts WHERE name = ?", name)
    return found[0][0] if found else None


async def _hear(listener: Any, count: int) -> list[str]:
    heard: list[str] = []
    async for text in listener:
        heard.append(text)
        if len(heard) == count:
            break
    return heard


class _raises:  # noqa: N801 - reads as pytest's does
    """Expect an exception; the block's value is a list that will hold it."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind
        self._caught: list[Any] = []

    def __enter__(self) -> list[Any]:
        return self._caught

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if kind is None:
            raise AssertionError(f"no {self._kind.__name__} was raised")
        self._caught.append(error)
        return issubclass(kind, self._kind)


def _process(url: str, act: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace.testing.store", url, act]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very file


def _ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=LIMIT_S)
    if process.returncode != 0:
        raise AssertionError(f"the other process ended with {process.returncode}: {out}")
    return out.strip()


async def _act(url: str, act: str) -> None:
    """What another process does."""
    async with _opened(url) as store:
        if act == "migrate":
            _say((await store.versions())["contract"])
        elif act == "add":
            for _ in range(ROUNDS):
                async with store.transaction() as tx:
                    await tx.lock("row")
                    found = await tx.fetch("SELECT n FROM contract_counts WHERE name = ?", "row")
                    await tx.execute("UPDATE contract_counts SET n = ? WHERE name = ?", found[0][0] + 1, "row")
            _say(ROUNDS)
        elif act == "hold":
            async with store.transaction() as tx:
                await tx.lock("held")
                await tx.execute("INSERT INTO contract_counts VALUES (?, ?)", "held", 1)
                _say("held")
                await asyncio.to_thread(sys.stdin.read)
        elif act == "tell":
            for text in ("first", "second"):
                async with store.transaction() as tx:
                    await tx.notify("contract", text)
            _say("told")


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_act(*sys.argv[1:]))
