"""What the capabilities' wires share: an authorised JSON request, and reading JSON that is somebody else's.

Never here: one vendor's fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from headrace.capabilities import CallUsage
from headrace.requests import PreparedRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.plugins import Capability
    from headrace.requests import Headers, RuntimeMap

__all__ = ["ERRORS", "dressed", "given", "google_model", "json_request", "loads", "number", "plain", "text", "usage_of"]

#: These answers are no model's: the protocol says only how an error's body is read, which is the same for all.
ERRORS: Final = "openai_chat"


def json_request(
    runtime: RuntimeMap,
    path: str,
    body: Mapping[str, Any] | None,
    *,
    base: str | None = None,
    headers: Headers = (),
    stream: bool = False,
) -> PreparedRequest:
    """Make a request: a POST with a JSON body, or without one a GET.

    - `base`: instead of the row's base URL.
    """
    import orjson

    url = (base or runtime.base_url).rstrip("/") + path
    accept = ("accept", "text/event-stream" if stream else "application/json")
    typed = (("content-type", "application/json"),) if body is not None else ()
    return PreparedRequest(
        method="GET" if body is None else "POST",
        url=url,
        headers=(*typed, accept, *headers),
        body=b"" if body is None else orjson.dumps(body),
        protocol=ERRORS,
        transport=runtime.transport,
        deadlines=runtime.deadlines,
    )


def dressed(
    wire: Capability,
    *,
    headers: Callable[[RuntimeMap], Headers] | None = None,
    base: Callable[[RuntimeMap], str] | None = None,
    query: Callable[[RuntimeMap], str] | None = None,
) -> Capability:
    """Give a wire with a vendor's own headers, base URL and query, all of them made of the runtime map."""
    plain = wire.prepare

    def prepare(runtime: RuntimeMap, asked: Any) -> PreparedRequest:
        made = plain(runtime if base is None else replace(runtime, base_url=base(runtime)), asked)
        if query is not None and (text := query(runtime)):
            made = replace(made, url=f"{made.url}?{text}")
        return made if headers is None else made.with_headers(*headers(runtime))

    return replace(wire, prepare=prepare)


def google_model(runtime: RuntimeMap) -> str:
    """Give the path of a model's calls, whether or not the base URL has its version.

    The name is a client's: it may not end the path.
    """
    model = quote(runtime.model, safe="/")
    model = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    versioned = runtime.base_url.rstrip("/").rpartition("/")[2].startswith("v1")
    return f"/{model}" if versioned else f"/v1beta/{model}"


def given(**fields: Any) -> dict[str, Any]:
    """Leave out what is None."""
    return {name: value for name, value in fields.items() if value is not None}


def loads(body: bytes) -> Any:
    """Read JSON.

    - Raises `ValueError`: it is none.
    """
    import orjson

    return orjson.loads(body)


def text(value: Any) -> str | None:
    """Give a string that says something, or None."""
    return value if isinstance(value, str) and value else None


def number(value: Any) -> int | None:
    """Give a whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def plain(value: Any) -> str:
    """Take the marks of a vendor's highlighting out of a snippet, and its entities."""
    import html
    import re

    return html.unescape(re.sub(r"</?(?:strong|b|em|mark)>", "", value)) if isinstance(value, str) else ""


def usage_of(body: Any) -> CallUsage:
    """Read what an answer tells of its cost, wherever vendors put it."""
    if not isinstance(body, dict):
        return CallUsage()
    told = body.get("usage") or body.get("usageMetadata")
    if isinstance(told, dict):
        names: tuple[str, ...] = ("prompt_tokens", "input_tokens", "promptTokenCount", "tokens", "total_tokens")
        total = number(told.get("total_tokens", told.get("totalTokenCount")))
        output = number(told.get("output_tokens", told.get("candidatesTokenCount")))
    else:
        meta = body.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        told = meta.get("billed_units") or meta.get("usage")
        if not isinstance(told, dict):
            count = number(body.get("prompt_eval_count", body.get("inputTextTokenCount")))
            return CallUsage(input_tokens=count)
        names = ("input_tokens", "image_tokens", "tokens")
        total = output = None
    spent = next((found for name in names if (found := number(told.get(name))) is not None), None)
    return CallUsage(input_tokens=spent, output_tokens=output, total_tokens=total, raw=told)
