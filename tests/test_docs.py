"""Every example in the documents runs, and prints what the document says.

- A `python` block runs as a program of its own. A `text` block right after it is its output.
- A `console` block is commands after `$ `, run in bash one after the other; the lines after a command are its output.
- `...` in an output stands for anything. `sh` and `toml` blocks are not run.

The blocks share a folder. `.venv/bin/` stands for where our command is, `http://127.0.0.1:8080` for a gateway that the
test starts.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from headrace.tools.sandbox import probe
from tests.conftest import ROOT

# Importing a vendor's SDK takes seconds on a busy machine.
pytestmark = pytest.mark.timeout(90)

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDRESS = "http://127.0.0.1:8080"
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
    home = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "TMPDIR": str(folder)}
    environment = {**os.environ, **home}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("docs")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """The address of a gateway as `make serve` starts it, in an environment without keys and files."""
    home = str(tmp_path_factory.mktemp("home"))
    command = [sys.executable, "-m", "headrace.cli", "serve", "--port", "0"]
    environment = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + process.stderr.read()
        yield address[0]
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 0


@pytest.mark.parametrize(("language", "code", "output"), list(examples()))
def test_an_example_does_what_the_document_says(language, code, output, folder, request):
    if "run --demo" in code and probe().best == "C":
        pytest.skip("NO SANDBOX HERE: in tier C the demonstration asks a person")
    code = code.replace(".venv/bin/", f"{BIN}/")
    if ADDRESS in code:
        code = code.replace(ADDRESS, request.getfixturevalue("gateway"))
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


def test_links_to_a_heading_lead_to_one():
    for file in FILES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", file.read_text(encoding="utf-8")):
            text = (file.parent / target if target else file).read_text(encoding="utf-8")
            headings = re.findall(
                r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
            )
            assert anchor in [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings], (
                f"{file.name} -> {anchor}"
            )


def test_the_design_names_every_part_of_the_package():
    text = (ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    section = text.partition("## Where Python's parts are\n")[2].partition("\n## ")[0]
    listed = [
        name
        for row in re.findall(r"^\| .* \| (`.*) \|$", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    package = ROOT / "python" / "headrace"
    parts = {file.stem for file in package.glob("*.py")} | {file.parent.name for file in package.glob("*/__init__.py")}
    assert sorted(listed) == sorted(parts - {"__init__"})
