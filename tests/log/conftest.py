"""The stores that one suite holds for, and a PostgreSQL for them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Postgres, running

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

STORES = ("memory", "sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server, one for the session."""
    pytest.importorskip("asyncpg", reason="NO ASYNCPG: pip install 'headrace[postgres]'")
    with running() as server:
        if server is None:
            pytest.skip("NO POSTGRESQL: neither /usr/lib/postgresql/*/bin nor the path has initdb")
        yield server


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[[], str]:
    """Gives the URL of an empty store, another one at each call."""
    if request.param == "memory":
        return lambda: "memory:"
    if request.param == "sqlite":
        numbers = itertools.count()
        return lambda: f"sqlite:{tmp_path}/{next(numbers)}.db"
    return request.getfixturevalue("postgres").database
