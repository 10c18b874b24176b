"""Where AWS credentials come from: the environment, a profile of the AWS files, a container's or instance's metadata.

A profile of IAM Identity Center (`sso_session`) uses the login that the AWS CLI keeps, and never renews it: that is the
CLI's own, and two who exchange one refresh token lose it.

1. A source gives a `Session`: a secret in the form that `headrace.providers.bedrock` takes, and when it ends.
2. Metadata is asked over plain http, so only of addresses that no packet leaves the machine for: loopback, and the
   link-local ones that AWS documents. Anything else must be https. No redirect is followed and no proxy is asked.
3. `Cached` keeps a session until shortly before its end. Many who ask at once cause one fetch, and a fetch that fails
   while the old session still holds changes nothing.
4. The clock is an argument, and so is the environment. No error and no repr holds a key, a token or a body.

Never here: signing, the choice of a credential.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import anyio

from headrace.errors import HeadraceError
from headrace.requests import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

__all__ = [
    "AwsCredentialsError",
    "AwsSource",
    "Cached",
    "ContainerSource",
    "EnvironmentSource",
    "InstanceSource",
    "ProfileSource",
    "Session",
    "source_of",
]

#: Seconds before its end at which a session is exchanged, and at which it is no longer used.
EARLY_S: Final = 300.0
LATE_S: Final = 30.0
TOKEN_LIFE_S: Final = 21_600
#: Seconds that one request to a metadata service may take. It is on this machine, or the next one.
PATIENCE_S: Final = 2.0
#: The same for Identity Center's portal, which is far.
PORTAL_S: Final = 10.0
_PORTAL: Final = "IAM Identity Center"
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
CONTAINER_HOST: Final = "http://169.254.170.2"
INSTANCE_HOST: Final = "http://169.254.169.254"
#: Of containers: ECS, and EKS over both IP versions.
_METADATA: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "169.254.169.254", "fd00:ec2::254"})
_OK: Final = 200
_REFERENCES: Final = (
    "aws:environment, aws:profile=NAME, aws:container, aws:instance, or aws: for the first that there is"
)


class AwsCredentialsError(HeadraceError):
    """A source has no credentials, or could not be asked."""


@dataclass(frozen=True, slots=True)
class Session:
    """Credentials, and until when they hold.

    - `secret`: `ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]`, or a bearer key.
    - `expires`: seconds since the Unix epoch; None where nobody says.
    """

    secret: Secret
    expires: float | None = None


class AwsSource(Protocol):
    """One place that credentials come from."""

    async def fetch(self, http: httpx.AsyncClient) -> Session:
        """Get credentials.

        Raises `AwsCredentialsError`: there are none here, or whoever has them could not be asked.

        If cancelled: nothing is kept.
        """


def _session(key: str, secret: str, token: str | None, expires: float | None = None) -> Session:
    # None of the three may hold a colon, so one can stand between them.
    if not key or not secret or ":" in f"{key}{secret}{token or ''}":
        raise AwsCredentialsError("an AWS key pair is not complete, or holds a colon")
    return Session(Secret(":".join((key, secret, token) if token else (key, secret))), expires)


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """`AWS_ACCESS_KEY_ID` and its companions, or a bearer key in `AWS_BEARER_TOKEN_BEDROCK`, which comes first."""

    environ: Mapping[str, str] = field(repr=False)

    async def fetch(self, http: httpx.AsyncClient) -> Session:  # noqa: ARG002 - one shape for every source
        """Read the variables. See `AwsSource.fetch`."""
        bearer = self.environ.get("AWS_BEARER_TOKEN_BEDROCK")
        if bearer:
            return Session(Secret(bearer))
        key, secret = self.environ.get("AWS_ACCESS_KEY_ID"), self.environ.get("AWS_SECRET_ACCESS_KEY")
        if not key or not secret:
            raise AwsCredentialsError("the environment has no AWS_ACCESS_KEY_ID with its AWS_SECRET_ACCESS_KEY")
        return _session(key, secret, self.environ.get("AWS_SESSION_TOKEN"))


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """A profile of the AWS credentials file, or of the configuration file beside it; with keys, or with `sso_session`.

    - `profile`: None: `AWS_PROFILE`, else `default`.
    """

    environ: Mapping[str, str] = field(repr=False)
    profile: str | None = None

    async def fetch(self, http: httpx.AsyncClient) -> Session:
        """Read the files; for a role of Identity Center, ask its portal. See `AwsSource.fetch`."""
        name = self.profile or self.environ.get("AWS_PROFILE") or "default"
        files = self._files(name)
        for path, section in files:
            found = await anyio.to_thread.run_sync(_read, path, section)
            if found.get("aws_access_key_id"):
                return _session(
                    found["aws_access_key_id"],
                    found.get("aws_secret_access_key", ""),
                    found.get("aws_session_token"),
                )
            if found.get("sso_account_id"):
                return await self._of_portal(http, path, found)
        looked = " and ".join(str(path) for path, _ in files)
        raise AwsCredentialsError(f"the profile {name!r} has no aws_access_key_id in {looked}")

    async def _of_portal(self, http: httpx.AsyncClient, path: Path, profile: Mapping[str, str]) -> Session:
        name = profile.get("sso_session", "")
        session = await anyio.to_thread.run_sync(_read, path, f"sso-session {name}") if name else profile
        region, start = session.get("sso_region", ""), session.get("sso_start_url", "")
        if not _REGION.fullmatch(region) or not (name or start):
            raise AwsCredentialsError(f"the profile's sso_session has no sso_region in {path}")
        digest = hashlib.sha1((name or start).encode(), usedforsecurity=False).hexdigest()
        cache = self._folder() / "sso" / "cache" / f"{digest}.json"
        login = await anyio.to_thread.run_sync(_login, cache)
        base = self.environ.get("AWS_ENDPOINT_URL_SSO") or f"https://portal.sso.{region}.amazonaws.com"
        _near(base)
        asked = {"role_name": profile.get("sso_role_name", ""), "account_id": profile["sso_account_id"]}
        url = f"{base.rstrip('/')}/federation/credentials?{urlencode(asked)}"
        text = await _ask(http, "GET", url, {"x-amz-sso_bearer_token": login}, whom=_PORTAL, patience=PORTAL_S)
        try:
            keys = json.loads(text)["roleCredentials"]
            end = float(keys["expiration"]) / 1000
            return _session(keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"], end)
        except (ValueError, KeyError, TypeError):
            raise AwsCredentialsError(f"{_PORTAL} gave no credentials") from None

    def _folder(self) -> Path:
        return Path(self.environ.get("HOME") or "~").expanduser() / ".aws"

    def _files(self, name: str) -> tuple[tuple[Path, str], ...]:
        folder = self._folder()
        return (
            (Path(self.environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"), name),
            (Path(self.environ.get("AWS_CONFIG_FILE") or folder / "config"), _section(name)),
        )


def _section(profile: str) -> str:
    return profile if profile == "default" else f"profile {profile}"


def _read(path: Path, section: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # The message of a parser quotes the line, which may be a key's.
        raise AwsCredentialsError(f"{path} cannot be read ({type(error).__name__})") from None
    return {name: value.strip() for name, value in parser.items(section)} if parser.has_section(section) else {}


def _login(cache: Path) -> str:
    """Read the token of a login that the AWS CLI keeps."""
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
        token, end = kept["accessToken"], datetime.fromisoformat(kept["expiresAt"])
    except (OSError, ValueError, KeyError, TypeError):
        raise AwsCredentialsError(f"nobody is logged in at {_PORTAL}: `aws sso login`") from None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise AwsCredentialsError("the login's token is no header's value")
    if end.tzinfo is None or end <= datetime.now(end.tzinfo):
        raise AwsCredentialsError(f"the login at {_PORTAL} is over: `aws sso login`")
    return token


@dataclass(frozen=True, slots=True)
class ContainerSource:
    """What a container's agent gives: of ECS, EKS, or whoever speaks its protocol."""

    environ: Mapping[str, str] = field(repr=False)

    @property
    def is_here(self) -> bool:
        """Whether the environment names an agent."""
        return bool(self._url())

    async def fetch(self, http: httpx.AsyncClient) -> Session:
        """Ask the agent. See `AwsSource.fetch`."""
        url = self._url()
        if not url:
            raise AwsCredentialsError("the environment names no container agent (AWS_CONTAINER_CREDENTIALS_FULL_URI)")
        _near(url)
        headers = {}
        token = self.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        file = self.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if file:
            try:
                token = (await anyio.Path(file).read_text(encoding="utf-8")).strip()
            except OSError as error:
                raise AwsCredentialsError(f"the agent's token cannot be read ({type(error).__name__})") from None
        if token:
            if not token.isascii() or not token.isprintable():
                raise AwsCredentialsError("the agent's token is no header's value")
            headers["authorization"] = token
        return _of_json(await _ask(http, "GET", url, headers))

    def _url(self) -> str:
        relative = self.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        if relative:
            return CONTAINER_HOST + relative
        return self.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or ""


