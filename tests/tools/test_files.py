"""The tools on files: what they give, what they refuse, and that a swap of a link changes nothing (T3, T4)."""

import asyncio
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from headrace.tools.definition import RefusedError
from headrace.tools.permission.special_files import is_secret
from headrace.tools.work import in_thread
from headrace.tools.workspace import Workspace
from tests.tools.conftest import Bench


def free(project):
    """A runtime that asks nobody."""
    return Bench(project, mode="danger-bypass")


def test_read_file_gives_lines_and_says_which(project):
    bench = free(project)
    assert bench.run("read_file", path="src/main.py").text == (project / "src/main.py").read_text()
    part = bench.run("read_file", path="./src//main.py", offset=2, limit=1)
    assert part.text == "Lines 2 to 2 of 5:\n    print('hello')\n"
    (project / "empty").touch()
    assert bench.run("read_file", path="empty").text == "The file is empty."
    (project / "data").write_bytes(b"a\0b")
    assert bench.run("read_file", path="data").text == "data: is no text"
    assert bench.run("read_file", path=str(project / "README.md")).text == "# Project\n"


def test_list_dir_glob_and_grep(project):
    (project / "node_modules").mkdir()
    (project / "node_modules/x.py").write_text("print('hello')\n")
    (project / "src/link.py").symlink_to("main.py")
    (project / "src/ü.txt").write_text("Hello\nhello hello\n")
    bench = free(project)
    assert bench.run("list_dir").text == ".env\t27\nREADME.md\t10\nnode_modules/\nsrc/\n"
    assert bench.run("list_dir", path="src").text == "link.py (link)\nmain.py\t40\nü.txt\t18\n"
    assert bench.run("glob", pattern="**/*.py").text == "src/main.py\n"
    assert bench.run("glob", pattern="*.py", path="node_modules").text == "node_modules/x.py\n"
    assert bench.run("glob", pattern="*.rs").text == "No file has such a name."
    assert bench.run("grep", pattern="hello$").text == "src/ü.txt:2:hello hello\n"
    assert bench.run("grep", pattern="^HELLO$", ignore_case=True).text == "src/ü.txt:1:Hello\n"
    assert bench.run("grep", pattern="hello", glob="**/*.py").text == "src/main.py:2:    print('hello')\n"
    assert bench.run("grep", pattern="hello", path="src/main.py").text == "src/main.py:2:    print('hello')\n"
    assert bench.run("grep", pattern="hello", limit=1).text.startswith("There are more than 1 lines")
    assert bench.run("grep", pattern="KEY").text == "No line matches."
    assert bench.run("grep", pattern="(?=x)").code == "precondition_failed"
    assert bench.run("grep", pattern="(").code == "precondition_failed"


def test_no_pattern_of_a_model_takes_for_ever(project):
    (project / "a.txt").write_text("a" * 50_000 + "b\n")
    began = time.monotonic()
    assert free(project).run("grep", pattern="(a+)+$").text == "No line matches."
    assert time.monotonic() - began < 5


# --- T3


async def read_then(bench, *, path="src/main.py", tool="edit", between=None, **arguments):
    await bench.call("read_file", path=path)
    if between is not None:
        between()
    return await bench.call(tool, **({"path": path} if tool != "apply_patch" else {}), **arguments)


