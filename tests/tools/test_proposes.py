"""P2: while a provider's stream runs, the process starts no program and writes no file; an audit hook looks on."""

import json
import subprocess
import sys

from tests.conftest import ROOT

PACKAGE = ROOT / "python/headrace"

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
