"""Who may call by phone: carriers that prove who they are, and whoever has an API key.

A carrier's secret makes its proof compulsory. Which carrier calls may be known only from its first
messages, so what was proved is kept until then.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from starlette.datastructures import Headers

from voice.admission import Caller
from voice.auth import caller_of, is_foreign_page, presented_key
from voice.doors.handshake import Scope, counted, query_of, unknown_key
from voice.doors.refusals import Answer
from voice.house import House
from voice.phone_settings import PhoneSettings
from voice.wire.phone_signatures import (
    TELNYX_HEADER,
    TWILIO_HEADER,
    PhoneSignatureError,
    check_genesys,
    check_telnyx,
    check_twilio,
)

logger = logging.getLogger(__name__)

PATH: Final = "/phone"
_KEY_PLACES: Final = f"Authorization: Bearer KEY, X-API-Key: KEY, ?key=KEY or {PATH}/NAME/KEY"


@dataclass(frozen=True, slots=True)
class Access:
    """What a handshake has shown: ``caller``, whose API key it has (None: nobody's); ``proved``,
    by carrier that has a secret here, whether this is that carrier."""

    caller: Caller | None
    proved: Mapping[str, bool]
    tenant_of_carriers: str

    def caller_for(self, wire: str) -> Caller | None:
        """Whose call it is if it comes over this wire; None for nobody's."""
        if not self.proved.get(wire, True):
            return None
        known = self.caller
        if known is None and wire in self.proved:
            known = Caller(self.tenant_of_carriers)
        return replace(known, phone=True) if known is not None else None

    @property
    def hopeless(self) -> bool:
        """There is no wire that it may come over."""
        return self.caller is None and not any(self.proved.values())


def judge(house: House, scope: Scope, wire: str | None) -> Access | Answer:
    """What is shown by who calls over this wire (None: it will tell); or why there is no call for
    them. Refusals are counted."""
    headers, keys = Headers(scope=scope), house.config.keys
    foreign = is_foreign_page(
        headers, house.config.server.allowed_origins, keyless=not any(keys.values())
    )
    if foreign:
        told = "This page may not use this server: see allowed_origins."
        return counted(house, Answer(403, "origin_not_allowed", told))
    access = Access(
        caller_of(_key_of(scope, headers), keys),
        _proved(house.config.phone, scope, headers),
        house.config.phone.tenant,
    )
    if access.hopeless or (wire is not None and access.caller_for(wire) is None):
        return counted(house, _stranger(access, wire, _key_of(scope, headers)))
    if not house.ready:
        told = "The models are still loading."
        return counted(house, Answer(503, "not_ready", told, retry_s=2))
    if house.closing:
        told = "The server is shutting down."
        return counted(house, Answer(503, "shutting_down", told, retry_s=5))
    return access


def _stranger(access: Access, wire: str | None, key: str) -> Answer:
    if wire is not None and wire in access.proved:
        told = f"This is not {wire}, or its secret is not the one in phone.*: see docs/phone.md."
        return Answer(401, "invalid_signature", told)
    return unknown_key(key, _KEY_PLACES)


def _key_of(scope: Scope, headers: Headers) -> str:
    """An API key in a header, the query or the path: carriers can send some of them, not all."""
    in_query = query_of(scope).get("key", [""])[0]
    in_path = str(scope.get("path_params", {}).get("key", ""))
    return presented_key(headers) or headers.get("x-api-key", "") or in_query or in_path


def _proved(settings: PhoneSettings, scope: Scope, headers: Headers) -> dict[str, bool]:
    """By carrier that has a secret here, whether the handshake is its own."""
    return {
        wire: proof.header in headers and _holds(wire, proof, settings, scope, headers)
        for wire, proof in _PROOFS.items()
        if getattr(settings, proof.secret)
    }


def _holds(
    wire: str, proof: _Proof, settings: PhoneSettings, scope: Scope, headers: Headers
) -> bool:
    try:
        proof.check(settings, scope, headers)
    except PhoneSignatureError as error:
        told, key = str(error), _key_of(scope, headers)
        logger.warning(
            "a handshake is not %s's: %s", wire, told.replace(key, "KEY") if key else told
        )
        return False
    return True


def _check_twilio(settings: PhoneSettings, scope: Scope, headers: Headers) -> None:
    base = settings.url.rstrip("/") or f"wss://{headers.get('host', '')}"
    signature = headers.get(TWILIO_HEADER, "")
    check_twilio(base + _target_of(scope), signature, settings.twilio_token)


def _check_telnyx(settings: PhoneSettings, _scope: Scope, headers: Headers) -> None:
    check_telnyx(headers.get(TELNYX_HEADER, ""), settings.telnyx_token)


def _check_genesys(settings: PhoneSettings, scope: Scope, headers: Headers) -> None:
    secret = base64.b64decode(settings.genesys_secret)
    check_genesys(headers, _target_of(scope), settings.genesys_key, secret, time.time())


def _target_of(scope: Scope) -> str:
    """Path and query as they were asked for."""
    query = scope["query_string"].decode("latin-1")
    return f"{scope['raw_path'].decode('latin-1')}{f'?{query}' if query else ''}"


@dataclass(frozen=True, slots=True)
class _Proof:
    """``secret``: the setting that makes it compulsory; ``header``: where it stands."""

    secret: str
    header: str
    check: Callable[[PhoneSettings, Scope, Headers], None]


_PROOFS: Final[Mapping[str, _Proof]] = {
    "twilio": _Proof("twilio_token", TWILIO_HEADER, _check_twilio),
    "telnyx": _Proof("telnyx_token", TELNYX_HEADER, _check_telnyx),
    "genesys": _Proof("genesys_secret", "signature", _check_genesys),
}
