"""Forms with files (`multipart/form-data`, RFC 7578), read and written.

1. A form is read whole, by its boundary alone; no part is decoded.
2. Bounded: so many parts, and heads of so many bytes. Beyond it the form is refused.

Never here: what a field means.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import BadRequestError

__all__ = ["Part", "boundary_of", "is_form", "read_form", "write_form"]

#: OpenAI takes 16 pictures and has under 20 fields.
MAX_PARTS: Final = 128
MAX_HEAD: Final = 4096
#: What stands before the first boundary, and after the last.
_LEAST: Final = 2
#: RFC 2046: at most 70 characters.
_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))', re.IGNORECASE)
_NAME: Final = re.compile(r';\s*name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_FILENAME: Final = re.compile(r';\s*filename="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_SAFE: Final = re.compile(r'[\r\n"\\]')


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a form. One with a `filename` is a file."""

    name: str
    data: bytes = field(repr=False)
    filename: str | None = None
    content_type: str | None = None


def is_form(content_type: str) -> bool:
    """Whether a content type is a form's."""
    return content_type.partition(";")[0].strip().lower() == "multipart/form-data"


def boundary_of(content_type: str) -> str | None:
    """Read the boundary out of a form's content type. None: it is no form's."""
    if not is_form(content_type):
        return None
    found = _BOUNDARY.search(content_type)
    return (found[1] or found[2]) if found else None


def read_form(body: bytes, boundary: str) -> list[Part]:
    """Read a form.

    - Raises `BadRequestError`: it is not one, or has more parts than anybody needs.
    """
    mark = b"--" + boundary.encode("latin-1")
    # The first boundary has no line end before it.
    # No more pieces are made than are allowed, and one that says that there are more.
    pieces = (b"\r\n" + body).split(b"\r\n" + mark, MAX_PARTS + _LEAST)
    if len(pieces) - _LEAST > MAX_PARTS:
        raise BadRequestError(f"the form has more than {MAX_PARTS} parts")
    if len(pieces) < _LEAST or not pieces[-1].startswith(b"--"):
        raise BadRequestError("the form is not whole: its last boundary is missing")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    # After a boundary come padding and a line end, then the head.
    padding, _, rest = piece.partition(b"\r\n")
    head, found, data = rest.partition(b"\r\n\r\n")
    if padding.strip() or not found or len(head) > MAX_HEAD:
        raise BadRequestError("a part of the form has no head, or too long a one")
    lines = {}
    for line in head.decode("utf-8", "replace").split("\r\n"):
        name, _, value = line.partition(":")
        lines[name.strip().lower()] = value.strip()
    disposition = lines.get("content-disposition", "")
    named = _NAME.search(disposition)
    if named is None:
        raise BadRequestError("a part of the form has no name")
    file = _FILENAME.search(disposition)
    return Part(named[1], data, file[1] if file else None, lines.get("content-type"))


def write_form(parts: list[Part]) -> tuple[str, bytes]:
    """Write a form: its content type and its body. The same parts give the same bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.name.encode())
        digest.update(part.data)
    boundary = f"headrace-{digest.hexdigest()[:40]}"
    out = []
    for part in parts:
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="{_SAFE.sub("_", part.name)}"'
        if part.filename is not None:
            head += f'; filename="{_SAFE.sub("_", part.filename)}"'
        if part.content_type is not None:
            head += f"\r\ncontent-type: {_SAFE.sub('_', part.content_type)}"
        out += [head.encode(), b"\r\n\r\n", part.data, b"\r\n"]
    out.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(out)
