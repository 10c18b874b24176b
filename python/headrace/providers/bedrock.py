"""Amazon Bedrock: Converse for every model, and models' own formats by InvokeModel.

1. The model and whether the answer is streamed stand in the URL: a model's id is percent-encoded there, colons and
   slashes too.
2. A key pair signs the request (service `bedrock`), any other secret is a bearer key.
3. By InvokeModel are asked: Anthropic's models by Messages, Nova by a body of Converse's shape, and those that speak
   Chat Completions. The formats of one prompt (Llama, Titan and others) have no messages, calls or pictures, and a
   conversation would have to be written into a text that its own words could break out of: those models are asked by
   Converse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from headrace.errors import UnsupportedFeature
from headrace.plugins import Capability, ProviderDefinition, bearer
from headrace.providers.anthropic import flags_of
from headrace.requests import REMOVE, AwsKeys, PreparedRequest, Secret, Signing

if TYPE_CHECKING:
    from headrace.requests import Headers, Request, RuntimeMap

__all__ = ["DEFINITION", "Settings", "authorize", "prepare"]

_CONVERSE: Final = "bedrock_converse"
_INVOKE: Final = "bedrock_invoke"
_PATHS: Final = {
    (_CONVERSE, False): "converse",
    (_CONVERSE, True): "converse-stream",
    (_INVOKE, False): "invoke",
    (_INVOKE, True): "invoke-with-response-stream",
}
_REGION: Final = "{region}"

Format = Literal["messages", "nova", "chat"]

#: Whose a model is, by its id, a profile's or an ARN.
_VENDOR: Final = re.compile(r"(?:\A|[/.])(?P<vendor>[a-z0-9]+)\.(?P<model>[a-z][^/]*)\Z")
_REGIONS: Final = frozenset({"us", "eu", "apac", "au", "ca", "jp", "sa", "global"})
#: Vendors whose models take one prompt, or a form of their own, by InvokeModel.
_PROMPTED: Final = frozenset({"ai21", "amazon", "cohere", "deepseek", "meta", "mistral", "writer"})
_CHAT: Final = frozenset({"moonshot", "moonshotai", "openai", "qwen"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the models are, and how they are asked."""

    region: str = "us-east-1"
    """Stands in the address and in the signature."""
    wire: Literal["auto", "converse", "invoke"] = "auto"
    """`auto`: Anthropic's models in their own format, by InvokeModel; all others by Converse."""
    format: Literal["auto", "messages", "nova", "chat"] = "auto"
    """For InvokeModel: what the body is, where the model's name does not tell (an imported or provisioned one)."""
    anthropic_version: str = "bedrock-2023-05-31"
    """For InvokeModel, where the client names none."""
    guardrail: str | None = None
    """A guardrail's id or ARN, with its version in `guardrail_version`."""
    guardrail_version: str = "DRAFT"
    guardrail_trace: bool = False


