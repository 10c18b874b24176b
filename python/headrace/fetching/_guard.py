"""Which addresses may be connected to: those of the public network, and no others.

1. A name is resolved once, and what was checked is what is connected to: a name that changes its mind in between
   (DNS rebinding) changes nothing.
2. A name of which any address is refused is refused: nobody honest mixes them.
3. An IPv6 address that carries an IPv4 one (mapped, compatible, 6to4, Teredo, NAT64) is judged by both.
4. What is allowed beyond it must be named by the operator, by a setting with `danger` in its name.

Never here: a connection.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

__all__ = ["Address", "Guard", "NotAllowedError", "Resolve"]

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"
"""A name and a port to addresses as text."""

#: Public by their number, and yet a cloud's own: Azure's wire server hands out a machine's secrets.
_CLOUD: Final = frozenset({ip_address("168.63.129.16")})
_NAT64: Final = IPv6Network("64:ff9b::/96")
#: What a release of the standard library takes for public and is not: protocol assignments (Oracle's metadata is
#: there), the old 6to4 relays, local-use NAT64, the old site-local, and IPv4 in IPv6's oldest dress.
_PRIVATE: Final = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "fec0::/10", "::/96", "5f00::/16"))
)
_V4_BITS: Final = 0xFFFF_FFFF


class NotAllowedError(Exception):
    """The guard says no. The message names no address that the asker did not name."""


class Guard:
    """Judges where a connection may go.

    - `ports`: the only ones.
    - `danger_allow_networks`: allowed although they are not public.
    - `resolve`: finds a name's addresses; the system's resolver by default.
    """

    __slots__ = ("_allowed", "_ports", "_resolve")

    def __init__(
        self,
        *,
        ports: Iterable[int] = (80, 443),
        danger_allow_networks: Iterable[str] = (),
        resolve: Resolve | None = None,
    ) -> None:
        self._ports = frozenset(ports)
        self._allowed: tuple[IPv4Network | IPv6Network, ...] = tuple(map(ip_network, danger_allow_networks))
        self._resolve = resolve or _system

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Resolve a name, once, and give the addresses that may be connected to.

        - Raises `NotAllowedError`: the port, or one of the addresses, is not allowed.
        - Raises `OSError`: the name has no address.
        """
        if port not in self._ports:
            raise NotAllowedError(f"port {port} is not allowed; allowed: {', '.join(map(str, sorted(self._ports)))}")
        found = [ip_address(text.partition("%")[0]) for text in await self._resolve(host, port)]
        if not found:
            raise OSError("the name has no address")
        if not all(map(self.allows, found)):
            raise NotAllowedError("the address is not of the public network")
        return list(dict.fromkeys(found))

    def allows(self, address: Address) -> bool:
        """Whether an address may be connected to."""
        if any(address in network for network in self._allowed if network.version == address.version):
            return True
        return all(map(_is_public, _faces(address)))


def _is_public(address: Address) -> bool:
    if address in _CLOUD or address.is_multicast or not address.is_global:
        return False
    return not any(address in network for network in _PRIVATE if network.version == address.version)


def _faces(address: Address) -> Iterator[Address]:
    """Give an address and those that it carries."""
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        # The system connects to the one inside; the outer one says nothing.
        yield address.ipv4_mapped
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64:
        yield IPv4Address(int(address) & _V4_BITS)


async def _system(host: str, port: int) -> list[str]:
    import socket

    import anyio

    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]
