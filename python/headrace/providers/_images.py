"""The wires of pictures: OpenAI's (with its streams), xAI's, Gemini's and Imagen's, and OpenRouter's by way of Chat.

1. A provider that keeps pictures back with a good status gives fewer, or none: none is an error of its own.
2. A model's drafts (`thought`) are no pictures of the result.

Never here: a row of a configuration, a socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.capabilities import Image, ImageResult, PartialImage, ReadError
from headrace.capabilities.forms import Part, write_form
from headrace.errors import UnsupportedFeature
from headrace.plugins import Capability
from headrace.providers._shapes import ERRORS, given, google_model, json_request, loads, number, text, usage_of
from headrace.requests import PreparedRequest

if TYPE_CHECKING:
    from headrace.capabilities import ImageFile, ImageRequest
    from headrace.requests import RuntimeMap

__all__ = ["GEMINI", "OPENAI", "OPENROUTER", "XAI", "read", "read_event"]

_FACTS: Final = ("background", "output_format", "quality", "size")
_REFUSALS: Final = frozenset(
    {
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "SAFETY",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "BLOCKLIST",
        "SPII",
    }
)
_MODERATED: Final = frozenset({"moderation_blocked", "content_policy_violation"})
_GENERATIONS: Final = "/images/generations"
_EDITS: Final = "/images/edits"


def _openai(runtime: RuntimeMap, asked: ImageRequest) -> PreparedRequest:
    fields: dict[str, Any] = {"model": runtime.model, "prompt": asked.prompt}
    fields |= given(
        n=asked.n,
        size=asked.size,
        quality=asked.quality,
        background=asked.background,
        output_format=asked.output_format,
        output_compression=asked.output_compression,
        response_format=asked.response_format,
        partial_images=asked.partial_images,
        aspect_ratio=asked.aspect_ratio,
        user=asked.user,
    )
    fields |= asked.extra
    if asked.stream:
        fields["stream"] = True
    if not asked.images:
        return json_request(runtime, _GENERATIONS, fields, stream=asked.stream)
    parts = [Part(name, _field(value)) for name, value in fields.items()]
    # One picture is `image`, several are `image[]`, as OpenAI's own SDK has it.
    name = "image" if len(asked.images) == 1 else "image[]"
    parts += [_file(name, one) for one in asked.images]
    if asked.mask is not None:
        parts.append(_file("mask", asked.mask))
    content_type, body = write_form(parts)
    return PreparedRequest(
        url=runtime.base_url.rstrip("/") + _EDITS,
        headers=(
            ("content-type", content_type),
            ("accept", "text/event-stream" if asked.stream else "application/json"),
        ),
        body=body,
        protocol=ERRORS,
        transport=runtime.transport,
        deadlines=runtime.deadlines,
    )


def _field(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, str | int | float):
        return str(value).encode()
    import orjson

    return orjson.dumps(value)


def _file(name: str, file: ImageFile) -> Part:
    if file.data is None:
        raise UnsupportedFeature("image: this provider takes pictures' bytes, no addresses", param="image")
    return Part(name, file.data, file.name, file.mime)


def _xai(runtime: RuntimeMap, asked: ImageRequest) -> PreparedRequest:
    """Like OpenAI's; an edit is JSON, its pictures addresses or data URIs."""
    _no_mask(asked)
    body: dict[str, Any] = {"model": runtime.model, "prompt": asked.prompt}
    body |= given(n=asked.n, response_format=asked.response_format, aspect_ratio=asked.aspect_ratio, user=asked.user)
    if len(asked.images) == 1:
        body["image"] = {"type": "image_url", "url": asked.images[0].uri}
    elif asked.images:
        body["images"] = [{"type": "image_url", "url": one.uri} for one in asked.images]
    return json_request(runtime, _EDITS if asked.images else _GENERATIONS, body)


def _gemini(runtime: RuntimeMap, asked: ImageRequest) -> PreparedRequest:
    _no_mask(asked)
    path = google_model(runtime)
    if "/models/imagen" in path:
        return _imagen(runtime, asked, path)
    if asked.n not in {None, 1}:
        raise UnsupportedFeature("n: this provider makes one picture a call", param="n")
    parts: list[dict[str, Any]] = [{"text": asked.prompt}]
    for one in asked.images:
        head, _, data = one.uri.partition(",")
        if not head.startswith("data:"):
            raise UnsupportedFeature("image: this provider takes pictures' bytes, no addresses", param="image")
        parts.append({"inlineData": {"mimeType": head[5:].partition(";")[0], "data": data}})
    config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
    shape = given(aspectRatio=asked.aspect_ratio, imageSize=asked.size)
    if shape:
        config["imageConfig"] = shape
    body = {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}
    return json_request(runtime, f"{path}:generateContent", body)


def _imagen(runtime: RuntimeMap, asked: ImageRequest, path: str) -> PreparedRequest:
    if asked.images:
        raise UnsupportedFeature("image: this model makes pictures and edits none", param="image")
    parameters = given(sampleCount=asked.n, aspectRatio=asked.aspect_ratio, sampleImageSize=asked.size)
    body = {"instances": [{"prompt": asked.prompt}], "parameters": parameters}
    return json_request(runtime, f"{path}:predict", body)


def _openrouter(runtime: RuntimeMap, asked: ImageRequest) -> PreparedRequest:
    _no_mask(asked)
    content: list[dict[str, Any]] = [{"type": "text", "text": asked.prompt}]
    content += [{"type": "image_url", "image_url": {"url": one.uri}} for one in asked.images]
    body: dict[str, Any] = {
        "model": runtime.model,
        "messages": [{"role": "user", "content": content}],
        "modalities": ["image", "text"],
    }
    shape = given(aspect_ratio=asked.aspect_ratio, image_size=asked.size)
    if shape:
        body["image_config"] = shape
    return json_request(runtime, "/chat/completions", body)


