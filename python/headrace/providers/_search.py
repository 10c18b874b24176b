"""The wires of web search. Each vendor's request is one function; one reader takes their answers by shape.

Never here: a row of a configuration, a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from headrace.capabilities import Hit, ReadError, SearchResult
from headrace.plugins import Capability
from headrace.providers._shapes import given, json_request, loads, plain, text, usage_of

if TYPE_CHECKING:
    from headrace.capabilities import SearchRequest
    from headrace.plugins import Prepare
    from headrace.requests import PreparedRequest, RuntimeMap

__all__ = ["BRAVE", "EXA", "FIRECRAWL", "JINA", "SEARXNG", "SERPER", "TAVILY", "read"]

_GOOGLE_SPANS: Final = {"day": "qdr:d", "week": "qdr:w", "month": "qdr:m", "year": "qdr:y"}
_BRAVE_SPANS: Final = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_BRAVE_MOST: Final = 20
_EXA_TYPES: Final = frozenset({"auto", "fast", "instant", "lite", "neural", "deep-lite", "deep", "deep-reasoning"})


def _sites(asked: SearchRequest) -> str:
    """Write domains into the question, for engines that have no field for them."""
    wanted = " OR ".join(f"site:{one}" for one in asked.include_domains)
    unwanted = "".join(f" -site:{one}" for one in asked.exclude_domains)
    if len(asked.include_domains) > 1:
        wanted = f"({wanted})"
    return f"{asked.query}{' ' if wanted else ''}{wanted}{unwanted}"


def _brave(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    query = given(
        q=_sites(asked),
        count=min(asked.max_results, _BRAVE_MOST) if asked.max_results else None,
        country=asked.country,
        search_lang=asked.language,
        freshness=_BRAVE_SPANS.get(asked.freshness or ""),
    )
    return json_request(runtime, f"/web/search?{urlencode(query)}", None)


def _tavily(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    body = given(
        query=asked.query,
        max_results=asked.max_results,
        include_domains=list(asked.include_domains) or None,
        exclude_domains=list(asked.exclude_domains) or None,
        time_range=asked.freshness,
        include_raw_content="markdown" if asked.content else None,
    )
    return json_request(runtime, "/search", body)


def _exa(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    body = given(
        query=asked.query,
        numResults=asked.max_results,
        includeDomains=list(asked.include_domains) or None,
        excludeDomains=list(asked.exclude_domains) or None,
        userLocation=asked.country,
        # What a selector calls the model is this provider's way of searching.
        type=runtime.model if runtime.model in _EXA_TYPES else None,
        contents={"text": True, "highlights": True} if asked.content else {"highlights": True},
    )
    return json_request(runtime, "/search", body)


def _jina(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    body = given(q=_sites(asked), num=asked.max_results, gl=asked.country, hl=asked.language)
    headers = () if asked.content else (("x-respond-with", "no-content"),)
    return json_request(runtime, "/", body, base=runtime.settings.search_url, headers=headers)


def _searxng(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    query = given(q=_sites(asked), format="json", language=asked.language, time_range=asked.freshness)
    return json_request(runtime, f"/search?{urlencode(query)}", None)


def _firecrawl(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    body = given(
        query=_sites(asked),
        limit=asked.max_results,
        tbs=_GOOGLE_SPANS.get(asked.freshness or ""),
        country=asked.country,
        scrapeOptions={"formats": ["markdown"]} if asked.content else None,
    )
    return json_request(runtime, "/search", body)


def _serper(runtime: RuntimeMap, asked: SearchRequest) -> PreparedRequest:
    body = given(
        q=_sites(asked),
        num=asked.max_results,
        gl=asked.country,
        hl=asked.language,
        tbs=_GOOGLE_SPANS.get(asked.freshness or ""),
    )
    return json_request(runtime, "/search", body)


def read(asked: SearchRequest, body: bytes) -> SearchResult:
    """Read an answer of any of these vendors."""
    whole = loads(body)
    if whole.get("success") is False:
        raise ReadError("unknown", "the provider says that the search failed")
    hits = [hit for place, item in enumerate(_items(whole)) if (hit := _hit(item, place)) is not None]
    if asked.max_results is not None:
        del hits[asked.max_results :]
    ident = text(whole.get("request_id")) or text(whole.get("requestId"))
    return SearchResult(results=tuple(hits), answer=text(whole.get("answer")), id=ident, usage=usage_of(whole))


def _items(whole: dict[str, Any]) -> list[Any]:
    """Find the list of pages.

    - Raises `TypeError`: there is none, and nothing says that nothing was found.
    """
    for name in ("results", "organic", "organic_results"):
        if isinstance(whole.get(name), list):
            return list(whole[name])
    found = whole.get("data", whole.get("web"))
    if isinstance(found, dict):
        found = found.get("web", found.get("results"))
        if found is None:
            return []
    if found is None and "query" in whole:
        return []  # Brave leaves the list out where it found nothing
    return [*found]  # type: ignore[misc]  # what is no list is no answer


def _hit(item: dict[str, Any], place: int) -> Hit | None:
    url = text(item.get("url")) or text(item.get("link"))
    if url is None:
        return None
    highlights = item.get("highlights")
    snippet = item.get("description", item.get("snippet"))
    content = item.get("raw_content", item.get("markdown", item.get("text")))
    if snippet is None and isinstance(highlights, list):
        snippet = " … ".join(one for one in highlights if isinstance(one, str))
    if snippet is None:
        # What Tavily and SearXNG call content is the passage that fits.
        snippet = item.get("content")
    elif content is None:
        content = item.get("content")
    dates = ("publishedDate", "published_date", "page_age", "date", "age")
    score = item.get("score")
    return Hit(
        url=url,
        title=plain(item.get("title")),
        snippet=plain(snippet),
        content=text(content),
        published_at=next((found for name in dates if (found := text(item.get(name)))), None),
        score=float(score) if isinstance(score, int | float) else None,
        source_index=place,
    )


def _wire(name: str, prepare: Prepare, *more: str) -> Capability:
    carries = frozenset({"query", "max_results", "include_domains", "exclude_domains", *more})
    return Capability("web_search", name, prepare, read=read, carries=carries)


BRAVE: Final = _wire("brave_search", _brave, "country", "language", "freshness")
TAVILY: Final = _wire("tavily_search", _tavily, "freshness", "content")
EXA: Final = _wire("exa_search", _exa, "country", "content")
JINA: Final = _wire("jina_search", _jina, "country", "language", "content")
SEARXNG: Final = _wire("searxng_search", _searxng, "language", "freshness")
FIRECRAWL: Final = _wire("firecrawl_search", _firecrawl, "country", "freshness", "content")
SERPER: Final = _wire("serper_search", _serper, "country", "language", "freshness")
