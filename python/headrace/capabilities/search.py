"""Web search: a question in, pages out.

Never here: a provider's field names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from headrace.capabilities._values import UNKNOWN, CallUsage, Fields
from headrace.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Freshness", "Hit", "SearchRequest", "SearchResult", "parse", "render"]

Freshness: TypeAlias = Literal["day", "week", "month", "year"]
_FRESH: Final[tuple[Freshness, ...]] = ("day", "week", "month", "year")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is looked for.

    - `model`: a selector: the profile `web_search`, one of its bindings, or `PROVIDER/NAME`.
    - `freshness`: how old a page may be.
    - `content`: whether the pages' text is wanted, where the provider can give it.
    - `country`, `language`: two letters.
    """

    query: str
    model: str = "web_search"
    max_results: int | None = None
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    freshness: Freshness | None = None
    country: str | None = None
    language: str | None = None
    content: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an empty question."""
        if not self.query.strip():
            raise BadRequestError("query is empty", param="query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One page.

    - `snippet`: what of it answers the question, without markup.
    - `content`: the page's text, where it was asked for.
    - `published_at`: as the provider writes it.
    - `source_index`: its place in the provider's answer.
    """

    url: str
    title: str = ""
    snippet: str = ""
    content: str | None = None
    published_at: str | None = None
    score: float | None = None
    source_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Pages, best first, and the provider's own answer where it gives one."""

    results: tuple[Hit, ...]
    answer: str | None = None
    id: str | None = None
    usage: CallUsage = UNKNOWN


def parse(body: Any) -> SearchRequest:
    """Read a client's body.

    - Raises `BadRequestError`: names the field.
    """
    read = Fields(body)
    return SearchRequest(
        query=read.needed("query"),
        model=read.text("model") or "web_search",
        max_results=read.count("max_results"),
        include_domains=read.texts("include_domains"),
        exclude_domains=read.texts("exclude_domains"),
        freshness=cast("Freshness | None", read.text("freshness", of=_FRESH)),
        country=read.text("country"),
        language=read.text("language"),
        content=read.flag("content") or False,
        extra=read.extra,
    )


def render(request: SearchRequest, result: SearchResult) -> bytes:
    """Write a result; what is unknown is left out."""
    import orjson

    told = []
    for hit in result.results:
        known = {
            "url": hit.url,
            "title": hit.title,
            "snippet": hit.snippet,
            "content": hit.content,
            "published_at": hit.published_at,
            "score": hit.score,
            "source_index": hit.source_index,
        }
        told.append({name: value for name, value in known.items() if value is not None})
    body: dict[str, Any] = {"object": "web_search", "query": request.query, "results": told}
    if result.answer is not None:
        body["answer"] = result.answer
    if result.id is not None:
        body["id"] = result.id
    return orjson.dumps(body)
