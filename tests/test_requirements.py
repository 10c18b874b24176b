"""Every demand of the founding documents has a test that names it: `test_p1_...` for P1, and so on."""

import pathlib
import re

import pytest

TESTS = pathlib.Path(__file__).parent
NAMED = re.compile(r"def test_([a-z])(\d+)_")
DEMANDS = {"p": 13, "c": 7, "t": 6, "r": 4}


def named():
    for path in TESTS.rglob("test_*.py"):
        yield from NAMED.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("letter", "number"), [(one, n) for one, last in DEMANDS.items() for n in range(1, last + 1)])
def test_each_demand_has_a_test_that_names_it(letter, number):
    assert (letter, str(number)) in set(named())
