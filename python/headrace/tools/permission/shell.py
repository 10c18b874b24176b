"""Read a shell line: which commands it would run, which files it would redirect to, and what is in doubt.

1. The tree is the parser's (tree-sitter-bash); nothing is guessed by splitting at blanks. What it cannot parse is in
   doubt.
2. A doubt never denies and never allows: it asks. What is known of a doubtful line is still told, so that a rule that
   denies can see it.
3. Wrappers (`env`, `sudo`, `xargs`, `sh -c`, `find -exec`, substitutions, here-documents) are looked through, to the
   depth `DEPTH`.
4. A word that is not known (`words.py`) is never allowed by a rule.

Never here: rules, decisions, the file system.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.tools.permission.programs import (
    HARMLESS_VARIABLES,
    NEUTRAL,
    SHELLS,
    TELLING,
    WRAPPERS,
    is_interpreter,
)
from headrace.tools.permission.words import Word, WordReader, told_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tree_sitter import Node

__all__ = ["Line", "Redirect", "Simple", "Word", "read_line"]

LONGEST: Final = 64 * 1024
"""Characters of a line that is read at all."""
COMMANDS: Final = 400
DEPTH: Final = 6
"""Of shells in shells. Nobody writes more by hand."""

HARMLESS: Final = re.compile(HARMLESS_VARIABLES)
QUERIES: Final = frozenset({"--version", "-V", "--help", "-h"})
"""Options of interpreters that read no program."""
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")
LATER_CODE: Final = re.compile(r"\$\(|`|\$\{")
AWK_ACTS: Final = re.compile(r"\bsystem\b|\bgetline\b|[|>@]")
SED_ACTS: Final = re.compile(
    r"(?:^|[;{}\n$/!,0-9])\s*[erwRW](?:\s|$)|[/|,#@!][gimpI0-9]*[ew][gimpI0-9]*\s*(?:$|[;}\n])"
)
SET_OPTIONS: Final = re.compile(r"[-+][euxo]+|pipefail|errexit|nounset|xtrace|--")
LOADER: Final = re.compile(r"ld(-linux|-musl)?[\w.-]*\.so[.\d]*")
DEVICE_SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/")

STRUCTURE: Final = frozenset(
    {
        *("program", "list", "pipeline", "subshell", "compound_statement", "do_group", "if_statement", "elif_clause"),
        *("else_clause", "while_statement", "case_statement", "case_item", "negated_command", "for_statement"),
        *("c_style_for_statement", "command_substitution", "process_substitution", "unset_command"),
    }
)
SILENT: Final = frozenset({"comment", "heredoc_start", "heredoc_end", "file_descriptor"})
DOUBTFUL: Final = {"function_definition": "a function", "error": "what cannot be parsed"}
EXPRESSIONS: Final = frozenset(
    {
        *("test_command", "unary_expression", "binary_expression", "ternary_expression", "parenthesized_expression"),
        *(
            "postfix_expression",
            "arithmetic_expansion",
            "test_operator",
            "variable_name",
            "number",
            "word",
            "raw_string",
        ),
        *("string", "concatenation", "regex", "subscript", "simple_expansion", "expansion", "special_variable_name"),
        *("string_content", "ansi_c_string"),
    }
)


@dataclass(frozen=True, slots=True)
class Simple:
    """One command that the line would run.

    - `doubts`: why no rule for its words may allow it.
    - `bases`: directories in which it may run, relative to the line's own; the last is the likely one.
    - `neutral`: it touches nothing.
    """

    argv: tuple[Word, ...]
    doubts: tuple[str, ...] = ()
    bases: tuple[str, ...] = ("",)
    neutral: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The texts."""
        return tuple(word.text for word in self.argv)

    @property
    def known(self) -> bool:
        """Whether every word is known."""
        return all(word.known for word in self.argv)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell itself opens."""

    path: str
    writes: bool
    bases: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Line:
    """What a line would do. `doubts` are of the line as a whole."""

    commands: tuple[Simple, ...]
    redirects: tuple[Redirect, ...]
    hosts: tuple[str, ...]
    doubts: tuple[str, ...]


def read_line(text: str, home: str | None = None) -> Line:
    """Read a line.

    - `home`: what `~` and `$HOME` stand for; without it a word with them is not known.
    """
    reader = _Reader(home)
    reader.line(text, depth=0)
    return reader.done()


@functools.cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Reader(WordReader):
    """Walks a tree and collects. One for a line and all the lines inside it."""

    def __init__(self, home: str | None) -> None:
        super().__init__(home)
        self.redirects: list[Redirect] = []
        self.hosts: list[str] = []
        self.doubts: dict[str, None] = {}
        self.bases: list[str] = [""]
        self.depth = 0
        #: What the command before wrote, where that is plain: what a shell after it would read.
        self.told = ""

    def done(self) -> Line:
        return Line(tuple(self.commands), tuple(self.redirects), tuple(self.hosts), tuple(self.doubts))

    def doubt(self, why: str) -> None:
        self.doubts.setdefault(why)

    # --- lines

    def line(self, text: str, depth: int) -> None:
        """Read a line, or one inside another."""
        if depth > DEPTH or len(text) > LONGEST:
            self.doubt("shells in shells" if depth > DEPTH else f"it is longer than {LONGEST} characters")
            return
        if CONTROL.search(text):
            self.doubt("it has control characters")
        outer_source, outer_depth = self.source, self.depth
        self.source, self.depth = text.encode("utf-8", "surrogatepass"), depth
        root = _parser().parse(self.source).root_node
        if root.has_error:
            self.doubt("it cannot be parsed")
        self.walk(root, piped=False)
        if "\\\n" in text:
            # The shell joins such lines before it splits words, the parser sees a blank there: read both ways.
            self.source = text.replace("\\\n", "").encode("utf-8", "surrogatepass")
            self.walk(_parser().parse(self.source).root_node, piped=False)
        self.source, self.depth = outer_source, outer_depth

    def walk(self, node: Node, *, piped: bool) -> None:
        """Read what a node would run. `piped`: its input is the output of something."""
        kind = node.type
        if kind in SILENT:
            return
        if kind == "command":
            self.command(node, piped=piped)
        elif kind == "redirected_statement":
            self.redirected(node, piped=piped)
        elif kind in ("variable_assignment", "variable_assignments"):
            self.assignments(node)
        elif kind == "declaration_command":
            self.declaration(node)
        elif kind in EXPRESSIONS:
            self.expression(node)
        else:
            if kind not in STRUCTURE:
                self.doubt(f"it holds {DOUBTFUL.get(kind, kind.replace('_', ' ').lower())}")
            inner = piped and not kind.endswith("_substitution")
            for at, child in enumerate(node.named_children):
                self.walk(child, piped=inner or (kind == "pipeline" and at > 0))

    def expression(self, node: Node) -> None:
        """Read a test, an arithmetic expression or a word that is no command's: only substitutions in it run."""
        if node.type in ("raw_string", "ansi_c_string") and LATER_CODE.search(self.raw(node)):
            self.doubt("a quoted text holds code")
        for child in node.named_children:
            self.walk(child, piped=False)

    # --- redirections

    def redirected(self, node: Node, *, piped: bool) -> None:
        body = node.child_by_field_name("body")
        parts = [child for child in node.named_children if child != body]
        texts = [text for part in parts if (text := self.redirect(part)) is not None]
        if body is not None:
            if body.type == "command":
                self.command(body, piped=piped, fed=texts)
            else:
                self.walk(body, piped=piped or bool(texts))

    def redirect(self, node: Node) -> Word | None:
        """Read one redirection; give the text that it feeds, if it is one."""
        if node.type == "herestring_redirect":
            word = self.only([word for child in node.named_children for word in self.words(child)])
            self.told = word.text
            return word
        if node.type == "heredoc_redirect":
            return self.heredoc(node)
        if node.type != "file_redirect":
            self.walk(node, piped=False)
            return None
        operators = {child.type for child in node.children if not child.is_named}
        for target in node.children_by_field_name("destination"):
            self.target(target, writes=bool(operators - {"<", "<&", "<&-"}), duplicates=bool(operators & {">&", "<&"}))
        return None

    def target(self, node: Node, *, writes: bool, duplicates: bool) -> None:
        words = self.words(node)
        if node.type == "process_substitution":
            return
        word = self.only(words)
        if duplicates and (word.text.isdigit() or word.text == "-"):
            return
        if not word.known or not word.text:
            self.doubt("it redirects to a file whose name is not known")
        socket = DEVICE_SOCKET.match(word.text)
        if socket:
            self.hosts.append(socket[1])
            self.doubt("it opens a socket")
        elif word.text and word.text != "/dev/null":
            self.redirects.append(Redirect(word.text, writes, tuple(self.bases)))

    def heredoc(self, node: Node) -> Word:
        text, known = "", True
        for child in sorted(node.named_children, key=lambda one: one.type != "heredoc_body"):
            if child.type == "heredoc_body":
                text = self.raw(child)
                for inner in child.named_children:
                    if inner.type != "heredoc_content":
                        known = False
                        self.walk(inner, piped=False)
            elif child.type == "file_redirect":
                self.redirect(child)
            elif child.type not in ("heredoc_start", "heredoc_end"):
                # What follows on the same line: it is fed by what stands before.
                self.told = text
                self.walk(child, piped=True)
        return Word(text, known)

    # --- variables

    def assignments(self, node: Node) -> None:
        nodes = [node] if node.type == "variable_assignment" else node.named_children
        for one in nodes:
            name, value = self.assignment(one)
            if name.isupper() and not HARMLESS.fullmatch(name) and (name in _CHOOSING or name.startswith(_CHOOSERS)):
                self.doubt(f"it sets {name}")
            self.variables[name] = value.text

    def assignment(self, node: Node) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        label = self.raw(name) if name is not None else ""
        if name is not None and name.type != "variable_name":
            self.walk(name, piped=False)
            self.doubt("it sets an element of an array")
        word = Word("") if value is None else self.only(self.words(value))
        if LATER_CODE.search(word.text):
            self.doubt("a variable holds code")
        return label, word

    def declaration(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self.assignment(child)
                if not HARMLESS.fullmatch(name):
                    self.doubt(f"it sets {name}")
                self.variables[name] = value.text
            else:
                word = self.only(self.words(child))
                if not word.known or not re.fullmatch(r"-[xrg]+|[A-Za-z_]\w*", word.text):
                    self.doubt("it declares in a way that is not known")

    # --- commands

    def command(self, node: Node, *, piped: bool, fed: list[Word] | None = None) -> None:
        argv: list[Word] = []
        doubts: list[str] = []
        fed = list(fed or ())
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self.assignment(child)
                if not HARMLESS.fullmatch(name):
                    doubts.append(f"it is given {name}")
                self.variables.setdefault(name, value.text)
            elif child.type == "command_name":
                for inner in child.named_children:
                    argv += self.words(inner)
            elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                text = self.redirect(child)
                fed += [] if text is None else [text]
            else:
                argv += self.words(child)
        self.run(argv, doubts, piped=piped, fed=fed)

    def run(self, argv: list[Word], doubts: list[str], *, piped: bool = False, fed: list[Word] | None = None) -> None:
        """Take one command's words, look through wrappers, and note what is left."""
        if not argv:
            return
        if len(self.commands) >= COMMANDS:
            self.doubt(f"it has more than {COMMANDS} commands")
            return
        name = argv[0].text.rpartition("/")[2]
        if not argv[0].known:
            doubts = [*doubts, "which program it runs is not known"]
        texts = [word.text for word in argv]
        if LOADER.fullmatch(name):
            name = "ld.so"
        if name in WRAPPERS and not self.query(name, texts):
            self.wrapper(name, argv, doubts, piped=piped, fed=fed)
        elif name in SHELLS:
            self.shell(argv, doubts, piped=piped, fed=fed or [])
        elif name in SPECIAL:
            SPECIAL[name](self, argv, doubts)
        elif is_interpreter(name) and not any(text in QUERIES or text[:1] not in ("-", "") for text in texts[1:]):
            self.note(argv, [*doubts, "it reads its program from its input"])
        else:
            self.note(argv, doubts)

    @staticmethod
    def query(name: str, texts: list[str]) -> bool:
        """Tell whether a wrapper only asks where something is: `command -v`."""
        return name == "command" and len(texts) > 1 and texts[1] in ("-v", "-V")

    def note(self, argv: list[Word], doubts: list[str], *, neutral: bool = False) -> None:
        self.commands.append(Simple(tuple(argv), tuple(dict.fromkeys(doubts)), tuple(self.bases), neutral=neutral))

    def wrapper(self, name: str, argv: list[Word], doubts: list[str], *, piped: bool, fed: list[Word] | None) -> None:
        how = WRAPPERS[name]
        if how.asks:
            doubts = [*doubts, how.asks]
        at, given = self.past_options(name, argv)
        inner = argv[at:]
        if how.counts or not inner:
            self.note(argv[:at] if inner else argv, doubts)
        if not inner:
            return
        # `watch` and `parallel` give one word to a shell.
        if name in ("watch", "parallel") and len(inner) == 1 and " " in inner[0].text:
            self.inner(inner[0], doubts)
            return
        if how.tail:
            inner = [*inner, Word("", known=False)]
        self.run(inner, [*doubts, *given], piped=piped, fed=fed)

    def past_options(self, name: str, argv: list[Word]) -> tuple[int, list[str]]:
        """Find where the wrapped command begins, and what doubts the wrapper's own words raise."""
        how, at, skip, doubts, ended = WRAPPERS[name], 1, WRAPPERS[name].skip, [], False
        while at < len(argv):
            text = argv[at].text
            assigned = re.match(r"([A-Za-z_]\w*)=", text) if how.assigns else None
            if not ended and text.startswith("-") and (text != "-" or name == "env"):
                ended = text == "--"
                split = _split_string(text, argv[at + 1 : at + 2]) if name == "env" else None
                if split is not None:
                    self.line(split[0], self.depth + 1)
                    self.doubt("env splits a text into words")
                at += text in how.values or (split is not None and split[1])
            elif assigned:
                if not HARMLESS.fullmatch(assigned[1]):
                    doubts.append(f"it is given {assigned[1]}")
            elif skip:
                skip -= 1
            else:
                break
            at += 1
        return min(at, len(argv)), doubts

    def shell(self, argv: list[Word], doubts: list[str], *, piped: bool, fed: list[Word]) -> None:
        """Read `sh -c TEXT`, `sh FILE`, and a shell that reads its commands from its input."""
        at = 1
        while at < len(argv):
            text = argv[at].text
            if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text):
                at += 1
                while at < len(argv) and re.fullmatch(r"[-+][a-zA-Z]+|--", argv[at].text):
                    at += 1
                if at == len(argv):
                    self.note(argv, [*doubts, "a shell without its text"])
                else:
                    self.inner(argv[at], doubts)
                return
            if text in ("-o", "+o", "-O", "+O"):
                at += 1
            elif text in ("--rcfile", "--init-file"):
                doubts = [*doubts, "a shell with a start file"]
                at += 1
            elif not text.startswith(("-", "+")) or not argv[at].known:
                self.note(argv, doubts)
                return
            elif text == "-s":
                break
            at += 1
        for given in fed:
            self.inner(given, doubts)
        if piped and self.told:
            self.line(self.told, self.depth + 1)
        if piped or not fed:
            self.note(argv, [*doubts, "a shell reads its commands from elsewhere"])

    def inner(self, word: Word, doubts: list[str]) -> None:
        """Read a word that is a line."""
        for why in doubts:
            self.doubt(why)
        if not word.known:
            self.doubt("a shell is given a text that is not known")
        self.line(word.text, self.depth + 1)

    def evaluate(self, argv: list[Word], doubts: list[str]) -> None:
        self.inner(Word(" ".join(word.text for word in argv[1:]), all(word.known for word in argv[1:])), doubts)

    def trap(self, argv: list[Word], doubts: list[str]) -> None:
        if len(argv) > 1:
            self.inner(argv[1], doubts)

    def alias(self, argv: list[Word], doubts: list[str]) -> None:
        self.doubt("it defines an alias")
        for word in argv[1:]:
            self.inner(Word(word.text.partition("=")[2], word.known), doubts)

    def change_directory(self, argv: list[Word], doubts: list[str]) -> None:
        places = [word for word in argv[1:] if not re.fullmatch(r"-[LPe]+|--", word.text)]
        place = places[0] if places else Word(self.home or "", self.home is not None)
        if not place.known or place.text == "-" or len(places) > 1:
            self.doubt("it goes to a directory that is not known")
        self.note(argv, doubts, neutral=True)
        last = self.bases[-1]
        self.bases.append(place.text if place.text.startswith("/") else f"{last}/{place.text}" if last else place.text)

    def find(self, argv: list[Word], doubts: list[str]) -> None:
        for at, word in enumerate(argv):
            if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = at + 1
                while end < len(argv) and argv[end].text not in (";", "+"):
                    end += 1
                inner = [Word("", known=False) if "{}" in one.text else one for one in argv[at + 1 : end]]
                self.run(inner, list(doubts))
        self.note(argv, [*doubts, *_telling("find", argv)])

    def fd(self, argv: list[Word], doubts: list[str]) -> None:
        for at, word in enumerate(argv):
            if word.text in ("-x", "-X", "--exec", "--exec-batch"):
                self.run([*argv[at + 1 :], Word("", known=False)], list(doubts))
                argv = argv[:at]
                break
        self.note(argv, doubts)

    def git(self, argv: list[Word], doubts: list[str]) -> None:
        texts = [word.text for word in argv]
        for start in (("submodule", "foreach"), ("bisect", "run")):
            for at in range(1, len(texts) - 2):
                if tuple(texts[at : at + 2]) == start:
                    rest = [one for one in argv[at + 2 :] if one.text != "--recursive"]
                    self.evaluate([Word("eval"), *rest], list(doubts))
        for at, text in enumerate(texts[:-1]):
            if text in ("-x", "--exec") and "rebase" in texts:
                self.inner(argv[at + 1], list(doubts))
        self.note(argv, [*doubts, *_telling("git", argv)])

    def neutral(self, argv: list[Word], doubts: list[str]) -> None:
        name = argv[0].text
        later = any(LATER_CODE.search(word.text) for word in argv[1:]) and name != "echo"
        sets = name == "printf" and len(argv) > 1 and (argv[1].text.startswith("-v") or not argv[1].known)
        if later or sets:
            doubts = [*doubts, "it may set a variable or run code"]
        self.told = told_by(argv)
        self.note(argv, doubts, neutral="/" not in name and not doubts)

    def options(self, argv: list[Word], doubts: list[str]) -> None:
        safe = all(word.known and SET_OPTIONS.fullmatch(word.text) for word in argv[1:])
        self.note(argv, doubts if safe else [*doubts, "it changes the shell"], neutral=safe)

    def su(self, argv: list[Word], doubts: list[str]) -> None:
        self.note(argv[:1], doubts)
        for at, word in enumerate(argv):
            if re.fullmatch(r"-[a-zA-Z]*c|--command", word.text) and argv[at + 1 :]:
                self.inner(argv[at + 1], doubts)
            elif word.text.startswith("--command="):
                self.inner(Word(word.text.partition("=")[2], word.known), doubts)
            elif word.text in ("-u", "--user") and argv[at + 2 :]:
                self.run(argv[at + 2 + (argv[at + 2].text == "--") :], doubts)

    def flock(self, argv: list[Word], doubts: list[str]) -> None:
        at = 1
        while at < len(argv) and argv[at].text.startswith("-"):
            at += 2 if argv[at].text in ("-w", "--timeout", "-E") else 1
        rest = argv[at + 1 :]
        if rest and rest[0].text in ("-c", "--command"):
            self.inner(rest[1] if len(rest) > 1 else Word(""), doubts)
        elif rest:
            self.run(rest, doubts)
        else:
            self.note(argv, doubts)


