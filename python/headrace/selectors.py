"""Who is meant by a name: the grammar of selectors, and the lookup of what a client calls `model`.

1. A selector is a profile, optionally with a binding (`web_search.news`), or `provider_id/model`, which the first
   slash splits.
2. A client's name is looked up as: an exact name of `[models]`, a profile, `provider_id/model` with a known id,
   a pattern of `[models]`, in the file's order. The first that fits decides, also where it then leads nowhere.
3. A pattern holds one `*`. In what it leads to, `{model}` stands for the whole name that was asked.
4. A profile is bound per subject: by the subject itself, else by the one that it inherits from, else by `[profiles]`.
5. Every "no" says what was asked and what exists, and no provider has been touched.

Never here: credentials, a provider's own names for its models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "CAPABILITY_OF",
    "ID",
    "NAME_LIMIT",
    "PROFILES",
    "Explicit",
    "Names",
    "Pattern",
    "Profile",
    "Route",
    "Selector",
    "Unresolved",
    "check_names",
    "explicit_fault",
    "parse",
    "some_of",
]

Path: TypeAlias = tuple[str | int, ...]

#: What each profile asks of a provider.
CAPABILITY_OF: Final[Mapping[str, str]] = {
    "primary": "language_model",
    "light": "language_model",
    "heavy": "language_model",
    "coding": "language_model",
    "vision_fallback": "language_model",
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "image_generate": "image_generate",
}
PROFILES: Final = tuple(CAPABILITY_OF)
#: Of providers, credentials, keys and bindings.
ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

_NOBODY: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})
#: A name that a client sends is no longer than this: it stands in answers and logs.
NAME_LIMIT: Final = 256
#: Parts of a path that lead elsewhere.
_CLIMBING: Final = frozenset({".", ".."})
#: Names whose place is remembered. Beyond it they are looked up again each time.
KEPT: Final = 1024
#: So many names are told to a client whose own was not found.
TOLD_NAMES: Final = 20


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile and one of its bindings."""

    name: str
    binding: str = "default"

    def __str__(self) -> str:
        return self.name if self.binding == "default" else f"{self.name}.{self.binding}"


@dataclass(frozen=True, slots=True)
class Explicit:
    """A provider row and the upstream's own name of a model."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


Selector: TypeAlias = Profile | Explicit


@dataclass(frozen=True, slots=True)
class Route:
    """Where a name leads, and what it asks of the provider there."""

    provider: str
    model: str
    capability: str = "language_model"
    #: The profile, with its binding, by which it was reached. A fallback chain goes by it.
    profile: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a name leads nowhere."""

    code: Literal["unknown_model_selector", "model_binding_not_configured"]
    message: str


def parse(text: str) -> Selector | None:
    """Read a selector. None: it is none."""
    head, slash, model = text.partition("/")
    if slash:
        return Explicit(head, model) if model and ID.fullmatch(head) else None
    name, dot, binding = text.partition(".")
    if name not in CAPABILITY_OF or (dot and not ID.fullmatch(binding)):
        return None
    return Profile(name, binding or "default")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, or with one `*` all that begin and end so."""

    before: str
    open: bool
    after: str

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Read one; a second `*` is a letter like any other."""
        before, star, after = text.partition("*")
        return cls(before, bool(star), after)

    def fits(self, name: str) -> bool:
        """Whether a name is meant."""
        if not self.open:
            return name == self.before
        long_enough = len(name) >= len(self.before) + len(self.after)
        return long_enough and name.startswith(self.before) and name.endswith(self.after)

    def __str__(self) -> str:
        return f"{self.before}{'*' if self.open else ''}{self.after}"


