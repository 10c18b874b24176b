"""Requests to Gemini against Google's own SDK: what it would send, and nothing that its types do not know.

The body that we make is given to the SDK's own call, as its types; what the SDK then sends is our body.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
from typing import Any

import pytest
from google.genai import types

from headrace import translate_request
from tests.support.sdks import google
from tests.wire.test_requests_families import CLIENTS, NEUTRAL


@pytest.fixture(scope="module")
def service():
    """An address that keeps what was posted to it, and the bodies."""
    seen: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = b'{"candidates":[{"finishReason":"STOP"}]}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("flags", [(), ("thinking_budget",), ("skip_signatures",)], ids=["levels", "budgets", "marked"])
@pytest.mark.parametrize("source", [*CLIENTS, "headrace"])
def test_what_is_sent_is_what_googles_sdk_would_send(source, flags, service):
    url, seen = service
    body = NEUTRAL.to_json() if source == "headrace" else json.dumps(CLIENTS[source]).encode()
    made = translate_request(body, source=source, target="google_gemini", model="theirs", target_flags=flags)
    ours = json.loads(made.body)
    assert "model" not in ours
    assert "stream" not in ours
    for text in ("go on", "brief" if source != "openai_chat" else '{"text":"b"}'):
        assert text.encode() in made.body, text
    config = types.GenerateContentConfig.model_validate(
        {
            **ours["generationConfig"],
            **{key: ours[key] for key in ("systemInstruction", "tools", "toolConfig") if key in ours},
        }
    )
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    contents = [types.Content.model_validate(content) for content in ours["contents"]]
    client = google(url)
    client.models.generate_content(model="theirs", contents=contents, config=config)
    client.close()
    assert plain(seen.pop()) == plain(ours)


RAW = {"args", "response", "parametersJsonSchema", "responseJsonSchema"}
"""What the client's own words stand in."""


def plain(value: Any) -> Any:
    """Spellings of keys, the alphabets of base64, and who instructs, are the same."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    told = {re.sub("_([a-z])", lambda found: found[1].upper(), key): item for key, item in value.items()}
    return {
        key: item.replace("-", "+").replace("_", "/")
        if key in ("data", "thoughtSignature")
        else item
        if key in RAW
        else plain(item)
        for key, item in told.items()
        if not (key == "role" and item == "user")
    }
