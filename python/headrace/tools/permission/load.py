"""Read policy files, and refuse what is wrong in them with file, line and key.

1. A rule's examples are its tests: they run whenever a file is read, against that rule alone.
2. A project's file that allows anything is refused as a whole: it was written to be trusted.
3. Nothing is looked for in the working directory but the project's own file, which can only tighten.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.config import ConfigurationError, Problem, Source, validate
from headrace.tools.permission.acts import Connect, Open, Other, Query, Run
from headrace.tools.permission.policy import LAYERS, Layer, LayerName, Policy
from headrace.tools.permission.questions import line_acts
from headrace.tools.permission.rules import Rule, RuleFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["PROJECT_FILE", "find_files", "load_policy", "parse_layer"]

FILE_LIMIT: Final = 1 << 20
PROJECT_FILE: Final = ".headrace/policy.toml"
ORGANISATION_FILE: Final = "/etc/headrace/policy.toml"
EXAMPLE_ROOT: Final = "/example"
"""The workspace in which examples are read."""
EXAMPLE_HOME: Final = "/home/example"


def find_files(root: Path, environ: Mapping[str, str]) -> dict[LayerName, Path]:
    """Name the files of the layers that are there: `/etc/headrace`, the user's configuration directory, the project."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "/nonexistent")) / ".config")
    places: dict[LayerName, Path] = {
        "organisation": Path(ORGANISATION_FILE),
        "user": Path(home) / "headrace" / "policy.toml",
        "project": root / PROJECT_FILE,
    }
    return {name: path for name, path in places.items() if path.is_file()}


def load_policy(files: Mapping[LayerName, Path], home: str | None = None) -> Policy:
    """Read the layers' files into one policy.

    Raises `ConfigurationError`: a file cannot be read, or something in it is wrong; all faults of the first such file.
    """
    return Policy(
        tuple(parse_layer(_text(files[name]), name, str(files[name])) for name in LAYERS if name in files), home
    )


def parse_layer(text: str, name: LayerName, file: str = "policy") -> Layer:
    """Read one file's text as a layer.

    Raises `ConfigurationError`: something in it is wrong, an example that fails as well.
    """
    from headrace._bridge import toml_document

    values, places, fault = toml_document(text)
    if fault is not None:
        line, column, message = fault
        raise ConfigurationError([Problem(f"no TOML: {message}", "", file, line, column)])
    source = Source(file, values, places, frozenset())
    read, faults = validate(RuleFile, values)
    if read is None:
        raise source.refusal(faults)
    found = list(_faults(read, name))
    if not found:
        found = list(_examples(read))
    if found:
        raise source.refusal(found)
    return Layer(name, read.rules, read.modes)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError([Problem(f"cannot be read: {error.strerror}", file=str(path))]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([Problem("is not UTF-8; save it as UTF-8", file=str(path))]) from None
    if len(raw) > FILE_LIMIT:
        raise ConfigurationError([Problem(f"is longer than {FILE_LIMIT} bytes; is it the right file?", file=str(path))])
    return text


def _faults(read: RuleFile, layer: LayerName) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if read.version != 1:
        yield ("version",), "is not known; this release reads version 1"
    for at, rule in enumerate(read.rules):
        if layer == "project" and rule.effect == "allow":
            yield (
                ("rules", at, "effect"),
                "a project's file can only tighten; remove the rule, or put it into your own policy file",
            )
        for key, words in rule.faults():
            yield ("rules", at, key), words


def _examples(read: RuleFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for at, rule in enumerate(read.rules):
        for key, wanted in (("match", True), ("not_match", False)):
            for index, example in enumerate(getattr(rule, key)):
                if matches(rule, example) != wanted:
                    yield (
                        ("rules", at, key, index),
                        "the rule does not match this example; change one of them"
                        if wanted
                        else "the rule matches this example and must not; change one of them",
                    )


def matches(rule: Rule, example: str) -> bool:
    """Tell whether a rule, alone, decides an example: a line for `argv`, a path, a host, or else a tool's name."""
    tools = (rule.tool,) if isinstance(rule.tool, str) else rule.tool
    tool = tools[0].replace("*", "x")
    if rule.argv is not None:
        acts, doubts = line_acts(example, root=EXAMPLE_ROOT, cwd=EXAMPLE_ROOT, home=EXAMPLE_HOME)
        runs = tuple(act for act in acts if isinstance(act, Run))
        query = Query(tool=tool, acts=runs, doubts=doubts, root=EXAMPLE_ROOT, tier="A")
    elif rule.path is not None:
        path = example.replace("~", EXAMPLE_HOME, 1) if example.startswith("~") else example
        place = path if path.startswith("/") else f"{EXAMPLE_ROOT}/{path}"
        query = Query(tool=tool, acts=(Open(place, "write"),), root=EXAMPLE_ROOT, tier="A")
    elif rule.host is not None:
        host = example.partition("://")[2].partition("/")[0] if "://" in example else example
        query = Query(tool=tool, acts=(Connect(host),), root=EXAMPLE_ROOT, tier="A")
    else:
        query = Query(tool=example, acts=(Other("execute"),), root=EXAMPLE_ROOT, tier="A")
    alone = Policy((Layer("session", (replace(rule, match=(), not_match=()),)),), EXAMPLE_HOME)
    decision = alone.decide(query)
    ruled = any(one.by == "policy" and one.effect == rule.effect for one in decision.verdicts)
    return ruled and decision.effect == rule.effect
