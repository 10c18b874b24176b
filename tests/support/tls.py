"""Certificates for a server on localhost."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def issued(folder: Path) -> tuple[Path, Path, Path]:
    """Make an authority's certificate, and of a server on localhost the chain and the key."""
    if shutil.which("openssl") is None:
        pytest.skip("NO OPENSSL: it makes the test's certificates")

    def issue(name: str, *more: str) -> None:
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        files = ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*command.split(), *files, *more], check=True, capture_output=True, cwd=folder)

    issue("authority")
    leaf = ("-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE")
    issue("localhost", "-CA", "authority.pem", "-CAkey", "authority.key", *leaf)
    return folder / "authority.pem", folder / "localhost.pem", folder / "localhost.key"
