"""Keys that a page may be given: each opens calls for a while, for the tenant that asked for it,
and every one of them begins with the session that the key was made for.

A plain object: the time goes in, in seconds since 1970. Of a key nothing is kept but its digest, by
which it is found: how long that takes tells nothing of the key.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from voice.wire.realtime_session import Session

PREFIX: Final = "ek_"
LEAST_S: Final = 10
MOST_S: Final = 7_200
DEFAULT_S: Final = 600

MOST_KEYS: Final = 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of one tenant at once; the bytes are those of the keys' sessions as JSON."""


class TooManyKeysError(Exception):
    """The tenant has as many as it may. ``retry_s``: when the next one expires."""

    def __init__(self, retry_s: int) -> None:
        super().__init__(f"no more keys for {retry_s} s")
        self.retry_s = retry_s


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key is good for. ``key`` says which of the tenant's own it was made with, as
    ``admission.Caller`` has it."""

    tenant: str
    key: str
    session: Session
    expires_at: int
    size: int


def _new_value() -> str:
    return PREFIX + secrets.token_urlsafe(32)


class ClientSecrets:
    """The keys of one server that have not expired."""

    def __init__(self, new_value: Callable[[], str] = _new_value) -> None:
        self._new_value = new_value
        self._grants: dict[str, dict[bytes, Grant]] = {}

    def issue(
        self, tenant: str, key: str, session: Session, seconds: int, now: float
    ) -> tuple[str, Grant]:
        """A new key, and what it is good for. Raises TooManyKeysError."""
        size = len(msgspec.json.encode(session))
        theirs = self._live(tenant, now)
        used = sum(grant.size for grant in theirs.values())
        if len(theirs) >= MOST_KEYS or used + size > MOST_BYTES:
            first = min(grant.expires_at for grant in theirs.values())
            raise TooManyKeysError(max(1, math.ceil(first - now)))
        value = self._new_value()
        grant = Grant(tenant, key, session, int(now) + seconds, size)
        theirs[_digest(value)] = grant
        return value, grant

    def find(self, value: str, now: float) -> Grant | None:
        """What this key is good for now; None for one that is not known or has expired."""
        if not value.startswith(PREFIX):
            return None
        digest = _digest(value)
        for tenant in list(self._grants):
            grant = self._live(tenant, now).get(digest)
            if grant is not None:
                return grant
        return None

    def _live(self, tenant: str, now: float) -> dict[bytes, Grant]:
        known = self._grants.get(tenant, {})
        live = {digest: grant for digest, grant in known.items() if grant.expires_at > now}
        self._grants[tenant] = live
        return live


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode()).digest()
