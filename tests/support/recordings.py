"""The recorded provider responses, as a test or a script feeds them to a decoder."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

FAMILIES = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic_messages": "anthropic_messages",
    "openai_compatible": "openai_chat",
}
"""Folder -> the protocol that its files are decoded as."""


@dataclass(frozen=True)
class Recording:
    """One recorded body. `protocol` is the one to decode it as."""

    file: str
    protocol: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def load(shared: pathlib.Path, families: dict[str, str] = FAMILIES) -> list[Recording]:
    """Read the recordings of these folders, in the order of the manifest."""
    found = []
    for line in (shared / "recordings" / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        protocol = families.get(row["file"].split("/")[0])
        if protocol is None or row["file"].endswith("requests.jsonl"):
            continue
        body = (shared / "recordings" / row["file"]).read_bytes()
        headers = tuple((row.get("headers") or {}).items())
        if row["file"].endswith(".jsonl"):  # payloads whose framing was not kept
            body = b"".join(b"data: " + payload + b"\n\n" for payload in body.split(b"\n") if payload)
            headers = (("content-type", "text/event-stream"),)
        found.append(Recording(row["file"], protocol, row.get("status") or 200, headers, body))
    return found
