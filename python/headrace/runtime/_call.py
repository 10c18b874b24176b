"""What both faces share: a runtime's policy, and one request's way through it.

1. Nothing is given to the caller before the answer commits (its first event of content, or its good end); until
   then a failed attempt may be followed by another, and after it none is.
2. Whoever holds a `Call` polls nothing here: batches come in, batches or the next attempt go out.
3. Every planned request is settled once, also when its stream is left early.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from headrace import errors, translate
from headrace._bridge import DemoRef
from headrace.config import Config, ConfigurationError
from headrace.events import (
    ModelEvent,
    ModelFinished,
    ModelStarted,
    ProviderErrorEvent,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolIntentProposed,
    Usage,
)
from headrace.gateway import Gateway
from headrace.requests import AttemptSpec, Deferred, Failure, Plan, Refusal, Settlement
from headrace.runtime._facts import Attempts, RouteFacts
from headrace.runtime._tokens import Pending, TokenThread
from headrace.startup import check_credentials, configure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace._bridge import BackgroundAttemptRef, BlockingAttemptRef
    from headrace.codes import Protocol
    from headrace.messages import ModelRequest

    AttemptRef: TypeAlias = BlockingAttemptRef | BackgroundAttemptRef

__all__ = ["Call", "ModelResult", "Policies", "RefusedError", "Source", "gather"]

#: A checked configuration, the path of a file, or None: what `headrace serve` would find.
Source: TypeAlias = Config | str | os.PathLike[str] | None

#: Events for the caller, or the attempt that follows.
Step: TypeAlias = list[ModelEvent] | AttemptSpec

#: Events that say nothing of the answer yet: at any other the stream commits.
_UNCOMMITTED: Final = (ModelStarted, Usage, ProviderErrorEvent)
_TERMINAL: Final = (ModelFinished, ProviderErrorEvent)


class RefusedError(errors.HeadraceError):
    """Nobody could be asked: an unknown selector, nothing bound, no such capability, no credential ready.

    - `code`: as the gateway names it (`unknown_model_selector`, `credential_pool_exhausted`, ...); `status` likewise.
    - `retry_at`: seconds since the Unix epoch, where known.
    """

    def __init__(self, message: str, *, code: str, status: int, retry_at: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_at = retry_at


@dataclass(frozen=True, slots=True)
class ModelResult:
    """A whole answer, gathered from its events."""

    text: str
    reasoning: str
    refusal: str
    intents: tuple[ToolIntentProposed, ...]
    usage: Usage | None
    finish: ModelFinished
    model: str | None
    response_id: str | None
    #: All events in their order, for what the fields above leave out (continuations, annotations, media).
    events: tuple[ModelEvent, ...]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a provider's body is made of a `ModelRequest`. Carried out when the attempt begins."""

    protocol: str
    body: bytes


class _LibraryRequest:
    """A `ModelRequest` as policy sees it. There is no client behind it: no headers, no peer, no key."""

    __slots__ = ("_raw", "_request", "losses")

    operation: Final = "generate"
    method: Final = "POST"
    path: Final = ""
    protocol: Final = None
    stream: Final = True
    include_usage: Final = True
    state_refs: Final = ()
    previous_response_id: Final = None
    session: Final = None
    peer: Final = ""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._raw = request.to_json()
        self.losses: list[Any] = []

    @property
    def id(self) -> str:
        return self._request.turn_id or ""

    @property
    def model(self) -> str:
        return self._request.model

    @property
    def body_size(self) -> int:
        return len(self._raw)

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._request.tools)

    @property
    def has_images(self) -> bool:
        from headrace.messages import Image

        return any(isinstance(part, Image) for message in self._request.messages for part in message.parts)

    @property
    def prompt_cache_key(self) -> str | None:
        return self._request.options.prompt_cache_key

    def header(self, name: str) -> str | None:  # noqa: ARG002 - a client's, and there is none
        return None

    def headers(self) -> list[tuple[str, str]]:
        return []

    def headers_named(self, _names: Sequence[str], _prefix: str | None = None) -> list[tuple[str, str]]:
        return []

    def body(self) -> bytes:
        return self._raw

    def body_for(
        self,
        protocol: str,
        *,
        model: str,
        provider: str | None = None,
        edits: Mapping[str, Any] | None = None,
        target_flags: Sequence[str] = (),
    ) -> _Recipe:
        made = translate.translate_request(
            self._raw,
            source="headrace",
            target=cast("Protocol", protocol),
            model=model,
            edits=edits or {},
            provider=provider,
            target_flags=target_flags,
        )
        self.losses = list(made.losses)
        return _Recipe(protocol, made.body)


