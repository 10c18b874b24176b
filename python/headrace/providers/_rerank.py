"""The wires of rerank. One reader for all answers, by their shape; documents come from the request.

Never here: a row of a configuration, a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.capabilities import Ranked, ReadError, RerankResult
from headrace.errors import UnsupportedFeature
from headrace.plugins import Capability
from headrace.providers._shapes import given, json_request, loads, text, usage_of

if TYPE_CHECKING:
    from headrace.capabilities import RerankRequest
    from headrace.requests import PreparedRequest, RuntimeMap

__all__ = ["COHERE", "JINA", "VOYAGE", "read"]


def _jina(runtime: RuntimeMap, asked: RerankRequest) -> PreparedRequest:
    """Jina's form, which OpenRouter, Together, vLLM and others took over."""
    body: dict[str, Any] = {"model": runtime.model, "query": asked.query, "documents": list(asked.documents)}
    body |= given(top_n=asked.top_n, return_documents=asked.return_documents)
    return json_request(runtime, "/rerank", body | dict(asked.extra))


def _cohere(runtime: RuntimeMap, asked: RerankRequest) -> PreparedRequest:
    body: dict[str, Any] = {"model": runtime.model, "query": asked.query, "documents": _texts(asked)}
    body |= given(top_n=asked.top_n, max_tokens_per_doc=asked.max_tokens_per_document)
    base = runtime.base_url.rstrip("/")
    return json_request(runtime, "/rerank" if base.endswith(("/v1", "/v2")) else "/v2/rerank", body)


def _voyage(runtime: RuntimeMap, asked: RerankRequest) -> PreparedRequest:
    body: dict[str, Any] = {"model": runtime.model, "query": asked.query, "documents": _texts(asked)}
    return json_request(runtime, "/rerank", body | given(top_k=asked.top_n, truncation=asked.truncate))


def _texts(asked: RerankRequest) -> list[str]:
    made = []
    for one in asked.documents:
        found = one if isinstance(one, str) else one.get("text")
        if not isinstance(found, str):
            raise UnsupportedFeature("documents: this provider takes texts only", param="documents")
        made.append(found)
    return made


def read(asked: RerankRequest, body: bytes) -> RerankResult:
    """Read an answer of any of these vendors."""
    whole = loads(body)
    items = whole if isinstance(whole, list) else whole.get("results", whole.get("data"))
    ranked = []
    for item in items:
        index = item["index"]
        score = item.get("relevance_score", item.get("relevanceScore", item.get("score")))
        if not isinstance(index, int) or not 0 <= index < len(asked.documents):
            raise ReadError("unknown", "the provider ranked a document that it was not given")
        ranked.append(Ranked(index, float(score), asked.documents[index]))
    ranked.sort(key=lambda one: (-one.score, one.index))
    if asked.top_n is not None:
        del ranked[asked.top_n :]
    facts = whole if isinstance(whole, dict) else {}
    return RerankResult(
        model=text(facts.get("model")) or asked.model,
        results=tuple(ranked),
        id=text(facts.get("id")),
        usage=usage_of(facts),
    )


_COMMON: Final = frozenset({"query", "documents", "top_n"})
JINA: Final = Capability("rerank", "jina_rerank", _jina, read=read, carries=_COMMON | {"extra"})
COHERE: Final = Capability("rerank", "cohere_rerank", _cohere, read=read, carries=_COMMON | {"max_tokens_per_document"})
VOYAGE: Final = Capability("rerank", "voyage_rerank", _voyage, read=read, carries=_COMMON | {"truncate"})
