"""What is prepared once for many requests is nobody's in particular: concurrent clients, each with words of its own."""

import json
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.gateway import served
from test_control import CHAT, ENVIRON, MESSAGES

from headrace import Message, ModelRequest, Options, SyncRuntime
from headrace.config import Config, Provider

RESPONSES = "/v1/responses"


@contextmanager
def echo():
    """An upstream of three wires that answers with the mark it was asked by; gives what it saw, by mark."""
    seen = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = body.get("messages") or body.get("input")
            content = said[-1]["content"] if isinstance(said, list) else said
            mark = content if isinstance(content, str) else content[0]["text"]
            seen.setdefault(mark, []).append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            out = json.dumps(answer(self.path, mark)).encode()
            kind = "application/json"
            if body.get("stream"):
                out, kind = streamed(self.path, mark), "text/event-stream"
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(path, mark):
    if path.endswith("/messages"):
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": mark}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    if path.endswith("/responses"):
        part = {"type": "output_text", "text": mark, "annotations": []}
        item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]}
        return {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "completed",
            "output": [item],
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        }
    choice = {"index": 0, "message": {"role": "assistant", "content": mark}, "finish_reason": "stop"}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def streamed(path, mark):
    assert path.endswith("/chat/completions")
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": {"role": "assistant", "content": mark}, "finish_reason": "stop"}]
    events = [
        {**chunk, "choices": choices},
        {**chunk, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in events) + b"data: [DONE]\n\n"


def config(url, *, version="one", order=(1, 2)):
    credentials = "".join(
        f'[[providers.credentials]]\nid = "c{n}"\nsecret = "env:KEY_{key}"\n' for n, key in enumerate(order)
    )
    return (
        f'[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "{url}/v1"\n'
        'pool = { strategy = "round_robin" }\n'
        f'[providers.settings.headers]\nx-version = "{version}"\n{credentials}'
        f'[[providers]]\nid = "claude"\nkind = "anthropic"\nbase_url = "{url}"\n{credentials}'
        f'[[providers]]\nid = "resp"\nkind = "openai_compatible"\nprotocol = "openai_responses"\n'
        f'base_url = "{url}/v1"\n{credentials}'
        '[[keys]]\nid = "a"\nsecret = "env:TEAM_A"\n[[keys]]\nid = "b"\nsecret = "env:TEAM_B"\n'
    )


PASSED = {
    CHAT: ("openai-beta", "session-id"),
    RESPONSES: ("openai-beta", "x-codex-window-id", "x-client-request-id"),
    MESSAGES: ("anthropic-beta", "anthropic-version"),
}
WIRES = {"acme": CHAT, "claude": MESSAGES, "resp": RESPONSES}


def one(near, seed):
    """Ask something that differs in all that may differ, and say what is wrong with what came of it."""
    pick = random.Random(seed)
    mark = f"mark-{seed}"
    path, provider = pick.choice([*PASSED]), pick.choice([*WIRES])
    stream = path == CHAT and provider == "acme" and pick.random() < 0.5
    body = {"model": f"{provider}/{pick.choice(['m', 'n'])}", "temperature": pick.randrange(10) / 10}
    body |= {"input": mark} if path == RESPONSES else {"messages": [{"role": "user", "content": mark}]}
    if path == MESSAGES:
        body["max_tokens"] = pick.randrange(1, 100)
    if stream:
        body |= {"stream": True} | ({"stream_options": {"include_usage": True}} if pick.random() < 0.5 else {})
    headers = {name: f"{seed}-{name}" for name in PASSED[path] if pick.random() < 0.3}
    headers["authorization"] = f"Bearer {ENVIRON[pick.choice(['TEAM_A', 'TEAM_B'])]}"
    status, _, told = near.ask(path, body, headers)
    text = told if isinstance(told, str) else json.dumps(told)
    if status != 200 or text.count(mark) < 1:
        return [(seed, status, text)]
    if stream and ('"usage": {"prompt' in text or '"usage":{"prompt' in text) != ("stream_options" in body):
        return [(seed, "usage", text)]
    return [(mark, path, provider, body, headers)]


def check(asked, seen, secrets):
    """Compare what each client sent with what the upstream was sent for it."""
    for mark, path, provider, body, headers in asked:
        ((went, heads, got),) = seen[mark]
        assert went == WIRES[provider], mark
        assert got["model"] == body["model"].partition("/")[2]
        same = path == went
        for name in {name for names in PASSED.values() for name in names}:
            want = headers.get(name) if same else None
            if name == "anthropic-version" and provider == "claude" and want is None:
                want = "2023-06-01"
            assert heads.get(name) == want, (mark, name)
        assert (heads.get("authorization") or f"Bearer {heads.get('x-api-key')}") in secrets
        if same:
            sent = {key: value for key, value in got.items() if key != "stream_options"}
            mine = {key: value for key, value in body.items() if key != "stream_options"}
            assert sent == {**mine, "model": got["model"]}
            assert ("stream_options" in got) == bool(body.get("stream"))


def test_no_request_gets_anything_of_another(tmp_path):
    """Also across a reload that swaps the secrets behind the same ids and sends another header."""
    path = tmp_path / "headrace.toml"
    with echo() as (url, seen):
        path.write_text(config(url))
        with served(path, **ENVIRON) as near, ThreadPoolExecutor(8) as pool:
            both = {"Bearer sk-up-1", "Bearer sk-up-2"}
            asked = [found for (found,) in pool.map(lambda seed: one(near, seed), range(150))]
            assert not [found for found in asked if len(found) == 3]
            check(asked, seen, both)
            path.write_text(config(url, version="two", order=(2,)))
            running = [pool.submit(one, near, seed) for seed in range(1000, 1040)]
            near.process.send_signal(signal.SIGHUP)
            asked = [future.result()[0] for future in running]
            check(asked, seen, both)
            near.line("configuration")
            asked = [found for (found,) in pool.map(lambda seed: one(near, seed), range(2000, 2100))]
            check(asked, seen, {"Bearer sk-up-2"})
            versions = {seen[mark][0][1].get("x-version") for mark, _, provider, *_ in asked if provider == "acme"}
            assert versions == {"two"}


def test_threads_of_a_library_share_no_words_either():
    """One runtime, many threads, the same few models."""
    with (
        echo() as (url, seen),
        SyncRuntime(
            Config(providers=(Provider(id="acme", kind="openai_compatible", base_url=f"{url}/v1"),))
        ) as runtime,
    ):

        def ask(n):
            request = ModelRequest(
                f"acme/{'mn'[n % 2]}", (Message.user(f"mark-{n}"),), options=Options(temperature=n / 100)
            )
            with runtime.stream(request) as stream:
                return stream.result().text

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(80))) == [f"mark-{n}" for n in range(80)]
        for n in range(80):
            ((_, _, body),) = seen[f"mark-{n}"]
            assert (body["model"], body["temperature"]) == ("mn"[n % 2], n / 100)
