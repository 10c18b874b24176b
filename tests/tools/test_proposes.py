"""P2, P13: a provider proposes and the system executes. Checked on its sources, and on a stream that runs."""

import ast
import json
import subprocess
import sys

import pytest

import headrace
from tests.conftest import ROOT

PACKAGE = ROOT / "python/headrace"
PROVIDER_SIDE = [
    *sorted((PACKAGE / "providers").rglob("*.py")),
    *(PACKAGE / f"{name}.py" for name in ("events", "messages", "plugins", "registry", "requests", "translate")),
]
ABOVE = [*PROVIDER_SIDE, PACKAGE / "attempts.py", PACKAGE / "gateway.py", *sorted((PACKAGE / "runtime").rglob("*.py"))]
EXECUTES = {"subprocess", "multiprocessing", "pty", "shutil", "tempfile", "signal", "ctypes", "code", "runpy"}
OURS = ("headrace.tools", "headrace.log", "headrace.loop", "headrace.context")


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(paths):
    return [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in paths]


@pytest.mark.parametrize("path", named(ABOVE))
def test_p13_what_asks_a_provider_imports_no_executor_and_no_log(path):
    modules = set(imported(path))
    assert not {name for name in modules if name.split(".")[0] in EXECUTES}
    assert not {name for name in modules if name.startswith(OURS)}


@pytest.mark.parametrize("path", named(PROVIDER_SIDE))
def test_p13_provider_code_opens_no_file_keeps_nothing_and_loops_nowhere(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"open", "exec", "eval", "compile", "os.system", "os.popen"}, called
            assert not called.endswith((".write_text", ".write_bytes", ".unlink")), called
        # A loop over calls of a model has no end that is known beforehand, or waits in its head.
        assert not isinstance(node, (ast.While, ast.AsyncFor, ast.Global)), ast.dump(node)[:80]
    # Nothing at the top of a module can be filled by one request and seen by the next.
    for node in tree(path).body:
        if isinstance(node, ast.Assign):
            targets = [ast.unparse(target) for target in node.targets]
            mutable = isinstance(node.value, (ast.List, ast.ListComp, ast.SetComp, ast.DictComp))
            assert not mutable or targets == ["__all__"], f"{path}: {targets} is mutable"


@pytest.mark.parametrize("path", named(PROVIDER_SIDE))
def test_p13_provider_code_names_no_messages_that_it_would_keep(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            assert not (node.value.id == "self" and "messages" in node.attr), f"{path}: self.{node.attr}"


def test_p2_a_tools_description_has_no_place_for_a_callable():
    fields = headrace.Tool.__dataclass_fields__
    assert set(fields) == {"name", "description", "raw_schema", "kind", "strict", "extra"}
    for field in fields.values():
        assert "Callable" not in str(field.type)


PROGRAM = """
import json, sys

acts = []
def spy(event, arguments):
    if event in {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "pty.spawn"}:
        acts.append(event)
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        acts.append(f"write {arguments[0]}")

import headrace, ssl, asyncio
from headrace import Message, ModelRequest, SyncRuntime, Tool
request = ModelRequest(
    model="demo/tools",
    messages=(Message.user("What is the weather?"),),
    tools=(Tool(name="bash", raw_schema='{"type": "object"}'),),
)
with SyncRuntime() as runtime:
    sys.addaudithook(spy)
    with runtime.stream(request) as stream:
        types = [event.type for event in stream]
loaded = [name for name in sys.modules if name.startswith(("headrace.tools", "headrace.log"))]
print(json.dumps([types, acts, loaded]))
"""


def test_p2_running_a_providers_stream_executes_nothing(tmp_path):
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    types, acts, loaded = json.loads(done.stdout)
    assert types.count("tool_intent.proposed") >= 1
    assert types[-1] == "model.finished"
    assert acts == []
    assert loaded == []
