"""From a model's events to what the log keeps of them.

1. Consecutive texts of one block become one payload; deltas of calls are not kept.
2. An event's fields are copied, never the event: no native object is in the log.
3. Known secrets are taken out of texts, inputs and failures first. What is executed is what is recorded.

Decisions must not be added here.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from headrace import events as e
from headrace.log import payloads as p

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.log.menus import Menu
    from headrace.routes import Hop
    from headrace.runtime import AttemptFacts

__all__ = ["Transcript", "attempt_payloads"]


class Transcript:
    """One response's way into the log.

    - `menu`: what the request offered: it knows the version of each tool.
    - `price`: money of a usage, in millionths. `redact`: takes known secrets out.
    """

    def __init__(
        self,
        turn_id: str,
        menu: Menu,
        *,
        price: Callable[[p.ModelUsed], int | None],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._turn = turn_id
        self._menu = menu
        self._price = price
        self._redact = redact
        self._text: list[str] = []
        #: Class, index and kind of the text that is being gathered.
        self._block: tuple[type, int, str] | None = None
        self._made: list[p.Payload] = []
        self._request_id: str | None = None
        self._model: str | None = None
        #: The provider row that answers, and its wire.
        self._provider: str | None = None
        self._family: str | None = None
        #: Contents for the artifacts, by digest: (bytes, media type).
        self.media: dict[str, tuple[bytes, str]] = {}
        #: The last payload, once the response is over.
        self.end: p.ModelEnded | p.ModelFailed | None = None

    def take(self, event: e.ModelEvent) -> None:
        """Take in the next event."""
        match event:
            case e.TextDelta(text, index):
                self._gather(p.ModelSpoke, text, index, "")
            case e.RefusalDelta(text, index):
                self._gather(p.ModelRefused, text, index, "")
            case e.ReasoningDelta(text, kind, index):
                self._gather(p.ModelReasoned, text, index, kind)
            case e.ToolIntentDelta():
                pass
            case _:
                self._close()
                self._other(event)

    def answered_by(self, attempt: AttemptFacts) -> None:
        """Say whose events come next."""
        self._provider, self._family = attempt.provider, attempt.protocol

    def abort(self, why: str) -> None:
        """End a response that was left before its end. Its intents are void."""
        self._close()
        self._ends(p.ModelFailed(turn_id=self._turn, kind="aborted", message=why))

    def fail(self, failed: p.ModelFailed) -> None:
        """End a response that never began."""
        self._ends(failed)

    def payloads(self) -> list[p.Payload]:
        """Give everything, in order, the end last. Only after the end."""
        return self._made

    def _gather(self, cls: type, text: str, index: int, kind: str) -> None:
        block = (cls, index, kind)
        if self._block != block:
            self._close()
            self._block = block
        self._text.append(text)

    def _close(self) -> None:
        if self._block is None:
            return
        cls, index, kind = self._block
        more = {"kind": kind} if kind else {}
        text = self._redact("".join(self._text))
        self._made.append(cls(turn_id=self._turn, text=text, index=index, **more))
        self._block, self._text = None, []

    def _ends(self, end: p.ModelEnded | p.ModelFailed) -> None:
        self._made.append(end)
        self.end = end

    def _other(self, event: e.ModelEvent) -> None:
        turn = self._turn
        match event:
            case e.ModelStarted(model, response_id, request_id):
                self._model, self._request_id = model, request_id
                self._made.append(
                    p.ModelStarted(turn_id=turn, model=model, response_id=response_id, request_id=request_id)
                )
            case e.Continuation(family, form, data, attach):
                self._made.append(
                    p.ModelContinued(
                        turn_id=turn,
                        family=family,
                        form=form,
                        data=data,
                        attach_to=attach.to,
                        attach_index=attach.index,
                        provider=self._provider,
                    )
                )
            case e.Annotation(kind, url, title, span):
                first, last = span or (None, None)
                self._made.append(
                    p.ModelAnnotated(turn_id=turn, kind=kind, url=url, title=title, first=first, last=last)
                )
            case e.HostedTool(id_, phase, name, raw):
                self._made.append(
                    p.ModelHostedTool(turn_id=turn, name=name, phase=phase, id=id_, family=self._family, raw=raw)
                )
            case e.Media():
                self._media(event)
            case e.ToolIntentProposed():
                self._intent(event)
            case e.Usage():
                self._usage(event)
            case e.ModelFinished(reason, raw_reason):
                self._ends(p.ModelEnded(turn_id=turn, reason=reason, raw_reason=raw_reason))
            case e.ProviderErrorEvent():
                self._ends(failure(turn, event, self._redact))

    def _media(self, event: e.Media) -> None:
        if event.partial:
            return
        content = None
        if event.data is not None:
            try:
                content = base64.b64decode(event.data, validate=True)
            except (binascii.Error, ValueError):
                content = event.data.encode()
        digest = None
        if content is not None:
            from hashlib import sha256

            digest = sha256(content).hexdigest()
            self.media[digest] = (content, event.mime)
        self._made.append(
            p.ModelMedia(turn_id=self._turn, mime=event.mime, digest=digest, size=len(content or b""), url=event.url)
        )

    def _intent(self, event: e.ToolIntentProposed) -> None:
        made = event.assembled_from
        self._made.append(
            p.ToolIntent(
                turn_id=self._turn,
                intent_id=event.id,
                tool_name=event.tool_name,
                raw_input_text=self._redact(event.raw_input_text),
                call=event.call,
                kind=event.kind,
                provider_call_id=event.provider_call_id,
                tool_version=self._menu.version(event.tool_name),
                assembled_from=p.AssembledFrom(
                    event_count=made.event_count,
                    first_offset=made.first_offset,
                    last_offset=made.last_offset,
                    had_repair=made.had_repair,
                ),
                provider=self._provider,
                model=self._model,
                request_id=self._request_id,
            )
        )

    def _usage(self, event: e.Usage) -> None:
        fields = {
            "input_tokens": event.input_tokens,
            "output_tokens": event.output_tokens,
            "cached_input_tokens": event.cached_input_tokens,
            "cache_write_tokens": event.cache_write_tokens,
            "reasoning_tokens": event.reasoning_tokens,
        }
        used = p.ModelUsed(turn_id=self._turn, **fields)
        self._made.append(p.ModelUsed(turn_id=self._turn, **fields, money_micros=self._price(used)))


def failure(turn_id: str, event: e.ProviderErrorEvent, redact: Callable[[str], str] = str) -> p.ModelFailed:
    """Record a provider's failure. What it sent raw stays out, and so do its words about a key: they may quote it."""
    message = event.message
    if message is not None:
        message = (
            "the provider's words are withheld, as they may quote the key" if event.kind == "auth" else redact(message)
        )
    return p.ModelFailed(
        turn_id=turn_id,
        kind=event.kind,
        retryable=event.retryable,
        status=event.status,
        code=event.code,
        message=message,
        retry_after_ms=None if event.retry_after_s is None else max(0, round(event.retry_after_s * 1000)),
        request_id=event.request_id,
        provider=event.provider,
        model=event.model,
        phase=event.phase,
    )


