"""A model request in our own words: messages of parts, tools, options.

1. Values only, frozen and slotted. A tool is a description: the type has no field that could hold a callable.
2. What is raw (`raw_schema`, `raw_input_text`, `raw`, `extra`) is JSON text and stays byte for byte what it was.
3. `to_json()` is the only serial form, and the source form `headrace` of request translation: one object whose keys
   are the field names below, absent where None or empty; a part's `type` is its snake-case class name; raw JSON is
   embedded as JSON, except `raw_input_text`, which is a string because it need not be JSON.
4. `extra` is `{FAMILY: raw JSON object}`: keys for that family's body alone, dropped for every other.

Do not add: a vendor's private field (it goes into `extra`), behaviour, a callable.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Literal, Protocol, TypeAlias

__all__ = [
    "Audio",
    "Continuation",
    "File",
    "HostedTool",
    "Image",
    "Message",
    "ModelRequest",
    "Options",
    "Part",
    "Reasoning",
    "Refusal",
    "Text",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
CallKind: TypeAlias = Literal["function", "custom"]
#: Raw JSON text of an object, per wire family.
Extra: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Text:
    """What somebody said."""

    text: str
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """By `data` (base64) with its `mime`, or by `url`, or by the provider's `file_id`."""

    mime: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, raw: bytes, mime: str) -> Image:
        """Make an image part of a picture's bytes."""
        return cls(mime=mime, data=base64.b64encode(raw).decode("ascii"))


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound, as base64 with its `mime`."""

    mime: str | None = None
    data: str | None = field(default=None, repr=False)
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class File:
    """A document, by `data` (base64), `url` or the provider's `file_id`."""

    name: str | None = None
    mime: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    file_id: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a model said in place of an answer."""

    text: str
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thought; shown, never a fact."""

    text: str
    kind: Literal["summary", "raw"] = "raw"
    extra: Extra = field(default_factory=dict)


class _Attach(Protocol):
    """What a continuation's event says of its place: `headrace.Attach`."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a provider gave to be given back: opaque, and only to the same family and provider row.

    - `attach`: the event's own, or the same as a mapping:
      `{"to": "reasoning" | "call" | "text" | "response", "index": n}`.
    """

    family: str
    form: Literal["signature", "redacted", "encrypted", "thought_signature", "details"]
    data: str = field(repr=False)
    attach: _Attach | Mapping[str, Any] | None = None
    provider: str | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model made in an earlier turn, given back to it."""

    call_id: str
    name: str
    raw_input_text: str
    kind: CallKind = "function"
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call."""

    call_id: str
    parts: tuple[Text | Image | Audio | File, ...] = ()
    is_error: bool = False
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostedTool:
    """What a provider ran on its own side, given back as it came. `raw` is JSON text of `family`."""

    raw: str
    family: str | None = None
    extra: Extra = field(default_factory=dict)


Part: TypeAlias = Text | Image | Audio | File | Refusal | Reasoning | Continuation | ToolCall | ToolResult | HostedTool


@dataclass(frozen=True, slots=True)
class Message:
    """Parts under one role."""

    role: Role
    parts: tuple[Part, ...]
    extra: Extra = field(default_factory=dict)

    @classmethod
    def user(cls, text: str) -> Message:
        """A user's message of one text."""
        return cls("user", (Text(text),))

    @classmethod
    def system(cls, text: str) -> Message:
        """A system message of one text."""
        return cls("system", (Text(text),))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's description. `raw_schema`: JSON text, passed in its own spelling."""

    name: str
    description: str | None = None
    raw_schema: str | None = None
    kind: CallKind = "function"
    strict: bool | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`auto`, `none`, `required`, or `tool` with its name."""

    mode: Literal["auto", "none", "required", "tool"]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The closed list of what may be asked for beside the messages. None: not asked.

    - `response_format`: JSON text of `{"type": "json_object"}`, or of
      `{"type": "json_schema", "name": ..., "schema": ..., "strict": ...}`.
    """

    stream: bool = True
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    reasoning_budget_tokens: int | None = None
    verbosity: str | None = None
    response_format: str | None = None
    service_tier: str | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. `model` is a selector: a profile, or `provider_id/model`."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    options: Options = Options()
    run_id: str | None = None
    turn_id: str | None = None

    def to_json(self) -> bytes:
        """Give the request as one JSON object: what request translation takes as source `headrace`.

        - Raises `ValueError`: a raw field is not JSON, or a text is no Unicode (half of a surrogate pair).
        - Raises `TypeError`: a value of another type stands where one of this module's is needed.
        """
        import orjson  # here, because the package's import must stay light

        if not isinstance(self.model, str):
            raise TypeError(f"model: expected a str, got {type(self.model).__name__}; a selector such as 'primary'")
        plain = _plain(self, "", orjson.Fragment, orjson.loads)
        try:
            return orjson.dumps(plain)
        except orjson.JSONEncodeError as error:
            raise ValueError(f"the request cannot be written as JSON: {error}") from None


#: Fields whose text is JSON and goes in as JSON.
_RAW: frozenset[str] = frozenset({"raw_schema", "raw", "response_format"})

_TYPES: Mapping[type, str] = {
    Text: "text",
    Image: "image",
    Audio: "audio",
    File: "file",
    Refusal: "refusal",
    Reasoning: "reasoning",
    Continuation: "continuation",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    HostedTool: "hosted_tool",
}


#: Fields that hold one thing and no list of them.
_SINGLE: frozenset[str] = frozenset({"options", "tool_choice"})

#: What stands in these fields.
_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "messages": (Message,),
    "tools": (Tool,),
    "parts": tuple(_TYPES),
    "options": (Options,),
    "tool_choice": (ToolChoice,),
}


def _plain(value: Any, path: str, fragment: Any, loads: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    kind = _TYPES.get(type(value))
    if kind is not None:
        out["type"] = kind
    for spec in fields(value):
        name = spec.name
        item = getattr(value, name)
        if item is None or (isinstance(item, (tuple, list, dict)) and not item):
            continue
        at = f"{path}.{name}" if path else name
        if name in _RAW:
            out[name] = _raw(item, at, fragment, loads)
        elif name == "extra":
            out[name] = {family: _raw(text, f"{at}.{family}", fragment, loads) for family, text in item.items()}
        elif (types := _MEMBERS.get(name)) is None:
            if isinstance(item, float) and not isfinite(item):
                raise ValueError(f"{at}: {item} is no number that JSON can carry; give a finite one or None")
            out[name] = dict(item) if isinstance(item, Mapping) else item.to_dict() if name == "attach" else item
        elif name in _SINGLE:
            out[name] = _plain(_checked(item, types, at), at, fragment, loads)
        else:
            members = enumerate(_checked(item, (tuple, list), at))
            out[name] = [
                _plain(_checked(one, types, f"{at}[{n}]"), f"{at}[{n}]", fragment, loads) for n, one in members
            ]
    return out


def _checked(value: Any, types: tuple[type, ...], at: str) -> Any:
    if isinstance(value, types):
        return value
    needed = " or ".join(one.__name__ for one in types) if len(types) < len(_TYPES) else "a part, such as Text"
    raise TypeError(f"{at}: expected {needed}, got {type(value).__name__}")


def _raw(text: Any, at: str, fragment: Any, loads: Any) -> Any:
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"{at}: expected JSON text, got {type(text).__name__}; json.dumps() makes it")
    try:
        loads(text)  # a fragment is copied unread: broken JSON must fail here and name its field
    except ValueError as error:
        raise ValueError(f"{at}: is not JSON: {error}") from None
    return fragment(text)
