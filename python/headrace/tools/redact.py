"""Take known secrets out of whatever goes to the log, to an artifact or to a model.

1. A secret is looked for as it is, percent-encoded, escaped as in JSON, in hexadecimal, and in base64 (both alphabets)
   at each of the three places that it can have in a group of three bytes; line breaks inside any of these hide nothing.
2. What comes out does not depend on how the input was cut: a stream is held back by as much as the longest form needs.
3. A value shorter than `SHORTEST` is no secret that could be told from ordinary text, and is left alone (`too_short`
   counts them). Of base64, the characters that depend on the neighbours stay.
4. The mark names the secret by its id, never by a part of it.

Unknown secrets are not found here: that is what an allow-list of the environment and the denied files are for.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["SHORTEST", "LiveText", "RedactingStream", "Redactor"]

SHORTEST: Final = 6
"""Characters. Below that a word such as `root` would be torn out of everything."""
SHORTEST_CODED: Final = 8
"""Characters of an encoded form: a shorter one is found in ordinary base64 by chance."""
LONG_LINE: Final = 24
"""Of a secret of several lines (a private key), each line of this length is one by itself."""
BREAK: Final = rb"[\r\n]{0,2}"
EOL: Final = b"\r\n"
INSIDE: Final = 0b1100_0000
INSIDE_BITS: Final = 0b1000_0000
"""Of a byte of UTF-8 that is no character's first."""


