"""What the providers of one wire family share: where a request goes, and what it carries besides its body.

1. A client's header goes upstream only by name, and only to the family that the client itself speaks.
2. The client's authorisation, cookies and organisation headers are on no list, and `x-codex-turn-state` neither:
   it routes to one credential, which need not be the one chosen here.
3. Usage is asked for on a streamed Chat answer where the client did not, so that every request can be settled.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headrace.requests import REMOVE, Headers, PreparedRequest, Request, RuntimeMap

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

__all__ = [
    "NEVER_SET",
    "PATHS",
    "TOKEN",
    "anthropic_listing",
    "endpoint",
    "language_model",
    "openai_listing",
    "passed_headers",
]

#: After a base URL with its version, as the vendors' own SDKs have it.
PATHS: Final[Mapping[str, str]] = {
    "openai_chat": "/chat/completions",
    "openai_responses": "/responses",
    "anthropic_messages": "/v1/messages",
    "cohere_chat": "/v2/chat",
    "ollama_chat": "/api/chat",
}
#: What a base URL may end in besides: these wires' paths have their version, or none.
_VERSIONS: Final[Mapping[str, str]] = {"anthropic_messages": "/v1", "cohere_chat": "/v2", "ollama_chat": "/api"}

_STREAMS: Final[Mapping[str, str]] = {"ollama_chat": "application/x-ndjson"}
#: Wires on which `<think>` in the text may be looked for.
_TAGGED: Final = ("openai_chat", "ollama_chat")
_OPENAI: Final = (
    "openai-beta",
    "originator",
    "session-id",
    "thread-id",
    "x-client-request-id",
    "x-openai-internal-codex-responses-lite",
)
_PASSED: Final[Mapping[str, tuple[str, ...]]] = {
    "openai_chat": _OPENAI,
    "openai_responses": _OPENAI,
    "anthropic_messages": ("anthropic-version", "anthropic-beta"),
}
#: Characters of a client's headers that a preparation which is kept may have. Kinds of requests times models times this
#: is what clients can fill; the SDKs' own headers have some hundred.
KEPT_HEADERS: Final = 1024
#: A header's name, as HTTP has it.
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: What no configuration may set: where secrets stand, and what belongs to the connection or to the body.
NEVER_SET: Final = frozenset(
    {
        "api-key",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "ocp-apim-subscription-key",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-amz-security-token",
        "x-api-key",
        "x-codex-turn-state",
        "x-goog-api-key",
        "x-key",
        "x-subscription-token",
    }
)
_HELD_BACK: Final = frozenset({"x-codex-turn-state"})


def endpoint(base_url: str, protocol: str) -> str:
    """Give the URL of a wire's requests. Anthropic's base URL has no version; one that ends in it is taken too.

    Likewise Cohere's, and Ollama's without `/api`.
    """
    return base_url.rstrip("/").removesuffix(_VERSIONS.get(protocol, "/")) + PATHS[protocol]


def openai_listing(base_url: str, _settings: object) -> tuple[str, Headers]:
    """Say where OpenAI, and what is compatible with it, lists models."""
    return base_url.rstrip("/") + "/models", ()


def anthropic_listing(base_url: str, _settings: object) -> tuple[str, Headers]:
    """Say where Anthropic lists models."""
    return base_url.rstrip("/").removesuffix("/v1") + "/v1/models?limit=1000", (("anthropic-version", "2023-06-01"),)


def passed_headers(request: Request, protocol: str) -> Headers:
    """Pick what of the client's headers its own family may see."""
    if request.protocol != protocol or protocol not in _PASSED:
        return ()
    if protocol != "openai_responses":
        return tuple(request.headers_named(_PASSED[protocol]))
    picked = request.headers_named(_PASSED[protocol], "x-codex-")
    return tuple(pair for pair in picked if pair[0] not in _HELD_BACK)


def alike(runtime: RuntimeMap, request: Request) -> Hashable:
    """Give all that `language_model` and the preparations that only call it read of a request.

    None for headers that are too long to be kept for others, who will hardly send the same.
    """
    passed = passed_headers(request, runtime.protocol)
    if passed and sum(len(name) + len(value) for name, value in passed) > KEPT_HEADERS:
        return None
    return request.protocol, request.stream, request.include_usage, passed


def language_model(
    runtime: RuntimeMap,
    request: Request,
    *,
    headers: Headers = (),
    ask_usage: bool = True,
    think_tags: bool = False,
    flags: Sequence[str] = (),
    edits: Mapping[str, Any] | None = None,
    url: str | None = None,
    streams: bool = False,
    normalise: bool = False,
    websocket: bool = False,
) -> PreparedRequest:
    """Prepare a model's request in the runtime map's protocol.

    - `headers`: the vendor's own, beside the common ones; each takes the place of one that would be passed.
    - `ask_usage`: the vendor takes `stream_options.include_usage`.
    - `flags`: what its dialect needs of a translated body.
    - `edits`: on the body, by JSON pointer.
    - `url`: where the vendor's path is not the wire's own.
    - `normalise`: the answer is encoded anew also for a client of the same protocol.
    - `streams`: the answer is a stream, whatever the client asked for.
    - `websocket`: a Responses stream goes over a WebSocket, where the provider lets it.
    """
    protocol = runtime.protocol
    chat = protocol == "openai_chat"
    asked = ask_usage and chat and request.stream and not request.include_usage
    changes = dict(edits or {})
    if asked:
        changes["/stream_options/include_usage"] = True
    body = request.body_for(
        protocol,
        model=runtime.model,
        provider=runtime.provider,
        edits=changes or None,
        target_flags=flags,
    )
    accept = _STREAMS.get(protocol, "text/event-stream") if streams or request.stream else "application/json"
    passed = passed_headers(request, protocol)
    if headers:
        own = {name for name, _ in headers}
        passed = tuple(pair for pair in passed if pair[0] not in own)
    prepared = PreparedRequest(
        url=url or endpoint(runtime.base_url, protocol),
        headers=(
            ("content-type", "application/json"),
            ("accept", accept),
            *headers,
            *passed,
        ),
        body=body,
        protocol=protocol,
        transport=runtime.transport,
        deadlines=runtime.deadlines,
        think_tags=think_tags and protocol in _TAGGED,
        usage_asked=asked and request.protocol == "openai_chat",
        normalise=normalise,
    )
    if not (websocket and protocol == "openai_responses" and (streams or request.stream)):
        return prepared
    # One message each way: its type stands beside the body's keys, and `stream` must not be sent.
    message = {**changes, "/type": "response.create", "/stream": REMOVE, "/stream_options": REMOVE}
    return replace(
        prepared,
        # http becomes ws, https becomes wss.
        url=prepared.url.replace("http", "ws", 1),
        method="GET",
        headers=tuple(pair for pair in prepared.headers if pair[0] not in {"accept", "content-type"}),
        body=request.body_for(
            protocol, model=runtime.model, provider=runtime.provider, edits=message, target_flags=flags
        ),
        transport="websocket",
        otherwise=prepared,
    )
