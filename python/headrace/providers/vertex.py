"""Gemini on Vertex AI, and, where the row's `protocol` says so, Claude there.

The credential is an OAuth access token, or an API key of express mode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers._wires import language_model
from headrace.providers.anthropic import flags_of as claude_flags
from headrace.providers.google import flags_of, verb
from headrace.requests import REMOVE

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "authorize", "prepare", "prepare_claude"]

_HOST: Final = "https://aiplatform.googleapis.com"
#: Several regions under one name have hosts of their own.
_REGIONS: Final = ("us", "eu")
#: How API keys begin; an access token begins with neither.
_KEYS: Final = ("AIza", "AQ.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whose models, and where they run."""

    project: str | None = None
    """The project's id. Without one an API key of express mode is needed."""
    location: str = "global"
    """A region such as `europe-west4`; `us` or `eu` for several; or `global`."""
    api_version: str = "v1beta1"
    """Stands in the path of Gemini's requests."""
    user_project: str | None = None
    """Sent as `x-goog-user-project`: who pays."""
    anthropic_version: str = "vertex-2023-10-16"
    """Stands in the body of Claude's requests."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a `generateContent` request, or one that counts tokens."""
    settings: Settings = runtime.settings
    model, publisher = runtime.model, "google"
    if "/" in model:
        publisher, model = model.split("/", 1)
    url = f"{_models(runtime, settings.api_version, publisher)}/{quote(model, safe='')}{verb(request)}"
    return language_model(runtime, request, url=url, headers=_payer(settings), flags=flags_of(model), ask_usage=False)


def prepare_claude(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Messages request: the model stands in the URL, and the version in the body.

    A count of tokens has an address of its own, and its model in the body.
    """
    settings: Settings = runtime.settings
    models = _models(runtime, "v1", "anthropic")
    edits: dict[str, Any] = {"/anthropic_version": settings.anthropic_version}
    if request.operation == "count_tokens":
        url = f"{models}/count-tokens:rawPredict"
    else:
        edits["/model"] = REMOVE
        method = ":streamRawPredict" if request.stream else ":rawPredict"
        url = f"{models}/{quote(runtime.model, safe='@')}{method}"
    # No mark on the whole body, and no message of the system's inside the conversation, as on Anthropic's other hosts.
    version = settings.anthropic_version.removeprefix("vertex-")
    flags = (*claude_flags(runtime.model, version, cache=False), "no_system_messages")
    prepared = language_model(runtime, request, url=url, headers=_payer(settings), edits=edits, flags=flags)
    # The version is the body's; a header of a Messages client might say another.
    return replace(prepared, headers=tuple(pair for pair in prepared.headers if pair[0] != "anthropic-version"))


def _models(runtime: RuntimeMap, version: str, publisher: str) -> str:
    settings: Settings = runtime.settings
    base = runtime.base_url.rstrip("/")
    if base == _HOST:
        base = _host(settings.location)
    project = ""
    if settings.project is not None:
        project = f"/projects/{quote(settings.project, safe=':')}/locations/{quote(settings.location, safe='')}"
    return f"{base}/{version}{project}/publishers/{quote(publisher, safe='')}/models"


def _host(location: str) -> str:
    if location == "global":
        return _HOST
    if location in _REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{quote(location, safe='')}-aiplatform.googleapis.com"


def _payer(settings: Settings) -> Headers:
    return (("x-goog-user-project", settings.user_project),) if settings.user_project else ()


def authorize(secret: Secret) -> Headers:
    """Authorise with an access token as a bearer, or with an API key in its own header."""
    text = secret.reveal()
    return (("x-goog-api-key", text),) if text.startswith(_KEYS) else bearer(secret)


DEFINITION = ProviderDefinition(
    kind="vertex",
    label="Google Vertex AI",
    base_url=_HOST,
    authorize=authorize,
    authorize_token=bearer,
    capabilities=(
        Capability("language_model", "google_gemini", prepare),
        Capability("language_model", "anthropic_messages", prepare_claude, forced_only=True),
    ),
    settings=Settings,
    counts_tokens=True,
)
