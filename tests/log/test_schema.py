"""The log's schema is for ever: what a type says today, it says in every later release, or it has a new version."""

import json
import os
import pathlib
from dataclasses import MISSING, fields, is_dataclass
from typing import get_args, get_type_hints

import pytest

from headrace.log.payloads import CLASSES, Value

FILE = pathlib.Path(__file__).parent.parent / "fixtures" / "logs" / "schema.json"


def values(hint):
    """The value classes that a field's type leads to."""
    if isinstance(hint, type) and issubclass(hint, Value) and is_dataclass(hint):
        yield hint
    for one in get_args(hint):
        yield from values(one)


def described(cls):
    hints = get_type_hints(cls)
    found = {}
    for spec in fields(cls):
        default = spec.default_factory() if spec.default_factory is not MISSING else spec.default
        plain = default.to_dict() if isinstance(default, Value) else default
        found[spec.name] = {"type": str(hints[spec.name]).replace("typing.", "")}
        if default is not MISSING:
            found[spec.name]["default"] = list(plain) if isinstance(plain, tuple) else plain
    return found


def schema():
    made = {name: {"version": cls.version, "fields": described(cls)} for name, cls in sorted(CLASSES.items())}
    inner = {}
    pending = [one for cls in CLASSES.values() for hint in get_type_hints(cls).values() for one in values(hint)]
    while pending:
        cls = pending.pop()
        if cls.__name__ not in inner:
            inner[cls.__name__] = {"fields": described(cls)}
            pending += [one for hint in get_type_hints(cls).values() for one in values(hint)]
    return made | dict(sorted(inner.items()))


NOW = schema()
# Read before it is written anew: what was known is held to also then.
KNOWN = json.loads(FILE.read_text(encoding="utf-8"))
if os.environ.get("HEADRACE_BLESS"):
    FILE.write_text(json.dumps(NOW, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", KNOWN)
def test_a_type_keeps_its_fields_and_grows_only_by_ones_that_may_be_absent(name):
    known, now = KNOWN[name], NOW.get(name)
    assert now is not None, "a type is never taken away"
    if now.get("version") != known.get("version"):
        assert now["version"] > known["version"]
        return
    for field, was in known["fields"].items():
        assert now["fields"].get(field) == was, f"{field} is another: give {name} a new version and a step in upcast"
    for field in now["fields"].keys() - known["fields"].keys():
        assert not now["fields"][field].get("default", "required"), f"{field} is new: its default has to be empty"


def test_the_file_knows_every_type():
    assert KNOWN.keys() == NOW.keys(), "HEADRACE_BLESS=1 writes the new ones down"
