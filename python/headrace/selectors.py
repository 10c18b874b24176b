"""Who is meant by a name: the grammar of selectors, and the lookup of what a client calls `model`.

1. A selector is a profile, optionally with a binding (`web_search.news`), or `provider_id/model`, which the first
   slash splits.
2. A client's name is looked up as: an exact name of `[models]`, a profile, `provider_id/model` with a known id,
   a pattern of `[models]`, in the file's order. The first that fits decides, also where it then leads nowhere.
3. A pattern holds one `*`. In what it leads to, `{model}` stands for the whole name that was asked.
4. Every "no" says what was asked and what exists, and no provider has been touched.

Never here: credentials, a provider's own names for its models.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "CAPABILITY_OF",
    "ID",
    "PROFILES",
    "Explicit",
    "Names",
    "Pattern",
    "Profile",
    "Route",
    "Selector",
    "Unresolved",
    "check_names",
    "parse",
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

#: A name that a client sends is no longer than this: it stands in answers and logs.
NAME_LIMIT: Final = 256
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
    - `bindings`: selector text of a profile (`web_search.news`) to selector text of a model, for one subject.
    - `providers`: the known ids.
    """

    __slots__ = ("_bindings", "_exact", "_found", "_patterns", "_providers")

    def __init__(self, *, models: Mapping[str, str], bindings: Mapping[str, str], providers: Iterable[str]) -> None:
        self._exact = {name: target for name, target in models.items() if "*" not in name}
        self._patterns = tuple((Pattern.of(name), target) for name, target in models.items() if "*" in name)
        self._bindings = {str(parse(name) or name): target for name, target in bindings.items()}
        self._providers = frozenset(providers)
        # What was found stays found for as long as the configuration does; clients ask for few names, again and again.
        self._found: dict[str, Route] = {}

    def resolve(self, name: str) -> Route | Unresolved:
        """Look a client's `model` up."""
        route = self._found.get(name)
        if route is not None:
            return route
        found = self._resolve(name)
        if isinstance(found, Route) and len(self._found) < KEPT:
            self._found[name] = found
        return found

    def _resolve(self, name: str) -> Route | Unresolved:
        if len(name) > NAME_LIMIT:
            return self._unknown(name[:40] + "...")
        target = self._exact.get(name)
        if target is not None:
            return self._follow(name, target)
        selector = parse(name)
        if isinstance(selector, Profile):
            return self._bound(selector)
        if selector is not None and selector.provider in self._providers:
            return Route(selector.provider, selector.model)
        for pattern, target in self._patterns:
            if pattern.fits(name):
                return self._follow(name, target.replace("{model}", name))
        return self._unknown(name)

    def public(self) -> Iterator[tuple[str, Route]]:
        """List the exact names and the bound profiles, each with where it leads."""
        for name in (*self._exact, *self._bindings):
            route = self.resolve(name)
            if isinstance(route, Route):
                yield name, route

    def _follow(self, name: str, target: str) -> Route | Unresolved:
        selector = parse(target)
        if isinstance(selector, Profile):
            return self._bound(selector)
        if selector is not None and selector.provider in self._providers:
            return Route(selector.provider, selector.model)
        return self._unknown(name)

    def _bound(self, profile: Profile) -> Route | Unresolved:
        target = self._bindings.get(str(profile))
        selector = parse(target) if target is not None else None
        if isinstance(selector, Explicit) and selector.provider in self._providers:
            return Route(selector.provider, selector.model, CAPABILITY_OF[profile.name])
        return Unresolved(
            "model_binding_not_configured",
            f"model: nothing is bound to the profile {str(profile)!r}; bound here: {_listed(self._bindings)}",
        )

    def _unknown(self, name: str) -> Unresolved:
        names = [*self._exact, *(str(pattern) for pattern, _ in self._patterns), *self._bindings]
        names += [f"{provider}/MODEL" for provider in sorted(self._providers)]
        return Unresolved("unknown_model_selector", f"no model {name!r} is known here; known: {_listed(names)}")


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - TOLD_NAMES
    return (", ".join(every[:TOLD_NAMES]) or "none") + (f", and {more} more" if more > 0 else "")


def check_names(
    *, models: Mapping[str, str], profiles: Mapping[str, str], providers: Iterable[str], like: Callable[[str], str]
) -> Iterator[tuple[Path, str]]:
    """Find what is wrong with `[models]` and `[profiles]`.

    - `like`: adds a guess at what a misspelt provider id was meant to be.
    """
    known = frozenset(providers)
    for name, target in profiles.items():
        path = ("profiles", *name.split(".", 1))
        if not isinstance(parse(name), Profile):
            yield path, f"{name!r} is no profile; use one of {', '.join(PROFILES)}, or PROFILE.NAME"
            continue
        selector = parse(target)
        if not isinstance(selector, Explicit):
            yield path, "must name a model as provider_id/model"
        elif selector.provider not in known:
            yield path, f"no provider {selector.provider!r}{like(selector.provider)}"
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
