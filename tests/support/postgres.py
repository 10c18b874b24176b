"""A PostgreSQL of our own for the tests: Debian's binaries, a free port, a directory that goes afterwards.

`initdb` refuses to run as root: there the server runs as the user `postgres` or `nobody`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A test's server may lose what a power cut takes, and nothing else.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "32MB",
}

DURABLE = {"fsync": "on", "full_page_writes": "on"}
"""What a bench measures a commit with."""


def binaries() -> pathlib.Path | None:
    """Find where `initdb` and `postgres` are: the newest of Debian's, else on the path."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("initdb")
    path = found[-1] if found else pathlib.Path(on_path) if on_path else None
    return path.parent if path else None


def _user() -> str | None:
    """Whom to be: None for whoever runs the tests, unless that is root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise RuntimeError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Postgres:
    """A running server."""

    def __init__(
        self, folder: pathlib.Path, port: int, bin_: pathlib.Path, user: str | None, *, is_durable: bool = False
    ) -> None:
        self._folder = folder
        self._bin = bin_
        self._user = user
        self.port = port
        self._count = 0
        self._settings = SETTINGS | (DURABLE if is_durable else {})

    def database(self) -> str:
        """Make a new, empty schema, which is as good as a database and has no 300 files; give its URL."""
        self._count += 1
        name = f"test_{os.getpid()}_{self._count}"
        self.sql(f"CREATE SCHEMA {name}")
        return f"postgresql://headrace:planted-pass@127.0.0.1:{self.port}/postgres?search_path={name}"

    def sql(self, text: str) -> None:
        """Run a statement as the owner."""
        url = f"postgresql://headrace@127.0.0.1:{self.port}/postgres"
        subprocess.run([self._bin / "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-c", text, url], check=True)

    def is_up(self) -> bool:
        """Whether it answers."""
        command = [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self) -> None:
        """End the server at once, as a crash would."""
        self._control("stop", "-m", "immediate")

    def start(self) -> None:
        """Start it (again), on the same port."""
        settings = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        self._control("start", "-l", str(self._folder / "log"), "-o", f"-p {self.port} {settings}")

    def _control(self, *words: str) -> None:
        command = [str(self._bin / "pg_ctl"), "-w", "-t", "20", "-s", "-D", str(self._folder / "data"), *words]
        subprocess.run(command, check=True, user=self._user, env=_environment(), stdout=subprocess.DEVNULL)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


@contextlib.contextmanager
def running(*, is_durable: bool = False) -> Iterator[Postgres | None]:
    """Run a server within the block; None where there is no PostgreSQL.

    - `is_durable`: on a disk, and with each commit flushed to it.
    """
    bin_ = binaries()
    if bin_ is None:
        yield None
        return
    user = _user()
    # Not below pytest's folders: those are closed to other users.
    memory = pathlib.Path("/dev/shm")  # noqa: S108 - its folder there is a new one of its own
    is_in_memory = not is_durable and memory.is_dir() and os.access(memory, os.W_OK)
    at = str(memory) if is_in_memory else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="headrace-pg-", dir=at))
    try:
        if user is not None:
            shutil.chown(folder, user)
        command = [
            str(bin_ / "initdb"),
            "-D",
            str(folder / "data"),
            "-U",
            "headrace",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "-N",
        ]
        subprocess.run(command, check=True, user=user, env=_environment(), stdout=subprocess.DEVNULL)
        server = Postgres(folder, _free_port(), bin_, user, is_durable=is_durable)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
