"""Find the file, read it, resolve its references, and refuse it with a line.

1. Every fault of the schema is told at once; what depends on several keys is checked when the schema holds.
2. A message names the key and the way out, and never a value.
3. Nothing outside is touched but the file, the environment handed in, and the files that it refers to.
"""

from __future__ import annotations

import ipaddress
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from headrace._bridge import toml_document
from headrace.config._errors import ConfigurationError, Problem, key_text
from headrace.config._schema import Config, Credential, Path, Provider, Store, guess, validate
from headrace.proxies import DIRECT, proxy_fault
from headrace.requests import Secret

__all__ = ["Check", "Source", "beyond_schema", "find", "is_loopback", "load", "parse"]

#: A configuration is written by people; more than this is a wrong file.
FILE_LIMIT: Final = 4 * 1024 * 1024
#: A key or a token; more than this is a wrong file.
SECRET_LIMIT: Final = 64 * 1024

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_LITERAL: Final = (
    'a secret does not stand in this file: write "env:NAME" or "file:PATH", or set server.danger_literal_secrets = true'
)
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,79}")
_HEADER_TEXT: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

Check: TypeAlias = Callable[[Config], Iterable[tuple[Path, str]]]
"""Finds what is wrong beyond the schema; handed in by those who know kinds and selectors."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text, parsed, with the place of every key."""

    name: str
    values: dict[str, Any]
    places: Mapping[Path, tuple[int, int]]
    #: Keys of `[server]` that the command line said instead.
    said: frozenset[str] = frozenset()

    def problem(self, path: Path, message: str) -> Problem:
        """Place a fault at its key, or at the nearest table around it."""
        if path[:1] == ("server",) and path[1:2] and path[1] in self.said:
            return Problem(message, f"--{path[1]}")
        for end in range(len(path), 0, -1):
            place = self.places.get(path[:end])
            if place is not None:
                return Problem(message, key_text(path), self.name, *place)
        return Problem(message, key_text(path), self.name)

    def refusal(self, faults: Iterable[tuple[Path, str]]) -> ConfigurationError:
        """Put the faults in the file's order."""
        problems = [self.problem(path, message) for path, message in faults]
        return ConfigurationError(sorted(problems, key=lambda one: (one.line or 0, one.column or 0)))


def find(explicit: FilePath | None, environ: Mapping[str, str]) -> FilePath | None:
    """Find the configuration file. None: there is none, and nobody asked for one.

    - `explicit`: `--config`. It and `HEADRACE_CONFIG` are taken as they are, also where nothing is there.
    """
    if explicit is not None:
        return explicit
    named = environ.get("HEADRACE_CONFIG")
    if named:
        return FilePath(named)
    home = environ.get("HOME")
    base = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    # A relative directory would be one of the working directory's.
    if base is None or not FilePath(base).is_absolute():
        return None
    path = FilePath(base) / "headrace" / "config.toml"
    return path if path.is_file() else None


