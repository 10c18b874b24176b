"""All kinds of provider, built in or plugged in, merged once.

1. One door: a built-in kind is an entry point like a plug-in's, only that this package names it itself.
2. A plug-in that cannot be loaded is reported and left out; the rest works on.
3. Two definitions of one kind are an error that names both: which one wins must not depend on an order of files.

Never here: requests, rows of a configuration beyond the check of their kind and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias

from headrace.config import Config, ConfigurationError, Provider, guess, validate
from headrace.plugins import ENTRY_POINT_GROUP, KIND, Capability, ProviderDefinition

__all__ = ["BUILT_IN", "Broken", "Registry", "installed"]

Path: TypeAlias = tuple[str | int, ...]
Discover: TypeAlias = Callable[[], Iterable[EntryPoint]]

BUILT_IN: Final = (
    *(
        EntryPoint(name, f"headrace.providers.{name}:DEFINITION", ENTRY_POINT_GROUP)
        for name in (
            "openai",
            "openai_compatible",
            "anthropic",
            "bedrock",
            "demo",
            "plain_fetch",
            "azure_openai",
            "chatgpt",
            "cohere",
            "google",
            "vertex",
            "mistral",
            "ollama",
            "openrouter",
        )
    ),
    EntryPoint("vendors", "headrace.providers.vendors:DEFINITIONS", ENTRY_POINT_GROUP),
    EntryPoint("web_vendors", "headrace.providers.web_vendors:DEFINITIONS", ENTRY_POINT_GROUP),
)


def installed() -> Iterable[EntryPoint]:
    """List the plug-ins of this environment."""
    return entry_points(group=ENTRY_POINT_GROUP)


@dataclass(frozen=True, slots=True)
class Broken:
    """A plug-in that was left out."""

    source: str
    reason: str


class Registry:
    """The merged set of definitions, by kind. `refresh()` reads it anew.

    - `plugins`: finds the plug-ins' entry points; pass `tuple` for none.

    Raises `ConfigurationError`: two definitions have the same kind.
    """

    __slots__ = ("_broken", "_definitions", "_plugins")

    def __init__(self, plugins: Discover = installed) -> None:
        self._plugins = plugins
        self.refresh()

    @property
    def definitions(self) -> Mapping[str, ProviderDefinition]:
        """By kind, the built-in ones first."""
        return self._definitions

    @property
    def broken(self) -> tuple[Broken, ...]:
        """What was left out, and why."""
        return self._broken

    def check(self, config: Config) -> Iterator[tuple[Path, str]]:
        """Find what is wrong with the rows of a configuration: kinds, wires, addresses and settings."""
        for at, row in enumerate(config.providers):
            path: Path = ("providers", at)
            definition = self._definitions.get(row.kind)
            if definition is None:
                kinds = list(self._definitions)
                out = "".join(f"; the plug-in {one.source} is left out: {one.reason}" for one in self._broken)
                known = f"known: {', '.join(kinds)}{out}"
                yield (*path, "kind"), f"no kind {row.kind[:64]!r}{guess(row.kind, kinds)}; {known}"
                continue
            if row.base_url is None and definition.base_url is None:
                yield (
                    (*path, "base_url"),
                    f'is missing, and {row.kind} has none of its own; add base_url = "https://..."',
                )
            wires = list(dict.fromkeys(one.protocol for one in definition.capabilities if one.name == "language_model"))
            if row.protocol is not None and row.protocol not in wires:
                speaks = f"it speaks {', '.join(wires)}" if wires else "it has no language model: remove this"
                yield (*path, "protocol"), f"{row.kind} does not speak it; {speaks}"
            if definition.settings is None:
                for name in row.settings:
                    yield (*path, "settings", name), f"{row.kind} has no settings; remove it"
            else:
                _, faults = validate(definition.settings, row.settings)
                yield from (((*path, "settings", *inner), message) for inner, message in faults)

    def settings_of(self, row: Provider) -> Any:
        """Read a checked row's settings into its definition's own class. None where the definition has none."""
        kind = self._definitions[row.kind].settings
        return None if kind is None else validate(kind, row.settings)[0]

    def refresh(self) -> None:
        """Merge the built-in and the installed definitions anew. On an error the old set stays.

        Raises `ConfigurationError`: two definitions have the same kind.
        """
        found: dict[str, ProviderDefinition] = {}
        sources: dict[str, str] = {}
        broken: list[Broken] = []
        for point in (*BUILT_IN, *self._plugins()):
            source = f"{point.name} ({point.value})"
            try:
                definitions = tuple(_offered(point.load()))
            except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way, and must not take us along
                broken.append(Broken(source, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))
                continue
            for definition in definitions:
                kind = definition.kind
                if kind in found:
                    raise ConfigurationError(
                        f"two providers have the kind {kind!r}: {sources[kind]} and {source}; remove one of them"
                    )
                found[kind] = definition
                sources[kind] = source
        self._definitions = found
        self._broken = tuple(broken)


def _offered(value: Any) -> Iterator[ProviderDefinition]:
    for one in (value,) if isinstance(value, ProviderDefinition) else value:
        if not isinstance(one, ProviderDefinition):
            raise TypeError(f"offers a {type(one).__name__}, not a ProviderDefinition")
        if not KIND.match(one.kind):
            raise ValueError(f"the kind {one.kind!r} is not lower-case letters, digits and _")
        if not one.capabilities:
            raise ValueError(f"the kind {one.kind!r} can do nothing: give it capabilities")
        if not all(isinstance(able, Capability) for able in one.capabilities):
            raise TypeError(f"the capabilities of {one.kind!r} are not all of the class Capability")
        yield one
