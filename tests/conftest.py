"""What all tests share: where the recordings are, and loud skips where they are not."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.postgres import Postgres, running

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine is no finding, and a test that fails by chance helps nobody: the same examples each time. Who looks for
# more says `--hypothesis-profile=search`.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=SLOW)
hypothesis.settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=SLOW)
hypothesis.settings.load_profile("house")

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The material that lies beside the repository: recordings and cases."""
    path = pathlib.Path(os.environ.get("HEADRACE_SHARED", ROOT.parent / "shared"))
    if not (path / "recordings").is_dir():
        pytest.skip("NO RECORDINGS: they are looked for beside the repository (../shared) or at HEADRACE_SHARED")
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server, one for the session."""
    pytest.importorskip("asyncpg", reason="NO ASYNCPG: pip install 'headrace[postgres]'")
    with running() as server:
        if server is None:
            pytest.skip("NO POSTGRESQL: neither /usr/lib/postgresql/*/bin nor the path has initdb")
        yield server
