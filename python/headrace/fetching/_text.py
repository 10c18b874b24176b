"""From a page's bytes to text: its charset, and what of HTML is worth reading.

1. The charset is that of the byte order mark, else of the header, else of the page's own `meta`, else UTF-8, else
   windows-1252, which reads anything. Only charsets of the web are taken.
2. HTML becomes Markdown by `markdownify`, an optional dependency; scripts, styles and forms are left out.

Never here: a connection.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

from headrace.capabilities import ReadError
from headrace.errors import UnsupportedFeature

if TYPE_CHECKING:
    from headrace.capabilities.fetch import PageFormat

__all__ = ["decoded", "is_html", "is_text", "readable"]

#: Where a page says its charset, if it does.
_META_WITHIN: Final = 1024
_META: Final = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
#: By Python's names. The web reads the first three as windows-1252.
_LATIN: Final = frozenset({"iso8859-1", "ascii", "latin-1"})
_KNOWN: Final = frozenset(
    {"utf-8", "utf-16-le", "utf-16-be", "utf-16", "big5", "big5hkscs", "euc_jp", "euc_kr", "cp949", "gb2312", "gbk"}
    | {"gb18030", "iso2022_jp", "shift_jis", "cp932", "koi8-r", "koi8-u", "mac-roman", "cp866", "cp874", "tis-620"}
    | {f"cp{number}" for number in range(1250, 1259)}
    | {f"iso8859-{number}" for number in range(2, 17)}
)
_TEXT: Final = re.compile(r"text/|application/(?:json|xml|xhtml\+xml|javascript|[a-z0-9.+-]+\+(?:json|xml))\Z")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_NOISE: Final = ("head", "title", "script", "style", "noscript", "template", "svg", "iframe", "form", "button")
_BLANK: Final = re.compile(r"\n{3,}")


def is_text(media: str) -> bool:
    """Whether a media type is text."""
    return _TEXT.match(media) is not None


def is_html(media: str) -> bool:
    """Whether a media type is a web page's."""
    return media in _HTML


def decoded(body: bytes, charset: str | None, *, html: bool, truncated: bool = False) -> str:
    """Read bytes as text. Never fails: what a charset has not becomes a replacement character.

    - `charset`: of the header.
    - `truncated`: the bytes may end within a character.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    said = _known(charset)
    if said is None and html and (found := _META.search(body[:_META_WITHIN])):
        said = _known(found[1].decode("ascii"))
        if said is not None and said.startswith("utf-16"):
            said = "utf-8"  # a page that could be searched for its charset is none of these
    if said is not None:
        return body.decode(said, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        if truncated and error.reason == "unexpected end of data":
            return body[: error.start].decode("utf-8")
        return body.decode("cp1252", "replace")


def _known(label: str | None) -> str | None:
    try:
        name = codecs.lookup((label or "").strip("\"' ")).name
    except (LookupError, ValueError):
        return None
    if name in _LATIN:
        return "cp1252"
    return name if name in _KNOWN else None


def readable(page: str, form: PageFormat) -> tuple[str | None, str]:
    """Give a page's title and its text.

    - Raises `UnsupportedFeature`: the optional dependency is not installed.
    - Raises `ReadError`: it is nested too deep to be read.
    """
    try:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter
    except ImportError:
        message = "format: reading HTML needs an optional dependency: pip install 'headrace[fetch]'; or ask for html"
        raise UnsupportedFeature(message, param="format") from None
    try:
        soup = BeautifulSoup(page, "html.parser")
        title = soup.title.get_text().strip() if soup.title else None
        for element in soup(_NOISE):
            element.decompose()
        if form == "text":
            text = soup.get_text("\n", strip=True)
        else:
            text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    except RecursionError:
        raise ReadError("bad_request", "the page is nested too deep to be read") from None
    return title or None, _BLANK.sub("\n\n", text).strip()
