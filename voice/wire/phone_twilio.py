"""Twilio Media Streams, bidirectional (``<Connect><Stream>``): JSON, mu-law at 8 kHz.

Twilio sends ``connected``, ``start``, ``media``, ``dtmf``, ``mark``, ``stop``; it takes ``media``,
``mark`` and ``clear``, and returns all marks that wait when it clears. It sends no digits for us
and has no word for hanging up: when the socket closes, the call goes on with the TwiML after
``<Connect>``, and ends if there is none. The numbers of a call come only as ``<Parameter>``s:
``from`` and ``to`` are taken for them.

Source: Twilio Docs, "Media Streams - WebSocket Messages", "TwiML Voice: <Stream>" and the errors
31924 and 31950 (text messages only).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from engines.audio import Pcm
from voice.wire.phone import (
    AudioCame,
    LegEnded,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneEvent,
    PhoneWireError,
)
from voice.wire.phone_audio import Coding
from voice.wire.phone_json import (
    CarrierEvent,
    Mark,
    Media,
    Payload,
    decoder_of,
    out_of_turn,
    part,
    pressed,
    read,
    texts,
    write,
)

WIRE = "Twilio"


class MediaFormat(Struct, rename="camel"):
    encoding: str
    sample_rate: int
    channels: int = 1


class Start(Struct, rename="camel"):
    stream_sid: str
    call_sid: str
    media_format: MediaFormat
    custom_parameters: dict[str, Any] | None = None


class TwilioEvent(CarrierEvent, kw_only=True):
    start: Start | None = None


class SendMedia(Struct, rename="camel", tag_field="event", tag="media"):
    stream_sid: str
    media: Payload


class SendMark(Struct, rename="camel", tag_field="event", tag="mark"):
    stream_sid: str
    mark: Mark


class SendClear(Struct, rename="camel", tag_field="event", tag="clear"):
    stream_sid: str


_events = decoder_of(TwilioEvent)
_coding = Coding("mulaw", 8_000)


class TwilioCodec:
    """One leg at Twilio."""

    name = "twilio"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = _coding.rate
        self.frame_ms = 20
        self._stream = ""
        self._ended = False

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        said = read(_events, message, WIRE)
        if said.event == "start":
            return self._start(part(said.start, said.event, WIRE))
        if said.event == "stop":
            self._ended = True
            return (LegEnded("Twilio stopped the stream"),)
        if not self._stream:
            if said.event == "connected":
                return ()
            raise out_of_turn(said.event, WIRE, "start")
        return _within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking or not len(pcm):
            return ()
        return (write(SendMedia(self._stream, Payload(_coding.encode(pcm)))),)

    def mark(self, name: str) -> Sequence[Message]:
        return (write(SendMark(self._stream, Mark(name))),) if self._talking else ()

    def clear(self) -> Sequence[Message]:
        return (write(SendClear(self._stream)),) if self._talking else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return ()

    @property
    def _talking(self) -> bool:
        return bool(self._stream) and not self._ended

    def _start(self, start: Start) -> Sequence[PhoneEvent]:
        if self._stream or not start.stream_sid:
            raise out_of_turn("start", WIRE, "one start that names a stream")
        media = start.media_format
        if (media.encoding, media.sample_rate, media.channels) != ("audio/x-mulaw", 8_000, 1):
            raise PhoneWireError(
                f"Twilio announces {media.channels} channel(s) of {media.encoding[:40]} at"
                f" {media.sample_rate} Hz. It has only ever sent audio/x-mulaw at 8000 Hz: if it"
                " is Twilio, this server has to learn the new format."
            )
        self._stream = start.stream_sid
        parameters = texts(start.custom_parameters)
        caller, called = parameters.get("from", ""), parameters.get("to", "")
        return (LegStarted(start.call_sid, self.rate, caller, called, parameters),)


def _within_call(said: TwilioEvent) -> Sequence[PhoneEvent]:
    match said.event:
        case "media":
            return _heard(part(said.media, said.event, WIRE))
        case "dtmf":
            return pressed(part(said.dtmf, said.event, WIRE).digit)
        case "mark":
            return (MarkPlayed(part(said.mark, said.event, WIRE).name),)
        case _:
            return ()


def _heard(media: Media) -> Sequence[PhoneEvent]:
    """What we said ourselves comes too, where both tracks are asked for."""
    if media.track != "inbound" or not media.payload:
        return ()
    return (AudioCame(_coding.decode(media.payload)),)