def prepare(runtime: RuntimeMap, request: Request) -> PreparedRequest:
    """Prepare a request in the model's wire."""
    settings: Settings = runtime.settings
    anthropic = "anthropic." in runtime.model
    invoke = settings.wire == "invoke" or (settings.wire == "auto" and anthropic)
    protocol = _INVOKE if invoke else _CONVERSE
    body_of, flags, edits = protocol, _flags(runtime.model, anthropic=anthropic), dict[str, Any]()
    headers: Headers = ()
    if invoke:
        form = _form(runtime.model) if settings.format == "auto" else settings.format
        if form == "messages":
            betas = _betas(request)
            edits = {"/anthropic_version": settings.anthropic_version} | ({"/anthropic_beta": betas} if betas else {})
        elif form == "nova":
            body_of, flags, edits = _CONVERSE, _NOVA_FLAGS, {"/schemaVersion": "messages-v1"}
        else:
            # What stands in the URL.
            body_of, edits = "openai_chat", dict.fromkeys(_IN_URL, REMOVE)
            flags = (*_CHAT_FLAGS, "max_completion_tokens") if "openai." in runtime.model else _CHAT_FLAGS
    if settings.guardrail is not None:
        trace = "enabled" if settings.guardrail_trace else "disabled"
        if invoke:
            headers = (
                ("x-amzn-bedrock-guardrailidentifier", settings.guardrail),
                ("x-amzn-bedrock-guardrailversion", settings.guardrail_version),
                ("x-amzn-bedrock-trace", trace.upper()),
            )
        else:
            edits["/guardrailConfig"] = {
                "guardrailIdentifier": settings.guardrail,
                "guardrailVersion": settings.guardrail_version,
                "trace": trace,
            }
    base = runtime.base_url.replace(_REGION, settings.region).rstrip("/")
    stream = request.stream
    return PreparedRequest(
        url=f"{base}/model/{quote(runtime.model, safe='')}/{_PATHS[protocol, stream]}",
        headers=(
            ("content-type", "application/json"),
            ("accept", "application/vnd.amazon.eventstream" if stream else "application/json"),
            *headers,
        ),
        body=request.body_for(
            body_of,
            model=runtime.model,
            provider=runtime.provider,
            edits=edits or None,
            target_flags=flags,
        ),
        protocol=protocol,
        transport=runtime.transport,
        deadlines=runtime.deadlines,
        signing=Signing(settings.region, "bedrock"),
    )


def _betas(request: Request) -> list[str]:
    """Read the features that a Messages client asks for in a header: here they stand in the body."""
    own = request.protocol == "anthropic_messages"
    asked = (own and request.header("anthropic-beta")) or ""
    return list(dict.fromkeys(name.strip() for name in asked.split(",") if name.strip()))


def _form(model: str) -> Format:
    """Tell in which format a model is asked by InvokeModel; one whose name says nothing, in Anthropic's."""
    found = _VENDOR.search(model)
    while found is not None and found["vendor"] in _REGIONS:
        found = _VENDOR.search(found["model"])
    if found is None or found["vendor"] == "anthropic":
        return "messages"
    if found["vendor"] == "amazon" and found["model"].startswith("nova"):
        return "nova"
    if found["vendor"] in _CHAT:
        return "chat"
    if found["vendor"] in _PROMPTED:
        message = f'model: {model} has a format of its own by InvokeModel; ask it by Converse (settings: wire = "auto")'
        raise UnsupportedFeature(message, param="model")
    return "messages"


def _flags(model: str, *, anthropic: bool) -> tuple[str, ...]:
    if anthropic:
        # No mark on the whole body, and no message of the system's inside the conversation.
        return (*flags_of(model, "2023-06-01", cache=False), "no_system_messages")
    return ("sampling", "no_adaptive_thinking", "no_effort", "no_strict", "no_cache_marks")


_NOVA_FLAGS: Final = (
    "sampling",
    "no_adaptive_thinking",
    "no_effort",
    "no_strict",
    "no_cache_marks",
    "no_json_schema",
    "invoke_body",
)
_CHAT_FLAGS: Final = ("openai_compatible", "no_stream_options")
_IN_URL: Final = ("/model", "/stream", "/stream_options")


def authorize(secret: Secret) -> Headers | AwsKeys:
    """Sign with `ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]`, or show a bearer key."""
    parts = secret.reveal().split(":")
    if len(parts) not in {2, 3}:
        return bearer(secret)
    return AwsKeys(parts[0], Secret(parts[1]), Secret(parts[2]) if parts[2:] else None)


DEFINITION = ProviderDefinition(
    kind="bedrock",
    label="Amazon Bedrock",
    base_url="https://bedrock-runtime.{region}.amazonaws.com",
    authorize=authorize,
    capabilities=(Capability("language_model", _CONVERSE, prepare),),
    settings=Settings,
    environment="AWS_BEARER_TOKEN_BEDROCK",
)
