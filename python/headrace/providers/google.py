"""Google's Gemini API (AI Studio), with a key.

The model and how the answer streams stand in the URL; the body has neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers import _embeddings, _images
from headrace.providers._shapes import dressed
from headrace.providers._wires import language_model

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "authorize", "flags_of", "prepare", "verb"]

_NUMBER: Final = re.compile(r"gemini-(\d)(?:\.(\d))?")
#: From here on a call of the current turn without a signature is refused.
_SIGNED: Final = 3
#: The first that thinks, by a budget.
_THINKS: Final = (2, 5)
_VERSION: Final = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which version of the API is spoken."""

    api_version: str = "v1beta"
    """Stands in the path. `v1` lacks what is new."""


def verb(request: Request) -> str:
    """Say what is asked of the model, as it stands behind the colon of the URL."""
    if request.operation == "count_tokens":
        return ":countTokens"
    return ":streamGenerateContent?alt=sse" if request.stream else ":generateContent"


def flags_of(model: str) -> tuple[str, ...]:
    """Say what a model takes in a translated request. One whose number is not seen is taken for a new one."""
    found = _NUMBER.search(model)
    if found is None:
        return () if "gemini" in model else ("no_effort",)
    number = (int(found[1]), int(found[2] or 0))
    if number < _THINKS:
        return ("no_effort",)
    return ("skip_signatures",) if number[0] >= _SIGNED else ("thinking_budget",)


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a `generateContent` request, or one that counts tokens."""
    base = runtime.base_url.rstrip("/")
    if not _VERSION.search(base):
        settings: Settings = runtime.settings
        base = f"{base}/{settings.api_version}"
    model = quote(runtime.model, safe="/")
    if not model.startswith(("models/", "tunedModels/")):
        model = f"models/{model}"
    return language_model(
        runtime, request, url=f"{base}/{model}{verb(request)}", flags=flags_of(runtime.model), ask_usage=False
    )


def authorize(secret: Secret) -> Headers:
    """Authorise with the key's own header: in the query it would stand in logs."""
    return (("x-goog-api-key", secret.reveal()),)


def _listing(base_url: str, settings: Settings) -> tuple[str, Headers]:
    base = base_url.rstrip("/")
    version = "" if _VERSION.search(base) else f"/{settings.api_version}"
    return f"{base}{version}/models?pageSize=1000", ()


def _home(runtime: RuntimeMap) -> str:
    base = runtime.base_url.rstrip("/")
    settings: Settings = runtime.settings
    return base if _VERSION.search(base) else f"{base}/{settings.api_version}"


DEFINITION = ProviderDefinition(
    kind="google",
    label="Google Gemini API",
    base_url="https://generativelanguage.googleapis.com",
    authorize=authorize,
    authorize_token=bearer,
    capabilities=(
        Capability("language_model", "google_gemini", prepare),
        dressed(_embeddings.GOOGLE, base=_home),
        dressed(_images.GEMINI, base=_home),
    ),
    settings=Settings,
    environment="GEMINI_API_KEY",
    patterns=("gemini-*",),
    counts_tokens=True,
    listing=_listing,
)
