"""The cases made from real bugs, by their own script."""

import subprocess
import sys

import pytest

PROTOCOLS = [
    "openai_chat",
    "openai_responses",
    "anthropic_messages",
    "google_gemini",
    "bedrock_converse",
    "ollama_chat",
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_case_holds(shared, protocol):
    script = shared / "cases" / "check.py"
    done = subprocess.run(
        [sys.executable, str(script), "--protocol", protocol], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    held, _, total = done.stdout.splitlines()[-1].split()[:3]
    assert held == total != "0"