class Redactor:
    """Knows secrets, each with an id. Immutable; many streams may use it at once.

    - `secrets`: id to text.
    """

    __slots__ = ("_compiled", "_in_order", "_longest", "_marks", "_needles", "too_short")

    def __init__(self, secrets: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        pairs = secrets.items() if hasattr(secrets, "items") else secrets
        forms: dict[bytes, str] = {}
        self.too_short: int = 0
        for name, text in pairs:
            if len(text.strip()) < SHORTEST:
                self.too_short += 1
                continue
            lines = [line for line in text.split("\n") if len(line) >= LONG_LINE] if "\n" in text else []
            for one in (text.strip(), *lines):
                for form in _forms(one.encode("utf-8", "surrogateescape")):
                    forms.setdefault(form.translate(None, EOL), name)
        self._needles = tuple(sorted(forms, key=len, reverse=True))
        self._marks = {form: f"[redacted {name}]".encode() for form, name in forms.items()}
        # A break of two characters may stand between any two.
        self._longest = max((len(form) * 3 for form in forms), default=0)
        self._compiled: re.Pattern[bytes] | None = None
        #: For whoever reads along; made when somebody does.
        self._in_order: list[bytes] = []

    def __repr__(self) -> str:
        return f"Redactor({len(set(self._marks.values()))} secrets)"

    def __bool__(self) -> bool:
        return bool(self._needles)

    @property
    def longest(self) -> int:
        """Bytes that a stream has to hold back, at most."""
        return max(0, self._longest - 1)

    def redact(self, data: bytes) -> tuple[bytes, int]:
        """Replace every secret. Returns the data and how many were found."""
        if not self._may_hold(data):
            return data, 0
        return self._pattern.subn(self._mark, data)

    def text(self, text: str) -> tuple[str, int]:
        """Do the same to a text."""
        if not self._needles:
            return text, 0
        raw = text.encode("utf-8", "surrogatepass")
        data, count = self.redact(raw)
        return (data.decode("utf-8", "surrogatepass"), count) if count else (text, 0)

    def value(self, value: Any) -> Any:
        """Do the same to every text of JSON data, keys as well."""
        if not self._needles:
            return value
        if isinstance(value, str):
            return self.text(value)[0]
        if isinstance(value, dict):
            return {self.value(name): self.value(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.value(item) for item in value)
        return value

    def stream(self) -> RedactingStream:
        """Begin a stream."""
        return RedactingStream(self)

    def live(self) -> LiveText:
        """Begin a text that somebody reads as it comes."""
        return LiveText(self)

    def begins(self, data: bytes) -> int:
        """Say from where on the end of some bytes may be the beginning of a secret; their length: nowhere."""
        if not self._needles:
            return len(data)
        if not self._in_order:
            self._in_order = sorted(self._needles)
        start = max(0, len(data) - self._longest)
        places = [at for at in range(start, len(data)) if data[at] not in EOL]
        flat = bytes(data[at] for at in places)
        for number, at in enumerate(places):
            if data[at] & INSIDE == INSIDE_BITS:
                continue  # within a character no secret begins
            end = flat[number:]
            found = bisect_right(self._in_order, end)
            # The next in order, if any of them, begins with it.
            if found < len(self._in_order) and self._in_order[found].startswith(end):
                return at
        return len(data)

    @property
    def _pattern(self) -> re.Pattern[bytes]:
        # Made when a secret was really seen: it takes milliseconds, and mostly nobody ever needs it.
        if self._compiled is None:
            self._compiled = re.compile(b"|".join(_broken(form) for form in self._needles))
        return self._compiled

    def _may_hold(self, data: bytes) -> bool:
        # `in` runs at the memory's speed, an alternation of patterns does not.
        flat = data.translate(None, EOL)
        return any(needle in flat for needle in self._needles)

    def _mark(self, found: re.Match[bytes]) -> bytes:
        return self._marks[found[0].translate(None, EOL)]


class RedactingStream:
    """Redacts what comes in pieces: `feed` gives what is certain, `finish` the rest."""

    __slots__ = ("_held", "_redactor", "count")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self.count: int = 0

    def feed(self, data: bytes) -> bytes:
        """Take a piece; give all that can no longer become a part of a secret."""
        redactor = self._redactor
        if not redactor:
            return data
        held = self._held + data
        certain = len(held) - redactor.longest
        if certain <= 0:
            self._held = held
            return b""
        # Two halves of one thing, hence the private names.
        if not redactor._may_hold(held):  # noqa: SLF001
            self._held = held[certain:]
            return held[:certain]
        out, at = [], 0
        for found in redactor._pattern.finditer(held):  # noqa: SLF001
            if found.start() >= certain:
                break
            out += [held[at : found.start()], redactor._mark(found)]  # noqa: SLF001
            self.count += 1
            at = found.end()
        until = max(at, certain)
        out.append(held[at:until])
        self._held = held[until:]
        return b"".join(out)

    def finish(self) -> bytes:
        """Give what was held back."""
        data, count = self._redactor.redact(self._held)
        self._held = b""
        self.count += count
        return data


class LiveText:
    """Redacts a text for who reads it as it comes: only what may become a secret waits. `finish` gives the rest."""

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""

    def feed(self, text: str) -> str:
        """Take a piece; give what can be shown."""
        redactor = self._redactor
        if not redactor:
            return text
        data = self._held + text.encode("utf-8", "surrogatepass")
        certain = redactor.begins(data)
        out, at = [], 0
        # Two halves of one thing, hence the private names.
        if redactor._may_hold(data):  # noqa: SLF001
            for found in redactor._pattern.finditer(data):  # noqa: SLF001
                if found.start() >= certain:
                    break
                out += [data[at : found.start()], redactor._mark(found)]  # noqa: SLF001
                at = found.end()
            if at > certain:
                certain = at + redactor.begins(data[at:])
        out.append(data[at:certain])
        self._held = data[certain:]
        return b"".join(out).decode("utf-8", "surrogatepass")

    def finish(self) -> str:
        """Give what was held back."""
        data, self._held = self._redactor.redact(self._held)[0], b""
        return data.decode("utf-8", "surrogatepass")


def _forms(raw: bytes) -> Iterator[bytes]:
    """List the forms in which a secret may appear."""
    yield raw
    text = raw.decode("utf-8", "surrogateescape")
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogateescape")
        if escaped != raw:
            yield escaped
            yield escaped.replace(b"/", rb"\/")
    for safe in ("", "/", "-._~!$&'()*+,;=:@/"):
        for coded in (quote(raw, safe=safe), quote_plus(raw, safe=safe)):
            yield coded.encode()
            yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), coded).encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            packed = encode(bytes(before) + raw)
            # The first characters mix with what stands before, the last with what stands after; both stay.
            first = (0, 2, 3)[before]
            last = (before + len(raw)) * 8 // 6
            stable = packed[first:last]
            if len(stable) >= SHORTEST_CODED:
                yield stable


def _broken(form: bytes) -> bytes:
    return BREAK.join(re.escape(form[at : at + 1]) for at in range(len(form)))
