"""The wires of embeddings.

1. One reader for all answers: it goes by their shape, since vendors copy each other's.
2. The place of a vector is its `index` where it has one, else where it stands.
3. Floats are asked for as base64 where the vendor has it, and packed where it has not: they never are Python numbers.

Never here: a row of a configuration, a socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace._bridge import pack_floats
from headrace.capabilities import Embedding, EmbedResult, ReadError, Vector
from headrace.errors import UnsupportedFeature
from headrace.plugins import Capability
from headrace.providers._shapes import given, google_model, json_request, loads, text, usage_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.capabilities import EmbedRequest
    from headrace.capabilities.embeddings import Dtype
    from headrace.requests import PreparedRequest, RuntimeMap

__all__ = ["COHERE", "GOOGLE", "JINA", "MISTRAL", "OLLAMA", "OPENAI", "OPENAI_PLAIN", "VOYAGE", "read"]

_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a vendor of OpenAI's form spells what is not in it."""

    wire: str
    dimensions: str = "dimensions"
    purpose: str | None = None
    purposes: Mapping[str, str] | None = None
    dtype: str | None = None
    truncate: str | None = None
    #: The field and the value that ask for base64. None: nothing does, or not reliably.
    base64: tuple[str, str] | None = None
    objects: bool = False
    """Takes `{"text": ...}` and `{"image": ...}` as inputs."""
    path: str = "/embeddings"

    def capability(self) -> Capability:
        """Make the wire."""
        carries = {"input", "dimensions", "dtype" if self.dtype else "", "truncate" if self.truncate else ""}
        if self.purpose:
            carries.add("purpose")
        if self.wire == "openai_embeddings":
            carries |= {"extra", "encoding", "user"}
        return Capability("embeddings", self.wire, self.prepare, read=read, carries=frozenset(carries))

    def prepare(self, runtime: RuntimeMap, asked: EmbedRequest) -> PreparedRequest:
        """Prepare a request of OpenAI's form."""
        if asked.dtype != "float" and self.dtype is None:
            raise UnsupportedFeature(f"dtype: this provider gives float only, not {asked.dtype}", param="dtype")
        # One text as it is: some servers answer a list of one otherwise.
        body: dict[str, Any] = {"model": runtime.model, "input": self._input(asked)}
        if asked.dimensions is not None:
            body[self.dimensions] = asked.dimensions
        if self.purpose and asked.purpose is not None:
            purposes = self.purposes
            body[self.purpose] = asked.purpose if purposes is None else purposes.get(asked.purpose, asked.purpose)
        if self.truncate and asked.truncate is not None:
            body[self.truncate] = asked.truncate
        if self.dtype and asked.dtype != "float":
            body[self.dtype] = asked.dtype
        elif self.base64 is not None and asked.encoding != "float":
            body[self.base64[0]] = self.base64[1]
        elif asked.encoding == "base64" and self.wire == "openai_embeddings":
            body["encoding_format"] = asked.encoding
        if self.wire == "openai_embeddings":
            body |= given(user=asked.user) | dict(asked.extra)
        return json_request(runtime, self.path, body)

    def _input(self, asked: EmbedRequest) -> Any:
        if not self.objects and any(isinstance(one, dict) for one in asked.input):
            raise UnsupportedFeature("input: this provider takes texts only, no pictures", param="input")
        return asked.input[0] if len(asked.input) == 1 and isinstance(asked.input[0], str) else list(asked.input)


_COHERE_PURPOSES: Final = {
    "query": "search_query",
    "document": "search_document",
    "similarity": "clustering",
    "classification": "classification",
    "clustering": "clustering",
}


def _cohere(runtime: RuntimeMap, asked: EmbedRequest) -> PreparedRequest:
    body: dict[str, Any] = {"model": runtime.model}
    pictures = [one for one in asked.input if isinstance(one, dict)]
    if any(isinstance(one, tuple) for one in asked.input):
        raise UnsupportedFeature("input: this provider takes no token ids; send the text", param="input")
    if pictures:
        body["input_type"] = "image"
        body["inputs"] = [{"content": [_cohere_part(one)]} for one in asked.input]
    else:
        body["input_type"] = _COHERE_PURPOSES[asked.purpose or "document"]
        body["texts"] = list(asked.input)
    body["embedding_types"] = ["base64" if asked.dtype == "float" else asked.dtype]
    body |= given(output_dimension=asked.dimensions)
    if asked.truncate is not None:
        body["truncate"] = "END" if asked.truncate else "NONE"
    base = runtime.base_url.rstrip("/")
    return json_request(runtime, "/embed" if base.endswith(("/v1", "/v2")) else "/v2/embed", body)


def _cohere_part(one: Any) -> dict[str, Any]:
    if isinstance(one, dict) and "image" in one:
        return {"type": "image_url", "image_url": {"url": one["image"]}}
    return {"type": "text", "text": one["text"] if isinstance(one, dict) else one}


_GOOGLE_PURPOSES: Final = {
    "query": "RETRIEVAL_QUERY",
    "document": "RETRIEVAL_DOCUMENT",
    "similarity": "SEMANTIC_SIMILARITY",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}


