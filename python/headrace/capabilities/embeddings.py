"""Embeddings: texts and pictures in, vectors out.

1. A vector is bytes: floats are little-endian float32, as every vendor's base64 has them. `Vector.floats` is a view of
   them; a list of Python floats is made only where somebody asks for one.
2. The order is the input's, whatever order the provider answered in.
3. An input may have several vectors (late interaction: one a token).

Never here: a provider's field names.
"""

from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from headrace._bridge import float_array
from headrace.capabilities._values import UNKNOWN, CallUsage, Fields
from headrace.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DTYPES",
    "PURPOSES",
    "Dtype",
    "EmbedRequest",
    "EmbedResult",
    "Embedding",
    "Purpose",
    "Vector",
    "parse",
    "render",
]

Dtype: TypeAlias = Literal["float", "int8", "uint8", "binary", "ubinary"]
"""`binary` and `ubinary`: eight dimensions a byte, signed or not."""
DTYPES: Final[tuple[Dtype, ...]] = ("float", "int8", "uint8", "binary", "ubinary")
Purpose: TypeAlias = Literal["query", "document", "classification", "clustering", "similarity"]
PURPOSES: Final[tuple[Purpose, ...]] = ("query", "document", "classification", "clustering", "similarity")

_CODES: Final[Mapping[Dtype, str]] = {"float": "f", "int8": "b", "uint8": "B", "binary": "b", "ubinary": "B"}
#: Inputs of one request: the vendors take 2,048 at most, servers of one's own some more. Each costs time here.
INPUTS_MOST: Final = 16_384
#: Token ids of one request: the vendors take 300,000 at most.
IDS_MOST: Final = 1 << 20
_SWAP: Final = sys.byteorder == "big"
_FLOAT_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector, as bytes."""

    data: bytes = field(repr=False)
    dtype: Dtype = "float"

    @classmethod
    def of(cls, values: Sequence[float], dtype: Dtype = "float") -> Vector:
        """Make one of numbers.

        - Raises `ValueError`: one is out of the type's range, or is no number.
        """
        try:
            numbers = array(_CODES[dtype], values)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"no vector of {dtype}") from error
        if _SWAP:
            numbers.byteswap()
        return cls(numbers.tobytes(), dtype)

    @classmethod
    def from_base64(cls, text: str, dtype: Dtype = "float") -> Vector:
        """Read one as vendors send it.

        - Raises `ValueError`: it is not base64, or cut in the middle of a number.
        """
        data = base64.b64decode(text, validate=True)
        if dtype == "float" and len(data) % _FLOAT_SIZE:
            raise ValueError("not a whole number of floats")
        return cls(data, dtype)

    @property
    def values(self) -> array[Any]:
        """The numbers, packed."""
        numbers = array(_CODES[self.dtype])
        numbers.frombytes(self.data)
        if _SWAP:
            numbers.byteswap()
        return numbers

    def base64(self) -> str:
        """Give the bytes as vendors send them."""
        return base64.b64encode(self.data).decode()

    def tolist(self) -> list[Any]:
        """Give the numbers as Python objects: many."""
        return self.values.tolist()

    def __len__(self) -> int:
        """Count the numbers."""
        return len(self.data) // (_FLOAT_SIZE if self.dtype == "float" else 1)


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vectors of one input. Mostly there is one."""

    index: int
    vectors: tuple[Vector, ...]

    @property
    def vector(self) -> Vector:
        """The only vector.

        - Raises `ValueError`: there are several.
        """
        (only,) = self.vectors
        return only


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedRequest:
    """What is to be embedded.

    - `model`: a selector; empty for the configured default.
    - `input`: texts; token ids; or `ImageFile`-like mappings `{"image": URL or data URI}` for models that take them.
    - `purpose`: what the vectors are for; some models embed a question and a document differently.
    - `dtype`: of the vectors' numbers.
    - `truncate`: whether a text that is too long is cut; else it is an error. None: as the provider does.
    """

    model: str
    input: tuple[str | tuple[int, ...] | Mapping[str, str], ...]
    dimensions: int | None = None
    purpose: Purpose | None = None
    dtype: Dtype = "float"
    encoding: Literal["float", "base64"] | None = None
    """How the client wants to read its floats; nothing to a library, whose vectors are bytes."""
    truncate: bool | None = None
    user: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an input that holds nothing."""
        if not self.input:
            raise BadRequestError("input is empty: give at least one text", param="input")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedResult:
    """The vectors, one `Embedding` for each input, in the input's order."""

    model: str
    embeddings: tuple[Embedding, ...]
    usage: CallUsage = UNKNOWN


def parse(body: Any) -> EmbedRequest:
    """Read a client's body: OpenAI's, and `input_type`, `dtype` and `truncate` beside it.

    - Raises `BadRequestError`: names the field.
    """
    read = Fields(body)
    # A client that does not say how wants numbers.
    encoding = read.text("encoding_format", of=("float", "base64")) or "float"
    return EmbedRequest(
        model=read.text("model") or "",
        input=_inputs(read.take("input")),
        dimensions=read.count("dimensions"),
        purpose=cast("Purpose | None", read.text("input_type", of=PURPOSES)),
        dtype=cast("Dtype | None", read.text("dtype", of=DTYPES)) or "float",
        encoding=cast("Literal['float', 'base64']", encoding),
        truncate=read.flag("truncate"),
        user=read.text("user"),
        extra=read.extra,
    )


def _inputs(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) and value:
        return (value,)
    if isinstance(value, list) and value:
        ids = value if isinstance(value[0], int) else ()
        if not ids and len(value) > INPUTS_MOST:
            raise BadRequestError(
                f"input has more than {INPUTS_MOST} parts: send them in several requests", param="input"
            )
        if len(ids) + sum(len(one) for one in value[: 0 if ids else None] if isinstance(one, list)) > IDS_MOST:
            raise BadRequestError(
                f"input has more than {IDS_MOST} token ids: send them in several requests", param="input"
            )
        if ids and all(isinstance(one, int) for one in ids):
            return (tuple(ids),)
        made = tuple(_one(one) for one in value)
        if all(one is not None for one in made):
            return made
    raise BadRequestError("input must be a string, a list of strings, or token ids", param="input")


def _one(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, int) for one in value):
        return tuple(value)
    if isinstance(value, dict) and len(value) == 1 and all(isinstance(one, str) for one in value.values()):
        return value if next(iter(value)) in {"text", "image"} else None
    return None


def render(request: EmbedRequest, result: EmbedResult) -> bytes:
    """Write a result in OpenAI's form; of several vectors for one input, a list of them."""
    import orjson

    as_text = request.encoding == "base64"

    def one(vector: Vector) -> Any:
        if as_text:
            return vector.base64()
        return orjson.Fragment(float_array(vector.data)) if vector.dtype == "float" else vector.tolist()

    data = []
    for item in result.embeddings:
        vectors = item.vectors
        told = one(vectors[0]) if len(vectors) == 1 else [one(vector) for vector in vectors]
        data.append({"object": "embedding", "index": item.index, "embedding": told})
    usage = {"prompt_tokens": 0, "total_tokens": 0, **result.usage.to_dict()}
    return orjson.dumps({"object": "list", "data": data, "model": result.model, "usage": usage})
