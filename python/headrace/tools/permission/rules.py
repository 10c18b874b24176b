"""Rules as a TOML file has them, and what each of them says of an act.

    [[rules]]
    effect = "allow"                      # or "ask", "deny"
    tool = "bash"                         # or a list; `*` at either end stands for anything
    argv = ["git", ["status", "log"]]     # the command begins so; a list: any of these
    why = "reading the history"
    match = ["git log --oneline"]         # tests of the rule, run whenever the file is read
    not_match = ["git log; rm -rf x"]

1. A rule names one kind of subject (`argv`, `path`, `host`), or none: then it is about every call of its tool.
2. What allows is read narrowly, what denies or asks widely: `rm -r -f` is `rm -rf`, `/bin/rm` is `rm`, the order of
   words does not matter, and a path counts wherever a command names it.
3. `match` and `not_match` are tests: if one fails, the file is refused with its line and key.

Never here: which rule wins (`policy.py`).
"""

from __future__ import annotations

import fnmatch
import functools
import os.path
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from headrace.tools.permission.acts import Act, Connect, Mention, Open, Run
from headrace.tools.permission.programs import inline_options, loose_names

if TYPE_CHECKING:
    from headrace.tools.permission.shell import Simple

__all__ = ["Effect", "Rule", "RuleFile", "glob_pattern"]

Effect: TypeAlias = Literal["allow", "ask", "deny"]
SYSTEM_FOLDERS: Final = frozenset({"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin"})
"""Where `/usr/bin/git` is `git`. Elsewhere a path names a program that a rule for `git` does not mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. The fields are the keys of `[[rules]]`."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    effect: Effect
    tool: str | tuple[str, ...]
    why: str
    argv: tuple[str | tuple[str, ...], ...] | None = None
    path: str | None = None
    host: str | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    def faults(self) -> list[tuple[str, str]]:
        """Find what the schema does not: pairs of a key and words."""
        found = []
        subjects = [name for name in ("argv", "path", "host") if getattr(self, name) is not None]
        if len(subjects) > 1:
            found.append(
                (subjects[1], f"a rule is about one thing, and this has {subjects[0]} as well; make two rules")
            )
        if not self.why.strip():
            found.append(("why", "is empty; say what the rule is for"))
        if self.argv is not None and (not self.argv or any(not one for one in self.argv)):
            found.append(("argv", 'is empty; name a program, such as ["git", "status"]'))
        if self.path is not None and (not self.path or "\0" in self.path):
            found.append(("path", 'is empty; name a file, or "**" for all'))
        return found

    def names(self, tool: str) -> bool:
        """Tell whether the rule is about a tool."""
        tools = (self.tool,) if isinstance(self.tool, str) else self.tool
        return any(fnmatch.fnmatchcase(tool, one) for one in tools)

    def says(self, tool: str, act: Act, root: str, home: str | None) -> Effect | None:
        """Give the rule's word about an act; None where it has none."""
        wide = self.effect != "allow"
        if isinstance(act, (Open, Mention)) and self.path is not None:
            word = self._of_path(tool, act)
            return word if word and _path_matches(self.path, act.path, root, home, wide=wide) else None
        if isinstance(act, Connect) and self.host is not None:
            about = (self.names(tool) and (act.certain or wide)) or (wide and tool == "bash")
            return self.effect if about and _host_matches(self.host, act.host) else None
        if not self.names(tool):
            return None
        if isinstance(act, Run) and self.argv is not None:
            hit = _denies(self.argv, act.command) if wide else _allows(self.argv, act.command)
            return self.effect if hit else None
        if self.argv is None and self.path is None and self.host is None:
            sure = not (isinstance(act, Mention) or (isinstance(act, Run) and act.command.doubts))
            return self.effect if wide or sure else None
        return None

    def _of_path(self, tool: str, act: Open | Mention) -> Effect | None:
        """Say what the rule's word would be if the path is its path."""
        if self.names(tool):
            return None if isinstance(act, Mention) and self.effect == "allow" else self.effect
        if self.effect == "allow" or tool != "bash":
            return None
        # A file is the same file whatever opens it. Of a word in a command nobody knows what becomes of it: what is
        # forbidden to be read is forbidden, what is forbidden to be written is asked about.
        return self.effect if self.names("read_file") or act.kind == "write" else "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """A policy file. `modes`: the only ones that may be used; None: all."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    rules: tuple[Rule, ...] = ()
    modes: tuple[Literal["plan", "default", "accept-edits", "auto", "headless", "danger-bypass"], ...] | None = None
    version: int = field(default=1)