def _google(runtime: RuntimeMap, asked: EmbedRequest) -> PreparedRequest:
    """One input by `embedContent`, several in one `batchEmbedContents`."""
    if asked.dtype != "float":
        raise UnsupportedFeature(f"dtype: this provider gives float only, not {asked.dtype}", param="dtype")
    path = google_model(runtime)
    model = path.removeprefix("/v1beta").removeprefix("/")
    purpose = _GOOGLE_PURPOSES[asked.purpose] if asked.purpose else None
    requests = [
        {
            "model": model,
            "content": {"parts": [_google_part(one)]},
            **given(taskType=purpose, outputDimensionality=asked.dimensions),
        }
        for one in asked.input
    ]
    if len(requests) < _SEVERAL:
        return json_request(runtime, f"{path}:embedContent", requests[0])
    return json_request(runtime, f"{path}:batchEmbedContents", {"requests": requests})


def _google_part(one: Any) -> dict[str, Any]:
    if isinstance(one, str):
        return {"text": one}
    if isinstance(one, dict) and "text" in one:
        return {"text": one["text"]}
    if isinstance(one, dict) and str(one.get("image", "")).startswith("data:"):
        head, _, data = one["image"][5:].partition(",")
        return {"inlineData": {"mimeType": head.partition(";")[0], "data": data}}
    raise UnsupportedFeature("input: this provider takes texts and pictures as data URIs", param="input")


def _ollama(runtime: RuntimeMap, asked: EmbedRequest) -> PreparedRequest:
    if any(not isinstance(one, str) for one in asked.input) or asked.dtype != "float":
        raise UnsupportedFeature("input: this provider takes texts, and gives float only", param="input")
    body = {"model": runtime.model, "input": list(asked.input)}
    body |= given(truncate=asked.truncate, dimensions=asked.dimensions)
    base = runtime.base_url.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return json_request(runtime, "/api/embed", body, base=base)


def read(asked: EmbedRequest, body: bytes) -> EmbedResult:
    """Read an answer of any of these vendors."""
    dtype = asked.dtype
    # Numbers become bytes before Python sees them.
    whole = loads(pack_floats(body) if dtype == "float" else body)
    if isinstance(whole, dict) and (error := whole.get("error")) and "data" not in whole:
        raise ReadError("unknown", "the provider answered with an error" if error else "")
    made = {}
    for place, item in enumerate(_items(whole, dtype)):
        index, value = place, item
        if isinstance(item, dict):
            index = item.get("index", place)
            value = item.get("embedding", item.get("values", item.get("embeddings")))
            if isinstance(value, dict):
                value = value.get("values")
        made[index] = Embedding(index, _vectors(value, dtype))
    # One for each input, each in its place: nothing is filled in.
    if sorted(made) != list(range(len(asked.input))):
        raise ReadError("unknown", f"the provider gave {len(made)} embeddings for {len(asked.input)} inputs")
    model = text(whole.get("model")) if isinstance(whole, dict) else None
    embeddings = tuple(made[index] for index in range(len(made)))
    return EmbedResult(model=model or asked.model, embeddings=embeddings, usage=usage_of(whole))


def _items(whole: Any, dtype: Dtype) -> list[Any]:
    """Find the list with an item for each input."""
    if isinstance(whole, list):
        return whole
    if "data" in whole:
        return list(whole["data"])
    if "predictions" in whole:
        return list(whole["predictions"])
    if "embedding" in whole:
        return [whole["embedding"]]
    found = whole["embeddings"]
    if isinstance(found, dict):
        # By type; floats may have been asked for as base64.
        found = found.get("base64") if dtype == "float" and found.get("base64") else found[dtype]
    return list(found)


def _vectors(value: Any, dtype: Dtype) -> tuple[Vector, ...]:
    if isinstance(value, str):
        return (Vector.from_base64(value, dtype),)
    if isinstance(value, list) and value and isinstance(value[0], list | str):
        return tuple(one for inner in value for one in _vectors(inner, dtype))
    if not value:
        raise ValueError("an empty vector")
    return (Vector.of(value, dtype),)


OPENAI: Final = _Dialect("openai_embeddings", base64=("encoding_format", "base64")).capability()
#: For servers of which not all have base64.
OPENAI_PLAIN: Final = _Dialect("openai_embeddings").capability()
MISTRAL: Final = _Dialect("mistral_embeddings", dimensions="output_dimension", dtype="output_dtype").capability()
VOYAGE: Final = _Dialect(
    "voyage_embeddings",
    dimensions="output_dimension",
    purpose="input_type",
    # It knows these two, and nothing for the others.
    purposes={"classification": "document", "clustering": "document", "similarity": "document"},
    dtype="output_dtype",
    truncate="truncation",
    base64=("encoding_format", "base64"),
).capability()
JINA: Final = _Dialect(
    "jina_embeddings",
    purpose="task",
    purposes={
        "query": "retrieval.query",
        "document": "retrieval.passage",
        "similarity": "text-matching",
        "clustering": "separation",
    },
    dtype="embedding_type",
    truncate="truncate",
    base64=("embedding_type", "base64"),
    objects=True,
).capability()

_MULTI: Final = frozenset({"input", "dimensions", "purpose"})
COHERE: Final = Capability("embeddings", "cohere_embed", _cohere, read=read, carries=_MULTI | {"dtype", "truncate"})
GOOGLE: Final = Capability("embeddings", "google_embed", _google, read=read, carries=_MULTI)
OLLAMA: Final = Capability(
    "embeddings", "ollama_embed", _ollama, read=read, carries=frozenset({"input", "dimensions", "truncate"})
)
