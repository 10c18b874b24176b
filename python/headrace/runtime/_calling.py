"""One call of a capability that is not the language model: its way through policy, for both faces.

1. A failed attempt may be followed by another until something of an answer was given; after that none is.
2. Payloads come in as bytes, typed items go out; nothing is polled here.
3. Every planned call is settled once, also when it is left early.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from headrace import errors
from headrace.calls import Call, Opened, Own
from headrace.capabilities import ImageResult, PartialImage, ReadError
from headrace.capabilities._values import UNKNOWN
from headrace.events import ProviderErrorEvent
from headrace.requests import AttemptSpec, Deferred, Failure, Refusal, Settlement
from headrace.runtime._call import RefusedError
from headrace.runtime._tokens import Pending

if TYPE_CHECKING:
    from headrace.capabilities import CallUsage, ImageRequest
    from headrace.runtime._call import AttemptRef, Policies

__all__ = ["Calling", "ImageItem", "images_call", "raised"]

ImageItem: TypeAlias = PartialImage | ImageResult


def images_call(request: ImageRequest, *, streams: bool) -> Call:
    """Make a call of pictures, by the path that the request belongs to."""
    operation = "image_edits" if request.images else "images"
    return Call(operation, replace(request, stream=streams), streams)


def raised(error: ReadError) -> errors.ProviderError:
    """Give the public exception of an answer that says no."""
    return errors.KINDS[error.kind](error.message)


class Calling:
    """One call's way: decide, attempt, perhaps attempt again, read, settle."""

    def __init__(self, policies: Policies, call: Call) -> None:
        self._policies = policies
        self._call = call
        self.turn_id: str = policies.turn()
        self._token: int | None = None
        self._spec: AttemptSpec | None = None
        self._opened: Opened | None = None
        self._given = False
        self._result = False
        self._usage: CallUsage = UNKNOWN
        self._started = 0.0
        self._first_byte: float | None = None

    @property
    def model(self) -> str:
        """The selector that was asked for."""
        return self._call.selector

    def begin(self) -> AttemptSpec | Own | Pending[AttemptSpec | Own]:
        """Decide; or say that a token has to be waited for.

        - Raises `RefusedError`: nobody can be asked; nothing has been touched.
        - Raises `BadRequestError` or `UnsupportedFeature`: the provider cannot be asked this.
        """
        self._started = time.monotonic()
        decision = self._policies.gateway.call(self._call)
        if isinstance(decision, CoroutineType):
            return Pending(decision, self._begun)
        return self._begun(decision)

    def _begun(self, decision: Any) -> AttemptSpec | Own:
        if isinstance(decision, Refusal):
            self._refuse(decision)
        if isinstance(decision, Own):
            return decision
        self._token = decision.token
        self._opened = self._policies.gateway.opened(decision.token)
        spec: AttemptSpec = decision.spec
        self._spec = spec
        return spec

    def take(self, batch: list[Any], attempt: AttemptRef) -> list[Any] | AttemptSpec | Pending[AttemptSpec]:
        """Take what an attempt brought: typed items, or the attempt that follows, or what has to be waited for first.

        - Raises the class of the error's kind: the answer failed, or says no.
        """
        error = batch.pop() if batch and isinstance(batch[-1], ProviderErrorEvent) else None
        if self._first_byte is None:
            self._first_byte = time.monotonic() - self._started
        items = [item for data in batch if (item := self._read(data, attempt)) is not None]
        self._given = self._given or bool(items)
        if error is None:
            return items
        step = None if self._given else self._after(error, attempt)
        if isinstance(step, CoroutineType):
            return Pending(step, lambda found: self._followed(found, error, attempt))
        return self._followed(step, error, attempt)

    def _followed(self, step: Any, error: ProviderErrorEvent, attempt: AttemptRef) -> AttemptSpec:
        if isinstance(step, AttemptSpec):
            self._spec = step
            return step
        self._settle(attempt, error)
        raise errors.from_event(error)

    def end(self, attempt: AttemptRef) -> None:
        """Take note that the answer is over.

        - Raises `StreamInterruptedError`: it ended before its result.
        """
        if self._result:
            self._settle(attempt, None)
            return
        message = "the answer ended before its result"
        lost = ProviderErrorEvent(kind="stream_interrupted", retryable=True, message=message, phase="streaming")
        self._settle(attempt, lost)
        raise errors.StreamInterruptedError(message)

    def leave(self, attempt: AttemptRef | None) -> None:
        """Settle a call that its caller left; nothing where it had ended."""
        if self._token is not None:
            error = ProviderErrorEvent(kind="aborted", retryable=False, message="the call was left", phase="streaming")
            self._settle(attempt, error)

    def _read(self, data: bytes, attempt: AttemptRef) -> Any:
        opened = self._opened
        if opened is None:
            return None
        streamed = self._call.streams and opened.wire.read_event is not None
        try:
            item = opened.event(data) if streamed else opened.result(data)
        except ReadError as error:
            message = error.message
            told = ProviderErrorEvent(kind=error.kind, retryable=False, message=message, phase="before_commit")
            self._settle(attempt, told)
            raise raised(error) from None
        if item is not None and not isinstance(item, PartialImage):
            self._result = True
            self._usage = item.usage
        return item

    def _refuse(self, refusal: Refusal) -> NoReturn:
        if refusal.code == "unsupported_parameter":
            raise errors.UnsupportedFeature(refusal.message, param=refusal.param)
        if refusal.code == "invalid_request":
            raise errors.BadRequestError(refusal.message, param=refusal.param)
        raise RefusedError(refusal.message, code=refusal.code, status=refusal.status, retry_at=refusal.retry_at)

    def _after(self, error: ProviderErrorEvent, attempt: AttemptRef) -> Deferred[AttemptSpec | Refusal] | None:
        if self._token is None or self._spec is None:
            return None
        sent, received, reused = attempt.facts
        failure = Failure(
            token=self._token,
            attempt=self._spec.attempt,
            error=error,
            headers=tuple(attempt.headers),
            bytes_sent=sent,
            bytes_received=received,
            reused_socket=reused,
        )
        return self._policies.gateway.next(failure)

    def _settle(self, attempt: AttemptRef | None, error: ProviderErrorEvent | None) -> None:
        if self._token is None:
            return
        token, self._token = self._token, None
        sent, received, _ = attempt.facts if attempt is not None else (0, 0, False)
        self._policies.gateway.settle(
            Settlement(
                token=token,
                attempts=self._spec.attempt if self._spec is not None else 0,
                status=attempt.status if attempt is not None else 0,
                finish="stop" if error is None else None,
                error=error,
                headers=tuple(attempt.headers) if attempt is not None else (),
                input_tokens=self._usage.input_tokens,
                output_tokens=self._usage.output_tokens,
                bytes_sent=sent,
                bytes_received=received,
                first_byte_s=self._first_byte,
                total_s=time.monotonic() - self._started,
            )
        )
