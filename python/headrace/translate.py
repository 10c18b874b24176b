"""The sans-IO face: bytes to events, events to bytes, one protocol's request to another's.

Nothing here does I/O, knows a clock or makes an id: what such a thing would give is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import _bridge
from headrace._bridge import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Decoder", "filter_response_headers"]


def filter_response_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep the response headers that may reach a client: limits, request ids and a few facts. An allow-list.

    - `pairs`: names and values as the HTTP layer hands them over. A name may occur more than once.

    Returns the pairs that pass, in their order and spelling.
    """
    return _bridge.filter_response_headers(pairs)
