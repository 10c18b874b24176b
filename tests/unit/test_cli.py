"""The command line: quick to answer, one line for a mistake, JSON lines out."""

import json
import subprocess
import sys
from dataclasses import fields
from typing import get_args

import click
import pytest
from click.testing import CliRunner

from headrace import Decoder
from headrace.cli import main
from headrace.cli_bodies import READ
from headrace.codes import Protocol
from headrace.config import Config

CHAT = (
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"h\xc3\xa9"}}]}\n\n'
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def headrace(*arguments, stdin=b""):
    command = [sys.executable, "-I", "-m", "headrace.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def lines(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_says_its_version(root):
    version = (root / "Cargo.toml").read_text(encoding="utf-8").split('version = "')[1].split('"')[0]
    assert headrace("--version").stdout == f"headrace {version}\n".encode()


def test_normalize_offers_the_protocols_that_have_a_decoder():
    def has_one(protocol):
        (end,) = Decoder(protocol).finish("eof")
        return end.kind != "unsupported_feature"

    assert {one for one in get_args(Protocol) if has_one(one)} == set(READ)


def test_help_has_a_whole_line_for_each_command():
    groups = [[], *([name] for name, one in main.commands.items() if isinstance(one, click.Group))]
    assert ["log"] in groups
    for group in groups:
        _, _, told = CliRunner().invoke(main, [*group, "--help"]).stdout.partition("Commands:\n")
        assert told
        assert not [line for line in told.splitlines() if line.endswith("...")]


def test_help_loads_nothing_heavy():
    code = "import sys, headrace.cli; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "click" in loaded
    assert not {"pydantic", "httpx", "asyncio", "anyio", "rich", "apsw"} & set(loaded)


def test_normalize_reads_a_file_or_standard_input(tmp_path):
    file = tmp_path / "answer.sse"
    file.write_bytes(CHAT)
    events = lines(headrace("normalize", "-p", "openai_chat", str(file)))
    assert [event["type"] for event in events] == ["model.started", "model.text_delta", "model.finished"]
    assert events[1]["text"] == "hé"
    assert lines(headrace("normalize", "-p", "openai_chat", "-", stdin=CHAT)) == events


def test_normalize_reads_payloads_without_framing(tmp_path):
    payloads = b"\n".join(line[6:] for line in CHAT.splitlines() if line)
    file = tmp_path / "answer.jsonl"
    file.write_bytes(payloads)
    by_name = lines(headrace("normalize", "-p", "openai_chat", str(file)))
    by_option = lines(headrace("normalize", "-p", "openai_chat", "--framing", "payloads", "-", stdin=payloads))
    assert by_name == by_option
    assert [event["type"] for event in by_name] == ["model.started", "model.text_delta", "model.finished"]


def test_normalize_takes_a_failure_with_its_headers():
    body = b'{"error":{"message":"slow down","type":"rate_limit_error"}}'
    (event,) = lines(
        headrace("normalize", "-p", "openai_chat", "--status", "429", "-H", "Retry-After: 7", "-", stdin=body)
    )
    assert (event["type"], event["kind"], event["status"]) == ("provider.error", "rate_limit", 429)
    assert event["retry_after_s"] == 7


def test_normalize_says_how_a_body_ended():
    events = lines(headrace("normalize", "-p", "openai_chat", "--end", "reset", "-", stdin=CHAT[:90]))
    assert events[-1]["kind"] == "stream_interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        ["normalize", "-p", "acme_chat", "-"],
        ["normalize", "-p", "openai_chat", "-H", "no colon", "-"],
        ["normalize", "-p", "openai_chat", "--status", "42", "-"],
        ["normalize", "-p", "openai_chat", "no such file"],
        ["nothing"],
    ],
)
def test_a_mistake_is_told_without_a_traceback(arguments):
    done = headrace(*arguments)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"Error: " in done.stderr
    assert done.stdout == b""


def test_a_reader_that_leaves_is_no_traceback():
    command = f"{sys.executable} -I -m headrace.cli normalize -p openai_chat - | head -c 1"
    done = subprocess.run(["bash", "-c", command], input=CHAT * 5000, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_check_says_what_is_fine(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[[providers]]\nid = "d"\nkind = "demo"\n')
    done = headrace("check", "--config", str(file))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"{file}: ok; providers: d; keys: none\n"


def test_check_says_each_fault_in_a_line_and_ends_with_1(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[server]\nprot = 1\n[[providers]]\nid = "d"\nkind = 7\n')
    done = headrace("check", "--config", str(file))
    assert done.returncode == 1
    first, second = done.stdout.decode().splitlines()
    assert first.startswith(f"{file}:2:1: server.prot: unknown key, did you mean 'port'?")
    assert second == f"{file}:5:1: providers[0].kind: must be a valid string"


def test_check_prints_the_schema_and_the_kinds():
    schema = json.loads(headrace("check", "--schema").stdout)
    assert {one.name for one in fields(Config)} == set(schema["properties"])
    kinds = dict(line.split("\t", 1) for line in headrace("check", "--kinds").stdout.decode().splitlines())
    assert kinds["anthropic"] == "anthropic_messages\thttps://api.anthropic.com\tANTHROPIC_API_KEY"


def test_serve_refuses_a_bad_configuration_with_2(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("[server]\nport = no\n")
    done = headrace("serve", "--config", str(file))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"{file}:2:")
    assert headrace("serve", "--port", "70000").returncode == 2
