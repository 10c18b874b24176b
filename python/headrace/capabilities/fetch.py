"""Web fetch: an address in, the page's text out.

Never here: a provider's field names, a connection (`fetching/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from headrace.capabilities._values import UNKNOWN, CallUsage, Fields
from headrace.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FetchRequest", "FetchResult", "PageFormat", "parse", "render"]

PageFormat: TypeAlias = Literal["markdown", "text", "html"]
_FORMATS: Final[tuple[PageFormat, ...]] = ("markdown", "text", "html")
#: No browser takes much longer ones, and some vendors refuse them.
_URL_LIMIT: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What page, and in what form.

    - `model`: a selector: the profile `web_fetch`, one of its bindings, or `PROVIDER/NAME`.
    - `max_bytes`: of the text that is given; a longer one is cut, and says so.
    """

    url: str
    model: str = "web_fetch"
    format: PageFormat = "markdown"
    max_bytes: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no address of a page, or carries a password."""
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in {"http", "https"} and parts.hostname
        except ValueError:
            known = False
        clean = self.url.isascii() and self.url.isprintable() and " " not in self.url
        if not known or not clean or len(self.url) > _URL_LIMIT:
            raise BadRequestError("url must be an http or https address", param="url")
        if "@" in parts.netloc:
            raise BadRequestError("url must not hold a user or a password", param="url")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """A page.

    - `url`: where it was found in the end.
    - `truncated`: its text was longer.
    """

    url: str
    content: str
    title: str | None = None
    format: PageFormat = "markdown"
    content_type: str | None = None
    truncated: bool = False
    usage: CallUsage = UNKNOWN


def parse(body: Any) -> FetchRequest:
    """Read a client's body.

    - Raises `BadRequestError`: names the field.
    """
    read = Fields(body)
    return FetchRequest(
        url=read.needed("url"),
        model=read.text("model") or "web_fetch",
        format=cast("PageFormat | None", read.text("format", of=_FORMATS)) or "markdown",
        max_bytes=read.count("max_bytes"),
        extra=read.extra,
    )


def render(request: FetchRequest, result: FetchResult) -> bytes:
    """Write a result; what is unknown is left out."""
    import orjson

    body: dict[str, Any] = {
        "object": "web_fetch",
        "requested_url": request.url,
        "url": result.url,
        "title": result.title,
        "format": result.format,
        "content_type": result.content_type,
        "content": result.content,
        "truncated": result.truncated,
    }
    return orjson.dumps({name: value for name, value in body.items() if value is not None})


def cut(text: str, limit: int | None) -> tuple[str, bool]:
    """Cut a text to so many bytes of UTF-8, at a character's edge; and say whether it was longer."""
    if limit is None or len(text) * 4 <= limit:
        return text, False
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    return data[:limit].decode("utf-8", "ignore"), True
