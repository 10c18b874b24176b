"""What `import headrace` costs: CPU time in a fresh interpreter over that of an empty one, and installed size."""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import statistics
import subprocess
import sys

import headrace
from benches.measure import Row

_PROBE = """
import json, time
start = time.process_time()
import headrace
headrace.Decoder
print(json.dumps(time.process_time() - start))
"""


def run(rounds: int) -> list[Row]:
    """Import time, size and direct dependencies."""
    took = []
    for _ in range(max(rounds, 5)):
        done = subprocess.run([sys.executable, "-c", _PROBE], check=True, capture_output=True, text=True)
        took.append(json.loads(done.stdout) * 1e3)
    folder = pathlib.Path(headrace.__file__).parent
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts) / 2**20
    requires = [r for r in importlib.metadata.requires("headrace") or [] if "extra ==" not in r]
    absolute = "none: an absolute figure"
    return [
        Row("import headrace (ms CPU)", absolute, statistics.median(took), 50.0, "at most", f"best {min(took):.1f} ms"),
        Row("installed size of ours (MiB)", absolute, size, 15.0, "at most", "the package's folder without byte code"),
        Row(
            "direct dependencies",
            absolute,
            float(len(requires)),
            8.0,
            "at most",
            ", ".join(sorted(r.split(">")[0] for r in requires)),
        ),
    ]