def test_t3_a_file_is_edited_only_if_it_was_read(project):
    bench = free(project)
    for tool, arguments in (
        ("edit", {"old": "hello", "new": "bye"}),
        ("write_file", {"content": "x"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: src/main.py\n*** End Patch"}),
    ):
        path = {} if tool == "apply_patch" else {"path": "src/main.py"}
        observed = bench.run(tool, **path, **arguments)
        assert (observed.phase, observed.code) == ("preconditions", "precondition_failed")
        assert "read it before you" in observed.text
    assert "hello" in (project / "src/main.py").read_text()


def test_t3_a_file_that_changed_since_it_was_read_is_not_edited(project):
    target = project / "src/main.py"
    bench = free(project)
    observed = asyncio.run(read_then(bench, between=lambda: target.write_text("hello other"), old="hello", new="x"))
    assert observed.code == "precondition_failed"
    assert "has changed since it was read" in observed.text
    assert target.read_text() == "hello other"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("main", "x", "stands at 2 places"),
        ("nowhere", "x", "is not in the file"),
        ("", "x", "old: is empty"),
        ("hello", "hello", "the same as old"),
    ],
)
def test_t3_the_replaced_text_has_to_be_unique(project, old, new, words):
    observed = asyncio.run(read_then(free(project), old=old, new=new))
    assert observed.code == "precondition_failed"
    assert words in observed.text


def test_t3_an_edit_records_its_difference_and_may_go_on(project):
    bench = free(project)

    async def main():
        first = await read_then(bench, old="hello", new="bye")
        assert first.text.startswith("Changed src/main.py.\n--- a/src/main.py\n+++ b/src/main.py\n")
        assert "-    print('hello')\n+    print('bye')\n" in first.text
        second = await bench.call("edit", path="src/main.py", old="main", new="run", all=True)
        assert second.code == "ok"

    asyncio.run(main())
    assert (project / "src/main.py").read_text() == "def run():\n    print('bye')\n\n\nrun()\n"
    finished = [fact for fact in bench.facts if fact.type == "tool.execution.finished"]
    (first,), (second,) = finished[1].changes, finished[2].changes
    assert first.after == second.before
    assert bench.facts[-1].read_hashes == (f"src/main.py={second.after}",)


def test_write_file_makes_directories_and_keeps_the_mode(project):
    bench = free(project)
    assert bench.run("write_file", path="a/b/c.sh", content="new\n").text.startswith("Created a/b/c.sh.")
    (project / "a/b/c.sh").chmod(0o755)
    assert bench.run("write_file", path="a/b/c.sh", content="newer\n").code == "ok"
    assert (project / "a/b/c.sh").read_text() == "newer\n"
    assert (project / "a/b/c.sh").stat().st_mode & 0o777 == 0o755
    assert not list(project.rglob("*.tmp"))


PATCH = """*** Begin Patch
*** Update File: src/main.py
@@ def main():
-    print('hello')
+    print('bye')
@@
-main()
+main()  # run
*** End of File
*** Add File: docs/new.md
+# New
+
*** Delete File: README.md
*** End Patch"""


def test_apply_patch_changes_adds_and_deletes(project):
    bench = free(project)

    async def main():
        await bench.call("read_file", path="README.md")
        return await read_then(bench, tool="apply_patch", patch=PATCH)

    observed = asyncio.run(main())
    assert observed.code == "ok", observed.text
    assert observed.text.startswith("Changed src/main.py. Created docs/new.md. Removed README.md.")
    assert (project / "src/main.py").read_text() == "def main():\n    print('bye')\n\n\nmain()  # run\n"
    assert (project / "docs/new.md").read_text() == "# New\n\n"
    assert not (project / "README.md").exists()


