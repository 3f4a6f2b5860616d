"""Telnyx media streaming, ``stream_bidirectional_mode: rtp``: JSON with RTP payloads.

Telnyx sends ``connected``, ``start``, ``media``, ``dtmf``, ``mark``, ``error``, ``stop``; it takes
``media`` of 20 ms to 30 s, ``mark`` and ``clear``, and returns all marks that wait when it clears.
The order of media is not guaranteed: ``chunk`` tells it. ``start`` names the encoding of what
comes; what goes out must have that of ``stream_bidirectional_codec``, which nothing names, so both
must be set alike, or the second told by a custom parameter of that name. L16 is big-endian, as in
RTP (RFC 3551, 4.5.11). Hanging up and digits are for Telnyx's REST interface.

Source: Telnyx Developers, "Media Streaming over WebSockets" and "Stream call media over WebSocket"
(AsyncAPI).
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
from voice.wire.phone_order import Reordering

WIRE = "Telnyx"
OUTGOING: Final = "stream_bidirectional_codec"

_ENCODINGS: Final[dict[str, Encoding]] = {
    "pcmu": "mulaw",
    "audio/x-mulaw": "mulaw",
    "pcma": "alaw",
    "audio/x-alaw": "alaw",
    "l16": "big",
}


class MediaFormat(Struct):
    encoding: str
    sample_rate: int
    channels: int = 1


class Start(Struct):
    call_control_id: str
    media_format: MediaFormat
    caller: str = field(name="from", default="")
    called: str = field(name="to", default="")
    custom_parameters: dict[str, Any] | None = None


class TelnyxEvent(CarrierEvent, kw_only=True):
    start: Start | None = None


class SendMedia(Struct, tag_field="event", tag="media"):
    media: Payload


class SendMark(Struct, tag_field="event", tag="mark"):
    mark: Mark


class SendClear(Struct, tag_field="event", tag="clear"):
    pass


_events = decoder_of(TelnyxEvent)


class TelnyxCodec:
    """One leg at Telnyx."""

    name = "telnyx"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 20
        self._started = False
        self._ended = False
        self._incoming = self._outgoing = Coding("mulaw", self.rate)
        self._order = Reordering(self.rate)
        self._frames = Frames(1, b"")

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        said = read(_events, message, WIRE)
        if said.event == "start":
            return self._start(part(said.start, said.event, WIRE))
        if said.event == "stop":
            self._ended = True
            return (*self._held(), LegEnded("Telnyx stopped the stream"))
        if not self._started:
            if said.event in ("connected", "error"):
                return ()
            raise out_of_turn(said.event, WIRE, "start")
        return self._within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking:
            return ()
        return [_media(frame) for frame in self._frames.cut(self._outgoing.encode(pcm))]

    def mark(self, name: str) -> Sequence[Message]:
        if not self._talking:
            return ()
        return [*map(_media, self._frames.finish()), write(SendMark(Mark(name)))]

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
        return (write(SendClear()),) if self._talking else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return ()

    @property
    def _talking(self) -> bool:
        return self._started and not self._ended

    def _start(self, start: Start) -> Sequence[PhoneEvent]:
        if self._started:
            raise out_of_turn("start", WIRE, "media")
        parameters = texts(start.custom_parameters)
        self._incoming = _coding(start.media_format)
        outgoing = parameters.get(OUTGOING, start.media_format.encoding)
        rate = 16_000 if outgoing.lower() == "l16" else 8_000
        if outgoing == start.media_format.encoding:
            rate = self._incoming.rate
        self._outgoing = _coding(MediaFormat(outgoing, rate))
        self.rate = rate
        self._order = Reordering(self._incoming.rate)
        self._frames = Frames(self._outgoing.bytes_of(self.frame_ms), self._outgoing.silence)
        self._started = True
        return (
            LegStarted(
                start.call_control_id, self._incoming.rate, start.caller, start.called, parameters
            ),
        )

    def _within_call(self, said: TelnyxEvent) -> Sequence[PhoneEvent]:
        match said.event:
            case "media":
                return self._hear(part(said.media, said.event, WIRE))
            case "dtmf":
                return pressed(part(said.dtmf, said.event, WIRE).digit)
            case "mark":
                return (MarkPlayed(part(said.mark, said.event, WIRE).name),)
            case _:
                return ()

    def _hear(self, media: Media) -> Sequence[PhoneEvent]:
        if media.track != "inbound" or not media.payload:
            return ()
        if media.chunk is None:
            raise PhoneWireError("Telnyx sent media without 'chunk', which tells its order.")
        pcm = self._incoming.decode(media.payload)
        in_order = self._order.add(media.chunk, pcm.samples)
        return [AudioCame(Pcm(samples, pcm.rate)) for samples in in_order]

    def _held(self) -> Sequence[PhoneEvent]:
        return [AudioCame(Pcm(samples, self._incoming.rate)) for samples in self._order.flush()]


def _coding(media: MediaFormat) -> Coding:
    encoding = _ENCODINGS.get(media.encoding.lower())
    rates = (8_000, 16_000) if encoding == "big" else (8_000,)
    if encoding is None or media.sample_rate not in rates or media.channels != 1:
        raise PhoneWireError(
            f"Telnyx announces {media.channels} channel(s) of {media.encoding[:40]} at"
            f" {media.sample_rate} Hz, which this server does not play. Set stream_codec and"
            " stream_bidirectional_codec both to PCMU, PCMA or L16 where the stream is started."
        )
    return Coding(encoding, media.sample_rate)


def _media(frame: bytes) -> str:
    return write(SendMedia(Payload(frame)))
