"""The three stores, each held to the one contract."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from headrace.testing.store import StoreContract

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


class TestMemory(StoreContract):
    shared = False

    def new_url(self) -> str:
        return "memory:"


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: pathlib.Path) -> None:
        self.folder = tmp_path

    def new_url(self) -> str:
        return f"sqlite:{self.folder / 'made' / 'store.db'}"


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres

    def new_url(self) -> str:
        return self.server.database()
