"""Every example in the documents runs, and prints what the document says.

- A `python` block runs as a program of its own. A `text` block right after it is its output.
- A `console` block is commands after `$ `, run in bash one after the other; the lines after a command are its output.
- `...` in an output stands for anything. `sh` and `toml` blocks are not run.

The blocks share a folder. `.venv/bin/` stands for where our command is.
"""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BIN = pathlib.Path(sys.executable).parent


def examples():
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block[1] in ("python", "console"):
                line = text.count("\n", 0, block.start()) + 1
                yield pytest.param(*block.groups(), id=f"{file.relative_to(ROOT)}:{line}")


def assert_output(got, said):
    pattern = ".*".join(re.escape(part) for part in said.rstrip("\n").split("..."))
    assert re.fullmatch(pattern, got.rstrip("\n"), re.DOTALL), f"the document says\n{said}\nand it prints\n{got}"


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=25)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("docs")


@pytest.mark.parametrize(("language", "code", "output"), list(examples()))
def test_an_example_does_what_the_document_says(language, code, output, folder):
    code = code.replace(".venv/bin/", f"{BIN}/")
    if language == "python":
        printed = run([sys.executable, "-W", "error", "-c", code], folder)
        if output is not None:
            assert_output(printed, output)
        return
    commands = re.split(r"^\$ ", code, flags=re.MULTILINE)
    assert commands[0] == "", "a console block starts with a command"
    for command in commands[1:]:
        line, _, said = command.partition("\n")
        while line.endswith("\\"):
            more, _, said = said.partition("\n")
            line = f"{line}\n{more}"
        assert_output(run(["bash", "-c", f"set -eo pipefail\n{line}"], folder), said)


def test_links_between_the_documents_lead_somewhere():
    for file in FILES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name} -> {target}"
