"""The tools of a run: all that there are, which a model may see, which may be executed.

1. Visible and executable are two states. What is visible and not executable is known to the model and denied.
2. A plug-in that cannot be loaded is reported and left out; two tools of one name are an error that names both.
3. The menu has a fixed order, so that the same tools give the same hash, and a vendor's cache the same prefix.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from headrace.tools.definition import ENTRY_POINT_GROUP, Handler, Manifest, ToolSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.messages import Tool

__all__ = ["BrokenTool", "Entry", "Toolbox", "installed_tools"]


def installed_tools() -> Iterable[EntryPoint]:
    """List the plug-ins of this environment."""
    return entry_points(group=ENTRY_POINT_GROUP)


@dataclass(frozen=True, slots=True)
class BrokenTool:
    """A plug-in that was left out."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool in the box. `source`: `built-in`, or the plug-in that it came from."""

    handler: Handler
    source: str
    validator: Any
    version: str
    visible: bool = True
    executable: bool = True


class Toolbox:
    """Holds tools by name."""

    __slots__ = ("_entries", "broken")

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self.broken: list[BrokenTool] = []
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler, source: str = "built-in", *, visible: bool = True, executable: bool = True) -> None:
        """Put a tool in.

        Raises `ValueError`: its name is taken, or its schema is none.
        """
        import jsonschema_rs

        spec = handler.spec
        if spec.name in self._entries:
            raise ValueError(
                f"two tools are named {spec.name}: one of {self._entries[spec.name].source}, one of {source}"
            )
        try:
            # No schema may make us read a file or an address, and no pattern take more than linear time.
            validator = jsonschema_rs.validator_for(
                json.loads(spec.schema),
                retriever=_no_reference,
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (jsonschema_rs.ValidationError, ValueError) as error:
            raise ValueError(f"{spec.name}: its schema is none: {error}") from None
        self._entries[spec.name] = Entry(handler, source, validator, spec.full_version, visible, executable)

    def add_manifest(self, manifest: Manifest, source: str, *, visible: bool = True, executable: bool = True) -> None:
        """Put a plug-in's tools in, all or none.

        Raises `ValueError`: as `add` does.
        """
        before = dict(self._entries)
        try:
            for handler in manifest.handlers:
                self.add(handler, source, visible=visible, executable=executable)
        except ValueError:
            self._entries = before
            raise

    async def add_source(self, source: ToolSource, *, visible: bool = True, executable: bool = False) -> None:
        """Put in what a source lists. Its tools are seen at first, and executed only when somebody says so.

        Raises `ValueError`: as `add` does, or the list has another namespace than the source.
        """
        manifest = await source.manifest()
        if manifest.namespace != source.namespace:
            raise ValueError(f"the source {source.namespace} lists tools of {manifest.namespace}")
        self.add_manifest(manifest, f"source {source.namespace}", visible=visible, executable=executable)

    def load_plugins(self, discover: Callable[[], Iterable[EntryPoint]] = installed_tools) -> None:
        """Put in the tools of the installed plug-ins; `broken` says what was left out."""
        for point in discover():
            source = f"{point.name} ({point.value})"
            try:
                offered = point.load()
                manifest = offered() if callable(offered) else offered
                if not isinstance(manifest, Manifest):
                    raise TypeError(f"offers a {type(manifest).__name__} and no Manifest")  # noqa: TRY301
                self.add_manifest(manifest, source)
            except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way, and must not take us along
                reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                self.broken.append(BrokenTool(source, reason))

    def get(self, name: str) -> Entry | None:
        """Look a tool up."""
        return self._entries.get(name)

    def show(self, name: str, *, visible: bool | None = None, executable: bool | None = None) -> None:
        """Change what may be seen or executed.

        Raises `KeyError`: there is no such tool.
        """
        old = self._entries[name]
        self._entries[name] = Entry(
            old.handler,
            old.source,
            old.validator,
            old.version,
            old.visible if visible is None else visible,
            old.executable if executable is None else executable,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the menu's order."""
        return tuple(sorted(self._entries))

    def menu(self) -> tuple[Tool, ...]:
        """Describe what a model may see."""
        return tuple(self._entries[name].handler.spec.describe() for name in self.names if self._entries[name].visible)

    def versions(self) -> tuple[tuple[str, str], ...]:
        """Pair the visible names with their versions."""
        return tuple((name, self._entries[name].version) for name in self.names if self._entries[name].visible)

    def menu_hash(self) -> str:
        """Name what a model sees now."""
        return hashlib.sha256(json.dumps(self.versions()).encode()).hexdigest()


def _no_reference(address: str) -> Any:
    raise ValueError(f"{address[:80]} is not read: a tool's schema stands for itself")