def patched(body):
    return f"*** Begin Patch\n{body}\n*** End Patch"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("nothing", "must begin with"),
        (patched(""), "belongs to no file"),
        (patched("*** Update File: src/main.py\n-nowhere\n+x"), "hunk 1: its old lines are not in the file"),
        (patched("*** Update File: src/main.py\n@@ nowhere\n-x\n+y"), "the line 'nowhere' is not there"),
        (patched("*** Update File: src/main.py\n-\n+x"), "stand at 3 places"),
        (patched("*** Update File: src/main.py\n a"), "changes nothing in src/main.py"),
        (patched("*** Update File: src/main.py\n*wrong"), "line 3 must begin with"),
        (patched("*** Add File: new\nx"), "line 3 of a new file must begin with +"),
        (patched("*** Add File: src/main.py\n+x"), "is there already"),
        (patched("*** Delete File: nowhere"), "there is no such file"),
        (patched("*** Delete File: src/main.py\nx"), "follows a file that is deleted"),
        (patched("*** Delete File: a\n*** Add File: a\n+x"), "names a file twice"),
        (patched("*** Add File: ../out\n+x"), "has .. in it"),
        (patched("*** Add File: .env\n+x"), "holds secrets"),
    ],
)
def test_a_wrong_patch_changes_nothing_and_says_where(project, patch, words):
    before = (project / "src/main.py").read_text()
    observed = asyncio.run(read_then(free(project), tool="apply_patch", patch=patch))
    assert observed.code in ("precondition_failed", "permission_denied")
    assert words in observed.text
    assert (project / "src/main.py").read_text() == before


def test_a_patch_that_fails_halfway_says_what_was_done(project):
    bench = free(project)
    (project / "b.txt").write_text("b\n")

    async def main():
        await bench.call("read_file", path="b.txt")
        await bench.call("read_file", path="README.md")
        text = patched("*** Delete File: README.md\n*** Update File: b.txt\n-b\n+c")
        handler = bench.toolbox.get("apply_patch").handler
        prepared = await handler.prepare({"patch": text})
        (project / "b.txt").write_text("other\n")
        return await prepared.run(type("Sink", (), {"write": lambda *_: None})())

    outcome = asyncio.run(main())
    assert outcome.code == "tool_error"
    assert outcome.message == "b.txt: has changed since it was read; read it again. Removed README.md."
    assert [change.path for change in outcome.changes] == ["README.md"]


# --- T4


@pytest.fixture
def outside(project):
    folder = project.parent / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("canary-outside")
    (project / "link.txt").symlink_to(folder / "secret.txt")
    (project / "linked").symlink_to(folder)
    (project / "inner").symlink_to("src")
    os.mkfifo(project / "pipe")
    return folder


PATHS = [
    ("../outside/secret.txt", "permission_denied"),
    ("src/../../outside/secret.txt", "permission_denied"),
    ("src/..", "permission_denied"),
    ("/etc/passwd", "permission_denied"),
    ("{root}x/secret.txt", "permission_denied"),
    ("link.txt", "permission_denied"),
    ("linked/secret.txt", "permission_denied"),
    ("inner/main.py", "permission_denied"),
    ("pipe", "permission_denied"),
    ("socket", "permission_denied"),
    (".env", "permission_denied"),
    ("src/.env.local", "permission_denied"),
    ("keys/server.pem", "permission_denied"),
    (".ssh/config", "permission_denied"),
    ("", "precondition_failed"),
    ("a\0b", "precondition_failed"),
    ("x" * 5000, "precondition_failed"),
    ("x" * 300, "precondition_failed"),
    ("src/main.py/x", "permission_denied"),
]


@pytest.mark.parametrize(("path", "code"), PATHS)
@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit", "list_dir", "grep", "apply_patch"])
def test_t4_no_tool_leaves_the_workspace(project, outside, tool, path, code):
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(project)
        server.bind("socket")
        os.chdir(here)
        bench = free(project)
        path = path.replace("{root}", str(project))
        arguments = {
            "write_file": {"path": path, "content": "x"},
            "edit": {"path": path, "old": "a", "new": "b"},
            "grep": {"path": path, "pattern": "c.nary"},
            "apply_patch": {"patch": patched(f"*** Update File: {path}\n-a\n+b")},
        }.get(tool, {"path": path})
        observed = bench.run(tool, **arguments)
    assert observed.phase == "preconditions"
    assert observed.code == code, observed.text
    assert b"canary" not in bench.all_bytes()
    assert (outside / "secret.txt").read_text() == "canary-outside"


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/w/.env", True),
        ("/w/.env.local", True),
        ("/w/.env.example", False),
        ("/w/id_ed25519", True),
        ("/w/id_ed25519.pub", False),
        ("/users/x/.aws/config", True),
        ("/w/environment.py", False),
        ("/w/server.KEY", True),
        ("/w/keys.py", False),
        ("/proc/1/environ", True),
    ],
)
def test_t4_names_of_special_files(path, secret):
    assert is_secret(path) == secret


