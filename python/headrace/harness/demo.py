"""A demonstration that needs no key: a small project with a failing test, and a scripted model that mends it.

1. The model is a script, and all else is real: its bytes are those of Chat Completions, over a real socket on loopback,
   and what it proposes is validated, permitted, executed and observed like any other model's proposals.
2. The project is copied to a fresh folder each time.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.config import Provider
    from headrace.testing import Reply

__all__ = ["CHECK", "SELECTOR", "TASK", "answers", "model", "project"]

PROVIDER: Final = "scripted"
SELECTOR: Final = f"{PROVIDER}/miller"
CHECK: Final = f"{shlex.quote(sys.executable)} -B -m unittest -q"
"""What has to pass in the end. By this very Python, which every sandbox lets a command read."""
TASK: Final = f"The tests fail: `{CHECK}`. Find out why, mend the code and not the tests, and see them pass."

FILES: Final = {
    "README": "How much water does the wheel get? `python3 -m unittest` tests it.\n",
    "mill.py": '''\
"""Water from a river to a wheel."""


def flow(width, depth, speed):
    """Give the flow of a channel in cubic metres per second; sizes in metres, speed in metres per second."""
    return width * depth + speed


def turns(flow_rate, per_turn):
    """Give the turns of a wheel per minute, which takes `per_turn` cubic metres for one."""
    if per_turn <= 0:
        raise ValueError("a wheel takes water for a turn")
    return flow_rate * 60 / per_turn
''',
    "test_mill.py": """\
import unittest

from mill import flow, turns


class Mill(unittest.TestCase):
    def test_the_flow_is_the_product_of_width_depth_and_speed(self):
        self.assertEqual(flow(2.0, 0.5, 3.0), 3.0)

    def test_still_water_does_not_flow(self):
        self.assertEqual(flow(2.0, 0.5, 0.0), 0.0)

    def test_a_wheel_turns_with_the_flow(self):
        self.assertEqual(turns(3.0, 20.0), 9.0)


if __name__ == "__main__":
    unittest.main()
""",
}


def project(parent: str | None = None) -> str:
    """Copy the project to a fresh folder, and name it."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-", dir=parent))
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return str(folder)


@contextmanager
def model(first: int = 0) -> Iterator[Provider]:
    """Run the scripted model as long as the block lasts. Gives its provider row.

    - `first`: the answer that it begins with: a run that is taken up again goes on where it was.
    """
    from headrace.config import Provider
    from headrace.testing import Upstream

    script = answers()
    with Upstream({"*": script[min(first, len(script) - 1) :]}, record=0) as upstream:
        yield Provider(id=PROVIDER, kind="openai_compatible", base_url=f"{upstream.url}/v1")


def answers() -> list[Reply]:
    """Give the script, one answer a turn."""
    return [
        _answer("I run the tests first.", _call("bash", {"command": CHECK}), tokens=512),
        _answer("Two of them are about `flow`. I look at it.", _call("read_file", {"path": "mill.py"}), tokens=790),
        _answer(
            "It adds the speed, where a flow is the product of all three.",
            _call(
                "edit",
                {
                    "path": "mill.py",
                    "old": "return width * depth + speed",
                    "new": "return width * depth * speed",
                },
            ),
            thought="Area times speed. The sum is the mistake.",
            tokens=1033,
        ),
        _answer("Now the tests again.", _call("bash", {"command": CHECK}), tokens=1180),
        _answer(
            "The tests pass. `flow` added the speed where it has to multiply by it; nothing else changed.", tokens=1267
        ),
    ]


PIECE: Final = 9
"""Characters of one piece of a text: about what models send."""


def _answer(text: str, call: dict[str, Any] | None = None, *, thought: str = "", tokens: int) -> Reply:
    from headrace.testing import Reply

    made = [_chunk({"role": "assistant", "content": ""})]
    made += [_chunk({"reasoning_content": piece}) for piece in _pieces(thought)]
    made += [_chunk({"content": piece}) for piece in _pieces(text)]
    if call is not None:
        arguments = call["function"].pop("arguments")
        made.append(_chunk({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]}))
        made += [
            _chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in _pieces(arguments)
        ]
    made.append(_chunk({}, "stop" if call is None else "tool_calls"))
    written = len(text) // 4 + (24 if call is not None else 0)
    usage = {"prompt_tokens": tokens, "completion_tokens": written, "total_tokens": tokens + written}
    return Reply.stream(*made, _data({"choices": [], "usage": usage}), b"data: [DONE]\n\n")


def _call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": 0,
        "id": f"call_{tool}",
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(body: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": "miller", **body}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"
