"""No way into the private network: connections to servers that a client has chosen.

A name is resolved once, every address that it has is judged, and the connection goes to the very
address that was judged: a name that means another place a moment later leads nowhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, TypeAlias

import httpx

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_CONNECTIONS: Final = 16


class PrivateAddressError(httpx.ConnectError):
    """The server is, or may be, part of the private network."""


class PublicOnly(httpx.AsyncBaseTransport):
    """Sends requests by ``inner`` to public addresses alone. Raises PrivateAddressError."""

    def __init__(self, inner: httpx.AsyncBaseTransport, resolve: Resolve | None = None) -> None:
        self._inner = inner
        self._resolve = resolve or resolved

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As any transport does."""
        host, url = request.url.host, request.url
        addresses = await self._resolve(host, url.port or 443)
        if not addresses or not all(map(is_public, addresses)):
            raise PrivateAddressError("its address is not one of the public Internet")
        sent = httpx.Request(
            request.method,
            url.copy_with(host=addresses[0]),
            headers=request.headers,  # the name is in Host already
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        """As any transport does."""
        await self._inner.aclose()


def is_public(text: str) -> bool:
    """Whether an address leads out into the Internet, whichever way it is written."""
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    inner = _within(address)
    if inner is not None:
        address = inner
    return address.is_global and not address.is_multicast and not address.is_reserved


def _within(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


async def resolved(host: str, port: int) -> list[str]:
    """All addresses of a name. Raises ConnectError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError("its name cannot be resolved") from error
    return [str(address[0]) for *_, address in found]


async def open_client(*, public_only: bool, connect_s: float) -> httpx.AsyncClient:
    """A client of one call: nothing of one call's, cookies included, gets into another's. It
    follows no redirects, and no proxy of the environment's."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells URLs, which may hold secrets
    context = await asyncio.to_thread(_trusted)  # reads a file, for tens of milliseconds
    limits = httpx.Limits(max_connections=_CONNECTIONS)
    inner = httpx.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)
    return httpx.AsyncClient(
        transport=PublicOnly(inner) if public_only else inner,
        timeout=httpx.Timeout(None, connect=connect_s),
        trust_env=False,
    )


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
