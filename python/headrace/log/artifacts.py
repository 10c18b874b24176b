"""Contents that are too large for an event: kept once under their SHA-256, compressed, for the runs that hold them.

1. An artifact is durable before the event that refers to it.
2. What is read back is what was put in: its digest is checked each time.

A content's meaning must not be added here.
"""

from __future__ import annotations

import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from headrace.log.payloads import ArtifactRef
from headrace.log.records import LogError
from headrace.store import ConstraintViolated

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.store import Store, Transaction

__all__ = ["ARTIFACT_LIMIT", "ArtifactError", "Artifacts", "put_in", "referred"]

ARTIFACT_LIMIT: Final = 64 << 20
"""Bytes of one content: a row must be read and written whole, and no test's output that anybody reads is longer."""

LEVEL: Final = 3
"""Of zlib: logs shrink to a sixth here, and not much further at three times the cost."""


class ArtifactError(LogError):
    """A content is not there, is damaged, or is too large to keep."""


class Artifacts:
    """The contents of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put(self, run_id: str, data: bytes, *, media: str = "") -> ArtifactRef:
        """Keep a content for a run, and return once it is durable. The same content is kept once.

        - Raises `ArtifactError`: it is larger than 64 MiB.
        """
        try:
            async with self._store.transaction() as tx:
                digest = await put_in(tx, run_id, data)
        except ConstraintViolated:
            raise ArtifactError(f"there is no run {run_id} to keep an artifact for") from None
        return ArtifactRef(digest=digest, size=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        """Give a content back.

        - Raises `ArtifactError`: it is not there, or is not what was put in.
        """
        async with self._store.transaction(read_only=True) as tx:
            rows = await tx.fetch("SELECT size, encoding, data FROM log_artifacts WHERE digest = ?", digest)
        if not rows:
            raise ArtifactError(f"there is no artifact {digest}")
        size, encoding, kept = rows[0]
        return _unpacked(digest, size, encoding, bytes(kept))

    async def missing(self, digests: Collection[str]) -> set[str]:
        """Say which of these are not kept."""
        async with self._store.transaction(read_only=True) as tx:
            return {
                digest
                for digest in digests
                if not await tx.fetch("SELECT 1 FROM log_artifacts WHERE digest = ?", digest)
            }

    async def of_run(self, run_id: str) -> list[str]:
        """List the digests that a run holds, in their order."""
        async with self._store.transaction(read_only=True) as tx:
            rows = await tx.fetch("SELECT digest FROM log_artifact_runs WHERE run_id = ? ORDER BY digest", run_id)
        return [digest for (digest,) in rows]


def referred(data: Any) -> Iterator[str]:
    """List the digests of artifacts that a payload's plain data refers to."""
    if isinstance(data, dict):
        if isinstance(data.get("digest"), str) and "size" in data:
            yield data["digest"]
        if data.get("menu"):
            yield data["menu"]
        for item in data.values():
            yield from referred(item)
    elif isinstance(data, list):
        for item in data:
            yield from referred(item)


async def put_in(tx: Transaction, run_id: str, data: bytes) -> str:
    """Keep a content within a transaction, and give its digest.

    - Raises `ArtifactError`: it is larger than 64 MiB.
    """
    if len(data) > ARTIFACT_LIMIT:
        raise ArtifactError(f"an artifact has at most {ARTIFACT_LIMIT} bytes, this one {len(data)}: cut it first")
    digest = sha256(data).hexdigest()
    packed = zlib.compress(data, LEVEL)
    encoding, kept = ("zlib", packed) if len(packed) < len(data) else ("plain", data)
    await tx.execute(
        "INSERT INTO log_artifacts (digest, size, encoding, data) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
        digest,
        len(data),
        encoding,
        kept,
    )
    await tx.execute(
        "INSERT INTO log_artifact_runs (run_id, digest) VALUES (?, ?) ON CONFLICT (run_id, digest) DO NOTHING",
        run_id,
        digest,
    )
    return digest


def _unpacked(digest: str, size: int, encoding: str, kept: bytes) -> bytes:
    data = kept
    if encoding == "zlib":
        try:
            # Never more than was put in, whatever the row says now.
            data = zlib.decompressobj().decompress(kept, max(1, min(size, ARTIFACT_LIMIT)))
        except zlib.error:
            raise ArtifactError(f"the artifact {digest} is damaged") from None
    if sha256(data).hexdigest() != digest:
        raise ArtifactError(f"the artifact {digest} is damaged")
    return data
