"""OpenAI's models as Azure hosts them, over either family of its URLs, with a key or an Entra token.

A model's name is the deployment's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers import _embeddings, _images
from headrace.providers._shapes import dressed
from headrace.providers._wires import PATHS, language_model
from headrace.providers.openai import model_flags

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "authorize", "prepare"]

#: How a token begins, as every JWT does; no key holds a dot.
_JWT: Final = "eyJ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which URLs, and what the deployments can do."""

    api_version: str | None = None
    """With it requests go to `/openai/deployments/NAME/...?api-version=`; without it to `/openai/v1/...`."""
    reasoning: bool = True
    """Whether the deployments are of models that reason. The others refuse an effort, and take sampling."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Responses or Chat request."""
    settings: Settings = runtime.settings
    # A deployment is most often called as its model; what another name stands for is not known.
    flags = model_flags(runtime.model) if settings.reasoning else ("no_effort", "no_encrypted_reasoning", "sampling")
    return language_model(runtime, request, url=_url(runtime, settings.api_version), flags=flags)


def _url(runtime: RuntimeMap, version: str | None) -> str:
    """Give the URL of a request. A base URL that already names the family is taken too."""
    base = runtime.base_url.rstrip("/").removesuffix("/v1").removesuffix("/openai")
    path = PATHS[runtime.protocol]
    if version is None:
        return f"{base}/openai/v1{path}"
    if runtime.protocol == "openai_chat":
        path = f"/deployments/{quote(runtime.model, safe='')}{path}"
    return f"{base}/openai{path}?api-version={quote(version, safe='')}"


def _home(runtime: RuntimeMap) -> str:
    """Give the base of what is not the language model."""
    base = runtime.base_url.rstrip("/").removesuffix("/v1").removesuffix("/openai")
    if runtime.settings.api_version is None:
        return f"{base}/openai/v1"
    return f"{base}/openai/deployments/{quote(runtime.model, safe='')}"


def _version(runtime: RuntimeMap) -> str:
    version: str | None = runtime.settings.api_version
    return "" if version is None else f"api-version={quote(version, safe='')}"


def authorize(secret: Secret) -> Headers:
    """Authorise with a key in its own header, or with an Entra token as a bearer."""
    text = secret.reveal()
    return bearer(secret) if text.startswith(_JWT) and "." in text else (("api-key", text),)


DEFINITION = ProviderDefinition(
    kind="azure_openai",
    label="Azure OpenAI",
    authorize=authorize,
    authorize_token=bearer,
    capabilities=(
        Capability("language_model", "openai_responses", prepare),
        Capability("language_model", "openai_chat", prepare),
        *(dressed(one, base=_home, query=_version) for one in (_embeddings.OPENAI, _images.OPENAI)),
    ),
    settings=Settings,
)
