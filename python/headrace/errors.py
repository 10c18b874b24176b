"""Everything that Headrace raises.

    HeadraceError
    ├── ProviderError                 a provider's failure, raised where a caller asked for a whole result
    │   ├── AuthError                 auth                   fix the credential
    │   ├── RateLimitError            rate_limit             wait, or take another credential
    │   ├── QuotaError                quota                  top up, or take another credential
    │   ├── UpstreamTimeoutError      timeout                try again
    │   ├── OverloadedError           overloaded             try again later
    │   ├── BadRequestError           bad_request            change the request
    │   ├── ContextLengthError        context_length         shorten the request
    │   ├── ContentFilterError        content_filter         change the content
    │   ├── StreamInterruptedError    stream_interrupted     try again
    │   ├── UnsupportedFeature        unsupported_feature    leave the feature out, or take another model
    │   ├── MalformedToolCallError    malformed_tool_call    try again: a new sample mostly works
    │   ├── TransportError            transport              try again
    │   ├── AbortedError              aborted                nothing: somebody wanted it
    │   └── UnknownProviderError      unknown                look at the event
    └── KernelLostError               the native side is gone (the process forked, or its threads died)

1. One class for each kind of `provider.error`, by test; a stream's iteration never raises them.
2. A message holds no key, no query string and no body. The event that the failure was stays at `event`.
3. `BadRequestError` and `UnsupportedFeature` are also raised where a request cannot be translated; then `param` names
   the field and `event` is None.

Errors of the control plane (configuration, selectors, pools) stand in the modules that raise them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from headrace.events import ProviderErrorEvent

__all__ = [
    "KINDS",
    "AbortedError",
    "AuthError",
    "BadRequestError",
    "ContentFilterError",
    "ContextLengthError",
    "HeadraceError",
    "KernelLostError",
    "MalformedToolCallError",
    "OverloadedError",
    "ProviderError",
    "QuotaError",
    "RateLimitError",
    "StreamInterruptedError",
    "TransportError",
    "UnknownProviderError",
    "UnsupportedFeature",
    "UpstreamTimeoutError",
    "from_event",
]


class HeadraceError(Exception):
    """What every error of this package is."""


class ProviderError(HeadraceError):
    """A provider's failure, or a request that no provider of its protocol could take.

    - `kind`: the kind of `provider.error` that this class stands for.
    - `event`: the event, or None where the failure was found before anything was sent.
    - `param`: the field of the request that is at fault, where one is.
    """

    kind: ClassVar[str]

    def __init__(self, message: str = "", *, event: ProviderErrorEvent | None = None, param: str | None = None) -> None:
        super().__init__(message or _words(self.kind, event))
        self.event = event
        self.param = param


class AuthError(ProviderError):
    """The provider does not accept the credential."""

    kind = "auth"


class RateLimitError(ProviderError):
    """Too many requests or tokens for now."""

    kind = "rate_limit"


class QuotaError(ProviderError):
    """The account has nothing left to spend."""

    kind = "quota"


class UpstreamTimeoutError(ProviderError):
    """A deadline ran out, or the provider said that one of its own did."""

    kind = "timeout"


class OverloadedError(ProviderError):
    """The provider has too much to do."""

    kind = "overloaded"


class BadRequestError(ProviderError):
    """The request is wrong, and will be wrong again."""

    kind = "bad_request"


class ContextLengthError(ProviderError):
    """The request is longer than the model can read."""

    kind = "context_length"


class ContentFilterError(ProviderError):
    """The provider will not deal with this content."""

    kind = "content_filter"


class StreamInterruptedError(ProviderError):
    """The answer ended before its protocol's own end. Intents that came before are void."""

    kind = "stream_interrupted"


class UnsupportedFeature(ProviderError):  # noqa: N818 - a fixed name of the public vocabulary
    """The target cannot do what the request asks for. `param` names it."""

    kind = "unsupported_feature"


class MalformedToolCallError(ProviderError):
    """The model wrote a tool call whose arguments are no JSON object."""

    kind = "malformed_tool_call"


class TransportError(ProviderError):
    """The connection could not be made, or broke before an answer began."""

    kind = "transport"


class AbortedError(ProviderError):
    """The caller, or the provider, called it off."""

    kind = "aborted"


class UnknownProviderError(ProviderError):
    """The provider failed and no rule says how."""

    kind = "unknown"


class KernelLostError(HeadraceError):
    """The native side is gone: this process was forked from one that used it, or its threads died."""


def _words(kind: str, event: ProviderErrorEvent | None) -> str:
    if event is None:
        return kind.replace("_", " ")
    status = f" (status {event.status})" if event.status is not None else ""
    where = f" from {event.provider}" if event.provider else ""
    return f"{kind.replace('_', ' ')}{where}{status}"


KINDS: dict[str, type[ProviderError]] = {
    cls.kind: cls
    for cls in (
        AuthError,
        RateLimitError,
        QuotaError,
        UpstreamTimeoutError,
        OverloadedError,
        BadRequestError,
        ContextLengthError,
        ContentFilterError,
        StreamInterruptedError,
        UnsupportedFeature,
        MalformedToolCallError,
        TransportError,
        AbortedError,
        UnknownProviderError,
    )
}
"""The class of each kind."""


def from_event(event: ProviderErrorEvent) -> ProviderError:
    """Make the exception that stands for a `provider.error`."""
    return KINDS[event.kind](event=event)
