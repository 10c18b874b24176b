"""The hash of a workspace: the same for the same files, another after any change that matters."""

import os

import pytest

from headrace.loop import hash_workspace


def test_a_change_of_name_content_or_kind_is_another_hash(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / "run.sh").write_text("true\n")
    seen = [hash_workspace(tmp_path)]
    assert hash_workspace(tmp_path) == seen[0]
    acts = [
        lambda: (tmp_path / "src" / "a.py").write_text("a = 2\n"),
        lambda: (tmp_path / "run.sh").chmod(0o755),
        lambda: (tmp_path / "run.sh").rename(tmp_path / "go.sh"),
        lambda: (tmp_path / "link").symlink_to("go.sh"),
        (tmp_path / "new").touch,
        lambda: os.mkfifo(tmp_path / "pipe"),
    ]
    for act in acts:
        act()
        seen.append(hash_workspace(tmp_path))
    assert len(set(seen)) == len(seen)


def test_what_tools_remake_does_not_count(tmp_path):
    (tmp_path / "a").touch()
    before = hash_workspace(tmp_path)
    for name in (".git", "__pycache__", "node_modules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    (tmp_path / "a").touch()
    assert hash_workspace(tmp_path) == before


def test_a_folder_that_is_not_there_is_no_workspace(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        hash_workspace(tmp_path / "nowhere")
