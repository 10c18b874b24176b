"""A run on a real terminal: the approval card, Ctrl-C once and twice, a conversation."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from headrace.harness import exits
from headrace.harness.view import clean
from headrace.testing import Gate, Reply, Stall
from headrace.tools.sandbox import probe
from tests.support.harness import calls, chunk, says, usage
from tests.support.hosts import KEY, Home

WAIT_S = 20


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, home, *words):
        self.ours, theirs = pty.openpty()
        environment = {
            **home.environ,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TERM": "xterm",
            "COLUMNS": "200",
        }
        self.process = subprocess.Popen(
            home.command(*words), stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def until(self, pattern):
        """Read until this stands there, from where the last one ended."""
        end = time.monotonic() + WAIT_S
        while not (found := re.search(pattern, self.text)):
            ready, _, _ = select.select([self.ours], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.text!r}"
            try:
                more = os.read(self.ours, 4096)
            except OSError:
                more = b""
            assert more, f"it ended, and no {pattern!r} in {self.text!r}"
            self.text += re.sub(r"\x1b\[[0-9;]*m", "", more.decode("utf-8", "replace"))
        self.text = self.text[found.end() :]
        return found

    def type(self, line):
        os.write(self.ours, line.encode() + b"\n")

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)

    def ended(self):
        """Read to the end, and give the exit status."""
        while True:
            try:
                more = os.read(self.ours, 4096)
            except OSError:
                break
            if not more:
                break
            self.text += more.decode("utf-8", "replace")
        return self.process.wait(WAIT_S)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)


@pytest.fixture
def start(tmp_path):
    opened = []

    def act(replies, *words):
        home = Home(tmp_path, *replies)
        terminal = Terminal(home, *words, "--project", str(home.workspace))
        opened.extend((terminal, home.upstream))
        return home, terminal

    yield act
    for one in opened:
        one.close()


def test_what_a_model_streams_shows_no_known_secret_also_where_it_is_cut(start):
    """On the terminal and in JSON lines; what is only like one stands there at once."""
    pieces = ["The key is ", KEY[:7], KEY[7:12], KEY[12:], ", and ", KEY[:9], " is none.", KEY[:5]]
    thought = [chunk({"reasoning_content": piece}) for piece in ("hm ", KEY[:4], KEY[4:], " so")]
    reply = Reply.stream(*thought, *(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), usage())
    home, terminal = start([reply, reply], "run", "say it")
    assert terminal.ended() == exits.DONE
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text)
    assert KEY not in shown
    assert f"The key is [redacted acme/first], and {KEY[:9]} is none.{KEY[:5]}" in shown
    assert "hm [redacted acme/first] so" in shown
    code, lines = home.run()
    assert code == exits.DONE
    said = {"model.text_delta": "", "model.reasoning_delta": ""}
    for line in lines:
        if line["line"] == "delta" and line["event"]["type"] in said:
            said[line["event"]["type"]] += line["event"]["text"]
    assert said["model.reasoning_delta"] == "hm [redacted acme/first] so"
    assert said["model.text_delta"] == f"The key is [redacted acme/first], and {KEY[:9]} is none.{KEY[:5]}"
    assert KEY not in json.dumps(lines)


def test_the_card_shows_what_would_be_done_and_takes_each_answer(start):
    line = "echo $'\\x1b[2J' > made.txt"
    write = calls({"path": "note.txt", "content": "a line\n"}, tool="write_file")
    replies = [calls({"command": line}, tool="bash"), write, write, says("I see.")]
    home, terminal = start(replies, "run", "do it", "--tier", "C")
    terminal.until(r"may it\? bash")
    terminal.until(r"argv\s+/bin/bash --noprofile --norc -c ")
    terminal.until(re.escape(str(home.workspace)))
    terminal.until(r"C: no sandbox, only limits")
    terminal.until(r"effects\s+\w")
    terminal.until(r"\[o\]nce, .*\[d\]eny REASON\? ")
    terminal.type("what")
    terminal.until(r"\[d\]eny REASON\? ")  # an answer that is none is asked for again
    terminal.type("d not today")
    terminal.until(r"denied by person")
    terminal.until(r"may it\? write_file")
    terminal.until(r"\+a line")
    terminal.until(r"\[s\]ession.*\? ")
    terminal.type("s")
    terminal.until(r"✓ ok .* allowed by person")
    # The same once more: it was allowed for the session, and the file that is there was not read.
    terminal.until(r"I see\.")
    assert terminal.ended() == exits.DONE
    assert not (home.workspace / "made.txt").exists()
    assert (home.workspace / "note.txt").read_text() == "a line\n"
    bodies = [str(seen.json()) for seen in home.upstream.facts().requests]
    assert "not today" in bodies[1]


def test_ctrl_c_once_cancels_the_tool_and_twice_pauses_the_run(start):
    sleep = calls({"command": "echo begun; sleep 60"}, tool="bash")
    home, terminal = start([sleep, sleep, says("Enough.")], "run", "wait", "--mode", "danger-bypass")
    run_id = terminal.until(r"run ([0-9a-f-]{36})")[1]
    terminal.until("▸ bash")
    terminal.interrupt()
    terminal.until("called off; Ctrl-C once more pauses the run")
    terminal.until("▸ bash")  # the model was told, and wants it again
    assert "cancelled" in str(home.upstream.facts().requests[1].json())
    terminal.interrupt()
    terminal.until("the run is being paused")
    assert terminal.ended() == exits.INTERRUPTED
    # All of it is recorded, and the run goes on from there.
    done = home("resume", run_id, "--json", "--accept", "workspace_changed")
    assert done.exit_code == exits.DONE, done.stdout
    assert "Enough." in done.stdout


def test_r3_an_execution_whose_process_was_killed_is_asked_about_and_never_run_again_by_itself(start):
    line = "echo begun >> count; sleep 60"
    home, terminal = start(
        [calls({"command": line}, tool="bash"), says("I see.")], "run", "x", "--mode", "danger-bypass"
    )
    run_id = terminal.until(r"run ([0-9a-f-]{36})")[1]
    terminal.until("▸ bash")
    count = home.workspace / "count"
    end = time.monotonic() + WAIT_S
    while not count.exists():
        assert time.monotonic() < end, "the command never began"
    os.kill(terminal.process.pid, signal.SIGKILL)
    terminal.process.wait()
    words = ("--accept", "workspace_changed")
    code, lines = home.json("resume", run_id, *words)
    assert (code, lines[-1]["reason"]) == (exits.ASKED, "in_doubt")
    assert count.read_text() == "begun\n"
    code, lines = home.json("approve", run_id, "--deny", "leave it")
    assert (code, lines[-1]["text"]) == (exits.DONE, "I see.")
    assert count.read_text() == "begun\n"
    assert "leave it" in str(home.upstream.facts().requests[-1].json())


def test_a_conversation_goes_on_until_the_input_ends(tmp_path):
    with Home(tmp_path, says("Hello."), says("Good bye.")) as home:
        done = subprocess.run(
            home.command("chat", "--project", str(home.workspace)),
            input="hi\n\nbye\n",
            env={**home.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (exits.ASKED, "Hello.\nGood bye.\n"), done.stderr
        asked = [seen.json()["messages"][-1]["content"] for seen in home.upstream.facts().requests]
        assert ["hi" in str(asked[0]), "bye" in str(asked[1])] == [True, True]
        # It is the user's turn: resumed as a conversation, it waits for words; without them it stands still as before.
        run_id = re.search(r"run ([0-9a-f-]{36})", done.stderr)[1]
        for words, wanted in (("", exits.INTERRUPTED), ("once more\n", exits.ASKED)):
            done = subprocess.run(
                home.command("resume", run_id, "--chat"),
                input=words,
                env={**home.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == wanted, done.stderr
        assert home.upstream.facts().request_count == 3
        assert "once more" in str(home.upstream.facts().requests[-1].json())


def test_ctrl_c_during_an_answer_pauses_the_run(start):
    home, terminal = start([Reply.stream(chunk({"content": "Well, "}), Stall()), says("Yes.")], "run", "is it?")
    run_id = terminal.until(r"run ([0-9a-f-]{36})")[1]
    terminal.until("Well, ")
    terminal.interrupt()
    assert terminal.ended() == exits.INTERRUPTED
    done = home("resume", run_id, "--json")
    assert done.exit_code == exits.DONE
    assert "Yes." in done.stdout


def test_approve_on_a_terminal_shows_the_card_and_leads_the_run_on(tmp_path):
    write = calls({"path": "note.txt", "content": "a line\n"}, tool="write_file")
    with Home(tmp_path, write, says("Done.")) as home:
        code, lines = home.run()
        assert code == exits.ASKED
        terminal = Terminal(home, "approve", lines[-1]["run_id"])
        try:
            terminal.until(r"may it\? write_file")
            terminal.until(r"\+a line")
            terminal.until(r"\? ")
            terminal.type("o")
            terminal.until(r"✓ ok .* allowed by person")
            assert terminal.ended() == exits.DONE
            assert (home.workspace / "note.txt").read_text() == "a line\n"
        finally:
            terminal.close()


def test_what_is_typed_while_a_run_is_under_way_steers_it(start):
    first = Reply.stream(
        chunk({"content": "Well, "}), Gate("go"), chunk({"content": "red."}), chunk({}, "stop"), usage()
    )
    home, terminal = start([first, says("Blue, then.")], "run", "which colour?")
    terminal.until("Well, ")
    terminal.type("rather blue")
    terminal.until("the model is told at its next turn")
    home.upstream.open("go")
    terminal.until(r"Blue, then\.")
    assert terminal.ended() == exits.DONE
    asked = home.upstream.facts().requests
    assert "rather blue" in str(asked[1].json()["messages"][-1])
    assert len(asked) == 2


@pytest.mark.skipif(probe().best == "C", reason="NO SANDBOX HERE: without one every command is asked about")
def test_an_answer_by_rule_holds_for_the_same_words(start):
    replies = [
        calls({"command": "touch made"}, tool="bash"),
        calls({"command": "touch made"}, tool="bash"),
        says("Good."),
    ]
    _, terminal = start(replies, "run", "do it", "--mode", "default")
    terminal.until(r"\[r\]ule.*\? ")
    terminal.type("r")
    terminal.until(r"allowed by person")
    terminal.until(r"allowed by grant")
    assert terminal.ended() == exits.DONE


def test_whatever_moves_a_cursor_or_turns_a_line_is_made_visible():
    assert clean("a\tb\r\nc\x1b[2J\x07\x9b\u202e") == "a\tb\nc\u241b[2J\u2407\ufffd\ufffd"
