"""The comparison of the stub with the native module finds a difference."""

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(120)


def stubtest(folder):
    return subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "headrace._core"],
        env={"MYPYPATH": str(folder), "MYPY_CACHE_DIR": str(folder / ".mypy_cache")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wrong_stub_is_found(root, tmp_path):
    """That the right one passes is a part of `make check`."""
    shutil.copytree(root / "python/headrace", tmp_path / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    stub = tmp_path / "headrace/_core.pyi"
    stub.write_text(stub.read_text(encoding="utf-8").replace("def seq(self)", "def sequence(self)"), encoding="utf-8")
    wrong = stubtest(tmp_path)
    assert wrong.returncode != 0
    assert "seq" in wrong.stdout
    assert "filter_response_headers" not in wrong.stdout
