"""The sans-IO face: bytes to events, events to bytes, one protocol's request to another's.

Nothing here does I/O, knows a clock or makes an id: what such a thing would give is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from headrace import _bridge
from headrace._bridge import Decoder, Encoder, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.codes import Protocol
    from headrace.events import ProviderErrorEvent

__all__ = [
    "Decoder",
    "Encoder",
    "Loss",
    "Translation",
    "error_reply",
    "filter_response_headers",
    "translate_request",
]


class Translation(NamedTuple):
    """A provider's body, and what of the client's it does not carry unchanged."""

    body: bytes
    losses: tuple[Loss, ...]


def translate_request(
    body: bytes,
    *,
    source: Protocol | Literal["headrace"],
    target: Protocol,
    model: str,
    edits: Mapping[str, object] | None = None,
    provider: str | None = None,
    target_flags: Sequence[str] = (),
) -> Translation:
    """Make a provider's request body of a client's. What is not changed keeps its bytes.

    - `source`: what `body` is written in; "headrace" is `ModelRequest.to_json()`.
    - `target`: what the provider speaks. Where it is the source, only the model and the edits change.
    - `model`: the provider's own name of the model.
    - `edits`: JSON pointer -> value or `REMOVE`, on the target body, in order.
    - `provider`: the provider row; continuations that came from another one are dropped.
    - `target_flags`: what the target needs besides its protocol, such as "openai_compatible".

    Raises `UnsupportedFeature` where dropping a field would change the meaning, and `BadRequestError` where the body
    is not what its protocol has; `param` names the field.
    """
    made, losses = _bridge.translate_request(
        body,
        source=source,
        target=target,
        model=model,
        edits=dict(edits or {}),
        provider=provider,
        target_flags=target_flags,
    )
    return Translation(made, tuple(losses))


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
