"""`headrace check` on broken configurations: one line each, with file, line, key and the way out."""

import pathlib
import re
import tomllib

import pytest
from click.testing import CliRunner

from headrace.cli import main

CASES = tomllib.loads((pathlib.Path(__file__).parent / "broken_configurations.toml").read_text(encoding="utf-8"))[
    "case"
]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_fault_is_one_line_with_its_place_and_the_way_out(case, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "sk-up")
    path = tmp_path / "broken.toml"
    path.write_text(case["text"])
    done = CliRunner().invoke(main, ["check", "--config", str(path)])
    assert done.exit_code == 1, done.output
    (line,) = done.output.splitlines()
    found = re.fullmatch(rf"{re.escape(str(path))}:(\d+):(\d+): (.*)", line)
    assert found, line
    assert int(found[1]) == case["line"], line
    rest = found[3]
    if "key" in case:
        assert rest.startswith(f"{case['key']}: "), line
    assert [word for word in case["words"] if word not in rest] == []
    assert "canary" not in line


def test_secrets_that_are_not_there_are_no_two_of_one(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text('[[keys]]\nid = "a"\nsecret = "env:NO_A"\n[metrics]\nsecret = "env:NO_B"\n')
    done = CliRunner().invoke(main, ["check", "--config", str(path)])
    assert [re.findall(r"NO_\w", line) for line in done.output.splitlines()] == [["NO_A"], ["NO_B"]]


def test_there_are_enough_of_them():
    assert len(CASES) >= 20
