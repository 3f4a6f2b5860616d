"""A connection to somebody's HTTP endpoint: what all clients of model servers share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import httpx

from engines.ports import EngineError

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_KEEP_S: Final = 60.0
"""A dialogue's pauses are longer than httpx's 5 s."""

_DRAIN_S: Final = 0.1


def endpoint_url(text: str, engine: str, section: str) -> httpx.URL:
    """The URL that ``base_url`` of ``[section]`` gives. Raises EngineError (``bad_request``)."""
    try:
        url = httpx.URL(text.rstrip("/"))
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise EngineError(
            engine, "bad_request", f"[{section}] base_url must look like http://HOST:PORT/v1"
        )
    return url


def endpoint_client(
    url: httpx.URL, api_key: str, *, connections: int, connect_s: float
) -> httpx.AsyncClient:
    """A pool of ``connections`` to ``url``. Only connecting is bounded in time here."""
    # hpack writes every header it packs, the key among them, into its debug log.
    logging.getLogger("hpack").setLevel(logging.INFO)
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        # A few kilobytes can be unpacked into more than the loop has time and room for.
        "Accept-Encoding": "identity",
    }
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        http2=True,
        # A proxy of the environment is for the world outside, not for this machine.
        trust_env=url.host not in _LOOPBACK,
        timeout=httpx.Timeout(None, connect=connect_s),
        limits=httpx.Limits(max_connections=connections, keepalive_expiry=_KEEP_S),
    )


def without_key(text: str, api_key: str) -> str:
    """``text`` with the key made unreadable: endpoints repeat what they refuse."""
    return text.replace(api_key, "[api key]") if api_key else text


async def drain(body: AsyncIterator[object]) -> None:
    """Read the few bytes after the end mark: only then can the connection be used again."""
    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in body:
                pass
