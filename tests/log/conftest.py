"""The stores that one suite holds for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

STORES = ("memory", "sqlite", "postgresql")


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[[], str]:
    """Gives the URL of an empty store, another one at each call."""
    if request.param == "memory":
        return lambda: "memory:"
    if request.param == "sqlite":
        numbers = itertools.count()
        return lambda: f"sqlite:{tmp_path}/{next(numbers)}.db"
    return request.getfixturevalue("postgres").database
