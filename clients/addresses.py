"""A server's address as people write it."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

REALTIME: Final = "/v1/realtime"
_SCHEMES: Final = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}


def websocket_of(url: str, path: str = REALTIME) -> SplitResult:
    """The address of the WebSocket that is meant by ``url``: http means ws, as does no scheme at
    all; ``path`` stands where none is named, and for the ``/v1`` of a base URL.

    Raises ValueError where it is no address.
    """
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.port == 0:
        raise ValueError(url)
    named = parts.path.rstrip("/")
    if not named or named.endswith("/v1"):
        parts = parts._replace(path=named.removesuffix("/v1") + path)
    return parts._replace(scheme=_SCHEMES[parts.scheme])
