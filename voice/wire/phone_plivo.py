"""Plivo audio streaming (``<Stream bidirectional="true">``): JSON, mu-law 8 kHz or L16 8/16 kHz.

Plivo sends ``start``, ``media``, ``dtmf``, ``playedStream``, ``clearedAudio`` and ends by closing
the socket; it takes ``playAudio``, ``checkpoint``, ``clearAudio`` and ``sendDTMF``. A checkpoint
that a clear threw away is not told of. L16 is little-endian. The numbers of a call come only as
``extraHeaders``: ``from`` and ``to`` are taken for them. With ``keepCallAlive`` the call ends when
the socket closes; without, the XML after the stream goes on.

Source: Plivo Docs, "Stream Event Protocol", "Audio Streaming Protocol Reference" and
"The Stream element".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

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
from voice.wire.phone_audio import Coding, Encoding
from voice.wire.phone_json import (
    DIGITS,
    CarrierEvent,
    Media,
    decoder_of,
    out_of_turn,
    part,
    pressed,
    read,
    write,
)

WIRE = "Plivo"

_ENCODINGS: Final[dict[tuple[str, int], Encoding]] = {
    ("audio/x-mulaw", 8_000): "mulaw",
    ("audio/x-l16", 8_000): "little",
    ("audio/x-l16", 16_000): "little",
}
_HEADER = re.compile(r"\s*([^=;,{}]+?)\s*=\s*([^;,{}]*)")


class MediaFormat(Struct, rename="camel"):
    encoding: str
    sample_rate: int


class Start(Struct, rename="camel"):
    call_id: str
    stream_id: str
    media_format: MediaFormat


class PlivoEvent(CarrierEvent, kw_only=True):
    start: Start | None = None
    name: str | None = None
    extra_headers: str = ""


class Sound(Struct, rename="camel"):
    content_type: str
    sample_rate: int
    payload: bytes


class PlayAudio(Struct, tag_field="event", tag="playAudio"):
    media: Sound


class Checkpoint(Struct, rename="camel", tag_field="event", tag="checkpoint"):
    stream_id: str
    name: str


class ClearAudio(Struct, rename="camel", tag_field="event", tag="clearAudio"):
    stream_id: str


class SendDtmf(Struct, tag_field="event", tag="sendDTMF"):
    dtmf: str


_events = decoder_of(PlivoEvent)


class PlivoCodec:
    """One leg at Plivo."""

    name = "plivo"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 20
        self._stream = ""
        self._ended = False
        self._content_type = ""
        self._coding = Coding("mulaw", self.rate)

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        said = read(_events, message, WIRE)
        if said.event == "start":
            return self._start(part(said.start, said.event, WIRE), said.extra_headers)
        if said.event == "stop":
            self._ended = True
            return (LegEnded("Plivo stopped the stream"),)
        if not self._stream:
            raise out_of_turn(said.event, WIRE, "start")
        return self._within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking or not len(pcm):
            return ()
        sound = Sound(self._content_type, self.rate, self._coding.encode(pcm))
        return (write(PlayAudio(sound)),)

    def mark(self, name: str) -> Sequence[Message]:
        return (write(Checkpoint(self._stream, name)),) if self._talking else ()

    def clear(self) -> Sequence[Message]:
        return (write(ClearAudio(self._stream)),) if self._talking else ()

    def press(self, digits: str) -> Sequence[Message]:
        keys = "".join(key for key in digits.upper() if key in DIGITS)
        return (write(SendDtmf(keys)),) if self._talking and keys else ()

    def hang_up(self) -> Sequence[Message]:
        return ()

    @property
    def _talking(self) -> bool:
        return bool(self._stream) and not self._ended

    def _start(self, start: Start, headers: str) -> Sequence[PhoneEvent]:
        if self._stream or not start.stream_id:
            raise out_of_turn("start", WIRE, "one start that names a stream")
        media = start.media_format
        encoding = _ENCODINGS.get((media.encoding, media.sample_rate))
        if encoding is None:
            raise PhoneWireError(
                f"Plivo announces {media.encoding[:40]} at {media.sample_rate} Hz, which this"
                ' server does not play. Set contentType="audio/x-mulaw;rate=8000",'
                ' "audio/x-l16;rate=8000" or "audio/x-l16;rate=16000" on <Stream>.'
            )
        self._coding = Coding(encoding, media.sample_rate)
        self._content_type = media.encoding
        self._stream = start.stream_id
        self.rate = media.sample_rate
        parameters = dict(_HEADER.findall(headers))
        caller, called = parameters.get("from", ""), parameters.get("to", "")
        return (LegStarted(start.call_id, self.rate, caller, called, parameters),)

    def _within_call(self, said: PlivoEvent) -> Sequence[PhoneEvent]:
        match said.event:
            case "media":
                return self._hear(part(said.media, said.event, WIRE))
            case "dtmf":
                return pressed(part(said.dtmf, said.event, WIRE).digit)
            case "playedStream":
                return (MarkPlayed(part(said.name, said.event, WIRE)),)
            case _:
                return ()

    def _hear(self, media: Media) -> Sequence[PhoneEvent]:
        if media.track != "inbound" or not media.payload:
            return ()
        return (AudioCame(self._coding.decode(media.payload)),)
