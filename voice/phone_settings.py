"""How calls are taken that come in by phone: the section ``[phone]``."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from voice.admission import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class PhoneSettings:
    """``greeting``: what is said first, nothing if it is empty; ``model_greets``: the model says it
    instead. ``apology``: what is said where a reply fails, if it is not a sentence of ours in the
    caller's language. ``tell_caller``: the model is told the numbers of the call, and what the
    carrier was told to pass on. Digits are all there ``digits_quiet_ms`` after the last, or with
    ``#``. Whoever hangs up, after ``drain_s`` the line is closed. ``send_ahead``: carriers that
    play what they get in their own time are given all at once. A carrier whose secret is known must
    prove that it is that carrier, and its calls are ``tenant``'s; ``url`` is what such proofs are
    made for, where a proxy hides it: ``wss://voice.example``. AudioSocket knows no proof: it is
    listened for at ``audiosocket_host`` if it has a port, and taken from these addresses and
    networks alone."""

    greeting: str = "Hello! How can I help you?"
    model_greets: bool = False
    apology: str = ""
    tell_caller: bool = True
    digits_interrupt: bool = True
    digits_quiet_ms: Annotated[int, Meta(ge=100, le=30_000)] = 2_000
    drain_s: Annotated[float, Meta(ge=0, le=60)] = 5.0
    send_ahead: bool = False
    tenant: str = DEFAULT_TENANT
    url: str = ""
    twilio_token: str = field(default="", repr=False)
    telnyx_token: str = field(default="", repr=False)
    genesys_key: str = field(default="", repr=False)
    genesys_secret: str = field(default="", repr=False)
    audiosocket_port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    audiosocket_host: str = "127.0.0.1"
    audiosocket_from: tuple[str, ...] = ("127.0.0.0/8", "::1")

    def __post_init__(self) -> None:
        for network in self.audiosocket_from:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"audiosocket_from: {error}") from error
        if bool(self.genesys_key) != bool(self.genesys_secret):
            raise ValueError("genesys_secret: it goes with genesys_key: set both, or neither")
        try:
            base64.b64decode(self.genesys_secret, validate=True)
        except binascii.Error:
            raise ValueError("genesys_secret: give it in base64, as Genesys shows it") from None

    def lets_in(self, address: str) -> bool:
        """Whether AudioSocket may come from there."""
        try:
            there = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        there = getattr(there, "ipv4_mapped", None) or there
        return any(there in ipaddress.ip_network(network) for network in self.audiosocket_from)
