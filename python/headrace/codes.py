"""The closed lists of codes that events hold, as types. They are for ever: one that is removed stays reserved.

The native module owns the lists; a test compares them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = [
    "AttachTo",
    "CallKind",
    "ContinuationForm",
    "End",
    "ErrorKind",
    "ErrorPhase",
    "FinishReason",
    "HostedPhase",
    "LossAction",
    "Protocol",
    "ReasoningKind",
    "Transport",
]

Protocol: TypeAlias = Literal[
    "openai_chat",
    "openai_responses",
    "anthropic_messages",
    "google_gemini",
    "bedrock_converse",
    "bedrock_invoke",
    "cohere_chat",
    "ollama_chat",
]
"""A wire protocol: how a provider's or a client's bytes are to be read."""

Transport: TypeAlias = Literal["http", "websocket"]
"""How the bytes came: as one body, or a message a call."""

End: TypeAlias = Literal["eof", "reset", "timeout", "aborted"]
"""What follows the last byte."""

FinishReason: TypeAlias = Literal["stop", "tool_intents", "length", "content_filter", "refusal", "pause", "other"]
"""Why a response ended."""

ReasoningKind: TypeAlias = Literal["summary", "raw"]
"""The provider's summary, or the model's own text."""

CallKind: TypeAlias = Literal["function", "custom"]
"""A function takes a JSON object, a custom tool any text."""

ContinuationForm: TypeAlias = Literal["signature", "redacted", "encrypted", "thought_signature", "details"]
"""How a continuation's data is to be given back."""

AttachTo: TypeAlias = Literal["reasoning", "call", "text", "response"]
"""What a continuation belongs to."""

HostedPhase: TypeAlias = Literal["started", "progress", "done", "failed"]
"""The life of a tool that the provider runs itself."""

ErrorPhase: TypeAlias = Literal["connect", "request", "head", "before_commit", "streaming"]
"""Where in its life an attempt failed."""

ErrorKind: TypeAlias = Literal[
    "auth",
    "rate_limit",
    "quota",
    "timeout",
    "overloaded",
    "bad_request",
    "context_length",
    "content_filter",
    "stream_interrupted",
    "unsupported_feature",
    "malformed_tool_call",
    "transport",
    "aborted",
    "unknown",
]
"""What kind of failure a `provider.error` is."""

LossAction: TypeAlias = Literal["renamed", "approximated", "dropped"]
"""What became of a field that the target has no equal for."""