def load(
    path: FilePath,
    *,
    environ: Mapping[str, str],
    checks: Sequence[Check] = (),
    server: Mapping[str, Any] = _NOTHING,
) -> Config:
    """Read and check a configuration file.

    - `server`: keys of `[server]` that the command line says instead.

    Raises `ConfigurationError`: it cannot be read, or something in it is wrong.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigurationError([Problem(f"cannot be read: {error.strerror}", file=name)]) from None
    if len(raw) > FILE_LIMIT:
        raise ConfigurationError([Problem(f"is longer than {FILE_LIMIT} bytes; is it the right file?", file=name)])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError([Problem("is not UTF-8; save it as UTF-8", file=name, line=line)]) from None
    return parse(text, name=name, folder=path.parent, environ=environ, checks=checks, server=server)


def parse(
    text: str,
    *,
    name: str,
    folder: FilePath,
    environ: Mapping[str, str],
    checks: Sequence[Check] = (),
    server: Mapping[str, Any] = _NOTHING,
) -> Config:
    """Check a configuration's text.

    - `name`: the file, as messages call it.
    - `folder`: where relative `file:` references begin.

    Raises `ConfigurationError`: something in it is wrong.
    """
    values, places, fault = toml_document(text)
    if fault is not None:
        line, column, message = fault
        raise ConfigurationError([Problem(f"no TOML: {message}", "", name, line, column)])
    source = Source(name, values, places, frozenset(server))
    config, faults = validate(Config, values)
    if config is None:
        raise source.refusal(faults)
    config = replace(config, server=replace(config.server, **server))
    resolver = _References(config, folder, environ)
    config = resolver.resolved()
    faults = (*resolver.faults, *beyond_schema(config), *(found for check in checks for found in check(config)))
    if faults:
        raise source.refusal(faults)
    return config


class _References:
    """Puts the secrets in the place of the references to them."""

    def __init__(self, config: Config, folder: FilePath, environ: Mapping[str, str]) -> None:
        self._config = config
        self._folder = folder
        self._environ = environ
        self.faults: list[tuple[Path, str]] = []

    def resolved(self) -> Config:
        config = self._config
        providers = tuple(
            replace(
                row,
                proxy=self._proxy(("providers", at, "proxy"), row.proxy),
                credentials=tuple(
                    self._credential(("providers", at, "credentials", index), one)
                    for index, one in enumerate(row.credentials)
                ),
            )
            for at, row in enumerate(config.providers)
        )
        keys = tuple(
            replace(key, secret=self._secret(("keys", at, "secret"), key.secret)) for at, key in enumerate(config.keys)
        )
        metrics = config.metrics
        if metrics.secret is not None:
            metrics = replace(metrics, secret=self._secret(("metrics", "secret"), metrics.secret))
        server = replace(config.server, proxy=self._proxy(("server", "proxy"), config.server.proxy))
        return replace(config, server=server, providers=providers, keys=keys, metrics=metrics, store=self._store())

    def _credential(self, path: Path, one: Credential) -> Credential:
        if one.oauth is None:
            return replace(one, secret=self._secret((*path, "secret"), one.secret)) if one.secret is not None else one
        if one.client_secret is not None:
            one = replace(one, client_secret=self._secret((*path, "client_secret"), one.client_secret))
        if one.file is not None:
            file = self._folder / FilePath(one.file).expanduser()
            if not file.is_file():
                self.faults.append(((*path, "file"), "is no file that can be read; is the path right?"))
            one = replace(one, file=str(file))
        return one

    def _proxy(self, path: Path, proxy: Secret | None) -> Secret | None:
        if proxy is None or (proxy.reveal() == DIRECT and path[0] == "providers"):
            return proxy
        text = proxy.reveal()
        if text.partition(":")[0] in {"env", "file"}:
            faults = len(self.faults)
            proxy = self._secret(path, proxy)
            if len(self.faults) > faults:
                return None
        elif "@" in text and not self._literal:
            self.faults.append((path, _NO_LITERAL))
            return None
        fault = proxy_fault(proxy.reveal())
        if fault is not None:
            self.faults.append((path, fault))
        return proxy

    def _store(self) -> Store:
        store = self._config.store
        if store.url.partition(":")[0] in {"env", "file"}:
            store = replace(store, url=self._secret(("store", "url"), Secret(store.url)).reveal())
        elif (parts := _split(store.url)) is not None and parts.password and not self._literal:
            self.faults.append((("store", "url"), _NO_LITERAL))
        scheme, _, rest = store.url.partition(":")
        if scheme == "sqlite" and rest and not rest.startswith("?"):
            # As with `file:`; the folder that a gateway happens to be started in must not say which store it has.
            store = replace(store, url=f"sqlite:{self._folder / FilePath(rest).expanduser()}")
        kind, _, name = store.key.partition(":")
        if kind == "file":
            store = replace(store, key=f"file:{self._folder / FilePath(name).expanduser()}")
        return store

    @property
    def _literal(self) -> bool:
        return self._config.server.danger_literal_secrets

    def _secret(self, path: Path, reference: Secret) -> Secret:
        text = reference.reveal()
        scheme, colon, rest = text.partition(":")
        if colon and scheme == "env":
            return self._from_environment(path, rest)
        if colon and scheme == "file":
            return self._from_file(path, rest)
        if self._literal:
            return self._checked(path, text, "the secret")
        self.faults.append((path, _NO_LITERAL))
        return reference

    def _from_environment(self, path: Path, name: str) -> Secret:
        value = self._environ.get(name)
        if not value:
            # The name is shown only where it can be one: a key after `env:` by mistake must not be.
            shown = name if _VARIABLE.fullmatch(name) else "it names"
            self.faults.append((path, f"the variable {shown} is not set; export it, or name another"))
            return Secret("")
        return self._checked(path, value, "the variable's value")

    def _from_file(self, path: Path, name: str) -> Secret:
        file = self._folder / FilePath(name).expanduser()
        try:
            if stat.S_ISDIR(file.stat().st_mode):
                raise IsADirectoryError(21, "Is a directory")
            with file.open("rb") as handle:
                raw = handle.read(SECRET_LIMIT + 1)
            text = raw.decode("utf-8").strip()
        except OSError as error:
            self.faults.append((path, f"the file it names cannot be read: {error.strerror}; is the path right?"))
            return Secret("")
        except UnicodeDecodeError:
            self.faults.append((path, "the file it names is not text; is the path right?"))
            return Secret("")
        if len(raw) > SECRET_LIMIT:
            self.faults.append((path, f"the file it names is longer than {SECRET_LIMIT} bytes; is the path right?"))
            return Secret("")
        return self._checked(path, text, "the file's text")

    def _checked(self, path: Path, text: str, what: str) -> Secret:
        # It goes into a header: one with a line break would be two.
        if not _HEADER_TEXT.fullmatch(text):
            self.faults.append((path, f"{what} is empty or holds a space or a character that no key has"))
        return Secret(text)


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    """Whether it is an IP address or could be a name. Digits and dots alone are an address or nothing."""
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return _HOST.fullmatch(text) is not None and not text.replace(".", "").isdigit()
    return True


def _is_past(text: str) -> bool:
    try:
        ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return _is_host(text.removeprefix("."))
    return True


def beyond_schema(config: Config) -> Iterator[tuple[Path, str]]:
    """Find what is wrong with several keys together, or with one in a way that a type cannot say."""
    yield from _server(config)
    yield from _repeated("providers", [row.id for row in config.providers])
    for at, row in enumerate(config.providers):
        yield from _row(("providers", at), row)
    yield from _repeated("keys", [key.id for key in config.keys])
    yield from _same_secrets(("keys",), [key.secret for key in config.keys])
    watcher = config.metrics.secret
    told = (
        watcher.reveal() if watcher is not None else ""
    )  # empty where its reference leads nowhere, which is said already
    if told and any(key.secret.reveal() == told for key in config.keys):
        yield ("metrics", "secret"), "is the same secret as one of [[keys]]; give who watches its own"
    for at, key in enumerate(config.keys):
        for index, pattern in enumerate(key.models):
            if pattern.count("*") > 1:
                yield ("keys", at, "models", index), "a pattern holds one *; split it into several names"
    yield from _subjects(config)
    yield from _store(config.store)


def _server(config: Config) -> Iterator[tuple[Path, str]]:
    server = config.server
    if _is_host(server.host) and not is_loopback(server.host) and not config.keys and not server.danger_open:
        yield (
            ("server", "host"),
            "this address is open to others and there are no [[keys]]; add keys, or set server.danger_open = true",
        )
    if not _is_host(server.host):
        yield ("server", "host"), "is no address of this machine; write an IP address or a name, such as 127.0.0.1"
    for at, host in enumerate(server.hosts):
        if not _is_host(host):
            yield ("server", "hosts", at), "must be a name alone, such as box.lan, without http://, port or path"
    for at, origin in enumerate(server.origins):
        parts = _split(origin)
        if parts is None or parts.scheme not in {"http", "https"} or origin.count("/") > 2:  # noqa: PLR2004 - scheme://
            yield ("server", "origins", at), "must be an origin such as https://app.example, without a path"
    for at, host in enumerate(server.no_proxy):
        if not _is_past(host):
            yield (
                ("server", "no_proxy", at),
                "must be a name, an address or a network, such as corp.example or 10.0.0.0/8",
            )


def _store(store: Store) -> Iterator[tuple[Path, str]]:
    schemes = ("sqlite:", "postgresql://", "postgres://")
    if store.url not in {"sqlite:", "memory:"} and not store.url.startswith(schemes):
        yield (
            ("store", "url"),
            "must be sqlite:, sqlite:PATH, memory:, postgresql://..., or env:NAME or file:PATH of one",
        )
    kind, colon, name = store.key.partition(":")
    if store.key and not (colon and name and kind in {"env", "file", "keyring"}):
        yield ("store", "key"), "must be env:NAME, file:PATH or keyring:NAME; the key itself does not stand here"


def _subjects(config: Config) -> Iterator[tuple[Path, str]]:
    names = list(config.subjects)
    for name, subject in config.subjects.items():
        if not _ID.fullmatch(name):
            yield ("subjects", name), "must be lower-case letters, digits, - and _, 63 at most, a letter or digit first"
        seen, above = {name}, subject.inherits
        while above is not None and above in config.subjects and above not in seen:
            seen.add(above)
            above = config.subjects[above].inherits
        if subject.inherits is not None and subject.inherits not in config.subjects:
            yield (
                ("subjects", name, "inherits"),
                f"no such subject{guess(subject.inherits, names)}; add [subjects.NAME]",
            )
        elif above in seen:
            yield ("subjects", name, "inherits"), "inherits from itself in the end; break the circle"
    for at, key in enumerate(config.keys):
        if key.subject is not None and key.subject not in config.subjects:
            yield ("keys", at, "subject"), f"no such subject{guess(key.subject, names)}; add [subjects.NAME]"


def _row(path: Path, row: Provider) -> Iterator[tuple[Path, str]]:
    yield from _repeated((*path, "credentials"), [one.id for one in row.credentials])
    yield from _same_secrets((*path, "credentials"), [one.secret or Secret("") for one in row.credentials])
    for at, one in enumerate(row.credentials):
        yield from _credential((*path, "credentials", at), one)
    if row.base_url is None:
        return
    parts = _split(row.base_url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        yield (*path, "base_url"), "must be an http or https address such as https://HOST/v1"
    elif parts.username is not None or parts.query or parts.fragment:
        yield (
            (*path, "base_url"),
            "holds more than an address; a key belongs into [[providers.credentials]], not into the address",
        )
    elif parts.scheme == "http" and row.credentials and not is_loopback(parts.hostname) and not row.danger_plaintext:
        yield (
            (*path, "base_url"),
            "would send credentials readable over the network; use https, or set danger_plaintext = true in this row",
        )


def _credential(path: Path, one: Credential) -> Iterator[tuple[Path, str]]:
    if one.oauth is None:
        if one.secret is None:
            yield (*path, "secret"), "is missing; add secret = ..., or oauth = ..."
        for name in ("file", "tenant", "client_id", "client_secret", "scope", "source", "issuer"):
            if getattr(one, name) is not None:
                yield (*path, name), "says nothing without oauth; remove it, or add oauth = ..."
    elif one.secret is not None:
        yield (*path, "secret"), "stands beside oauth, which gets tokens itself; remove one of the two"


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        return None
    return parts if url.isascii() and url.isprintable() and " " not in url else None


def _repeated(where: str | Path, ids: list[str]) -> Iterator[tuple[Path, str]]:
    base = (where,) if isinstance(where, str) else where
    for at, one in enumerate(ids):
        if not _ID.fullmatch(one):
            yield (*base, at, "id"), "must be lower-case letters, digits, - and _, 63 at most, a letter or digit first"
        elif one in ids[:at]:
            yield (*base, at, "id"), f"{one!r} is there twice; give each its own id"


def _same_secrets(base: Path, secrets: list[Secret]) -> Iterator[tuple[Path, str]]:
    texts = [secret.reveal() for secret in secrets]
    for at, text in enumerate(texts):
        if text and text in texts[:at]:
            yield (*base, at, "secret"), "is the same secret as an earlier one; remove one of the two"
