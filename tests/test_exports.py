"""The public face: what it holds, that it is all there, and that importing it costs next to nothing."""

import json
import subprocess
import sys

import headrace

HEAVY = ["pydantic", "httpx", "asyncio", "anyio", "click", "rich", "orjson", "apsw", "ssl", "http.client", "logging"]


def test_the_face_is_the_snapshot(root):
    assert headrace.__all__ == (root / "tests/exports.txt").read_text(encoding="utf-8").split()


def test_every_name_is_there_and_nothing_else_is_public():
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    public = {name for name in dir(headrace) if not name.startswith("_")}
    modules = {name for name in public if type(getattr(headrace, name)).__name__ == "module"}
    assert public - modules - {"annotations", "TYPE_CHECKING"} == set(headrace.__all__) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(headrace, "nothing")


def test_classes_call_the_face_their_home():
    for name in headrace.__all__:
        home = getattr(getattr(headrace, name), "__module__", None)
        assert home is None or home.startswith(("headrace", "typing", "types")), name
        assert home != "headrace._core", name


def run(code):
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_loads_nothing_heavy():
    loaded = run("import sys, json, headrace; headrace.TextDelta; print(json.dumps(sorted(sys.modules)))")
    assert "headrace._core" in loaded
    assert not set(HEAVY) & set(loaded)
    assert not [name for name in loaded if name.startswith("headrace.server")]


def test_importing_takes_less_than_50_ms_of_cpu():
    code = (
        "import time, json; t = time.process_time(); import headrace; headrace.TextDelta;"
        "print(json.dumps(time.process_time() - t))"
    )
    assert min(run(code) for _ in range(3)) < 0.050
