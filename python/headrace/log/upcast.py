"""From what an older release wrote to what this one reads: one small step for each version of a type.

1. A step takes the plain data of version n and gives that of version n + 1. It is pure, and never removed.
2. Bytes in the log are never rewritten: the step runs whenever they are read.

Every type is at its first version today, so the table is empty; a golden log of each version stays in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from headrace.log._payload import CLASSES, Payload, PayloadError, readers

__all__ = ["STEPS", "Step", "present"]

Step: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Final[Mapping[tuple[str, int], Step]] = {}
"""(type, version it starts from) -> step."""


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
    if version > cls.version:
        raise PayloadError(f"{type_}: version {version} is newer than this release, which knows {cls.version}")
    data = orjson.loads(raw)
    for at in range(version, cls.version):
        step = steps.get((type_, at))
        if step is None:
            raise PayloadError(f"{type_}: no step leads from version {at} to {at + 1}")
        data = step(data)
    return cls.from_dict(data)
