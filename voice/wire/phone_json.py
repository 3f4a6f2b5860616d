"""What the carriers that speak JSON have in common: reading it, and the parts they share.

Carriers write numbers now as numbers, now as text, and add fields at will: numbers are read from
either, and fields that nobody asked for are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from voice.wire.phone import DigitPressed, Message, PhoneWireError

T = TypeVar("T")

DIGITS: Final = frozenset("0123456789*#ABCD")
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one message: Telnyx's longest audio, 30 seconds at 16 kHz in base64, has 1.3 MB."""

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_encoder = msgspec.json.Encoder()


class Media(Struct):
    """Audio that came. ``track`` is the side of the call that spoke; ``chunk`` counts messages."""

    payload: bytes
    track: str = "inbound"
    chunk: int | None = None


class Digit(Struct):
    """A key that was pressed."""

    digit: str


class Mark(Struct):
    """A place in the audio that went out."""

    name: str


class Payload(Struct):
    """Audio that goes out."""

    payload: bytes


class CarrierEvent(Struct, kw_only=True):
    """The frame that Twilio invented and others took over: an event, and a part named after it."""

    event: str
    media: Media | None = None
    dtmf: Digit | None = None
    mark: Mark | None = None


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers from text too."""
    return msgspec.json.Decoder(kind, strict=False)


def read(decoder: msgspec.json.Decoder[T], message: Message, wire: str) -> T:
    """A carrier's JSON text. Raises PhoneWireError on anything else."""
    if isinstance(message, bytes):
        raise PhoneWireError(
            f"{wire} says everything in JSON text, and sent {len(message)} bytes of binary. "
            "Point it at the path of its own carrier (/phone/NAME)."
        )
    if len(message) > MOST_BYTES:
        raise PhoneWireError(
            f"{wire} sent one message of {len(message)} characters; {MOST_BYTES} is the most."
        )
    try:
        return decoder.decode(message)
    except _UNREADABLE as error:
        raise PhoneWireError(f"{wire} sent what is no message of its protocol: {error}.") from error


def write(message: Struct | Mapping[str, object]) -> str:
    """A message as JSON text, bytes as base64."""
    return _encoder.encode(message).decode()


def part(value: T | None, event: str, wire: str) -> T:
    """The part that an event must bring. Raises PhoneWireError where it is missing."""
    if value is None:
        raise PhoneWireError(f"{wire} sent the event '{event}' without what belongs to it.")
    return value


def out_of_turn(event: str, wire: str, want: str) -> PhoneWireError:
    """An event that may not come now."""
    return PhoneWireError(f"{wire} sent the event '{event[:40]}' where '{want}' should have come.")


def pressed(digit: str) -> tuple[DigitPressed, ...]:
    """The key, if it is one: a hook flash and whatever else carriers report is none."""
    key = digit.upper()
    return (DigitPressed(key),) if len(key) == 1 and key in DIGITS else ()


def texts(parameters: Mapping[str, Any] | None) -> dict[str, str]:
    """What a carrier was told to pass on, as text: other values are written as JSON."""
    return {
        name: value if isinstance(value, str) else write_value(value)
        for name, value in (parameters or {}).items()
    }


def write_value(value: object) -> str:
    return _encoder.encode(value).decode()