@dataclass(frozen=True, slots=True)
class InstanceSource:
    """The role of the instance that this runs on, by the metadata service's second version."""

    environ: Mapping[str, str] = field(repr=False)

    async def fetch(self, http: httpx.AsyncClient) -> Session:
        """Ask for a token, for the role, and for its keys. See `AwsSource.fetch`."""
        if self.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise AwsCredentialsError("the instance's metadata are disabled (AWS_EC2_METADATA_DISABLED)")
        base = (self.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or INSTANCE_HOST).rstrip("/")
        _near(base)
        life = {"x-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LIFE_S)}
        token = {"x-aws-ec2-metadata-token": (await _ask(http, "PUT", f"{base}/latest/api/token", life)).strip()}
        roles = f"{base}/latest/meta-data/iam/security-credentials/"
        role = (await _ask(http, "GET", roles, token)).strip().partition("\n")[0]
        if not role:
            raise AwsCredentialsError("the instance has no role")
        return _of_json(await _ask(http, "GET", roles + role, token))


def _near(url: str) -> None:
    """Refuse to tell a token, or to trust keys, over plain http to another machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    host = parts.hostname or ""
    try:
        near = host in _METADATA or ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if parts.scheme != "http" or not near:
        raise AwsCredentialsError("a metadata service is https, or on this machine or its link")


async def _ask(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    headers: dict[str, str],
    *,
    whom: str = "the metadata service",
    patience: float = PATIENCE_S,
) -> str:
    import httpx

    try:
        response = await http.request(method, url, headers=headers, timeout=patience, follow_redirects=False)
    except httpx.HTTPError as error:
        raise AwsCredentialsError(f"{whom} did not answer ({type(error).__name__})") from None
    if response.status_code != _OK:
        raise AwsCredentialsError(f"{whom} answered {response.status_code}")
    return response.text


def _of_json(text: str) -> Session:
    try:
        value: Any = json.loads(text)
        code = value.get("Code", "Success")
        if code != "Success":
            raise AwsCredentialsError("the metadata service has no credentials for the role")
        end = value.get("Expiration")
        expires = datetime.fromisoformat(end).timestamp() if end else None
        return _session(value["AccessKeyId"], value["SecretAccessKey"], value.get("Token"), expires)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AwsCredentialsError("the metadata service's answer holds no credentials") from None


@dataclass(frozen=True, slots=True)
class _First:
    """The first of several that has credentials."""

    sources: tuple[AwsSource, ...]

    async def fetch(self, http: httpx.AsyncClient) -> Session:
        said = []
        for source in self.sources:
            try:
                return await source.fetch(http)
            except AwsCredentialsError as error:
                said.append(str(error))
        raise AwsCredentialsError("; ".join(said))


def source_of(reference: str, environ: Mapping[str, str]) -> AwsSource:
    """Find the source that a reference names: `aws:`, `aws:environment`, `aws:profile=NAME`, `aws:container`,
    `aws:instance`.

    Raises `AwsCredentialsError`: it names none.
    """
    kind, _, name = reference.removeprefix("aws:").partition("=")
    if not reference.startswith("aws:") or (name and kind != "profile"):
        raise AwsCredentialsError(f"{reference[:64]!r} names no source of AWS credentials; write {_REFERENCES}")
    container = ContainerSource(environ)
    sources: dict[str, AwsSource] = {
        "environment": EnvironmentSource(environ),
        "profile": ProfileSource(environ, name or None),
        "container": container,
        "instance": InstanceSource(environ),
    }
    if kind:
        if kind not in sources:
            raise AwsCredentialsError(f"{reference[:64]!r} names no source of AWS credentials; write {_REFERENCES}")
        return sources[kind]
    every = ("environment", "profile", "container" if container.is_here else "instance")
    return _First(tuple(sources[one] for one in every))


class Cached:
    """A source whose session is kept until shortly before its end.

    - `http`: made for this alone: without proxies (`trust_env=False`) and without cookies.
    - `clock`: seconds since the Unix epoch.
    """

    __slots__ = ("_clock", "_http", "_lock", "_session", "_source")

    def __init__(self, source: AwsSource, *, http: httpx.AsyncClient, clock: Callable[[], float]) -> None:
        self._source = source
        self._http = http
        self._clock = clock
        self._lock = anyio.Lock()
        self._session: Session | None = None

    def current(self) -> Session | None:
        """Give the kept session while it is fresh; None where one has to be fetched."""
        return self._session if self._holds(EARLY_S) else None

    async def get(self, *, anew: bool = False) -> Session:
        """Give a session that holds.

        - `anew`: not the kept one: the provider has refused it.

        Raises `AwsCredentialsError`: there is none, and none can be got.

        If cancelled: the kept session is as it was.
        """
        refused = self._session if anew else None
        async with self._lock:
            if self._session is not refused and self._holds(EARLY_S) and self._session is not None:
                return self._session
            try:
                self._session = await self._source.fetch(self._http)
            except AwsCredentialsError:
                if anew or not self._holds(LATE_S) or self._session is None:
                    raise
            return self._session

    def _holds(self, margin: float) -> bool:
        kept = self._session
        return kept is not None and (kept.expires is None or self._clock() + margin < kept.expires)
