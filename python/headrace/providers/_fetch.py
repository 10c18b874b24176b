"""The wires of web fetch: services that read a page for us.

Never here: a page fetched by ourselves (`fetching/`), a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.capabilities import FetchResult, ReadError
from headrace.capabilities.fetch import cut
from headrace.errors import UnsupportedFeature
from headrace.plugins import Capability
from headrace.providers._shapes import json_request, loads, text, usage_of

if TYPE_CHECKING:
    from headrace.capabilities import FetchRequest
    from headrace.requests import PreparedRequest, RuntimeMap

__all__ = ["FIRECRAWL", "JINA", "TAVILY", "read"]

_FIRST_FAILURE: Final = 400


def _jina(runtime: RuntimeMap, asked: FetchRequest) -> PreparedRequest:
    headers = (("x-return-format", asked.format),)
    return json_request(runtime, "/", {"url": asked.url}, base=runtime.settings.reader_url, headers=headers)


def _firecrawl(runtime: RuntimeMap, asked: FetchRequest) -> PreparedRequest:
    if asked.format == "text":
        raise UnsupportedFeature("format: this provider gives markdown or html", param="format")
    return json_request(runtime, "/scrape", {"url": asked.url, "formats": [asked.format]})


def _tavily(runtime: RuntimeMap, asked: FetchRequest) -> PreparedRequest:
    if asked.format == "html":
        raise UnsupportedFeature("format: this provider gives markdown or text", param="format")
    return json_request(runtime, "/extract", {"urls": [asked.url], "format": asked.format})


def read(asked: FetchRequest, body: bytes) -> FetchResult:
    """Read an answer of any of these vendors."""
    whole = loads(body)
    code = whole.get("code")
    if whole.get("success") is False or (isinstance(code, int) and code >= _FIRST_FAILURE):
        raise ReadError("bad_request", "the provider could not fetch the page")
    if "results" in whole:
        results = whole["results"]
        if not results:
            # The page's own failure comes with a good status.
            raise ReadError("bad_request", "the provider could not fetch the page")
        return _page(asked, results[0], results[0].get("raw_content"), whole)
    data = whole["data"]
    facts = data.get("metadata")
    facts = facts if isinstance(facts, dict) else {}
    found = data.get(asked.format, data.get("content"))
    known = {**facts, **data, "url": data.get("url") or facts.get("sourceURL") or facts.get("url")}
    return _page(asked, known, found, data, text(facts.get("contentType")))


def _page(
    asked: FetchRequest, facts: dict[str, Any], content: Any, spent: dict[str, Any], kind: str | None = None
) -> FetchResult:
    if not isinstance(content, str):
        raise ReadError("unknown", "the provider gave no text")
    kept, truncated = cut(content, asked.max_bytes)
    return FetchResult(
        url=text(facts.get("url")) or asked.url,
        content=kept,
        title=text(facts.get("title")),
        format=asked.format,
        content_type=kind,
        truncated=truncated,
        usage=usage_of(spent),
    )


_CARRIES: Final = frozenset({"url", "format", "max_bytes"})
JINA: Final = Capability("web_fetch", "jina_reader", _jina, read=read, carries=_CARRIES)
FIRECRAWL: Final = Capability("web_fetch", "firecrawl_scrape", _firecrawl, read=read, carries=_CARRIES)
TAVILY: Final = Capability("web_fetch", "tavily_extract", _tavily, read=read, carries=_CARRIES)
