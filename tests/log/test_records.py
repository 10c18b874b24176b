"""The chain: what was changed, left out, swapped, cut off or added is found at the first event that is wrong."""

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace._bridge import chain_held
from headrace.log import payloads as p
from headrace.log.records import LogError, Record, TamperedError, checked, genesis, link, make, uuid7
from headrace.log.upcast import present
from tests.support import runs

RECORDS = runs.records(runs.whole())
HEAD = (RECORDS[-1].seq, RECORDS[-1].chain)
ALL = range(len(RECORDS))


def bad(records: list[Record]) -> int:
    """The first bad seq; 0 if there is none. The core holds as many rows as the check in Python gives."""
    slow: list[Record] = []
    with contextlib.suppress(TamperedError):
        for record in checked(iter(records), runs.RUN):
            slow.append(record)  # noqa: PERF402 - what came before the error
    assert chain_held(runs.RUN, genesis(runs.RUN), records) == len(slow)
    try:
        list(checked(records, runs.RUN, head=HEAD))
    except TamperedError as error:
        return error.seq
    return 0


def test_what_was_written_verifies() -> None:
    assert bad(RECORDS) == 0
    assert list(checked(RECORDS, runs.RUN)) == RECORDS


@pytest.mark.parametrize("at", ALL)
def test_a_flipped_bit_is_found(at: int) -> None:
    row = RECORDS[at]
    payload, digest = bytearray(row.payload or b""), bytearray(row.digest)
    payload[len(payload) // 2] ^= 1
    digest[3] ^= 1
    changes = [
        {"payload": bytes(payload)},
        {"digest": bytes(digest)},
        {"chain": bytes(digest)},
        {"salt": b"\0" * 16},
        {"at_ms": row.at_ms + 1},
        {"key": row.key + "x"},
        {"type": "user.message" if row.type != "user.message" else "run.paused"},
        {"version": 2},
        {"epoch": 2},
        {"id": uuid7(1, bytes(10))},
        {"run_id": "r2"},
    ]
    for change in changes:
        assert bad([*RECORDS[:at], row._replace(**change), *RECORDS[at + 1 :]]) == row.seq, change  # type: ignore[arg-type]


@pytest.mark.parametrize("at", ALL)
def test_a_row_that_is_left_out_is_found(at: int) -> None:
    assert bad([*RECORDS[:at], *RECORDS[at + 1 :]]) == RECORDS[at].seq


@pytest.mark.parametrize("at", ALL)
def test_rows_that_are_cut_off_are_found(at: int) -> None:
    assert bad(RECORDS[:at]) == at + 1


@pytest.mark.parametrize("at", ALL[:-1])
def test_rows_that_are_swapped_are_found(at: int) -> None:
    swapped = [*RECORDS]
    swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    assert bad(swapped) == at + 1
    renumbered = [row._replace(seq=number) for number, row in enumerate(swapped, 1)]
    assert bad(renumbered) == at + 1


@pytest.mark.parametrize("at", ALL)
def test_a_row_that_is_added_is_found(at: int) -> None:
    row = RECORDS[at]
    assert bad([*RECORDS[: at + 1], row, *RECORDS[at + 1 :]]) == row.seq + 1
    shifted = [one._replace(seq=one.seq + 1) for one in RECORDS[at:]]
    assert bad([*RECORDS[: at + 1], *shifted]) == row.seq + 1


def test_a_whole_chain_that_was_made_anew_ends_at_another_head() -> None:
    other = runs.records([*runs.begin(goal="something else"), *runs.whole()[2:]])
    assert bad(other) == len(other)


def test_an_erased_payload_still_verifies_and_says_so() -> None:
    erased = [row._replace(payload=None, salt=None) for row in RECORDS]
    assert bad(erased) == 0
    assert all(row.is_erased and row.value() is None for row in erased)


def test_a_digest_does_not_betray_a_short_payload() -> None:
    payload = p.UserMessage(text="yes")
    first, second = (
        make(payload, run_id="r", seq=1, before=genesis("r"), at_ms=1, epoch=1, randomness=some * 26)
        for some in (b"0", b"1")
    )
    assert first.payload == second.payload
    assert first.digest != second.digest


def test_a_row_of_another_shape_does_not_hold() -> None:
    first = RECORDS[0]
    shapes: list[object] = [
        None,
        first[:11],
        list(first),
        first._replace(seq=True),
        first._replace(at_ms=str(first.at_ms)),  # type: ignore[arg-type]
        first._replace(version=2**70),
        first._replace(payload=bytearray(first.payload or b"")),  # type: ignore[arg-type]
        first._replace(key="\ud800"),
    ]
    for shape in shapes:
        assert chain_held(runs.RUN, genesis(runs.RUN), [shape, *RECORDS[1:]]) == 0
    assert chain_held(runs.RUN, genesis(runs.RUN), [tuple(first), *RECORDS[1:]]) == len(RECORDS)
    assert chain_held("r2", genesis(runs.RUN), RECORDS) == 0


def test_a_fenced_writers_row_is_found() -> None:
    stale = RECORDS[1]._replace(epoch=0)
    rows = [RECORDS[0], stale._replace(chain=link(RECORDS[0].chain, stale))]
    with pytest.raises(TamperedError, match="fenced"):
        list(checked(rows, runs.RUN))
    assert chain_held(runs.RUN, genesis(runs.RUN), rows) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "a\nb", "ä"])
def test_a_key_is_short_printable_and_has_no_space(key: str) -> None:
    payload, before = p.UserMessage(text=""), genesis("r")
    with pytest.raises(ValueError, match="idempotency key"):
        make(payload, run_id="r", seq=1, before=before, at_ms=1, epoch=1, randomness=bytes(26), key=key)


@pytest.mark.parametrize("run_id", ["", "a b", "../x", "x" * 101, "a\n"])
def test_a_runs_id_is_a_plain_name(run_id: str) -> None:
    with pytest.raises(ValueError, match="run's id"):
        genesis(run_id)


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_ids_are_uuids_of_version_7_and_tell_their_time(at_ms: int, randomness: bytes) -> None:
    value = uuid.UUID(uuid7(at_ms, randomness))
    assert (value.version, value.variant) == (7, uuid.RFC_4122)
    assert value.int >> 80 == at_ms


def test_an_older_version_is_read_through_every_step() -> None:
    steps = {
        ("user.message", -1): lambda data: {"words": data["w"]},
        ("user.message", 0): lambda data: {"text": data["words"]},
    }
    assert present("user.message", -1, b'{"w":"hi"}', steps) == p.UserMessage(text="hi")
    assert present("user.message", 0, b'{"words":"hi"}', steps) == p.UserMessage(text="hi")


@pytest.mark.parametrize(
    ("type_", "version", "words"),
    [("user.message", 2, "newer than this release"), ("user.message", 0, "no step leads"), ("x.y", 1, "newer release")],
)
def test_what_cannot_be_read_is_refused_by_name(type_: str, version: int, words: str) -> None:
    with pytest.raises(p.PayloadError, match=words):
        present(type_, version, b"{}")


def test_what_the_log_raises_is_one_family() -> None:
    assert issubclass(TamperedError, LogError)