class Policies:
    """A runtime's deciding half: the configuration, the gateway's policy, the demo upstream if one is configured."""

    def __init__(self, source: Source) -> None:
        config, registry = _configured(source)
        wants_demo = any(row.kind == "demo" and row.base_url is None for row in config.providers)
        self._demo = DemoRef.start() if wants_demo else None
        self._tokens = TokenThread(config.store)
        self.gateway: Gateway = Gateway(
            config,
            registry=registry,
            clock=time.time,
            random=random.SystemRandom().random,
            salt=os.urandom(16),
            demo_url=f"{self._demo.url}/v1" if self._demo else None,
            keeper=self._tokens,
        )
        self._turns = itertools.count()

    def turn(self) -> str:
        """Name a turn that the caller did not."""
        return f"t{next(self._turns)}"

    def route(self, selector: str) -> RouteFacts:
        """Say whom a selector leads to. Touches nobody.

        - Raises `RefusedError`: it leads nowhere.
        """
        target = self.gateway.resolver.resolve(selector, client="openai_chat")
        if isinstance(target, Refusal):
            raise RefusedError(target.message, code=target.code, status=target.status, retry_at=target.retry_at)
        return RouteFacts(target.row.id, target.wire.protocol, target.model)

    def close(self) -> None:
        """End what was started."""
        self._tokens.close()
        if self._demo is not None:
            self._demo.stop()


def _configured(source: Source) -> tuple[Config, Any]:
    from headrace.registry import Registry

    if isinstance(source, Config):
        registry = Registry()
        faults = [fault for check in (registry.check, check_credentials) for fault in check(source)]
        if faults:
            from headrace.config import Problem

            raise ConfigurationError([Problem(message, key=".".join(map(str, path))) for path, message in faults])
        return source, registry
    setup = configure(Path(source) if source is not None else None, environ=os.environ)
    return setup.config, setup.registry


class Call:
    """One request's way: decide, attempt, perhaps attempt again, settle."""

    def __init__(self, policies: Policies, request: ModelRequest) -> None:
        self._policies = policies
        self._request = request
        self.turn_id: str = request.turn_id or policies.turn()
        self._source = _LibraryRequest(request)
        self._token: int | None = None
        self._spec: AttemptSpec | None = None
        self._held: list[ModelEvent] = []
        self._committed = False
        self._started = 0.0
        self._first_byte: float | None = None
        self._usage: Usage | None = None
        self.attempts: Attempts = Attempts()

    @property
    def model(self) -> str:
        """The selector that was asked for."""
        return self._request.model

    def begin(self) -> AttemptSpec | Pending[AttemptSpec]:
        """Decide; or say that a token has to be waited for.

        - Raises `RefusedError`: nobody can be asked; nothing has been touched.
        - Raises `UnsupportedFeature`: the provider's protocol cannot carry what the request asks.
        """
        self._started = time.monotonic()
        decision = self._policies.gateway.decide(self._source)
        if isinstance(decision, CoroutineType):
            return Pending(decision, self._begun)
        return self._begun(decision)

    def _begun(self, decision: Any) -> AttemptSpec:
        if isinstance(decision, Refusal):
            raise RefusedError(decision.message, code=decision.code, status=decision.status, retry_at=decision.retry_at)
        if not isinstance(decision, Plan):
            raise TypeError(f"a {type(decision).__name__} is no plan")
        self._token = decision.token
        return self._sendable(decision.spec)

    def take(self, batch: list[ModelEvent], attempt: AttemptRef) -> Step | Pending[Step]:
        """Take what an attempt brought.

        Returns the events for the caller (perhaps none yet), or the `AttemptSpec` of the attempt that follows; or what
        has to be waited for before either is known.
        """
        last = batch[-1]
        if isinstance(last, ProviderErrorEvent) and self._spec is not None:
            last = _without(last, self._spec.secrets)
            batch = [*batch[:-1], last]
        if self._committed:
            if isinstance(last, _TERMINAL):
                self._end(batch, attempt)
            return batch
        if self._first_byte is None:
            self._first_byte = time.monotonic() - self._started
        self._held += batch
        if isinstance(last, ProviderErrorEvent) and all(isinstance(event, _UNCOMMITTED) for event in self._held):
            failed, step = last, self._after(last, attempt)
            if isinstance(step, CoroutineType):
                return Pending(step, lambda found: self._followed(found, failed, attempt))
            return self._followed(step, failed, attempt)
        if not isinstance(last, ModelFinished) and all(isinstance(event, _UNCOMMITTED) for event in batch):
            return []
        return self._commit(last, attempt)

    def _followed(self, step: Any, failed: ProviderErrorEvent, attempt: AttemptRef) -> Step:
        if isinstance(step, AttemptSpec):
            self._held = []
            return self._sendable(step)
        if isinstance(step, Refusal) and step.error is None:
            self._held[-1] = failed = _as_refused(failed, step)
        return self._commit(failed, attempt)

    def _commit(self, last: ModelEvent, attempt: AttemptRef) -> list[ModelEvent]:
        self._committed = True
        given, self._held = self._held, []
        if isinstance(last, _TERMINAL):
            self._end(given, attempt)
        return given

    def leave(self, attempt: AttemptRef | None) -> None:
        """Settle a stream that its caller left; nothing where it had ended."""
        if self._token is not None:
            error = ProviderErrorEvent(
                kind="aborted", retryable=False, message="the stream was left", phase="streaming"
            )
            self._settle(attempt, finish=None, error=error)

    def _after(self, error: ProviderErrorEvent, attempt: AttemptRef) -> Deferred[AttemptSpec | Refusal] | None:
        if self._token is None or self._spec is None:
            return None
        sent, received, reused = attempt.facts
        self.attempts.end(error, sent=sent, received=received)
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

    def _end(self, events: list[ModelEvent], attempt: AttemptRef) -> None:
        last = events[-1]
        self._usage = next((event for event in reversed(events) if isinstance(event, Usage)), None)
        finish = last.reason if isinstance(last, ModelFinished) else None
        self._settle(attempt, finish=finish, error=last if isinstance(last, ProviderErrorEvent) else None)

    def _settle(
        self,
        attempt: AttemptRef | None,
        *,
        finish: str | None,
        error: ProviderErrorEvent | None,
    ) -> None:
        if self._token is None:
            return
        token = self._token
        # First: it raises, and then nothing is settled, while another thread reads.
        sent, received, _ = attempt.facts if attempt is not None else (0, 0, False)
        events, intents = attempt.counts if attempt is not None else (0, 0)
        self.attempts.end(error, sent=sent, received=received)
        usage = self._usage
        self._token = None
        self._policies.gateway.settle(
            Settlement(
                token=token,
                attempts=self._spec.attempt if self._spec is not None else 0,
                status=attempt.status if attempt is not None else 0,
                finish=finish,
                error=error,
                headers=tuple(attempt.headers) if attempt is not None else (),
                input_tokens=usage.input_tokens if usage else None,
                output_tokens=usage.output_tokens if usage else None,
                cached_input_tokens=usage.cached_input_tokens if usage else None,
                cache_write_tokens=usage.cache_write_tokens if usage else None,
                reasoning_tokens=usage.reasoning_tokens if usage else None,
                intents=intents,
                events=events,
                bytes_sent=sent,
                bytes_received=received,
                first_byte_s=self._first_byte,
                total_s=time.monotonic() - self._started,
                losses=tuple((loss.path, loss.action) for loss in self._source.losses),
            )
        )

    def _sendable(self, spec: AttemptSpec) -> AttemptSpec:
        if isinstance(spec.body, _Recipe):
            spec = replace(spec, body=spec.body.body)
        self._spec = spec
        self.attempts.begin(
            spec, self._policies.gateway.credential(self._token), self._policies.gateway.hops(self._token)
        )
        return spec


