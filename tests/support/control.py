"""For tests of the control plane: a request without a socket, an error without a provider, a clock that stands."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.config import Config, parse
from headrace.gateway import Gateway
from headrace.metrics import Figures
from headrace.registry import Registry
from headrace.requests import Failure
from headrace.startup import check_selectors


@dataclass(frozen=True)
class FakeRecipe:
    """Keeps what a body was asked to be made of."""

    protocol: str
    model: str
    provider: str | None
    edits: dict[str, Any]
    target_flags: tuple[str, ...]


@dataclass
class FakeRequest:
    """Answers what the native handle answers."""

    protocol: str | None = "openai_chat"
    model: str | None = "acme/m"
    stream: bool = True
    include_usage: bool = False
    operation: str = "generate"
    id: str = "req_1"
    method: str = "POST"
    path: str = "/v1/chat/completions"
    body_size: int = 400
    tool_names: tuple[str, ...] = ()
    has_images: bool = False
    state_refs: tuple[str, ...] = ()
    prompt_cache_key: str | None = None
    previous_response_id: str | None = None
    session: str | None = None
    peer: str = "127.0.0.1:4711"
    sent: dict[str, str] = field(default_factory=dict)
    recipes: list[FakeRecipe] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        return self.sent.get(name)

    def headers(self) -> list[tuple[str, str]]:
        return list(self.sent.items())

    def headers_named(self, names, prefix=None):
        return [pair for pair in self.headers() if pair[0] in names or (prefix and pair[0].startswith(prefix))]

    def body(self) -> bytes:
        raise AssertionError("policy read the prompt")

    def body_for(self, protocol, *, model, provider=None, edits=None, target_flags=()):
        recipe = FakeRecipe(protocol, model, provider, dict(edits or {}), tuple(target_flags))
        self.recipes.append(recipe)
        return recipe


@dataclass(frozen=True)
class FakeError:
    """The fields of a `provider.error`."""

    kind: str
    status: int | None = None
    code: str | None = None
    retry_after_s: float | None = None
    phase: str = "head"
    retryable: bool = True
    message: str | None = None


def failure(
    kind: str,
    *,
    attempt: int = 1,
    token: int = 1,
    reused: bool = False,
    received: int = 0,
    headers: tuple[tuple[str, str], ...] = (),
    **facts: Any,
):
    """An attempt that failed."""
    return Failure(
        token=token,
        attempt=attempt,
        error=FakeError(kind, **facts),
        headers=headers,
        bytes_sent=100,
        bytes_received=received,
        reused_socket=reused,
    )


class Clock:
    """Time that passes when told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def configured(text: str, environ: dict[str, str] | None = None, folder: Path = Path("/nowhere")) -> Config:
    """Check a configuration's text as `headrace check` does."""
    registry = Registry(tuple)
    return parse(text, name="test.toml", folder=folder, environ=environ or {}, checks=(registry.check, check_selectors))


def gateway(
    text: str,
    environ: dict[str, str] | None = None,
    *,
    clock: Clock | None = None,
    seed: int = 1,
    figures: Figures | None = None,
) -> Gateway:
    """A gateway of this configuration."""
    return Gateway(
        configured(text, environ),
        registry=Registry(tuple),
        clock=clock or Clock(),
        random=random.Random(seed).random,
        salt=b"0123456789abcdef",
        demo_url="http://127.0.0.1:4242/v1",
        figures=figures,
    )
