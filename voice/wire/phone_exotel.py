"""Exotel AgentStream (the Voicebot applet): Twilio's events in snake_case, linear 16-bit audio.

Exotel sends ``connected``, ``start``, ``media`` of about 100 ms, ``dtmf``, ``mark``, ``stop``; it
takes ``media`` in multiples of 320 bytes, 100 ms or more and at most 100 KB, ``mark`` and
``clear``. The rate is 8, 16 or 24 kHz, by ``?sample-rate=`` of the applet's URL. When the socket
closes, the flow goes on with the next applet.

Source: Exotel Developer, "AgentStream: WebSocket protocol" and "Working with the Stream and
Voicebot Applet".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

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
from voice.wire.phone_audio import Coding, Encoding, Frames
from voice.wire.phone_json import (
    CarrierEvent,
    Mark,
    Payload,
    decoder_of,
    out_of_turn,
    part,
    pressed,
    read,
    texts,
    write,
)

WIRE = "Exotel"

_ENCODINGS: Final[dict[str, Encoding]] = {
    # The documents name the same linear audio by four names, one of them that of its wrapping.
    "": "little",
    "base64": "little",
    "audio/x-raw": "little",
    "raw/slin": "little",
    "audio/l16": "little",
    "audio/x-mulaw": "mulaw",
}
_RATES = (8_000, 16_000, 24_000)


class MediaFormat(Struct):
    encoding: str = ""
    sample_rate: int = 8_000


class Start(Struct):
    stream_sid: str
    call_sid: str
    media_format: MediaFormat = field(default_factory=MediaFormat)
    caller: str = field(name="from", default="")
    called: str = field(name="to", default="")
    custom_parameters: dict[str, Any] | None = None


class ExotelEvent(CarrierEvent, kw_only=True):
    start: Start | None = None


class SendMedia(Struct, tag_field="event", tag="media"):
    stream_sid: str
    media: Payload


class SendMark(Struct, tag_field="event", tag="mark"):
    stream_sid: str
    mark: Mark


class SendClear(Struct, tag_field="event", tag="clear"):
    stream_sid: str


_events = decoder_of(ExotelEvent)


class ExotelCodec:
    """One leg at Exotel."""

    name = "exotel"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 100
        self._stream = ""
        self._ended = False
        self._coding = Coding("little", self.rate)
        self._frames = Frames(1, b"")

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        said = read(_events, message, WIRE)
        if said.event == "start":
            return self._start(part(said.start, said.event, WIRE))
        if said.event == "stop":
            self._ended = True
            return (LegEnded("Exotel stopped the stream"),)
        if not self._stream:
            if said.event == "connected":
                return ()
            raise out_of_turn(said.event, WIRE, "start")
        return self._within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking:
            return ()
        return [self._media(frame) for frame in self._frames.cut(self._coding.encode(pcm))]

    def mark(self, name: str) -> Sequence[Message]:
        if not self._talking:
            return ()
        rest = [self._media(frame) for frame in self._frames.finish()]
        return [*rest, write(SendMark(self._stream, Mark(name)))]

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
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
        encoding = _ENCODINGS.get(media.encoding.lower())
        rates = (8_000,) if encoding == "mulaw" else _RATES
        if encoding is None or media.sample_rate not in rates:
            raise PhoneWireError(
                f"Exotel announces {media.encoding[:40]} at {media.sample_rate} Hz, which this"
                " server does not play. Let the applet stream linear 16-bit audio, and end its URL"
                " in ?sample-rate=8000, 16000 or 24000."
            )
        self._coding = Coding(encoding, media.sample_rate)
        self.frame_ms = 200 if encoding == "mulaw" else 100  # in whole multiples of 320 bytes
        self._frames = Frames(self._coding.bytes_of(self.frame_ms), self._coding.silence)
        self._stream = start.stream_sid
        self.rate = media.sample_rate
        parameters = texts(start.custom_parameters)
        return (LegStarted(start.call_sid, self.rate, start.caller, start.called, parameters),)

    def _within_call(self, said: ExotelEvent) -> Sequence[PhoneEvent]:
        match said.event:
            case "media":
                payload = part(said.media, said.event, WIRE).payload
                return (AudioCame(self._coding.decode(payload)),) if payload else ()
            case "dtmf":
                return pressed(part(said.dtmf, said.event, WIRE).digit)
            case "mark":
                return (MarkPlayed(part(said.mark, said.event, WIRE).name),)
            case _:
                return ()

    def _media(self, frame: bytes) -> str:
        return write(SendMedia(self._stream, Payload(frame)))