def _allows(prefix: tuple[str | tuple[str, ...], ...], command: Simple) -> bool:
    """Narrowly: each word of the prefix at its place, every word of the command known, no doubt."""
    if not command.known or command.doubts or len(command.argv) < len(prefix):
        return False
    words = list(command.words)
    folder, _, base = words[0].rpartition("/")
    if folder in SYSTEM_FOLDERS:
        words[0] = base
    if not all(word in _any(one) for word, one in zip(words, prefix, strict=False)):
        return False
    flags = inline_options(words[0])
    rest = words[len(prefix) :]
    return not any(_inline(word, flags) for word in rest)


def _inline(word: str, flags: frozenset[str]) -> bool:
    """Tell whether a word says that a program's text follows, in a cluster of short options as well."""
    return word in flags or (_cluster(word) and any(flag[1:] in word for flag in flags if not flag[2:]))


def _denies(prefix: tuple[str | tuple[str, ...], ...], command: Simple) -> bool:
    """Widely: the same program, and every further word of the prefix somewhere among the arguments."""
    words = command.words
    program = {words[0], words[0].rpartition("/")[2]}
    if not program & set(_any(prefix[0])):
        return False
    rest = words[1:]
    return all(any(_among(one, rest) for one in _any(wanted)) for wanted in prefix[1:])


def _among(wanted: str, words: tuple[str, ...]) -> bool:
    if wanted.startswith("--") and wanted[2:]:
        # GNU's options may be cut short, and take a value after `=`.
        heads = [word.partition("=")[0] for word in words]
        return any(head == wanted or (head[3:] and wanted.startswith(head)) for head in heads) or any(
            wanted[2:] in loose_names(letter) for word in words if _cluster(word) for letter in word[1:]
        )
    if _cluster(wanted):
        return all(_flag(letter, words) for letter in wanted[1:]) or wanted in words
    return any(word == wanted or word.rpartition("/")[2] == wanted for word in words)


def _flag(letter: str, words: tuple[str, ...]) -> bool:
    names = loose_names(letter)
    for word in words:
        if _cluster(word) and (letter in word[1:] or any(len(name) == 1 and name in word[1:] for name in names)):
            return True
        head = word.partition("=")[0]
        if head.startswith("--") and any(head[3:] and name.startswith(head[2:]) for name in names):
            return True
    return False


def _cluster(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and word[1] != "-"


def _any(one: str | tuple[str, ...]) -> tuple[str, ...]:
    return (one,) if isinstance(one, str) else one


def _path_matches(glob: str, path: str, root: str, home: str | None, *, wide: bool) -> bool:
    if glob.startswith("~/") and home is not None:
        glob = home + glob[1:]
    if glob.startswith("/"):
        return _hits(glob, path, wide=wide)
    relative = os.path.relpath(path, root)
    if relative == ".." or relative.startswith("../"):
        # `**/x` in a rule that denies means x wherever it is.
        return wide and glob.startswith("**/") and _hits(glob, path.lstrip("/"), wide=True)
    return _hits(glob, relative, wide=wide)


def _hits(glob: str, path: str, *, wide: bool) -> bool:
    if glob_pattern(glob).fullmatch(path):
        return True
    # What is denied with all that is in it is denied itself.
    return wide and glob.endswith("/**") and glob_pattern(glob[:-3]).fullmatch(path) is not None


def _host_matches(glob: str, host: str) -> bool:
    host, glob = host.rstrip(".").lower(), glob.lower()
    return fnmatch.fnmatchcase(host, glob) or (glob.startswith("*.") and host == glob[2:])


@functools.lru_cache(maxsize=1024)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a path's glob: `*` and `?` stay within a name, `**` does not, `{a,b}` is either."""
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + r"(?:[^/]+/)*", at + 3
        elif glob.startswith("**", at):
            out, at = out + r".*", at + 2
        elif glob[at] in "*?":
            out, at = out + (r"[^/]*" if glob[at] == "*" else r"[^/]"), at + 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", r"\\")
            inner = "^" + inner[1:] if inner[0] in "!^" else inner
            out, at = out + f"(?!/)[{inner}]", end + 1
        elif glob[at] == "{" and (end := glob.find("}", at)) > 0:
            out, at = out + "(?:" + "|".join(re.escape(one) for one in glob[at + 1 : end].split(",")) + ")", end + 1
        else:
            out, at = out + re.escape(glob[at]), at + 1
    return re.compile(out, re.DOTALL)
