"""Vendors of the capabilities beside the language model, as data: search engines, page readers, embedders, rerankers.

`model` in their selectors is a name for whoever reads it (`brave/web`), but where a vendor has several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.plugins import ProviderDefinition, bearer
from headrace.providers import _embeddings, _fetch, _rerank, _search

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.plugins import Capability
    from headrace.requests import Headers, Secret

__all__ = ["DEFINITIONS", "JinaSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JinaSettings:
    """Where Jina's other two services are. `base_url` is the embedder's and reranker's."""

    search_url: str = "https://s.jina.ai"
    """The search."""
    reader_url: str = "https://r.jina.ai"
    """The reader of pages. It takes requests without a key too, fewer of them."""


def _brave(secret: Secret) -> Headers:
    return (("x-subscription-token", secret.reveal()),)


def _key(secret: Secret) -> Headers:
    return (("x-api-key", secret.reveal()),)


@dataclass(frozen=True, slots=True)
class _Vendor:
    kind: str
    label: str
    base_url: str | None
    environment: str | None
    capabilities: tuple[Capability, ...]
    authorize: Callable[[Secret], Headers] = bearer
    settings: type | None = None


_VENDORS: Final = (
    _Vendor("brave", "Brave Search", "https://api.search.brave.com/res/v1", "BRAVE_API_KEY", (_search.BRAVE,), _brave),
    _Vendor("exa", "Exa", "https://api.exa.ai", "EXA_API_KEY", (_search.EXA,), _key),
    _Vendor(
        "firecrawl",
        "Firecrawl",
        "https://api.firecrawl.dev/v2",
        "FIRECRAWL_API_KEY",
        (_search.FIRECRAWL, _fetch.FIRECRAWL),
    ),
    _Vendor(
        "jina",
        "Jina AI",
        "https://api.jina.ai/v1",
        "JINA_API_KEY",
        (_embeddings.JINA, _rerank.JINA, _search.JINA, _fetch.JINA),
        settings=JinaSettings,
    ),
    _Vendor("searxng", "SearXNG", None, None, (_search.SEARXNG,)),
    _Vendor("serper", "Serper", "https://google.serper.dev", "SERPER_API_KEY", (_search.SERPER,), _key),
    _Vendor("tavily", "Tavily", "https://api.tavily.com", "TAVILY_API_KEY", (_search.TAVILY, _fetch.TAVILY)),
    _Vendor(
        "voyage", "Voyage AI", "https://api.voyageai.com/v1", "VOYAGE_API_KEY", (_embeddings.VOYAGE, _rerank.VOYAGE)
    ),
)

DEFINITIONS: Final = tuple(
    ProviderDefinition(
        kind=vendor.kind,
        label=vendor.label,
        base_url=vendor.base_url,
        environment=vendor.environment,
        capabilities=vendor.capabilities,
        authorize=vendor.authorize,
        settings=vendor.settings,
    )
    for vendor in _VENDORS
)
