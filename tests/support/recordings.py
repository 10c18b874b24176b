"""The recorded provider responses, as a test or a script feeds them to a decoder."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

FAMILIES = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic_messages": "anthropic_messages",
    "google_gemini": "google_gemini",
    "openai_compatible": "openai_chat",
    "mistral_chat": "openai_chat",
    "cohere_chat": "cohere_chat",
    "ollama_chat": "ollama_chat",
    "bedrock_converse": "bedrock_converse",
    "bedrock_invoke": "bedrock_invoke",
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


def with_event_names(recording: Recording) -> bytes:
    """The body as an SDK needs it that skips events without a name: recordings of bare payloads lost theirs."""
    if not recording.file.endswith(".jsonl"):
        return recording.body
    out = b""
    for event in recording.body.split(b"\n\n"):
        payload = event.removeprefix(b"data: ").strip()
        kind = json.loads(payload).get("type") if payload else None
        out += b"event: %s\n" % kind.encode() if kind else b""
        out += event + b"\n\n" if payload else b""
    return out + (b"data: [DONE]\n\n" if recording.protocol == "openai_chat" else b"")
