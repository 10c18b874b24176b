"""Settled requests for tests of the ledger."""

from __future__ import annotations

import types
from typing import Any

from headrace.catalogue import Prices
from headrace.node import Settled
from headrace.requests import RuntimeMap, Settlement


def attempt(number: int, **facts: Any) -> Any:
    """One attempt's record."""
    told = {
        "provider": "acme",
        "model": "m",
        "credential": "first",
        "cause": None,
        "kind": None,
        "status": 200,
        "marked": None,
        "bytes_sent": 10,
        "bytes_received": 20,
        "began": 1.0,
        "ended": 2.0,
    }
    return types.SimpleNamespace(attempt=number, **{**told, **facts})


def settled(
    number: int = 1,
    *,
    key: str | None = None,
    asked: str = "m",
    price: tuple[float, float] | None = None,
    attempts: tuple[Any, ...] = (),
    **facts: Any,
) -> Settled:
    """A request that came to its end, with these facts of its settlement."""
    end = Settlement(**{"token": number, "attempts": 1, "status": 200, "finish": "stop", **facts})
    runtime = RuntimeMap(
        provider="acme", kind="openai_compatible", model="m", base_url="http://127.0.0.1:1/v1", protocol="openai_chat"
    )
    return Settled(
        number=number,
        at=1.0,
        request_id=f"req_{number}",
        key=key,
        asked=asked,
        client_protocol="openai_chat",
        runtime=runtime,
        attempts=attempts or (attempt(1),),
        settlement=end,
        prices=Prices(input=price[0], output=price[1]) if price else None,
    )
