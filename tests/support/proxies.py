"""A proxy that really listens: it leads on, or answers what its script says."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Proxy:
    """Leads on, unless the script has an answer that comes first.

    - `heads`: request heads, as they came.
    """

    host: str = ""
    script: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}"


@contextmanager
def proxy(*script: bytes) -> Iterator[Proxy]:
    listener = socket.create_server(("127.0.0.1", 0))
    told = Proxy(f"127.0.0.1:{listener.getsockname()[1]}", list(script))
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                sockets.append(peer)
                threads.append(threading.Thread(target=_serve, args=(peer, told, sockets)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield told
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _serve(peer: socket.socket, told: Proxy, sockets: list[socket.socket]) -> None:
    with suppress(OSError), peer:
        said = b""
        while b"\r\n\r\n" not in said:
            more = peer.recv(65536)
            if not more:
                return
            said += more
        head, _, rest = said.partition(b"\r\n\r\n")
        told.heads.append(head.decode())
        if told.script:
            peer.sendall(told.script.pop(0))
            return
        method, target, _ = head.split(b" ", 2)
        site = target.decode() if method == b"CONNECT" else urlsplit(target.decode()).netloc
        name, _, port = site.rpartition(":")
        with socket.create_connection((name, int(port))) as far:
            sockets.append(far)
            if method == b"CONNECT":
                peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                lines = head.replace(b"http://" + site.encode(), b"", 1).split(b"\r\n")
                passed = [line for line in lines if not line.lower().startswith(b"proxy-")]
                far.sendall(b"\r\n".join(passed) + b"\r\n\r\n" + rest)
            back = threading.Thread(target=_pump, args=(far, peer))
            back.start()
            _pump(peer, far)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
