"""The sans-IO face: bytes to events, events to bytes, one protocol's request to another's.

Nothing here does I/O, knows a clock or makes an id: what such a thing would give is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import _bridge
from headrace._bridge import Decoder, Encoder, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.codes import Protocol
    from headrace.events import ProviderErrorEvent

__all__ = ["Decoder", "Encoder", "Loss", "error_reply", "filter_response_headers"]


def error_reply(client_protocol: Protocol, event: ProviderErrorEvent) -> tuple[int, list[tuple[str, str]], bytes]:
    """Tell a client of a failure before anything else has reached it.

    - `client_protocol`: what the client speaks: Chat, Responses or Messages.

    Returns the status, the headers and the body of the answer.
    """
    return _bridge.error_reply(client_protocol, event)


def filter_response_headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep the response headers that may reach a client: limits, request ids and a few facts. An allow-list.

    - `pairs`: names and values as the HTTP layer hands them over. A name may occur more than once.

    Returns the pairs that pass, in their order and spelling.
    """
    return _bridge.filter_response_headers(pairs)
