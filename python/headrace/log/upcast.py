"""From what an older release wrote to what this one reads: one small step for each version of a type.

1. A step takes the plain data of version n and gives that of version n + 1. It is pure, and never removed.
2. Bytes in the log are never rewritten: the step runs whenever they are read.

Every type is at its first version today, so the table is empty; a golden log of each version stays in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from headrace.log._payload import CLASSES, Glance, Payload, PayloadError, readers

__all__ = ["STEPS", "Step", "present", "shown"]

Step: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Final[Mapping[tuple[str, int], Step]] = {}
"""(type, version it starts from) -> step."""

_new = object.__new__
#: Worked out once. It holds classes only, never data.
_GLANCES: dict[str, Glance] = {}


def present(type_: str, version: int, raw: bytes, steps: Mapping[tuple[str, int], Step] = STEPS) -> Payload:
    """Read a payload of any version that was ever written.

    Raises `PayloadError`: a newer release wrote it, or the bytes are not what they say.
    """
    cls = CLASSES.get(type_)
    if cls is None:
        raise PayloadError(f"the event type {type_!r} is not known: a newer release wrote it")
    if version == cls.version:
        try:
            # A hundred thousand of these are read in one go; whatever is wrong is said by the slower way.
            data = orjson.loads(raw)
            for name, read in readers(cls):
                if name in data:
                    data[name] = read(data[name])
            return cls(**data)
        except (ValueError, TypeError, AttributeError):
            return cls.from_json(raw)
    return _older(cls, version, raw, steps)


def shown(type_: str, version: int, raw: bytes) -> tuple[type[Payload], Any]:
    """Read a payload as `present` does, and show it as its class would: half the cost of making the value.

    - Raises `PayloadError`, as `present`.
    """
    glance = _GLANCES.get(type_)
    if glance is None and type_ in CLASSES:
        glance = _GLANCES[type_] = Glance(CLASSES[type_])
    if glance is not None and version == glance.version:
        try:
            data = orjson.loads(raw)
            shape = tuple(data)
            reads = glance.shapes.get(shape)
            for name, read in glance.learn(shape) if reads is None else reads:
                data[name] = read(data[name])
            seen: Any = _new(glance.view)
            seen.__dict__ = data
        except (ValueError, TypeError, AttributeError, PayloadError):
            pass  # the slower way says what is wrong
        else:
            return glance.cls, seen
    payload = present(type_, version, raw)
    return type(payload), payload


def _older(cls: type[Payload], version: int, raw: bytes, steps: Mapping[tuple[str, int], Step]) -> Payload:
    type_ = cls.type
    if version > cls.version:
        raise PayloadError(f"{type_}: version {version} is newer than this release, which knows {cls.version}")
    data = orjson.loads(raw)
    for at in range(version, cls.version):
        step = steps.get((type_, at))
        if step is None:
            raise PayloadError(f"{type_}: no step leads from version {at} to {at + 1}")
        data = step(data)
    return cls.from_dict(data)
