"""A gateway that is really served, between an upstream that replays bodies and whoever asks.

The policy is the real one but for the address: the model's name says which body the upstream gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.requests import Answer, Plan, Refusal, Request
from headrace.testing import Facts, Reply, Upstream
from tests.support import control
from tests.support.edge import listener

PROTOCOLS = ("openai_chat", "openai_responses", "anthropic_messages")
CLIENTS = (*PROTOCOLS, "google_gemini")
"""What clients speak: these three by their paths and bodies alone, Gemini's by its URL."""
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
}
PROVIDERS = {
    **{one: f'kind = "openai_compatible"\nprotocol = "{one}"' for one in PROTOCOLS},
    "google_gemini": 'kind = "google"',
    "mistral_chat": 'kind = "mistral"',
    "cohere_chat": 'kind = "cohere"',
    "ollama_chat": 'kind = "ollama"',
    "bedrock_converse": 'kind = "bedrock"\nsettings = { wire = "converse" }',
    "bedrock_invoke": 'kind = "bedrock"\nsettings = { wire = "invoke" }',
}
"""Whom a gateway can ask, and what tells of it in its row: a protocol, or a dialect of one."""
HI = [{"role": "user", "content": "hi"}]


def path_of(client: str, model: str, *, stream: bool) -> str:
    """Where a client of this protocol asks."""
    if client != "google_gemini":
        return PATHS[client]
    return f"/v1beta/models/{model}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"


def asking(client: str, model: str, *, stream: bool) -> dict[str, Any]:
    """The least that a client of this protocol asks, as a body."""
    if client == "google_gemini":
        return {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    body: dict[str, Any] = {"model": model, "stream": stream}
    if client == "openai_responses":
        return {**body, "input": "hi"}
    if client == "anthropic_messages":
        return {**body, "messages": HI, "max_tokens": 999}
    return {**body, "messages": HI, **({"stream_options": {"include_usage": True}} if stream else {})}


class Replaying:
    """The gateway's own policy, with a row for each of `PROVIDERS`, whose address the model's name completes."""

    def __init__(self, url: str) -> None:
        rows = [
            f'[[providers]]\nid = "{provider}"\n{kind}\nbase_url = "{url}"\n' for provider, kind in PROVIDERS.items()
        ]
        self._url = url
        self._policy = control.gateway("".join(rows))
        self.next = self._policy.next
        self.settle = self._policy.settle

    def decide(self, request: Request) -> Plan | Refusal | Answer:
        plan = self._policy.decide(request)
        if not isinstance(plan, Plan):
            return plan
        name = (request.model or "").partition("/")[2]
        return replace(plan, spec=replace(plan.spec, url=f"{self._url}/{name}"))


@dataclass(frozen=True)
class Stage:
    """Where to ask, and what the upstream saw."""

    url: str
    upstream: Upstream

    def facts(self) -> Facts:
        return self.upstream.facts()


@contextlib.contextmanager
def replaying(replies: Mapping[str, Reply]) -> Iterator[Stage]:
    """Serve a gateway whose models are `PROVIDER/NAME`: that provider answers with the reply NAME."""
    routes = {f"/{name}": reply for name, reply in replies.items()}
    with Upstream(routes, record=0) as upstream, listener(Replaying(upstream.url)) as edge:
        host, port = edge.address
        yield Stage(f"http://{host}:{port}", upstream)
