"""The ways to a token, vendor by vendor, as data: what is sent, what comes back, what of it is final.

1. `prepare` makes the request of a grant and of the tokens so far. It may read the file that the grant names.
2. A vendor whose refresh token is exchanged with every use (`rotates`) is asked under a lock and never twice with one.
3. What belongs to this machine (`shared=False`: a metadata service, AWS's files) is asked by every process for itself
   and kept in no store.

Never here: a socket, a lock, a store.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

from headrace._bridge import rsa_sha256_sign
from headrace.credentials.oauth._ask import Answer, TokenRequest, endpoint
from headrace.credentials.oauth._values import Grant, Renewal, TokenError, Tokens
from headrace.requests import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VENDORS", "Vendor", "check_grant", "claims_of", "judge", "taken"]

Prepare: TypeAlias = Callable[[Grant, Tokens | None, float], TokenRequest]

_OK: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
#: A key file has some 2,500 bytes.
FILE_LIMIT: Final = 64 * 1024
#: Seconds that an assertion is good for: the most that Google takes.
ASSERTION_S: Final = 3600
#: Bytes of a token: it becomes a header's value.
TOKEN_LIMIT: Final = 64 * 1024
#: Only a person can mend these, whoever the vendor is.
_DEAD: Final = frozenset(
    {
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "refresh_token_expired",
        "refresh_token_invalidated",
        "refresh_token_reused",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)
_USUAL: Final = Renewal()
#: The end of a token that is beyond is nobody's date.
_FARTHEST: Final = 1e11
_CHATGPT_CLIENT: Final = "app_EMoamEEZ73f0CkXaXp7hrann"
_CHATGPT_CLAIMS: Final = "https://api.openai.com/auth"
_CLOUD: Final = "https://www.googleapis.com/auth/cloud-platform"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_AZURE_SCOPE: Final = "https://cognitiveservices.azure.com/.default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One way to a token.

    - `needs`, `takes`: keys of the configuration that it cannot do without, and that it knows.
    - `login`: how a person logs in. None: nobody has to.
    - `dead_statuses`, `dead_codes`: that are final.
    """

    kind: str
    label: str
    prepare: Prepare | None
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    login: Literal["device", "code"] | None = None
    rotates: bool = False
    shared: bool = True
    dead_statuses: frozenset[int] = frozenset()
    dead_codes: frozenset[str] = _DEAD
    renewal: Renewal = _USUAL
    account: Callable[[Mapping[str, Any]], str | None] = lambda _: None


def judge(vendor: Vendor, answer: Answer) -> TokenError | None:
    """Say what is wrong with an answer. None: nothing is."""
    if answer.status in _OK:
        return None
    permanent = answer.status in vendor.dead_statuses or answer.code in vendor.dead_codes
    return TokenError(f"the token endpoint answered {answer.said}", permanent=permanent, retry_after=answer.retry_after)


def taken(vendor: Vendor, grant: Grant, answer: Answer, before: Tokens | None, now: float) -> Tokens:
    """Make tokens of a good answer; what it leaves out stays as it was.

    Raises `TokenError`: there is none in it.
    """
    values = answer.values
    access = values.get("access_token") or (before.access.reveal() if before is not None else None)
    refresh = values.get("refresh_token")
    if not _is_token(access) or not (refresh is None or _is_token(refresh)):
        raise TokenError("the token endpoint's answer holds no token", lost=True)
    expires = _expires(values, str(access), now)
    if "access_token" not in values and before is not None:
        expires = before.expires
    account = vendor.account(values) or (grant.client_id if vendor.login is None else None)
    new = Tokens(Secret(str(access)), now, Secret(refresh) if refresh else None, expires, account)
    return before.followed_by(new) if before is not None else new


def _is_token(text: Any) -> bool:
    whole = isinstance(text, str) and 0 < len(text) <= TOKEN_LIMIT and text.isascii()
    return whole and text.isprintable() and " " not in text


def _expires(values: Mapping[str, Any], access: str, now: float) -> float | None:
    """Find when a token ends: the answer says for how long it is good, or the token itself says when it ends."""
    told = values.get("expires_in")
    if isinstance(told, str) and told.isascii() and told.isdigit():
        told = int(told)
    if isinstance(told, (int, float)) and not isinstance(told, bool) and 0 <= told < 10 * 366 * 86400:
        return now + told
    end = claims_of(access).get("exp")
    return float(end) if isinstance(end, (int, float)) and not isinstance(end, bool) and 0 < end < _FARTHEST else None


