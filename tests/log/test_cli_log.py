"""`headrace log`: show, verify, export, import, erase, each with its exit status."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.log.eventlog import EventLog
from headrace.log.seals import SealKey
from headrace.store import open_store
from tests.support import runs

KEY = SealKey(bytes(32))


@pytest.fixture
def store(tmp_path):
    """The URL of a store with one sealed run."""
    url = f"sqlite:{tmp_path}/log.db"

    async def fill():
        opened = await open_store(url)
        log = await EventLog.over(opened, clock=lambda: 1_700_000_000.0)
        writer = await log.create("r1")
        for payload in runs.whole():
            await writer.append(payload)
        await writer.append(KEY.seal("r1", writer.head, writer.chain))
        await log.artifacts.put("r1", b"large " * 99)
        await opened.close()

    asyncio.run(fill())
    return url


def log(*words, stdin=None):
    return CliRunner().invoke(main, ["log", *words], input=stdin)


def spoil(url):
    async def act():
        opened = await open_store(url)
        async with opened.transaction() as tx:
            await tx.execute("UPDATE log_events SET at_ms = at_ms + 1 WHERE seq = 5")
        await opened.close()

    asyncio.run(act())


def test_show_lists_runs_and_tells_their_events(store):
    [run] = log("show", "--store", store).stdout.splitlines()
    assert run.split("\t") == ["r1", "2023-11-14 22:13:20", f"{len(runs.whole()) + 1} events"]
    assert json.loads(log("show", "--json", "--store", store).stdout)["run_id"] == "r1"
    told = log("show", "r1", "--store", store).stdout.splitlines()
    assert len(told) == len(runs.whole()) + 1
    assert told[1].split("\t")[2:] == ["user.message", '{"kind":"task","text":"mend the test"}']
    only = log("show", "r1", "--type", "tool.observed", "--json", "--store", store).stdout.splitlines()
    assert [json.loads(line)["payload"]["code"] for line in only] == ["ok"]
    unknown = log("show", "r1", "--type", "tool.observd", "--store", store)
    assert unknown.exit_code == 2
    assert "no event type 'tool.observd'" in unknown.stderr


def test_verify_says_ok_or_names_the_first_bad_event(store):
    done = log("verify", "r1", "--key", KEY.public, "--store", store)
    assert done.exit_code == 0
    assert done.stdout == f"r1: ok, {len(runs.whole()) + 1} events, sealed up to event {len(runs.whole())}\n"
    done = log("verify", "r1", "--key", "another", "--store", store)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not trusted" in done.stderr
    spoil(store)
    done = log("verify", "r1", "--store", store)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("headrace: run r1: event 5: ")
    assert log("show", "r1", "--store", store).exit_code == 1


def test_a_run_goes_out_and_comes_in_as_the_same_bytes(store, tmp_path):
    file, other = tmp_path / "run.jsonl", f"sqlite:{tmp_path}/other.db"
    assert log("export", "r1", "-o", str(file), "--store", store).exit_code == 0
    assert log("verify", "--file", str(file)).stdout.startswith("r1: ok, ")
    done = log("import", str(file), "--store", other)
    assert (done.exit_code, done.stdout) == (0, "r1\n")
    assert log("export", "r1", "--store", other).stdout_bytes == file.read_bytes()
    done = log("import", str(file), "--store", other)
    assert done.exit_code == 2
    assert "there is a run r1 already" in done.stderr
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:4], *lines[5:]]))
    done = log("verify", "--file", str(file))
    assert done.exit_code == 1
    assert "event 4: is missing" in done.stderr
    assert log("import", str(file), "--store", f"sqlite:{tmp_path}/third.db").exit_code == 1


def test_erase_asks_first_and_the_rest_still_verifies(store):
    assert log("erase", "r1", "--store", store, stdin="n\n").exit_code == 1
    assert log("erase", "r1", "--seq", "2", "--yes", "--store", store).stdout == "1 erased\n"
    assert log("show", "r1", "--store", store).stdout.splitlines()[1].endswith("(erased)")
    assert "1 erased" in log("verify", "r1", "--store", store).stdout
    assert log("erase", "r1", "--store", store, stdin="y\n").exit_code == 0
    assert "sealed" not in log("show", "r1", "--store", store).stdout.replace("log.sealed", "")


@pytest.mark.parametrize("words", [["show", "none"], ["verify", "none"], ["export", "none"], ["erase", "none"]])
def test_a_run_that_is_not_there_is_one_line_and_2(store, words):
    done = log(*words, "--store", store)
    assert (done.exit_code, done.stderr) == (2, "headrace: there is no run none\n")


def test_a_store_that_is_none_is_one_line_and_2():
    done = log("show", "--store", "floppy:A")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
