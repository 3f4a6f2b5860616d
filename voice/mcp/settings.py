"""Which MCP tool servers a client may have this server call: the section ``[mcp]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import httpx
from msgspec import Meta

ANY: Final = "*"
"""Any server of the public Internet, by https."""

Reach: TypeAlias = Literal["listed", "public"]
"""How a server is let in: the operator has named it, so it may be anywhere; or it is one of any,
and must be no part of the private network."""


@dataclass(frozen=True, slots=True)
class McpSettings:
    """``servers``: the URLs that clients may name, and what lies below them; ``*`` lets in any that
    is public, by https. None are let in as long as it is empty. A server has ``list_s`` to tell its
    tools and ``call_s`` for each call; of a result the model reads ``max_result_characters``."""

    servers: tuple[str, ...] = ()
    list_s: Annotated[float, Meta(gt=0)] = 10.0
    call_s: Annotated[float, Meta(gt=0)] = 30.0
    max_result_characters: Annotated[int, Meta(ge=100)] = 8_000

    def __post_init__(self) -> None:
        for server in self.servers:
            if server != ANY and parsed(server) is None:
                raise ValueError(
                    f"servers: {server!r} must look like https://HOST/PATH, or be {ANY!r}"
                )

    def reach(self, url: str) -> Reach | None:
        """How a client's URL is let in; None where it is not."""
        asked = parsed(url)
        if asked is None:
            return None
        listed = (parsed(server) for server in self.servers if server != ANY)
        if any(each is not None and _covers(each, asked) for each in listed):
            return "listed"
        return "public" if ANY in self.servers and asked.scheme == "https" else None


def parsed(url: str) -> httpx.URL | None:
    """A URL that says plainly where it leads; None for any other."""
    try:
        read = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None
    plain = read.scheme in ("http", "https") and read.host and not read.userinfo
    if not plain or read.fragment or "\\" in url:
        return None
    # What a server would take for another path than the one that is compared here.
    path = read.raw_path.decode("ascii").partition("?")[0].lower()
    dotted = any(part in (".", "..") for part in path.replace("%2e", ".").split("/"))
    return None if dotted or "%2f" in path or "%5c" in path else read


def _covers(listed: httpx.URL, asked: httpx.URL) -> bool:
    """The same place, or below it."""
    if (listed.scheme, listed.host, listed.port) != (asked.scheme, asked.host, asked.port):
        return False
    root = listed.path.rstrip("/")
    return asked.path.rstrip("/") == root or asked.path.startswith(f"{root}/")
