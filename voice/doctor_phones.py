"""What ``[phone]`` comes to: what each carrier is to be told, who may call, what looks wrong."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from voice.auth import is_loopback
from voice.config import Config
from voice.phone_settings import PhoneSettings
from voice.wire.phone_wires import WIRES

_HOST: Final = "wss://HOST"
_TOLD: Final = {
    "twilio": ('<Connect><Stream url="{url}"/></Connect>', "µ-law 8 kHz"),
    "telnyx": ("stream_url {url}, stream_bidirectional_mode rtp", "PCMU, PCMA, L16; both alike"),
    "plivo": ('<Stream bidirectional="true" keepCallAlive="true">{url}', "µ-law; L16 8, 16 kHz"),
    "exotel": ("Voicebot applet {url}?sample-rate=16000", "linear 8, 16, 24 kHz"),
    "vonage": ('NCCO connect, websocket, "uri": "{url}"', "audio/l16;rate=8000, 16000, 24000"),
    "genesys": ("Audio Connector, connection URI {url}", "PCMU 8 kHz"),
    "freeswitch": ("uuid_audio_stream UUID start {url} mono 16k", "linear 8, 16 kHz"),
    "asterisk": ("websocket_client.conf: uri = {url}", "ulaw, alaw, slin to slin48"),
}
_TWILIO_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_SECRETS: Final = {
    "twilio": "twilio_token",
    "telnyx": "telnyx_token",
    "genesys": "genesys_secret",
}


@dataclass(frozen=True, slots=True)
class PhoneWire:
    """A carrier: what it is to be told, the audio that it may send, and who may call over it."""

    name: str
    tell: str
    audio: str
    who: str


@dataclass(frozen=True, slots=True)
class Phones:
    """``doubts``: what keeps no server from starting, and calls from coming."""

    wires: tuple[PhoneWire, ...]
    doubts: tuple[str, ...]


def phones_of(config: Config) -> Phones | None:
    """What there is to be told of calls by phone; None where nothing is set for them."""
    if config.phone == PhoneSettings():
        return None
    wires = (*(_wire(name, config) for name in WIRES), *_audiosocket(config.phone))
    return Phones(wires, tuple(_doubts(config)))


def _wire(name: str, config: Config) -> PhoneWire:
    tell, audio = _TOLD[name]
    proves = bool(getattr(config.phone, _SECRETS.get(name, ""), ""))
    keys = any(config.keys.values())
    url = f"{config.phone.url.rstrip('/') or _HOST}/phone/{name}"
    who = f"whoever proves to be {name}" if proves else "who has an API key" if keys else "anybody"
    return PhoneWire(name, tell.format(url=url if proves or not keys else f"{url}/KEY"), audio, who)


def _audiosocket(phone: PhoneSettings) -> Iterator[PhoneWire]:
    if phone.audiosocket_port is not None:
        tell = f"AudioSocket(UUID,{phone.audiosocket_host}:{phone.audiosocket_port})"
        who = f"from {', '.join(phone.audiosocket_from)}" if phone.audiosocket_from else "nobody"
        yield PhoneWire("audiosocket", tell, "linear, any rate", who)


def _doubts(config: Config) -> Iterator[str]:
    phone = config.phone
    parts = urlsplit(phone.url)
    if phone.url and (parts.scheme != "wss" or not parts.hostname or parts.path.strip("/")):
        yield "phone.url: Twilio signs an address like wss://voice.example, without a path"
    if phone.twilio_token and not phone.url:
        yield "phone.url: set it where a proxy changes the host, or Twilio's signatures are wrong"
    if phone.twilio_token and not _TWILIO_TOKEN.fullmatch(phone.twilio_token):
        yield "phone.twilio_token: Twilio's auth tokens are 32 digits of 0-9 and a-f"
    if phone.audiosocket_port is not None:
        yield from _doubts_of_audiosocket(phone)


def _doubts_of_audiosocket(phone: PhoneSettings) -> Iterator[str]:
    networks = [ipaddress.ip_network(network) for network in phone.audiosocket_from]
    reached = not is_loopback(phone.audiosocket_host)
    let_in = any(not network.is_loopback for network in networks)
    if not networks or (reached and not let_in):
        yield "phone.audiosocket_from lets in nobody who could reach phone.audiosocket_host"
    if let_in and not reached:
        yield "phone.audiosocket_host is this machine's own: nobody else reaches it"
    if any(network.prefixlen == 0 for network in networks):
        yield "phone.audiosocket_from lets in the whole network, and AudioSocket proves nothing"
