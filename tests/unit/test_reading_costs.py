"""What a body costs: only of a body that is read the same however it is cut."""

import json

import pytest
from click.testing import CliRunner

from headrace import Decoder, reading_costs
from headrace.cli import main
from headrace.reading_costs import cost_of, payloads_of

CHUNK = b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
END = b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
CHAT = b"".join(CHUNK % number for number in range(40)) + END


def test_the_events_are_counted_and_each_figure_is_taken():
    cost = cost_of(CHAT, "openai_chat", seconds=0.02)
    assert (cost.events, cost.bytes) == (42, len(CHAT))
    assert min(cost.event_reads_us, cost.block_reads_us, cost.json_us) > 0


class Fed:
    """A decoder that keeps what it is fed, and loses what comes after `reads` reads."""

    def __init__(self, protocol, pieces, reads=10**9):
        self.inner, self.pieces, self.left = Decoder(protocol), pieces, reads
        pieces.append([])

    def feed(self, piece):
        self.pieces[-1].append(piece)
        self.left -= 1
        return self.inner.feed(piece) if self.left >= 0 else []

    def finish(self, end):
        return self.inner.finish(end)


def test_an_event_a_read_and_blocks_are_what_is_measured(monkeypatch):
    fed = []
    monkeypatch.setattr(reading_costs, "Decoder", lambda protocol: Fed(protocol, fed))
    cost_of(CHAT, "openai_chat", seconds=0.01)
    assert all(b"".join(pieces) == CHAT for pieces in fed)
    # Whole or one block, a read for each of the 41 frames with events, byte by byte.
    assert {len(pieces) for pieces in fed} == {1, 41, len(CHAT)}


def test_a_binary_body_has_no_figure_for_json():
    assert payloads_of(b"\x00\x00\x00\x10\x80abc") is None
    assert payloads_of(b'{"a":1}\n{"b":2}\n') == [b'{"a":1}', b'{"b":2}']
    assert payloads_of(b'{\n "a": 1\n}') == [b'{\n "a": 1\n}']


@pytest.mark.parametrize(("body", "why"), [(b"", "nothing but an error"), (b"data: {]\n\n", "nothing but an error")])
def test_a_body_that_says_nothing_has_no_cost(body, why):
    with pytest.raises(ValueError, match=why):
        cost_of(body, "openai_chat", seconds=0.01)


def test_a_body_that_is_read_differently_in_pieces_has_no_cost(monkeypatch):
    monkeypatch.setattr(reading_costs, "Decoder", lambda protocol: Fed(protocol, [], reads=9))
    with pytest.raises(ValueError, match="in pieces"):
        cost_of(CHAT, "openai_chat", seconds=0.01)


def test_the_command_prints_a_table_or_json(tmp_path):
    file = tmp_path / "answer.sse"
    file.write_bytes(CHAT)
    command = ["bench", "-p", "openai_chat", "--seconds", "0.02", str(file)]
    table = CliRunner().invoke(main, command)
    assert table.exit_code == 0
    heads, row = table.stdout.splitlines()
    assert heads.split()[:2] == ["events", "bytes"]
    assert row.split()[0] == "42"
    assert row.endswith(str(file))
    (said,) = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert (said["file"], said["events"], said["bytes"]) == (str(file), 42, len(CHAT))


def test_the_command_ends_with_an_error_where_there_is_no_cost(tmp_path):
    file = tmp_path / "empty.sse"
    file.write_bytes(b"")
    done = CliRunner().invoke(main, ["bench", "-p", "openai_chat", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"headrace: {file}: it says nothing but an error")
