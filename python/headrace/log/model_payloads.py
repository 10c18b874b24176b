"""Payloads about a model's side: what was asked, who was tried, what came back.

1. The classes after `ModelFellBack` record the events of `headrace.events` one to one, except that consecutive texts of
   one block are one payload here (`model.text`, `model.refusal`, `model.reasoning`), and that `tool_intent.delta` is
   not recorded. An intent is a `ToolIntent`, beside its fellows of the tool side.
2. What a provider gave raw is recorded only where it is given back (`Continuation`, `HostedTool`).

See `headrace.log.payloads` for the rules of all payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headrace.codes import (
    AttachTo,
    ContinuationForm,
    ErrorKind,
    ErrorPhase,
    FinishReason,
    HostedPhase,
    ReasoningKind,
)
from headrace.log._payload import Payload, register

__all__ = [
    "ModelAnnotated",
    "ModelAttemptFinished",
    "ModelAttemptStarted",
    "ModelContinued",
    "ModelEnded",
    "ModelFailed",
    "ModelFellBack",
    "ModelHostedTool",
    "ModelMedia",
    "ModelReasoned",
    "ModelRefused",
    "ModelRequested",
    "ModelSpoke",
    "ModelStarted",
    "ModelUsed",
]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequested(Payload):
    """A model is about to be asked: durable before a byte leaves.

    - `model`: the selector; `request`: digest of what the request tells, which the projection gives again.
    - `menu`: digest of the tools that are offered, and the artifact that lists them; "" without tools.
    - `purpose`: `compact` asks for a summary, and its answer is no part of the conversation.
    """

    type: ClassVar[str] = "model.requested"

    turn_id: str
    model: str
    request: str
    menu: str = ""
    tools: tuple[str, ...] = ()
    tokens: int = 0
    purpose: Literal["turn", "compact"] = "turn"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAttemptStarted(Payload):
    """One attempt at a request, and who was asked."""

    type: ClassVar[str] = "model.attempt.started"

    turn_id: str
    attempt: int
    provider: str | None = None
    credential: str | None = None
    """The credential's id, never its secret."""
    protocol: str | None = None
    delay_ms: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAttemptFinished(Payload):
    """How an attempt ended. `kind` and `status` say why where it failed."""

    type: ClassVar[str] = "model.attempt.finished"

    turn_id: str
    attempt: int
    outcome: Literal["finished", "failed", "aborted"]
    kind: ErrorKind | None = None
    status: int | None = None
    request_id: str | None = None
    duration_ms: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFellBack(Payload):
    """Another model is asked instead: from whom, to whom, why, and what it has to be able to do.

    - `for_turn`: a step along the selector's own route, for this answer alone; the run's selector stays.
    """

    type: ClassVar[str] = "model.fallback"

    turn_id: str
    from_model: str
    to_model: str
    reason: str
    capability: str = ""
    for_turn: bool = False


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStarted(Payload):
    """The answer began."""

    type: ClassVar[str] = "model.started"

    turn_id: str
    model: str | None = None
    response_id: str | None = None
    request_id: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpoke(Payload):
    """Text of one block."""

    type: ClassVar[str] = "model.text"

    turn_id: str
    text: str
    index: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRefused(Payload):
    """What a model said in place of an answer."""

    type: ClassVar[str] = "model.refusal"

    turn_id: str
    text: str
    index: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReasoned(Payload):
    """What a model thought: shown, never a fact."""

    type: ClassVar[str] = "model.reasoning"

    turn_id: str
    text: str
    kind: ReasoningKind = "raw"
    index: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContinued(Payload):
    """What a provider gave to be given back unchanged to the same family and row, and to nobody else."""

    type: ClassVar[str] = "model.continuation"

    turn_id: str
    family: str
    form: ContinuationForm
    data: str
    attach_to: AttachTo
    attach_index: int = 0
    provider: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnnotated(Payload):
    """A reference that belongs to a text. `first` and `last` are code points of it."""

    type: ClassVar[str] = "model.annotation"

    turn_id: str
    kind: str
    url: str | None = None
    title: str | None = None
    first: int | None = None
    last: int | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHostedTool(Payload):
    """What a provider ran on its own side. A report, never an intent."""

    type: ClassVar[str] = "model.hosted_tool"

    turn_id: str
    name: str
    phase: HostedPhase
    id: str | None = None
    family: str | None = None
    raw: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMedia(Payload):
    """An image or a sound. Its content is the artifact `digest`, or stands at `url`."""

    type: ClassVar[str] = "model.media"

    turn_id: str
    mime: str
    digest: str | None = None
    size: int = 0
    url: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsed(Payload):
    """Totals of the response. None: not told."""

    type: ClassVar[str] = "model.usage"

    turn_id: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    money_micros: int | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnded(Payload):
    """The response finished well: its intents count from here on."""

    type: ClassVar[str] = "model.finished"

    turn_id: str
    reason: FinishReason
    raw_reason: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed(Payload):
    """The response did not finish: every intent of it is void."""

    type: ClassVar[str] = "provider.error"

    turn_id: str
    kind: ErrorKind
    retryable: bool = False
    status: int | None = None
    code: str | None = None
    message: str | None = None
    retry_after_ms: int | None = None
    request_id: str | None = None
    provider: str | None = None
    model: str | None = None
    phase: ErrorPhase = "streaming"