def _fallback(turn_id: str, hop: Hop) -> p.ModelFellBack:
    return p.ModelFellBack(
        turn_id=turn_id,
        from_model=hop.came_from,
        to_model=hop.went_to,
        reason=hop.reason,
        capability=hop.capability,
        for_turn=True,
    )


def attempt_payloads(turn_id: str, attempts: tuple[AttemptFacts, ...], hops: tuple[Hop, ...]) -> list[p.Payload]:
    """Record who was asked, what came of it, and why another model was."""
    made: list[p.Payload] = []
    for made_before, one in enumerate(attempts):
        made += [_fallback(turn_id, hop) for hop in hops if hop.after == made_before]
        error = one.error
        made.append(
            p.ModelAttemptStarted(
                turn_id=turn_id,
                attempt=one.attempt,
                provider=one.provider,
                credential=one.credential,
                protocol=one.protocol,
                delay_ms=round(one.delay_s * 1000),
            )
        )
        made.append(
            p.ModelAttemptFinished(
                turn_id=turn_id,
                attempt=one.attempt,
                outcome="aborted" if one.outcome == "running" else one.outcome,
                kind=error.kind if error is not None else None,
                status=error.status if error is not None else None,
                request_id=error.request_id if error is not None else None,
                duration_ms=round(one.duration_s * 1000),
                bytes_sent=one.bytes_sent,
                bytes_received=one.bytes_received,
            )
        )
    return made
