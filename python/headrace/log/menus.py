"""The menu of tools that one request offers: what a model sees of them, and the version of what would carry them out.

A callable must not be added here, nor whatever would lead to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from headrace.messages import Tool

__all__ = ["Menu", "MenuEntry"]


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A tool as models see it, and the version of what would carry it out. There is no field for a callable."""

    tool: Tool
    version: str


@dataclass(frozen=True, slots=True)
class Menu:
    """The tools that one request offers. The same tools in the same order have the same digest."""

    entries: tuple[MenuEntry, ...] = ()

    @property
    def body(self) -> bytes:
        """The menu as canonical JSON: the artifact that `digest` names."""
        listed = [
            {
                "name": one.tool.name,
                "description": one.tool.description,
                "schema": one.tool.raw_schema,
                "kind": one.tool.kind,
                "strict": one.tool.strict,
                "version": one.version,
            }
            for one in self.entries
        ]
        return orjson.dumps(listed, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_body(cls, raw: bytes) -> Menu:
        """Read a menu back from its artifact."""
        from headrace.messages import Tool

        listed = orjson.loads(raw)
        return cls(
            tuple(
                MenuEntry(
                    Tool(one["name"], one["description"], one["schema"], one["kind"], one["strict"]), one["version"]
                )
                for one in listed
            )
        )

    @property
    def digest(self) -> str:
        """Names the menu; "" for an empty one."""
        return sha256(self.body).hexdigest() if self.entries else ""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The descriptions alone."""
        return tuple(one.tool for one in self.entries)

    def version(self, name: str) -> str | None:
        """Give the version of the tool of this name; None: it is not on the menu."""
        return next((one.version for one in self.entries if one.tool.name == name), None)
