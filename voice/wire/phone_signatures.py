"""Whether a carrier's handshake is signed by whom it should be.

Each check returns where all is well and raises PhoneSignatureError where not; the error may be
logged, no secret and no signature is in it. Whatever is compared with something secret is compared
in constant time.

Source: Twilio Docs, "Webhooks security"; Telnyx Developers, "Media Streaming over WebSockets"
(``stream_auth_token``); Genesys Cloud Developer Center, "AudioHook security", which follows the
IETF's draft-ietf-httpbis-message-signatures (now RFC 9421).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

TELNYX_HEADER: Final = "x-telnyx-streaming-auth-token"
TWILIO_HEADER: Final = "x-twilio-signature"

GENESYS_COVERS: Final = (
    "@request-target",
    "@authority",
    "audiohook-organization-id",
    "audiohook-session-id",
    "audiohook-correlation-id",
    "x-api-key",
)
"""What a signature of Genesys must cover."""
GENESYS_MOST_AGE_S: Final = 10
GENESYS_SKEW_S: Final = 3
GENESYS_LEAST_NONCE: Final = 22

_DEFAULT_PORTS: Final = {"wss": 443, "https": 443, "ws": 80, "http": 80}


class PhoneSignatureError(Exception):
    """The handshake is not signed as it should be. The message says what is wrong."""


def check_twilio(
    url: str,
    signature: str,
    token: str,
    parameters: Mapping[str, str | Sequence[str]] | None = None,
) -> None:
    """``url`` is what Twilio was told to call, to the letter: behind a proxy, the public one.
    ``parameters`` are those of a form that was posted; a WebSocket has none."""
    form = "".join(f"{name}{value}" for name, value in _sorted(parameters or {}))
    given = signature.encode("utf-8", "replace")
    fit = False
    for candidate in _spellings(url):
        mac = hmac.new(token.encode(), (candidate + form).encode("utf-8", "replace"), hashlib.sha1)
        fit |= hmac.compare_digest(base64.b64encode(mac.digest()), given)
    if not fit:
        raise PhoneSignatureError(
            f"X-Twilio-Signature does not fit {url}. Check that this is the address in <Stream>,"
            " as the caller's side sees it, and that the token is the account's primary one."
        )


def check_telnyx(given: str, token: str) -> None:
    """``given`` is the header that Telnyx sends with the ``stream_auth_token`` that it was told."""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise PhoneSignatureError(
            f"{TELNYX_HEADER} is missing or not the token in the configuration. Give it as"
            " stream_auth_token where the stream is started."
        )


def check_genesys(
    headers: Mapping[str, str], target: str, api_key: str, secret: bytes, now: float
) -> None:
    """``headers`` by names in small letters, ``target`` as in the request's first line, path and
    query; ``secret`` decoded from base64; ``now`` in seconds since 1970, UTC."""
    signed = _signature_input(headers)
    if not hmac.compare_digest(signed.parameters.get("keyid", "").encode(), api_key.encode()):
        raise PhoneSignatureError("The keyid of Genesys' signature is not the API key known here.")
    _check_time(signed.parameters, now)
    base = _signature_base(signed, headers, target)
    expected = hmac.new(secret, base.encode("utf-8", "replace"), hashlib.sha256).digest()
    if not hmac.compare_digest(expected, signed.signature):
        raise PhoneSignatureError(
            "Genesys' signature does not fit. Check the client secret, and that a proxy passes on"
            " the Host and the path as they came."
        )


def _sorted(parameters: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, values in sorted(parameters.items()):
        several = [values] if isinstance(values, str) else sorted(set(values))
        pairs += [(name, value) for value in several]
    return pairs


def _spellings(url: str) -> list[str]:
    """The URL with and without the scheme's own port, and with and without a last slash: Twilio's
    servers differ in what they sign."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        return [url]
    authorities = {parts.netloc}
    default = _DEFAULT_PORTS.get(parts.scheme)
    if port is None and default:
        authorities.add(f"{parts.netloc}:{default}")
    elif port == default:
        authorities.add(parts.netloc.rpartition(":")[0] or host)
    paths = {parts.path, parts.path.rstrip("/"), parts.path.rstrip("/") + "/"}
    return [
        urlunsplit(parts._replace(netloc=netloc, path=path))
        for netloc in sorted(authorities)
        for path in sorted(paths)
    ]


