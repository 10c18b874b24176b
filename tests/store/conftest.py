"""A PostgreSQL for the store's tests, started by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Postgres, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server, one for the session."""
    pytest.importorskip("asyncpg", reason="NO ASYNCPG: pip install 'headrace[postgres]'")
    with running() as server:
        if server is None:
            pytest.skip("NO POSTGRESQL: neither /usr/lib/postgresql/*/bin nor the path has initdb")
        yield server