def claims_of(token: Any) -> dict[str, Any]:
    """Read what a token says of itself, without a look at its signature. Empty where it is no JWT."""
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != len(("head", "claims", "signature")):
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def check_grant(grant: Grant) -> list[tuple[str, str]]:
    """Find what is wrong with a grant as it is configured: pairs of key, and what and the way out."""
    vendor = VENDORS.get(grant.kind)
    if vendor is None:
        return [("oauth", f"is no known way; write one of {', '.join(VENDORS)}")]
    found: list[tuple[str, str]] = []
    known = {*vendor.needs, *vendor.takes}
    for key in ("file", "tenant", "client_id", "client_secret", "scope", "source", "issuer"):
        value = getattr(grant, key)
        if value is None and key in vendor.needs:
            found.append((key, f"is missing; add {key} = ..., which oauth = {grant.kind!r} needs"))
        elif value is not None and key not in known:
            found.append((key, f"says nothing to oauth = {grant.kind!r}; remove it"))
    if grant.issuer is not None:
        try:
            endpoint(grant.issuer)
        except TokenError:
            found.append(("issuer", "must be an https address, or http on this machine"))
    return found


def _refresh_token(tokens: Tokens | None) -> str:
    if tokens is None or tokens.refresh is None:
        raise TokenError("nobody is logged in", permanent=True)
    return tokens.refresh.reveal()


def _chatgpt(grant: Grant, tokens: Tokens | None, _now: float) -> TokenRequest:
    base = (grant.issuer or "https://auth.openai.com").rstrip("/")
    body = {
        "client_id": grant.client_id or _CHATGPT_CLIENT,
        "grant_type": "refresh_token",
        "refresh_token": _refresh_token(tokens),
    }
    return TokenRequest("POST", f"{base}/oauth/token", body=body)


def _chatgpt_account(values: Mapping[str, Any]) -> str | None:
    for name in ("access_token", "id_token"):
        told = claims_of(values.get(name)).get(_CHATGPT_CLAIMS)
        account = told.get("chatgpt_account_id") if isinstance(told, dict) else None
        if isinstance(account, str) and account.isascii() and account.isprintable():
            return account
    return None


def _anthropic(grant: Grant, tokens: Tokens | None, _now: float) -> TokenRequest:
    base = (grant.issuer or "https://api.anthropic.com").rstrip("/")
    body = {
        "grant_type": "refresh_token",
        "refresh_token": _refresh_token(tokens),
        "client_id": grant.client_id or "",
    }
    return TokenRequest("POST", f"{base}/v1/oauth/token", {"anthropic-beta": "oauth-2025-04-20"}, body=body)


def _anthropic_account(values: Mapping[str, Any]) -> str | None:
    account = values.get("account")
    told = account.get("email_address") or account.get("uuid") if isinstance(account, dict) else None
    return told if isinstance(told, str) and told.isprintable() else None


def _google(grant: Grant, _tokens: Tokens | None, now: float) -> TokenRequest:
    path = Path(grant.file or "")
    values = _read_json(path)
    uri = endpoint(_text(values, "token_uri", path, default="https://oauth2.googleapis.com/token"))
    if grant.issuer is not None:
        uri = f"{grant.issuer.rstrip('/')}/token"
    kind = values.get("type")
    if kind == "service_account":
        claims = {
            "iss": _text(values, "client_email", path),
            "scope": grant.scope or _CLOUD,
            "aud": uri,
            "iat": int(now),
            "exp": int(now) + ASSERTION_S,
        }
        assertion = _signed(_text(values, "private_key", path), values.get("private_key_id"), claims, path)
        return TokenRequest("POST", uri, form={"grant_type": _JWT_BEARER, "assertion": assertion})
    if kind == "authorized_user":
        names = ("client_id", "client_secret", "refresh_token")
        form = {name: _text(values, name, path) for name in names}
        return TokenRequest("POST", uri, form={"grant_type": "refresh_token", **form})
    raise TokenError(f"{path} is neither a service account's key nor a user's credentials", permanent=True)


