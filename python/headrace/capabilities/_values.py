"""What the capabilities share: reading a client's fields, the cost of a call, an answer that says no.

Never here: one capability's fields.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.codes import ErrorKind

T = TypeVar("T")

__all__ = ["UNKNOWN", "CallUsage", "Fields", "ReadError", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage:
    """What a call cost, as far as the provider says. None is unknown, never 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    raw: Mapping[str, Any] | None = None
    """As the provider wrote it."""

    def to_dict(self) -> dict[str, Any]:
        """Give what is known, in OpenAI's words."""
        told = {"prompt_tokens": self.input_tokens, "total_tokens": self.total_tokens or self.input_tokens}
        return {name: value for name, value in told.items() if value is not None}


#: Of a provider that says nothing.
UNKNOWN: Final = CallUsage()


class ReadError(Exception):
    """A provider's good status, with a body that is a refusal or no answer.

    - `kind`: of the error that it is.
    - `message`: ours; never the provider's body.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message


def changed(request: Any) -> list[str]:
    """Name the fields of a request that say something: those that differ from their default."""
    return [one.name for one in fields(request) if getattr(request, one.name) != _default(one)]


def _default(one: Field[Any]) -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return one.default


class Fields:
    """A client's JSON object, read field by field. What is not read is `extra`.

    Every refusal names the field and what it must be; raised as `BadRequestError`.
    """

    __slots__ = ("_left",)

    def __init__(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise BadRequestError("the body must be a JSON object")
        self._left: dict[str, Any] = dict(body)

    def take(self, name: str) -> Any:
        """Take a field as it is; None where it is absent or null."""
        return self._left.pop(name, None)

    def text(self, name: str, *, required: bool = False, of: Collection[str] | None = None) -> str | None:
        """Take a string.

        - `of`: the only ones allowed.
        """
        value = self._typed(name, str, "a string")
        if required and not value:
            raise BadRequestError(f"{name} is missing: give a string", param=name)
        if value is not None and of is not None and value not in of:
            raise BadRequestError(f"{name} must be one of {', '.join(of)}", param=name)
        return value

    def needed(self, name: str) -> str:
        """Take a string that must be there."""
        return self.text(name, required=True) or ""

    def count(self, name: str, *, least: int = 1) -> int | None:
        """Take a whole number."""
        value = self._typed(name, int, "a whole number")
        if value is not None and value < least:
            raise BadRequestError(f"{name} must be {least} or more", param=name)
        return value

    def flag(self, name: str) -> bool | None:
        """Take a boolean."""
        return self._typed(name, bool, "true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of strings; empty where it is absent."""
        value = self._typed(name, list, "a list of strings")
        if value is not None and not all(isinstance(one, str) for one in value):
            raise BadRequestError(f"{name} must be a list of strings", param=name)
        return tuple(value or ())

    @property
    def extra(self) -> dict[str, Any]:
        """What was not taken. Nulls say nothing."""
        return {name: value for name, value in self._left.items() if value is not None}

    def _typed(self, name: str, kind: type[T], what: str) -> T | None:
        value: Any = self._left.pop(name, None)
        # A boolean is an int in Python and none in JSON.
        if value is None:
            return None
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        raise BadRequestError(f"{name} must be {what}", param=name)
