"""The configuration of someone who has no file: the keys found in the environment, a local model server, the demo.

Never here: a file, and any look beyond loopback.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.config._errors import ConfigurationError, Problem
from headrace.config._load import beyond_schema
from headrace.config._schema import Config, Credential, Provider, Server
from headrace.requests import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["LOCAL_PORT", "Known", "from_environment", "listens"]

#: Where Ollama listens.
LOCAL_PORT: Final = 11434
#: A listener on loopback answers in well under a millisecond; a firewall that drops must not delay the start.
PROBE_S: Final = 0.2


class Known(Protocol):
    """What is read of a provider definition here."""

    @property
    def kind(self) -> str:
        """Also becomes the row's id."""

    @property
    def environment(self) -> str | None:
        """The variable that holds its key."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Client names that lead to it."""


def listens(port: int) -> bool:
    """Whether anything listens on this port of loopback. Takes a fifth of a second at most."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_S):
            return True
    except OSError:
        return False


def from_environment(
    environ: Mapping[str, str],
    known: Iterable[Known],
    *,
    probe: Callable[[int], bool] = listens,
    server: Mapping[str, Any] | None = None,
) -> Config:
    """Make a configuration of what is there.

    - `known`: the definitions; those whose variable is set get a row of their kind's name.
    - `probe`: whether a port of loopback is listened on.
    - `server`: keys of `[server]` that the command line says.

    Raises `ConfigurationError`: what the command line says cannot be.
    """
    rows: list[Provider] = []
    models: dict[str, str] = {}
    for definition in known:
        value = environ.get(definition.environment, "").strip() if definition.environment else ""
        if not value:
            continue
        name = definition.kind.replace("_", "-")
        rows.append(
            Provider(id=name, kind=definition.kind, credentials=(Credential(id="environment", secret=Secret(value)),))
        )
        models.update((pattern, f"{name}/{{model}}") for pattern in definition.patterns)
    if probe(LOCAL_PORT):
        rows.append(Provider(id="ollama", kind="openai_compatible", base_url=f"http://127.0.0.1:{LOCAL_PORT}/v1"))
    rows.append(Provider(id="demo", kind="demo"))
    config = Config(server=Server(**(server or {})), providers=tuple(rows), models=models)
    faults = [Problem(message, f"--{path[-1]}") for path, message in beyond_schema(config)]
    if faults:
        raise ConfigurationError(faults)
    return config