# --- HTTP message signatures --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Signed:
    covered: tuple[str, ...]
    parameters: Mapping[str, str]
    written: str
    signature: bytes


_INPUT = re.compile(r"\s*(?P<label>[a-z*][a-z0-9_.*-]*)=(?P<written>\((?P<covered>[^()]*)\)\S*)\s*")
_NAME = re.compile(r'"([a-z0-9@-]+)"')
_PARAMETER = re.compile(r';([a-z]+)=(?:"((?:[^"\\]|\\["\\])*)"|(\d{1,15}))')
_SIGNATURE = re.compile(r"\s*(?P<label>[a-z*][a-z0-9_.*-]*)=:(?P<bytes>[A-Za-z0-9+/=]*):\s*")


def _signature_input(headers: Mapping[str, str]) -> _Signed:
    """What is signed, and by what. One signature, as Genesys sends it."""
    told = _INPUT.fullmatch(headers.get("signature-input", ""))
    given = _SIGNATURE.fullmatch(headers.get("signature", ""))
    if told is None or given is None or told["label"] != given["label"]:
        raise PhoneSignatureError(
            "Signature and Signature-Input are missing, or not as Genesys writes them."
        )
    covered = tuple(_NAME.findall(told["covered"]))
    ending = told["written"][len(told["covered"]) + 2 :]
    parameters = {name: text or number for name, text, number in _PARAMETER.findall(ending)}
    if told["covered"].split() != [f'"{name}"' for name in covered] or len(set(covered)) != len(
        covered
    ):
        raise PhoneSignatureError("Signature-Input lists what it covers in a way unknown here.")
    if _PARAMETER.sub("", ending):
        raise PhoneSignatureError("Signature-Input has parameters that cannot be read.")
    try:
        signature = base64.b64decode(given["bytes"], validate=True)
    except binascii.Error:
        raise PhoneSignatureError("Signature is no base64.") from None
    return _Signed(covered, parameters, told["written"], signature)


def _check_time(parameters: Mapping[str, str], now: float) -> None:
    if parameters.get("alg", "hmac-sha256") != "hmac-sha256":
        raise PhoneSignatureError("Genesys signs by another algorithm than hmac-sha256.")
    if len(parameters.get("nonce", "")) < GENESYS_LEAST_NONCE:
        raise PhoneSignatureError("The nonce of Genesys' signature is missing or too short.")
    created, expires = parameters.get("created", ""), parameters.get("expires", "")
    if not created.isdecimal():
        raise PhoneSignatureError("Genesys' signature does not say when it was created.")
    age = now - int(created)
    if age < -GENESYS_SKEW_S:
        raise PhoneSignatureError("Genesys' signature is from the future. Check this clock.")
    expired = expires.isdecimal() and int(expires) < now - GENESYS_SKEW_S
    if expired or age > GENESYS_MOST_AGE_S + GENESYS_SKEW_S:
        raise PhoneSignatureError("Genesys' signature has expired. Check this clock.")


def _signature_base(signed: _Signed, headers: Mapping[str, str], target: str) -> str:
    missing = set(GENESYS_COVERS) - set(signed.covered)
    if missing:
        raise PhoneSignatureError(
            f"Genesys' signature does not cover {', '.join(sorted(missing))}."
        )
    derived = {"@request-target": target, "@authority": headers.get("host", "").lower()}
    lines = []
    for name in signed.covered:
        value = derived.get(name) or headers.get(name, "").strip()
        if not value:
            raise PhoneSignatureError(f"Genesys' signature covers {name}, which is not there.")
        lines.append(f'"{name}": {value}')
    lines.append(f'"@signature-params": {signed.written}')
    return "\n".join(lines)
