"""Read the words of a shell line from its tree: quotes, escapes, variables, substitutions.

1. A word is *known* only if every run of the line gives it this text: no variable, no glob, no substitution.
2. What is not known has its likeliest text all the same, so that a rule that denies can see it.

Never here: what a command means (`shell.py`).
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

    from headrace.tools.permission.shell import Simple

__all__ = ["Word", "WordReader", "told_by"]

GLOB: Final = re.compile(r"[*?\[]")
LIKELY: Final = {"IFS": " ", "PWD": "."}
"""What some variables are, if the line does not say otherwise."""
BRACE: Final = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


class Word(NamedTuple):
    """One word. `text` is the best that is known of it, and all of it where `known`."""

    text: str
    known: bool = True


class WordReader(ABC):
    """Reads words. What runs inside them (substitutions) is told to `walk`, which a reader of lines has."""

    def __init__(self, home: str | None) -> None:
        self.home = home
        #: What the line gave to variables before, as far as it is known.
        self.variables: dict[str, str] = {}
        self.commands: list[Simple] = []
        self.source = b""

    @abstractmethod
    def walk(self, node: Node, *, piped: bool) -> None:
        """Read what a node would run."""

    def raw(self, node: Node) -> str:
        """Give a node's text."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")

    @staticmethod
    def only(words: list[Word]) -> Word:
        """Take several words as one, as where the shell does not split."""
        return Word(" ".join(word.text for word in words), all(word.known for word in words))

    def words(self, node: Node) -> list[Word]:
        """Read a word. One that holds an unquoted variable may be several."""
        parts = list(self.parts(node, quoted=False))
        text = "".join(part.text for part in parts)
        bare = "".join("\0" if part.quoted else part.text for part in parts)
        known = all(part.known for part in parts)
        if bare.startswith("~"):
            user = bare[1:].partition("/")[0]
            if user or self.home is None or "HOME" in self.variables:
                known = False
            else:
                text = self.home + text[1:]
        if (GLOB.search(bare) and bare not in ("[", "[[")) or BRACE.search(bare):
            known = False
        if any(not part.known and not part.quoted and re.search(r"\s", part.text) for part in parts):
            return [Word(one, known=False) for one in text.split()] or [Word("", known=False)]
        return [Word(text, known)]

    def parts(self, node: Node, *, quoted: bool) -> Iterator[Part]:
        """Read what a word is put together from."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "test_operator"):
            yield from _unescaped(self.raw(node))
        elif kind == "raw_string":
            yield Part(self.raw(node)[1:-1], quoted=True)
        elif kind == "ansi_c_string":
            yield _ansi(self.raw(node)[2:-1])
        elif kind in ("string", "translated_string"):
            yield from self.string(node)
        elif kind in ("concatenation", "command_name"):
            yield from self.pieces(node, quoted=quoted)
        elif kind in ("simple_expansion", "expansion"):
            yield self.variable(node, quoted=quoted)
        elif kind == "command_substitution":
            yield self.substitution(node, quoted=quoted)
        elif kind == "array":
            yield from (part for child in node.named_children for part in self.parts(child, quoted=False))
            yield Part("", known=False)
        else:
            if node.is_named:
                self.walk(node, piped=False)
            yield Part("", known=False, quoted=quoted)

    def pieces(self, node: Node, *, quoted: bool) -> Iterator[Part]:
        """Read the parts of one word. What the tree leaves between two of them is text of the word."""
        at = node.start_byte
        for child in node.children:
            if child.start_byte > at:
                yield from _unescaped(self.source[at : child.start_byte].decode("utf-8", "replace"))
            yield from self.parts(child, quoted=quoted) if child.is_named else _unescaped(self.raw(child))
            at = child.end_byte

    def string(self, node: Node) -> Iterator[Part]:
        """Read a text in double quotes: what lies between its expansions is text."""
        at, end = node.start_byte + len(self.raw(node).partition('"')[0]) + 1, node.end_byte - 1
        for child in node.named_children:
            if child.type == "string_content":
                continue
            yield Part(_in_quotes(self.source[at : child.start_byte]), quoted=True)
            yield from (one._replace(quoted=True) for one in self.parts(child, quoted=True))
            at = child.end_byte
        yield Part(_in_quotes(self.source[at:end]), quoted=True)

    def variable(self, node: Node, *, quoted: bool) -> Part:
        """Read `$NAME` and `${NAME...}`."""
        names = [child for child in node.named_children if child.type == "variable_name"]
        for child in node.named_children:
            if child.type != "variable_name":
                self.walk(child, piped=False)
        name = self.raw(names[0]) if names else ""
        plain = self.raw(node) in (f"${name}", f"${{{name}}}")
        if plain and name == "HOME" and self.home is not None and name not in self.variables:
            return Part(self.home, quoted=quoted)
        text = self.variables.get(name, LIKELY.get(name, ""))
        return Part(text, known=False, quoted=quoted)

    def substitution(self, node: Node, *, quoted: bool) -> Part:
        """Read `$(...)`. Of a plain `echo` the output is known well enough to be denied by."""
        before = len(self.commands)
        self.walk(node, piped=False)
        ran = self.commands[before:]
        return Part(told_by(ran[0].argv) if len(ran) == 1 else "", known=False, quoted=quoted)


def told_by(argv: Sequence[Word]) -> str:
    """Give what a command writes, where that is plain."""
    if argv[0].text not in ("echo", "printf"):
        return ""
    return " ".join(word.text for word in argv[1:] if not re.fullmatch(r"-[neE]+|(%s|\\n)+", word.text))


class Part(NamedTuple):
    text: str
    known: bool = True
    quoted: bool = False


def _unescaped(text: str) -> Iterator[Part]:
    for at, piece in enumerate(re.split(r"\\(\n|.)", text, flags=re.DOTALL)):
        if at % 2 == 0:
            yield Part(piece)
        elif piece != "\n":
            yield Part(piece, quoted=True)


def _in_quotes(raw: bytes) -> str:
    return re.sub(r'\\(["\\$`\n])', lambda found: found[1].strip("\n"), raw.decode("utf-8", "replace"))


def _ansi(text: str) -> Part:
    """Read `$'...'`. Of its escapes, those that Python reads alike."""
    if re.search(r"\\(?:[^abefnrtvxEuU0-7\\'\"?]|$)", text):
        return Part(text, known=False, quoted=True)
    text = re.sub(r"\\e|\\E", r"\\x1b", text).replace("\\?", "?")
    text = re.sub(r"\\x([0-9a-fA-F])(?![0-9a-fA-F])", r"\\x0\1", text)
    text = re.sub(r"\\u([0-9a-fA-F]{1,4})", lambda found: rf"\u{found[1]:0>4}", text)
    try:
        with_escapes = codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return Part(text, known=False, quoted=True)
    return Part(with_escapes, quoted=True)
