"""Pictures made and edited.

1. A picture's data stays base64, as it came and as it goes; `Image.read()` is its bytes.
2. A partial image is a whole picture of its own, less finished. How many come is the provider's affair.
3. The result of a stream is its last item; a stream that ends without one was cut.

Never here: a provider's field names.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from headrace.capabilities._values import UNKNOWN, CallUsage, Fields
from headrace.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.capabilities.forms import Part

__all__ = [
    "Image",
    "ImageFile",
    "ImageRequest",
    "ImageResult",
    "PartialImage",
    "parse",
    "parse_form",
    "render",
    "render_stream",
]

ResponseFormat: TypeAlias = Literal["url", "b64_json"]
_RESPONSE_FORMATS: Final[tuple[ResponseFormat, ...]] = ("url", "b64_json")
#: A form's fields that are numbers or truths in JSON.
_NUMBERS: Final = ("n", "output_compression", "partial_images")
_FLAGS: Final = ("stream",)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A picture that is given: its bytes, or where it lies."""

    data: bytes | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    mime: str = "image/png"
    name: str = "image.png"

    @property
    def uri(self) -> str:
        """Its address, or its bytes as a data URI."""
        return self.url or f"data:{self.mime};base64,{base64.b64encode(self.data or b'').decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """A picture to be made, or with `images` to be edited.

    - `size`: as the provider names it (`1024x1024`); `aspect_ratio`: for those that go by it (`16:9`).
    - `partial_images`: how many unfinished ones a stream may give, 0 to 3.
    - `mask`: says where `images[0]` may change.
    """

    model: str
    prompt: str
    n: int | None = None
    size: str | None = None
    aspect_ratio: str | None = None
    quality: str | None = None
    background: str | None = None
    output_format: str | None = None
    output_compression: int | None = None
    response_format: ResponseFormat | None = None
    partial_images: int | None = None
    images: tuple[ImageFile, ...] = ()
    mask: ImageFile | None = None
    stream: bool = False
    """The gateway's client wants a stream. A library's call says so by how it is made."""
    user: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a request without words, and a mask without a picture."""
        if not self.prompt:
            raise BadRequestError("prompt is empty: say what the picture is to show", param="prompt")
        if self.mask is not None and not self.images:
            raise BadRequestError("mask needs a picture: give images too", param="mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture: its data, or where it can be fetched for a while."""

    data: str | None = field(default=None, repr=False)
    """Base64."""
    url: str | None = field(default=None, repr=False)
    mime: str | None = None
    revised_prompt: str | None = None

    def read(self) -> bytes:
        """Decode the data.

        - Raises `ValueError`: it came as an address.
        """
        if self.data is None:
            raise ValueError("this picture came as an address: fetch its url")
        return base64.b64decode(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialImage:
    """A picture on its way; `index` counts from 0."""

    index: int
    data: str = field(repr=False)
    mime: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageResult:
    """The pictures. Fewer than asked: the provider kept the others back.

    - `facts`: what the provider says of how they were made (`size`, `quality`, `background`, `output_format`).
    - `text`: what the model said beside them.
    """

    images: tuple[Image, ...]
    usage: CallUsage = UNKNOWN
    created: int | None = None
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def parse(body: Any, *, edit: bool = False) -> ImageRequest:
    """Read a client's JSON body, OpenAI's.

    - `edit`: pictures must be given.
    - Raises `BadRequestError`: names the field.
    """
    read = Fields(body)
    given = read.take("images") if "images" in body else read.take("image")
    images = _files(given)
    if edit and not images:
        raise BadRequestError("image is missing: give the picture that is to be edited", param="image")
    mask = _files(read.take("mask"))
    return _request(read, images, mask[0] if mask else None)


def parse_form(parts: list[Part], *, edit: bool = True) -> ImageRequest:
    """Read a client's form.

    - Raises `BadRequestError`: names the field.
    """
    body: dict[str, Any] = {}
    files: list[ImageFile] = []
    mask = None
    for part in parts:
        name = part.name.removesuffix("[]")
        if name == "image":
            files.append(ImageFile(part.data, mime=part.content_type or "image/png", name=part.filename or "image.png"))
        elif name == "mask":
            mask = ImageFile(part.data, mime=part.content_type or "image/png", name=part.filename or "mask.png")
        else:
            body[name] = _value(name, part.data)
    if edit and not files:
        raise BadRequestError("image is missing: give the picture that is to be edited", param="image")
    return _request(Fields(body), tuple(files), mask)


def _value(name: str, data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    if name in _NUMBERS and text.isascii() and text.isdigit():
        return int(text)
    if name in _FLAGS and text in {"true", "false"}:
        return text == "true"
    return text


def _request(read: Fields, images: tuple[ImageFile, ...], mask: ImageFile | None) -> ImageRequest:
    return ImageRequest(
        model=read.text("model") or "image_generate",
        prompt=read.needed("prompt"),
        n=read.count("n"),
        size=read.text("size"),
        aspect_ratio=read.text("aspect_ratio"),
        quality=read.text("quality"),
        background=read.text("background"),
        output_format=read.text("output_format"),
        output_compression=read.count("output_compression", least=0),
        response_format=cast("ResponseFormat | None", read.text("response_format", of=_RESPONSE_FORMATS)),
        partial_images=read.count("partial_images", least=0),
        images=images,
        mask=mask,
        stream=read.flag("stream") or False,
        user=read.text("user"),
        extra=read.extra,
    )


def _files(value: Any) -> tuple[ImageFile, ...]:
    """Read pictures of a JSON body: addresses, data URIs, or objects with one."""
    if value is None:
        return ()
    made = []
    for one in value if isinstance(value, list) else [value]:
        url = one
        if isinstance(one, dict):
            inner = one.get("image_url", one.get("url"))
            url = inner.get("url") if isinstance(inner, dict) else inner
        if not isinstance(url, str) or not url.startswith(("https://", "http://", "data:image/")):
            raise BadRequestError("image must be an address or a data URI", param="image")
        made.append(_from_uri(url))
    return tuple(made)


def _from_uri(url: str) -> ImageFile:
    if not url.startswith("data:"):
        return ImageFile(url=url)
    head, comma, data = url[5:].partition(",")
    mime, _, coding = head.partition(";")
    try:
        held = base64.b64decode(data, validate=True) if comma and coding == "base64" else None
    except ValueError:
        held = None
    if held is None:
        raise BadRequestError("image: the data URI must hold base64", param="image")
    return ImageFile(held, mime=mime)


def render(result: ImageResult, *, now: int) -> bytes:
    """Write a result in OpenAI's form.

    - `now`: seconds since the Unix epoch, for a provider that does not say when.
    """
    import orjson

    data = []
    for image in result.images:
        told = {
            "b64_json": image.data,
            "url": image.url,
            "revised_prompt": image.revised_prompt,
            "mime_type": image.mime,
        }
        data.append({name: value for name, value in told.items() if value is not None})
    body: dict[str, Any] = {"created": result.created or now, "data": data, **result.facts}
    usage = _usage(result.usage)
    if usage:
        body["usage"] = usage
    return orjson.dumps(body)


def render_stream(result: ImageResult, *, now: int, edit: bool) -> bytes:
    """Write a result as the stream that a client asked for: one event for each picture, all of them finished."""
    import orjson

    kind = "image_edit.completed" if edit else "image_generation.completed"
    zero = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    usage = {**zero, **_usage(result.usage), "input_tokens_details": {"text_tokens": 0, "image_tokens": 0}}
    out = []
    for image in result.images:
        if image.data is None:
            raise BadRequestError("stream: this provider gives addresses; ask without stream", param="stream")
        mime = (image.mime or "image/png").removeprefix("image/")
        known = {"background": "auto", "quality": "auto", "size": "auto", "output_format": mime, **result.facts}
        event = {"type": kind, "b64_json": image.data, "created_at": result.created or now, "usage": usage, **known}
        out.append(b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n")
    return b"".join(out)


def _usage(usage: CallUsage) -> dict[str, Any]:
    if usage.raw is not None:
        return dict(usage.raw)
    told = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return {name: value for name, value in told.items() if value is not None}