def _signed(pem: str, key_id: Any, claims: Mapping[str, Any], path: Path) -> str:
    head = {"alg": "RS256", "typ": "JWT"} | ({"kid": key_id} if isinstance(key_id, str) else {})
    message = ".".join(_base64url(json.dumps(one, separators=(",", ":")).encode()) for one in (head, claims))
    try:
        signature = rsa_sha256_sign(_pkcs8(pem), message.encode())
    except ValueError:
        raise TokenError(f"the private key in {path} is no RSA key", permanent=True) from None
    return f"{message}.{_base64url(signature)}"


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _pkcs8(pem: str) -> bytes:
    """Give a PEM key's DER as PKCS#8; an older PKCS#1 key is put into one.

    Raises `ValueError`: it is no key.
    """
    lines = pem.strip().splitlines()
    if len(lines) < len(("begin", "text", "end")) or not lines[0].startswith("-----BEGIN "):
        raise ValueError("no PEM")
    der = base64.b64decode("".join(line.strip() for line in lines[1:-1]), validate=True)
    if lines[0] != "-----BEGIN RSA PRIVATE KEY-----":
        return der
    # SEQUENCE { 0, SEQUENCE { rsaEncryption, NULL }, OCTET STRING { the key } }
    return _der(0x30, bytes.fromhex("020100300d06092a864886f70d0101010500") + _der(0x04, der))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:  # noqa: PLR2004 - one byte holds it
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with path.expanduser().open("rb") as file:
            raw = file.read(FILE_LIMIT + 1)
        values = json.loads(raw) if len(raw) <= FILE_LIMIT else None
    except OSError as error:
        raise TokenError(f"{path} cannot be read: {error.strerror}", permanent=True) from None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise TokenError(f"{path} is no JSON file of credentials", permanent=True)
    return values


def _text(values: Mapping[str, Any], name: str, path: Path, *, default: str | None = None) -> str:
    text = values.get(name, default)
    if not isinstance(text, str) or not text:
        raise TokenError(f"{path} has no {name}", permanent=True)
    return text


def _google_metadata(grant: Grant, _tokens: Tokens | None, _now: float) -> TokenRequest:
    base = (grant.issuer or "http://metadata.google.internal").rstrip("/")
    url = f"{base}/computeMetadata/v1/instance/service-accounts/default/token"
    return TokenRequest("GET", url, {"metadata-flavor": "Google"})


def _azure(grant: Grant, _tokens: Tokens | None, _now: float) -> TokenRequest:
    base = (grant.issuer or "https://login.microsoftonline.com").rstrip("/")
    form = {
        "grant_type": "client_credentials",
        "client_id": grant.client_id or "",
        "client_secret": grant.client_secret.reveal() if grant.client_secret is not None else "",
        "scope": grant.scope or _AZURE_SCOPE,
    }
    return TokenRequest("POST", f"{base}/{quote(grant.tenant or '', safe='')}/oauth2/v2.0/token", form=form)


def _azure_identity(grant: Grant, _tokens: Tokens | None, _now: float) -> TokenRequest:
    base = (grant.issuer or "http://169.254.169.254").rstrip("/")
    query = {"api-version": "2018-02-01", "resource": (grant.scope or _AZURE_SCOPE).removesuffix("/.default")}
    if grant.client_id is not None:
        query["client_id"] = grant.client_id
    return TokenRequest("GET", f"{base}/metadata/identity/oauth2/token?{urlencode(query)}", {"metadata": "true"})


VENDORS: Final[Mapping[str, Vendor]] = {
    one.kind: one
    for one in (
        Vendor(
            kind="chatgpt",
            label="ChatGPT plan",
            prepare=_chatgpt,
            takes=("client_id", "issuer"),
            login="device",
            rotates=True,
            dead_statuses=frozenset({_UNAUTHORIZED}),
            # Whatever else it says, it says of this moment.
            dead_codes=frozenset(
                {"invalid_grant", "refresh_token_expired", "refresh_token_invalidated", "refresh_token_reused"}
            ),
            renewal=Renewal(age=8 * 86400.0),
            account=_chatgpt_account,
        ),
        Vendor(
            kind="anthropic",
            label="Anthropic",
            prepare=_anthropic,
            needs=("client_id",),
            takes=("issuer", "scope"),
            login="code",
            rotates=True,
            renewal=Renewal(early=120.0),
            account=_anthropic_account,
        ),
        Vendor(
            kind="google",
            label="Google service account or user",
            prepare=_google,
            needs=("file",),
            takes=("scope", "issuer"),
        ),
        Vendor(
            kind="google_metadata",
            label="Google metadata server",
            prepare=_google_metadata,
            takes=("issuer",),
            shared=False,
        ),
        Vendor(
            kind="azure",
            label="Azure Entra client",
            prepare=_azure,
            needs=("tenant", "client_id", "client_secret"),
            takes=("scope", "issuer"),
        ),
        Vendor(
            kind="azure_identity",
            label="Azure managed identity",
            prepare=_azure_identity,
            takes=("client_id", "scope", "issuer"),
            shared=False,
        ),
        Vendor(kind="aws", label="AWS", prepare=None, takes=("source",), shared=False),
    )
}
