"""A simulated carrier and the server's codec, put together without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clients.phone import (
    Asterisk,
    AudioSocket,
    Exotel,
    FreeSwitch,
    Genesys,
    Plivo,
    Telephone,
    Telnyx,
    Twilio,
    Vonage,
)
from clients.phone_words import Message, Words
from voice.wire.phone import Answer, PhoneCodec, PhoneEvent
from voice.wire.phone_audiosocket import AudioSocketCodec
from voice.wire.phone_wires import WIRES

JSON: list[Callable[[], Words]] = [
    lambda: Twilio(account="7"),
    lambda: Telnyx(),
    lambda: Telnyx("PCMA"),
    lambda: Telnyx("L16", customer="7"),
    lambda: Plivo(),
    lambda: Plivo("audio/x-l16", 16_000),
    lambda: Exotel(),
    lambda: Exotel(24_000),
]
BINARY: list[Callable[[], Words]] = [
    lambda: Vonage(),
    lambda: Vonage(8_000),
    lambda: Genesys(queue="sales"),
    lambda: FreeSwitch(),
    lambda: FreeSwitch(16_000),
    lambda: FreeSwitch(metadata=False),
    lambda: Asterisk(),
    lambda: Asterisk("alaw"),
    lambda: Asterisk("slin16"),
    lambda: Asterisk("slin48", plain=True),
    lambda: AudioSocket(),
    lambda: AudioSocket(24_000),
]


@dataclass
class Pair:
    """What either side says goes to the other at once; ``events`` is what the codec told."""

    telephone: Telephone
    codec: PhoneCodec
    now: float = 0.0
    events: list[PhoneEvent] = field(default_factory=list)

    def from_carrier(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for event in self.codec.take(message):
                self.events.append(event)
                if isinstance(event, Answer):
                    self.from_server(event.messages)

    def from_server(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.from_carrier(self.telephone.take(message, self.now))

    def at(self, now: float) -> None:
        self.now = now
        self.from_carrier(self.telephone.tick(now))


def put_through(words: Words) -> Pair:
    codec = AudioSocketCodec() if words.name == "audiosocket" else WIRES[words.name]()
    pair = Pair(Telephone(words), codec)
    pair.from_carrier(pair.telephone.hello())
    return pair
