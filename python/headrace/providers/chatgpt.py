"""The Responses backend of a ChatGPT plan, as Codex uses it.

1. It streams and nothing else, and stores nothing: both are said for every request, whatever the client asked. A client
   that wants one object gets it all the same.
2. The account is the token's own, unless the settings name one.

Whether a plan may be used so is between its owner and OpenAI: nothing leads here unless it is configured.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers._wires import language_model
from headrace.requests import REMOVE

if TYPE_CHECKING:
    from headrace.requests import Headers, PreparedRequest, Request, RuntimeMap, Secret

__all__ = ["DEFINITION", "Settings", "account_of", "authorize", "prepare"]

_CLAIMS: Final = "https://api.openai.com/auth"
#: What the backend wants to see before it switches.
_WEBSOCKETS: Final = "responses_websockets=2026-02-06"
_ACCOUNT: Final = "chatgpt-account-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """For whom, and who says that he asks."""

    account_id: str | None = None
    """Sent as `chatgpt-account-id`, in place of the one that the token names."""
    originator: str = "headrace"
    """Sent as `originator` for a client that sends none."""
    websocket: bool = False
    """Whether answers come over WebSockets that are kept open; HTTP is what remains where one cannot be had."""
    without: tuple[str, ...] = ("max_output_tokens",)
    """Keys of the body that the backend refuses, and that are therefore left out."""


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a Responses request."""
    settings: Settings = runtime.settings
    own = request.protocol == "openai_responses"
    headers: Headers = (("originator", (own and request.header("originator")) or settings.originator),)
    if settings.account_id:
        headers += ((_ACCOUNT, settings.account_id),)
    edits: dict[str, Any] = {"/stream": True, "/store": False}
    edits |= {f"/{key}": REMOVE for key in settings.without}
    if settings.websocket:
        headers += (("openai-beta", _WEBSOCKETS),)
    return language_model(
        runtime,
        request,
        headers=headers,
        edits=edits,
        # Every model of the plan reasons, and its own client always asks for it.
        flags=("reasons",),
        streams=True,
        websocket=settings.websocket,
    )


def authorize(secret: Secret) -> Headers:
    """Authorise with the plan's access token, and name its account."""
    account = account_of(secret)
    return (*bearer(secret), *(((_ACCOUNT, account),) if account else ()))


def account_of(secret: Secret) -> str | None:
    """Read the account that an access token is for. None where it is no token of this kind."""
    parts = secret.reveal().split(".")
    if len(parts) != len(("head", "claims", "signature")):
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        account = claims[_CLAIMS]["chatgpt_account_id"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    # It becomes a header's value.
    return account if isinstance(account, str) and account.isascii() and account.isprintable() else None


DEFINITION = ProviderDefinition(
    kind="chatgpt",
    label="ChatGPT plan",
    base_url="https://chatgpt.com/backend-api/codex",
    authorize=authorize,
    capabilities=(Capability("language_model", "openai_responses", prepare),),
    settings=Settings,
)
