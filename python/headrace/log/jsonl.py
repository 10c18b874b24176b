"""A run as a file: JSON lines that are the same bytes whichever store they come from.

    {"headrace_log":1,"run_id":...}                                    the first line
    {"at_ms":...,"chain":...,"digest":...,...,"payload":{...},...}     each event, its keys sorted
    {"artifact":DIGEST,"data":BASE64}                                  each artifact, by digest
    {"chain":...,"head":N}                                             the last line: what stands before it is whole

1. A payload stands in it as it is kept: its canonical bytes are JSON already.
2. What is read is checked as what the store holds is, and nothing of it is kept unless all of it is right.
"""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.log.records import LogError, Record, TamperedError, checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.log.eventlog import EventLog

__all__ = ["FORMAT", "JsonlError", "export_run", "import_run", "parse", "record_line"]

FORMAT: Final = 1
_SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
_KEYS: Final = frozenset(Record._fields) - {"salt", "payload"}


class JsonlError(LogError):
    """A line of the file is no line of an export. `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


def record_line(record: Record) -> bytes:
    """Write one event as its line."""
    out: dict[str, Any] = record._asdict()
    for name in ("digest", "chain", "salt"):
        out[name] = out[name].hex() if out[name] is not None else None
    out["payload"] = None if record.payload is None else orjson.Fragment(record.payload)
    return orjson.dumps({name: value for name, value in out.items() if value is not None}, option=_SORTED)


async def export_run(log: EventLog, run_id: str, *, with_artifacts: bool = True) -> list[bytes]:
    """Give the lines of a run's file.

    - Raises `UnknownRunError`; `TamperedError`: what is wrong is not passed on.
    """
    records = await log.read(run_id)
    lines = [orjson.dumps({"headrace_log": FORMAT, "run_id": run_id}, option=_SORTED)]
    lines += map(record_line, records)
    for digest in await log.artifacts.of_run(run_id) if with_artifacts else ():
        data = base64.b64encode(await log.artifacts.get(digest)).decode("ascii")
        lines.append(orjson.dumps({"artifact": digest, "data": data}, option=_SORTED))
    last = records[-1] if records else None
    lines.append(
        orjson.dumps({"head": last.seq if last else 0, "chain": last.chain.hex() if last else ""}, option=_SORTED)
    )
    return lines


def parse(lines: Iterable[bytes]) -> tuple[list[Record], dict[str, bytes]]:
    """Read and check a run's file: its events, and its artifacts by digest.

    - Raises `JsonlError`: a line is no line of an export. `TamperedError`: an event is not the one that was written,
      or the file ends too soon.
    """
    numbered = enumerate(lines, 1)
    run_id = _header(numbered)
    records: list[Record] = []
    artifacts: dict[str, bytes] = {}
    head: tuple[int, bytes] | None = None
    for number, line in numbered:
        if head is not None:
            raise JsonlError(number, "stands behind the end of the run")
        data = _object(number, line)
        if "artifact" in data:
            digest, content = _artifact(number, data)
            artifacts[digest] = content
        elif "head" in data:
            head = (data["head"], _bytes(number, data, "chain"))
        else:
            records.append(_record(number, data))
    whole = list(checked(records, run_id, head=head))
    if head is None:
        raise TamperedError(run_id, len(whole) + 1, "the file ends here and not with its last line")
    return whole, artifacts


async def import_run(log: EventLog, lines: Iterable[bytes]) -> str:
    """Put a run's file into the log, and give the run's id.

    - Raises what `parse` raises; `ConflictError`: there is a run of this id. Then nothing was kept.
    """
    records, artifacts = parse(lines)
    if not records:
        raise JsonlError(1, "the run has no events")
    run_id = records[0].run_id
    await log.insert(records, artifacts.values())
    return run_id


def _header(numbered: Iterator[tuple[int, bytes]]) -> str:
    number, line = next(numbered, (1, b"{}"))
    data = _object(number, line)
    if data.get("headrace_log") != FORMAT or not isinstance(data.get("run_id"), str):
        raise JsonlError(number, f'an export begins with {{"headrace_log":{FORMAT},"run_id":...}}')
    return str(data["run_id"])


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise JsonlError(number, f"is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise JsonlError(number, "is no JSON object")
    return data


def _record(number: int, data: dict[str, Any]) -> Record:
    if not data.keys() >= _KEYS:
        raise JsonlError(number, f"the field {min(_KEYS - data.keys())!r} is missing")
    if not all(isinstance(data[name], int) for name in ("seq", "at_ms", "epoch", "version")):
        raise JsonlError(number, "seq, at_ms, epoch and version are whole numbers")
    payload = data.get("payload")
    return Record(
        run_id=data["run_id"],
        seq=data["seq"],
        id=data["id"],
        at_ms=data["at_ms"],
        epoch=data["epoch"],
        type=data["type"],
        version=data["version"],
        key=data["key"],
        salt=_bytes(number, data, "salt") if "salt" in data else None,
        digest=_bytes(number, data, "digest"),
        chain=_bytes(number, data, "chain"),
        payload=None if payload is None else orjson.dumps(payload, option=orjson.OPT_SORT_KEYS),
    )


def _artifact(number: int, data: dict[str, Any]) -> tuple[str, bytes]:
    try:
        content = base64.b64decode(data["data"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise JsonlError(number, "an artifact has its content as base64 in data") from None
    if sha256(content).hexdigest() != data["artifact"]:
        raise JsonlError(number, f"the artifact {data['artifact']} is not what it was")
    return str(data["artifact"]), content


def _bytes(number: int, data: dict[str, Any], name: str) -> bytes:
    try:
        return bytes.fromhex(data[name])
    except (KeyError, TypeError, ValueError):
        raise JsonlError(number, f"{name} is hexadecimal") from None
