"""What a provider can do beside its models: one typed request and one typed result for each.

    embeddings      EmbedRequest   -> EmbedResult
    rerank          RerankRequest  -> RerankResult
    image_generate  ImageRequest   -> ImageResult, and PartialImage on the way
    web_search      SearchRequest  -> SearchResult
    web_fetch       FetchRequest   -> FetchResult

1. Values are frozen. `model` is a selector, as in a `ModelRequest`.
2. `extra` holds what only one vendor knows; it goes to wires of the client's own form and nowhere else.
3. A module reads the client's body into its request (`parse`) and writes its result for the client (`render`).

Never here: a provider's field names (`providers/`), I/O.
"""

from headrace.capabilities._values import CallUsage, ReadError, changed
from headrace.capabilities.embeddings import Embedding, EmbedRequest, EmbedResult, Vector
from headrace.capabilities.fetch import FetchRequest, FetchResult
from headrace.capabilities.images import Image, ImageFile, ImageRequest, ImageResult, PartialImage
from headrace.capabilities.rerank import Ranked, RerankRequest, RerankResult
from headrace.capabilities.search import Hit, SearchRequest, SearchResult

__all__ = [
    "CallUsage",
    "EmbedRequest",
    "EmbedResult",
    "Embedding",
    "FetchRequest",
    "FetchResult",
    "Hit",
    "Image",
    "ImageFile",
    "ImageRequest",
    "ImageResult",
    "PartialImage",
    "Ranked",
    "ReadError",
    "RerankRequest",
    "RerankResult",
    "SearchRequest",
    "SearchResult",
    "Vector",
    "changed",
]