def _no_mask(asked: ImageRequest) -> None:
    if asked.mask is not None:
        raise UnsupportedFeature("mask: this provider takes none; say in the prompt what is to change", param="mask")


def read(asked: ImageRequest, body: bytes) -> ImageResult:
    """Read a whole answer of any of these vendors."""
    whole = loads(body)
    if "data" in whole:
        return _openai_result(asked, whole)
    if "candidates" in whole or "promptFeedback" in whole:
        return _gemini_result(whole)
    if "predictions" in whole:
        return _imagen_result(whole)
    return _chat_result(whole)


def _openai_result(asked: ImageRequest, whole: dict[str, Any]) -> ImageResult:
    made_as = text(whole.get("output_format")) or asked.output_format
    images = tuple(
        Image(
            data=text(one.get("b64_json")),
            url=text(one.get("url")),
            mime=text(one.get("mime_type")) or (f"image/{made_as}" if made_as else None),
            revised_prompt=text(one.get("revised_prompt")),
        )
        for one in whole["data"]
    )
    facts = {name: whole[name] for name in _FACTS if whole.get(name) is not None}
    return _made(ImageResult(images=images, usage=usage_of(whole), created=number(whole.get("created")), facts=facts))


def _gemini_result(whole: dict[str, Any]) -> ImageResult:
    images, said = [], []
    refused = text((whole.get("promptFeedback") or {}).get("blockReason"))
    for candidate in whole.get("candidates") or ():
        reason = candidate.get("finishReason")
        if reason in _REFUSALS:
            refused = reason
        for part in (candidate.get("content") or {}).get("parts") or ():
            inline = part.get("inlineData")
            if part.get("thought"):
                continue
            if inline:
                images.append(Image(data=inline["data"], mime=text(inline.get("mimeType"))))
            elif isinstance(part.get("text"), str):
                said.append(part["text"])
    if refused and not images:
        raise ReadError("content_filter", f"the provider refused to make this picture ({refused[:64]})")
    return _made(ImageResult(images=tuple(images), usage=usage_of(whole), text="".join(said)))


def _imagen_result(whole: dict[str, Any]) -> ImageResult:
    images, refused = [], False
    for one in whole["predictions"]:
        if data := text(one.get("bytesBase64Encoded")):
            mime, prompt = text(one.get("mimeType")), text(one.get("prompt"))
            images.append(Image(data=data, mime=mime, revised_prompt=prompt))
        refused |= bool(one.get("raiFilteredReason"))
    if refused and not images:
        raise ReadError("content_filter", "the provider kept every picture back as unsafe")
    return _made(ImageResult(images=tuple(images)))


def _chat_result(whole: dict[str, Any]) -> ImageResult:
    message = whole["choices"][0]["message"]
    images = []
    for one in message.get("images") or ():
        url = one["image_url"]["url"]
        head, comma, data = url.partition(",")
        if head.startswith("data:") and comma:
            images.append(Image(data=data, mime=head[5:].partition(";")[0]))
        else:
            images.append(Image(url=url))
    said = message.get("content")
    return _made(ImageResult(images=tuple(images), usage=usage_of(whole), text=said if isinstance(said, str) else ""))


def _made(result: ImageResult) -> ImageResult:
    if not result.images:
        raise ReadError("unknown", "the provider made no picture, and does not say why")
    return result


def read_event(asked: ImageRequest, data: bytes) -> PartialImage | ImageResult | None:
    """Read an event of OpenAI's stream. A server that answers whole is read whole."""
    event = loads(data)
    kind = event.get("type")
    if kind == "error" or "error" in event:
        inner = event.get("error")
        code = inner.get("code") if isinstance(inner, dict) else None
        refused = code in _MODERATED
        raise ReadError("content_filter" if refused else "unknown", "the provider ended the stream with an error")
    if not isinstance(kind, str):
        return read(asked, data) if "data" in event else None
    mime = f"image/{event['output_format']}" if isinstance(event.get("output_format"), str) else None
    if kind.endswith(".partial_image"):
        return PartialImage(index=event["partial_image_index"], data=event["b64_json"], mime=mime)
    if kind.endswith(".completed"):
        facts = {name: event[name] for name in _FACTS if event.get(name) is not None}
        image = Image(data=event["b64_json"], mime=mime)
        created = number(event.get("created_at"))
        return ImageResult(images=(image,), usage=usage_of(event), created=created, facts=facts)
    return None


_COMMON: Final = frozenset({"prompt", "images", "aspect_ratio"})
_OPENAI_ONLY: Final = frozenset(
    {"quality", "background", "output_format", "output_compression", "partial_images", "mask", "size", "extra"}
)
OPENAI: Final = Capability(
    "image_generate",
    "openai_images",
    _openai,
    read=read,
    read_event=read_event,
    carries=_COMMON | _OPENAI_ONLY | {"n", "response_format", "user"},
)
XAI: Final = Capability(
    "image_generate", "xai_images", _xai, read=read, carries=_COMMON | {"n", "response_format", "user"}
)
GEMINI: Final = Capability("image_generate", "gemini_images", _gemini, read=read, carries=_COMMON | {"n", "size"})
OPENROUTER: Final = Capability(
    "image_generate", "openrouter_images", _openrouter, read=read, carries=_COMMON | {"size"}
)