def _split_string(text: str, following: list[Word]) -> tuple[str, bool] | None:
    """Give the text of `env -S`, in each of its spellings, and whether it is the next word."""
    found = re.fullmatch(r"--split-string(?:=(.*))?|-[i0v]*S(.*)", text, re.DOTALL)
    if found is None:
        return None
    inside = found[1] or found[2]
    return (inside, False) if inside else (following[0].text if following else "", True)


def _telling(name: str, argv: list[Word]) -> list[str]:
    """Find options that write or run what the line does not show; GNU's may be cut short."""
    options = TELLING.get(name, ())
    if "" in options:
        return [f"{name} writes or runs what its arguments say"]
    for word in argv[1:]:
        head = word.text.partition("=")[0]
        for option in options:
            if _is_option(head, option, clusters=name != "find"):
                return [f"{name} {option} writes or runs what the line does not show"]
    return []


def _is_option(head: str, option: str, *, clusters: bool) -> bool:
    if option.startswith("--"):
        # `--` alone ends the options, and one letter after it is never enough.
        return bool(head[3:]) and option.startswith(head)
    if not head.startswith("-") or head.startswith("--"):
        return False
    return head == option or (clusters and not option[2:] and option[1:] in head[1:])


def _ordinary(reader: _Reader, argv: list[Word], doubts: list[str]) -> None:
    """Note a program of which some options are known."""
    name = argv[0].text.rpartition("/")[2]
    more = _telling(name, argv)
    rest = [word.text for word in argv[1:] if not word.text.startswith("-")]
    if name in ("awk", "gawk", "mawk") and any(AWK_ACTS.search(text) for text in rest[:1]):
        more.append("the program may run or write")
    if name == "sed" and any(SED_ACTS.search(word.text) for word in argv[1:]):
        more.append("the script may run or write")
    reader.note(argv, [*doubts, *more])


