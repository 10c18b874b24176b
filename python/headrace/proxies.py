"""The way from here to a provider: straight, or by a proxy.

1. A way is configured. The environment's proxies are taken where the configuration names their variable.
2. Names are not resolved here: a network of `no_proxy` is for addresses that stand in a URL.
3. A proxy's address may hold a password, so it is a `Secret` throughout.

Never here: a socket, the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from headrace.requests import Secret

__all__ = ["DIRECT", "NEAR", "Way", "is_past", "proxy_fault", "without_user"]

#: What a provider row says to be asked without a proxy.
DIRECT: Final = "direct"
#: This machine: a proxy elsewhere has another one of that name.
NEAR: Final = ("localhost", "127.0.0.0/8", "::1/128")
#: Answered on the link alone: credentials of the machine itself.
_LINK: Final = ("169.254.0.0/16", "metadata.google.internal")


@dataclass(frozen=True, slots=True)
class Way:
    """By which proxy, and for which hosts not.

    - `proxy`: `http://[USER:PASSWORD@]HOST:PORT`.
    - `past`: hosts that are asked straight, as `no_proxy` has them.
    """

    proxy: Secret
    past: tuple[str, ...] = ()

    def of(self, url: str) -> Secret | None:
        """Give the proxy for a URL. None: none."""
        host = urlsplit(url).hostname or ""
        return None if is_past(host, self.past) or is_past(host, _LINK) else self.proxy


def is_past(host: str, past: tuple[str, ...]) -> bool:
    """Whether a host is one of these: a name and all below it, an address, a network of addresses."""
    host = host.lower().rstrip(".")
    try:
        address = ip_address(host)
    except ValueError:
        names = (one.lower().strip(".") for one in past)
        return any(host == name or host.endswith(f".{name}") for name in names)
    return any(address in network for network in map(_network, past) if network is not None)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def without_user(proxy: Secret) -> str:
    """Give a proxy's address as it may be shown: without whoever asks it."""
    parts = urlsplit(proxy.reveal())
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def proxy_fault(address: str) -> str | None:
    """Say what is wrong with a proxy's address, without repeating it. None: nothing."""
    form = "must be http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT with both percent-encoded"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return form
    if parts.scheme != "http":
        return f"{form}; a proxy that is spoken to in TLS or SOCKS is not supported"
    whole = bool(parts.hostname and port) and parts.path in {"", "/"} and not parts.query and not parts.fragment
    user = parts.username is None or (parts.password is not None and "%3a" not in parts.username.lower())
    return None if whole and user and address.isascii() and address.isprintable() and " " not in address else form
