"""What every payload of the event log is: a frozen value with a type, a version and one canonical form.

1. The canonical form is one JSON object: keys sorted, no white space, a field left out where it stands at its default
   and that default is None, False, 0 or empty. The same value gives the same bytes for ever.
2. There is no float: times are whole milliseconds, money is whole millionths, so that no two machines write them apart.
3. A field is added with a default that is left out (old bytes then stay what they were); any other change is a new
   version and an upcaster (`headrace.log.upcast`).
4. What a newer release wrote and this one does not know is refused by name, and never dropped.

I/O must not be added here.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    _Reads: TypeAlias = tuple[tuple[str, Callable[[Any], Any]], ...]

SHAPES_LIMIT = 256
"""Sets of fields of one class that are known by sight: those that occur are a handful."""

__all__ = ["CLASSES", "Glance", "Payload", "PayloadError", "Value", "decode", "readers", "register"]


class PayloadError(HeadraceError):
    """A payload's bytes are not what its type and version say."""


class Value:
    """A value inside a payload: the same canonical form, without a type of its own."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the value as plain JSON data, what stands at an empty default left out."""
        return _plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Make the value of plain JSON data.

        - Raises `PayloadError`: a field is missing or not known, or is not of this shape.
        """
        try:
            for name, read in readers(cls):
                if name in data:
                    data = {**data, name: read(data[name])}
            return cls(**data)
        except (TypeError, AttributeError) as error:
            raise PayloadError(f"{cls.__name__}: {_words(cls, data, error)}") from None


class Payload(Value):
    """What one event of the log says. `type` and `version` name the class for ever."""

    __slots__ = ()

    type: ClassVar[str]
    version: ClassVar[int] = 1

    def to_json(self) -> bytes:
        """Give the canonical bytes, which the log keeps and hashes."""
        import orjson  # here, because what only names payloads must stay light to import

        return orjson.dumps(_plain(self), option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """Read the canonical bytes of this class's present version.

        - Raises `PayloadError`: they are not JSON, or not this payload's.
        """
        return cls.from_dict(_loads(raw, cls.type))


CLASSES: dict[str, type[Payload]] = {}
"""The class of each event type."""

P = TypeVar("P", bound=type[Payload])


def register(cls: P) -> P:
    """Enter a payload class under its type; as a decorator, above `dataclass`."""
    if cls.type in CLASSES:
        raise ValueError(f"the type {cls.type!r} is taken by {CLASSES[cls.type].__name__}")
    CLASSES[cls.type] = cls
    return cls


def decode(type_: str, data: Mapping[str, Any]) -> Payload:
    """Make the payload of plain JSON data of its type's present version.

    - Raises `PayloadError`: the type is not known, or the data is not this type's.
    """
    cls = CLASSES.get(type_)
    if cls is None:
        raise PayloadError(f"the event type {type_!r} is not known: a newer release wrote it")
    return cls.from_dict(data)


class Glance:
    """Shows plain JSON data as if it were a payload of one class: for who reads a few fields of a great many.

    - `view`: makes what is shown; a member of the class that has a default is there, whatever its `__dict__` holds.
    - `shapes`: the sets of fields that were seen, with what is to be read of each.
    """

    __slots__ = ("cls", "shapes", "version", "view")

    def __init__(self, cls: type[Payload]) -> None:
        defaults = {name: default for name, default in _layout(cls) if default is not MISSING}
        self.cls = cls
        self.version = cls.version
        self.view = type(f"Glance{cls.__name__}", (), {**defaults, "type": cls.type})
        self.shapes: dict[tuple[str, ...], _Reads] = {}

    def learn(self, shape: tuple[str, ...]) -> _Reads:
        """Find what is to be read of data with these fields.

        - Raises `PayloadError`: there is one too many or too few.
        """
        layout = dict(_layout(self.cls))
        needed = {name for name, default in layout.items() if default is MISSING}
        if not needed <= set(shape) <= layout.keys():
            raise PayloadError(f"{self.cls.__name__}: has other fields")
        reads = tuple((name, read) for name, read in readers(self.cls) if name in shape)
        if len(self.shapes) < SHAPES_LIMIT:
            self.shapes[shape] = reads
        return reads


def _loads(raw: bytes, name: str) -> dict[str, Any]:
    import orjson

    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise PayloadError(f"{name}: is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise PayloadError(f"{name}: is a JSON {type(data).__name__} and no object")
    return data


def _plain(value: Any) -> dict[str, Any]:
    out = {}
    for name, default in _layout(type(value)):
        item = getattr(value, name)
        if item == default and (not item or isinstance(item, Value)):
            continue
        out[name] = _member(item)
    return out


def _member(item: Any) -> Any:
    if isinstance(item, (str, int)):
        return item
    if isinstance(item, tuple):
        return [_member(one) for one in item]
    if is_dataclass(item):
        return _plain(item)
    if isinstance(item, float):
        raise PayloadError("a payload holds no float: count in whole milliseconds or millionths")
    return item


#: What a value's class says of its fields, worked out once. It holds classes only, never data.
_LAYOUTS: dict[type, tuple[tuple[str, Any], ...]] = {}
_READERS: dict[type, _Reads] = {}


def _layout(cls: type) -> tuple[tuple[str, Any], ...]:
    known = _LAYOUTS.get(cls)
    if known is None:
        known = tuple((spec.name, _default(spec)) for spec in fields(cls))
        _LAYOUTS[cls] = known
    return known


def _default(spec: Any) -> Any:
    return spec.default_factory() if spec.default_factory is not MISSING else spec.default


def readers(cls: type) -> _Reads:
    """Find the fields whose JSON form is not their Python form: tuples and values."""
    known = _READERS.get(cls)
    if known is None:
        from typing import get_type_hints

        hints = get_type_hints(cls)
        pairs = ((spec.name, _reader(hints[spec.name])) for spec in fields(cls))
        known = tuple((name, reader) for name, reader in pairs if reader is not None)
        _READERS[cls] = known
    return known


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    from types import NoneType, UnionType
    from typing import Union, get_args, get_origin

    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        inner = next(one for one in arguments if one is not NoneType)
        return _optional(_reader(inner))
    if origin is tuple:
        return _each(_reader(arguments[0]))
    if isinstance(hint, type) and issubclass(hint, Value):
        return hint.from_dict
    return None


def _optional(reader: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if reader is None else lambda item: None if item is None else reader(item)


def _each(reader: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return tuple if reader is None else lambda items: tuple(reader(one) for one in items)


def _words(cls: type, data: Any, error: Exception) -> str:
    """Say what is wrong with a payload's fields, without Python's words for it."""
    if not isinstance(data, dict):
        return f"is a JSON {type(data).__name__} and no object"
    known = dict(_layout(cls))
    if unknown := sorted(data.keys() - known.keys()):
        return f"the field {unknown[0]!r} is not known"
    if missing := [name for name, default in known.items() if default is MISSING and name not in data]:
        return f"the field {missing[0]!r} is missing"
    return f"a field has another shape: {error}"