_CHOOSING: Final = frozenset(
    {
        *("PATH", "IFS", "ENV", "HOME", "SHELL", "CDPATH", "GLOBIGNORE", "PS4", "PROMPT_COMMAND", "SHELLOPTS"),
        *("BASHOPTS", "EDITOR", "VISUAL", "PAGER", "TMPDIR", "USER"),
    }
)
_CHOOSERS: Final = ("LD_", "DYLD_", "BASH_", "GIT_", "PYTHON", "PERL", "NODE_", "RUBY", "JAVA_", "GCONV_", "LS_")

SPECIAL: Final[Mapping[str, Callable[[_Reader, list[Word], list[str]], None]]] = {
    **dict.fromkeys((*TELLING, "mawk"), _ordinary),
    **dict.fromkeys(NEUTRAL, _Reader.neutral),
    **dict.fromkeys(("cd", "pushd"), _Reader.change_directory),
    **dict.fromkeys(("fd", "fdfind"), _Reader.fd),
    **dict.fromkeys(("su", "runuser", "script"), _Reader.su),
    "alias": _Reader.alias,
    "eval": _Reader.evaluate,
    "find": _Reader.find,
    "flock": _Reader.flock,
    "git": _Reader.git,
    "set": _Reader.options,
    "trap": _Reader.trap,
}
