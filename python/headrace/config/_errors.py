"""What is wrong with a configuration, each fault in one line: file, line, key, what, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ConfigurationError", "Problem", "key_text"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. Its text never holds a value of the file, which may be a secret in the wrong place."""

    message: str
    key: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.key, self.message) if part)


class ConfigurationError(HeadraceError):
    """The configuration cannot be used. `problems` has every fault that was found."""

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def key_text(path: Iterable[str | int]) -> str:
    """Write a path as a reader of TOML would: `providers[0].base_url`."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        else:
            plain = step.replace("_", "a").replace("-", "a").isalnum() and step.isascii()
            word = step if plain else f'"{step[:60]}"'
            out += f".{word}" if out else word
    return out