_FIELDS: Final = (
    "kind",
    "retryable",
    "status",
    "code",
    "message",
    "raw",
    "retry_after_s",
    "request_id",
    "provider",
    "model",
    "phase",
)
_REDACTED: Final = "***"
#: A shorter one would be found in ordinary words.
_FOUND_FROM: Final = 4
_CALLERS: Final = frozenset({"bad_request", "context_length", "content_filter", "unsupported_feature"})


def _changed(event: ProviderErrorEvent, **facts: Any) -> ProviderErrorEvent:
    told = {name: getattr(event, name) for name in _FIELDS} | facts
    return ProviderErrorEvent(**told, seq=event.seq, offset=event.offset)


def _without(event: ProviderErrorEvent, secrets: Sequence[str]) -> ProviderErrorEvent:
    """Take secrets out of a provider's words: some repeat the key that they refuse."""
    cleaned = {}
    for name in ("code", "message", "raw"):
        text = getattr(event, name)
        for secret in secrets:
            if text and len(secret) >= _FOUND_FROM and secret in text:
                cleaned[name] = text = text.replace(secret, _REDACTED)
    return _changed(event, **cleaned) if cleaned else event


def _as_refused(event: ProviderErrorEvent, refusal: Refusal) -> ProviderErrorEvent:
    """Say what the policy made of the last failure: whose it is to mend, or the state of the whole pool."""
    kind = "unknown" if event.kind in _CALLERS else event.kind
    return _changed(event, kind=kind, message=refusal.message, retryable=False)


def gather(events: Sequence[ModelEvent]) -> ModelResult:
    """Make a result of all events of a stream.

    - Raises the error class of the kind in which the stream ended, if it ended in one.
    """
    last = events[-1]
    if isinstance(last, ProviderErrorEvent):
        raise errors.from_event(last)
    if not isinstance(last, ModelFinished):
        raise errors.KernelLostError("the stream ended without a terminal event")
    started = next((event for event in events if isinstance(event, ModelStarted)), None)
    return ModelResult(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        reasoning="".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        refusal="".join(event.text for event in events if isinstance(event, RefusalDelta)),
        intents=tuple(event for event in events if isinstance(event, ToolIntentProposed)),
        usage=next((event for event in reversed(events) if isinstance(event, Usage)), None),
        finish=last,
        model=started.model if started else None,
        response_id=started.response_id if started else None,
        events=tuple(events),
    )