class Names:
    """The names of one configuration, compiled for lookup.

    - `models`: `[models]`, in the file's order.
    - `bindings`: selector text of a profile (`web_search.news`) to selector text of a model, for everybody.
    - `providers`: the known ids.
    - `subjects`: by subject, its own bindings with those that it inherits from other subjects.
    """

    __slots__ = ("_bindings", "_exact", "_found", "_patterns", "_providers", "_subjects")

    def __init__(
        self,
        *,
        models: Mapping[str, str],
        bindings: Mapping[str, str],
        providers: Iterable[str],
        subjects: Mapping[str, Mapping[str, str]] = _NOBODY,
    ) -> None:
        self._exact = {name: target for name, target in models.items() if "*" not in name}
        self._patterns = tuple((Pattern.of(name), target) for name, target in models.items() if "*" in name)
        self._bindings = _plain(bindings)
        self._subjects = {name: {**self._bindings, **_plain(own)} for name, own in subjects.items()}
        self._providers = frozenset(providers)
        # What was found stays found for as long as the configuration does; clients ask for few names, again and again.
        self._found: dict[tuple[str | None, str], Route] = {}

    @property
    def patterns(self) -> tuple[tuple[Pattern, str], ...]:
        """Names with a `*`, each with what it leads to, in the file's order."""
        return self._patterns

    def resolve(self, name: str, subject: str | None = None) -> Route | Unresolved:
        """Look a client's `model` up, for a subject."""
        route = self._found.get((subject, name))
        if route is not None:
            return route
        found = self._resolve(name, self._subjects.get(subject or "", self._bindings))
        if isinstance(found, Route) and len(self._found) < KEPT:
            self._found[subject, name] = found
        return found

    def _resolve(self, name: str, bindings: Mapping[str, str]) -> Route | Unresolved:
        if len(name) > NAME_LIMIT:
            return self._unknown(name[:40] + "...", bindings)
        target = self._exact.get(name)
        if target is not None:
            return self._follow(name, target, bindings)
        # Some providers have the model in the URL's path, where such a part would lead out of what a key may ask for.
        climbs = not _CLIMBING.isdisjoint(name.split("/"))
        selector = None if climbs else parse(name)
        if isinstance(selector, Profile):
            return self._bound(selector, bindings)
        if selector is not None and selector.provider in self._providers:
            return Route(selector.provider, selector.model)
        for pattern, target in () if climbs else self._patterns:
            if pattern.fits(name):
                return self._follow(name, target.replace("{model}", name), bindings)
        return self._unknown(name, bindings)

    def public(self, subject: str | None = None) -> Iterator[tuple[str, Route]]:
        """List the exact names and the profiles bound for a subject, each with where it leads."""
        for name in (*self._exact, *self._subjects.get(subject or "", self._bindings)):
            route = self.resolve(name, subject)
            if isinstance(route, Route):
                yield name, route

    def is_public(self, name: str, subject: str | None = None) -> bool:
        """Whether a name is one that `public` lists, if it leads anywhere."""
        return name in self._exact or name in self._subjects.get(subject or "", self._bindings)

    def _follow(self, name: str, target: str, bindings: Mapping[str, str]) -> Route | Unresolved:
        selector = parse(target)
        if isinstance(selector, Profile):
            return self._bound(selector, bindings)
        if selector is not None and selector.provider in self._providers:
            return Route(selector.provider, selector.model)
        return self._unknown(name, bindings)

    def _bound(self, profile: Profile, bindings: Mapping[str, str]) -> Route | Unresolved:
        text = str(profile)
        target = bindings.get(text)
        selector = parse(target) if target is not None else None
        if isinstance(selector, Explicit) and selector.provider in self._providers:
            return Route(selector.provider, selector.model, CAPABILITY_OF[profile.name], text)
        return Unresolved(
            "model_binding_not_configured",
            f"model: nothing is bound to the profile {text!r}; bound here: {some_of(bindings)}",
        )

    def _unknown(self, name: str, bindings: Mapping[str, str]) -> Unresolved:
        names = [*self._exact, *(str(pattern) for pattern, _ in self._patterns), *bindings]
        names += [f"{provider}/MODEL" for provider in sorted(self._providers)]
        return Unresolved("unknown_model_selector", f"no model {name!r} is known here; known: {some_of(names)}")


def _plain(bindings: Mapping[str, str]) -> dict[str, str]:
    """Write each profile as its selector writes itself: `primary.default` is `primary`."""
    return {str(parse(name) or name): target for name, target in bindings.items()}


def some_of(names: Iterable[str]) -> str:
    """Name those that there are, for a client whose own leads nowhere; of many the first."""
    every = list(names)
    more = len(every) - TOLD_NAMES
    return (", ".join(every[:TOLD_NAMES]) or "none") + (f", and {more} more" if more > 0 else "")


def check_names(
    *,
    models: Mapping[str, str],
    profiles: Mapping[str, str],
    providers: Iterable[str],
    like: Callable[[str], str],
    subjects: Mapping[str, Mapping[str, str]] = _NOBODY,
) -> Iterator[tuple[Path, str]]:
    """Find what is wrong with `[models]`, `[profiles]` and the subjects' own `profiles`.

    - `like`: adds a guess at what a misspelt provider id was meant to be.
    """
    known = frozenset(providers)
    yield from _check_bindings(("profiles",), profiles, known, like)
    for subject, own in subjects.items():
        yield from _check_bindings(("subjects", subject, "profiles"), own, known, like)
    for name, target in models.items():
        path = ("models", name)
        if name.count("*") > 1:
            yield path, "a pattern holds one *; split it into several names"
            continue
        if "*" not in name and "{model}" in target:
            yield path, "{model} stands for what a * matched; write the model's name here"
            continue
        selector = parse(target.replace("{model}", "model"))
        if selector is None:
            yield path, "must lead to provider_id/model or to a profile"
        elif isinstance(selector, Explicit) and selector.provider not in known:
            yield path, f"no provider {selector.provider!r}{like(selector.provider)}"


def _check_bindings(
    base: Path, bindings: Mapping[str, str], known: frozenset[str], like: Callable[[str], str]
) -> Iterator[tuple[Path, str]]:
    for name, target in bindings.items():
        path = (*base, *name.split(".", 1))
        if not isinstance(parse(name), Profile):
            yield path, f"{name!r} is no profile; use one of {', '.join(PROFILES)}, or PROFILE.NAME"
            continue
        fault = explicit_fault(target, known, like)
        if fault is not None:
            yield path, fault


def explicit_fault(target: str, known: frozenset[str], like: Callable[[str], str]) -> str | None:
    """Say what is wrong with a text that must be `provider_id/model`. None: nothing."""
    selector = parse(target)
    if not isinstance(selector, Explicit):
        return "must name a model as provider_id/model"
    return None if selector.provider in known else f"no provider {selector.provider!r}{like(selector.provider)}"
