"""All phone wires over a WebSocket by name, and which of them a stranger speaks.

AudioSocket is not among them: it is TCP and has a port of its own (``phone_audiosocket``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from voice.wire.phone import Message, PhoneCodec
from voice.wire.phone_asterisk import AsteriskCodec
from voice.wire.phone_freeswitch import FreeSwitchCodec
from voice.wire.phone_genesys import GenesysCodec
from voice.wire.phone_plivo import PlivoCodec
from voice.wire.phone_streams import ExotelCodec, TelnyxCodec, TwilioCodec
from voice.wire.phone_vonage import VonageCodec

WIRES: Final[dict[str, Callable[[], PhoneCodec]]] = {
    "twilio": TwilioCodec,
    "telnyx": TelnyxCodec,
    "plivo": PlivoCodec,
    "exotel": ExotelCodec,
    "vonage": VonageCodec,
    "genesys": GenesysCodec,
    "freeswitch": FreeSwitchCodec,
    "asterisk": AsteriskCodec,
}

# The name that each gives the stream in ``start``, and where: there itself, or inside.
_STARTS: Final = (
    ("twilio", (), ("streamSid", "callSid")),
    ("telnyx", ("stream_id",), ("call_control_id",)),
    ("plivo", (), ("streamId", "callId")),
    ("exotel", (), ("stream_sid", "call_sid")),
)
_objects = msgspec.json.Decoder(dict[str, Any])


def detect(first_messages: Sequence[Message]) -> str | None:
    """Whose first messages these are, a name in WIRES; None while they do not tell.

    One or two are enough for all. mod_audio_stream has no words of its own: whoever sends audio
    before any of the others' greetings is taken for it.
    """
    for message in first_messages:
        if isinstance(message, bytes):
            return "freeswitch"
        if name := _speaker(message):
            return name
    return None


def _speaker(message: str) -> str | None:
    if message.startswith("MEDIA_START "):
        return "asterisk"
    try:
        said = _objects.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    match said.get("event"):
        case "MEDIA_START":
            return "asterisk"
        case "websocket:connected":
            return "vonage"
        case "start":
            return _starter(said)
        case _:
            return "genesys" if said.get("type") == "open" and "version" in said else None


def _starter(said: dict[str, Any]) -> str | None:
    start = said.get("start")
    inside: dict[str, Any] = start if isinstance(start, dict) else {}
    for name, beside, within in _STARTS:
        if all(key in said for key in beside) and all(key in inside for key in within):
            return name
    return None