class Swapper:
    """Swaps a name between a directory or file and a link to what is outside, as fast as it can."""

    def __init__(self, path, good, bad):
        self.path, self.good, self.bad, self.stop = path, good, bad, False
        self.thread = threading.Thread(target=self.work)

    def work(self):
        spare = self.path.with_name(self.path.name + ".spare")
        while not self.stop:
            spare.symlink_to(self.bad)
            self.path.rename(self.good)
            self.place(spare)
            self.path.unlink()
            self.place(self.good)

    def place(self, what):
        while True:
            try:
                what.rename(self.path)
            except OSError:  # a directory was made here meanwhile, and may be made again
                shutil.rmtree(self.path, ignore_errors=True)
            else:
                return

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_t4_a_link_that_is_swapped_in_is_never_followed(project, what):
    outside = project.parent / "outside"
    (outside / "dir").mkdir(parents=True)
    for file in (outside / "secret.txt", outside / "dir/file.txt"):
        file.write_text("canary")
    (project / "dir").mkdir()
    (project / "dir/file.txt").write_text("fine")
    swapped = project / ("dir/file.txt" if what == "file" else "dir")
    bad = outside / ("secret.txt" if what == "file" else "dir")
    workspace = Workspace(project, durable=False)
    results = {"fine": 0, "refused": 0, "written": 0}
    with Swapper(swapped, project / "aside", bad):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                found = workspace.read("dir/file.txt")
                assert found.data == b"fine"
                results["fine"] += 1
                workspace.replace("dir/file.txt", b"fine", expected=found.digest)
                results["written"] += 1
            except RefusedError:
                results["refused"] += 1
            try:
                workspace.replace("dir/new.txt", b"new", expected=None)
                workspace.remove("dir/new.txt", expected=workspace.read("dir/new.txt").digest)
            except RefusedError:
                pass
    assert (outside / "secret.txt").read_text() == "canary"
    assert {entry.name: entry.read_text() for entry in (outside / "dir").iterdir()} == {"file.txt": "canary"}
    assert results["fine"]
    assert results["refused"]


def test_a_workspace_that_is_moved_stays_the_same(project):
    workspace = Workspace(project)
    project.rename(project.parent / "elsewhere")
    project.mkdir()
    (project / "README.md").write_text("another")
    assert workspace.read("README.md").data == b"# Project\n"
    workspace.close()


def test_a_new_file_never_takes_the_place_of_one_that_came_meanwhile(project):
    workspace = Workspace(project)
    with pytest.raises(RefusedError, match="is there by now"):
        workspace.replace("README.md", b"x", expected=None)
    with pytest.raises(RefusedError, match="has changed"):
        workspace.replace("README.md", b"x", expected="0" * 64)
    with pytest.raises(RefusedError, match="has changed"):
        workspace.remove("README.md", expected="0" * 64)
    with pytest.raises(RefusedError, match="no such file"):
        workspace.replace("gone.txt", b"x", expected="0" * 64)
    assert (project / "README.md").read_text() == "# Project\n"
    assert not list(project.glob(".*.tmp"))
    with pytest.raises(RefusedError, match="longer than 3 bytes"):
        workspace.read("README.md", 3)


def test_work_in_a_thread_has_stopped_when_it_was_cancelled():
    async def main():
        running, done = threading.Event(), threading.Event()

        def work(stopper):
            running.set()
            try:
                while True:
                    stopper.check()
                    time.sleep(0.001)
            finally:
                done.set()

        task = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(running.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done.is_set()

    asyncio.run(main())
