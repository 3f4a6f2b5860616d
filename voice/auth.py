"""Who may use the server: API keys, and pages that are not ours."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from voice.admission import DEFAULT_TENANT, Caller

KEY_SUBPROTOCOL: Final = "openai-insecure-api-key."
"""How a browser, which cannot set headers on a WebSocket, sends its key."""


def presented_key(headers: Mapping[str, str], subprotocols: Iterable[str] = ()) -> str:
    """The key that a request carries, empty where it carries none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        return key.strip()
    for protocol in subprotocols:
        if protocol.startswith(KEY_SUBPROTOCOL):
            return protocol.removeprefix(KEY_SUBPROTOCOL)
    return ""


def caller_of(key: str, keys: Mapping[str, Sequence[str]]) -> Caller | None:
    """Whose key this is, None if it is nobody's; ``keys`` by the tenant's name. Where there are no
    keys, anyone may enter. Every key is compared, each in constant time, so that an answer's time
    tells nothing."""
    if not any(keys.values()):
        return Caller(DEFAULT_TENANT)
    given = key.encode()
    owners = [
        Caller(name, key=f"{number}")
        for name, known in keys.items()
        for number, each in enumerate(known, 1)
        if hmac.compare_digest(given, each.encode())
    ]
    return owners[0] if owners else None


def tenant_of(key: str, keys: Mapping[str, Sequence[str]]) -> str | None:
    """The tenant of ``caller_of``."""
    caller = caller_of(key, keys)
    return caller.tenant if caller is not None else None


def fault_of_keys(keys: Mapping[str, Sequence[str]]) -> str:
    """What is wrong with the tenants' keys, empty where nothing is. No key is named."""
    owners: dict[str, str] = {}
    for name, known in keys.items():
        where = "server.api_keys" if name == DEFAULT_TENANT else f"tenants.{name}.keys"
        if not known and name != DEFAULT_TENANT:
            return f"{where}: there is none, so nobody is this tenant: give it one"
        for key in known:
            if not key.strip():
                return f"{where}: one of them is empty, and would open to everyone"
            if owners.setdefault(key, name) != name:
                return f"{where}: {owners[key]} has one of them, too: a key is of one tenant"
    return ""


def is_foreign_page(
    headers: Mapping[str, str], allowed: Sequence[str], *, keyless: bool = False
) -> bool:
    """Whether a browser sends this for a page from elsewhere: any site could otherwise use the
    server that its visitor runs. Programs send no Origin.

    A ``keyless`` server trusts no name but the loopback's: whoever owns a name can let it point
    here once the page is loaded, and then Origin and Host agree (DNS rebinding).
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return False
    try:
        page = urlsplit(origin)
    except ValueError:  # no browser sends this
        return True
    if keyless and not is_loopback(page.hostname or ""):
        return True
    return page.netloc != headers.get("host", "")


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach this address or name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
