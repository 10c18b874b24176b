"""Rerank: a question and documents in, the documents in the order of their worth out.

1. Scores compare within one result only. The order is by score, however the provider ordered them.
2. A document comes back from its index: what the provider repeats of it is not trusted to be the caller's.

Never here: a provider's field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from headrace.capabilities._values import UNKNOWN, CallUsage, Fields
from headrace.errors import BadRequestError

__all__ = ["Document", "Ranked", "RerankRequest", "RerankResult", "parse", "render"]

#: Documents of one request: the vendors take 1,000 to 10,000. Each costs time here.
DOCUMENTS_MOST: Final = 16_384

Document: TypeAlias = str | Mapping[str, Any]
"""A text, or what a model that sees more takes: `{"text": ...}`, `{"image": ...}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankRequest:
    """What is to be ordered.

    - `model`: a selector; empty for the configured default.
    - `top_n`: give the best so many only.
    - `max_tokens_per_document`: the rest of a longer one is not looked at.
    - `return_documents`: whether the gateway's answer repeats the documents. A library's result always has them.
    """

    model: str
    query: str
    documents: tuple[Document, ...]
    top_n: int | None = None
    max_tokens_per_document: int | None = None
    truncate: bool | None = None
    return_documents: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a request that has nothing to order."""
        if not self.documents:
            raise BadRequestError("documents is empty: give at least one", param="documents")


@dataclass(frozen=True, slots=True)
class Ranked:
    """One document, its place in the request, and its score."""

    index: int
    score: float
    document: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankResult:
    """The documents, best first."""

    model: str
    results: tuple[Ranked, ...]
    id: str | None = None
    usage: CallUsage = UNKNOWN


def parse(body: Any) -> RerankRequest:
    """Read a client's body, in the form that Jina, Cohere and OpenRouter share.

    - Raises `BadRequestError`: names the field.
    """
    read = Fields(body)
    documents = read.take("documents")
    if not isinstance(documents, list) or not all(isinstance(one, str | dict) for one in documents):
        raise BadRequestError("documents must be a list of strings or objects", param="documents")
    if len(documents) > DOCUMENTS_MOST:
        raise BadRequestError(
            f"documents has more than {DOCUMENTS_MOST}: send them in several requests", param="documents"
        )
    return RerankRequest(
        model=read.text("model") or "",
        query=read.needed("query"),
        documents=tuple(documents),
        top_n=read.count("top_n", least=0),
        max_tokens_per_document=read.count("max_tokens_per_doc"),
        truncate=read.flag("truncation"),
        return_documents=read.flag("return_documents"),
        extra=read.extra,
    )


def render(request: RerankRequest, result: RerankResult) -> bytes:
    """Write a result."""
    import orjson

    told = []
    for one in result.results:
        item: dict[str, Any] = {"index": one.index, "relevance_score": one.score}
        if request.return_documents is not False:
            item["document"] = {"text": one.document} if isinstance(one.document, str) else one.document
        told.append(item)
    body: dict[str, Any] = {"model": result.model, "results": told}
    if result.id is not None:
        body["id"] = result.id
    usage = result.usage.to_dict()
    if usage:
        body["usage"] = usage
    return orjson.dumps(body)
