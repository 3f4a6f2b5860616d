"""Twilio, Telnyx and Exotel: one frame of JSON, which Twilio invented, in three dialects.

``connected``, ``start``, ``media``, ``dtmf``, ``mark`` and ``stop`` come; ``media``, ``mark`` and
``clear`` go, and marks that wait come back at a clear. None has a word for keys of ours or for
hanging up, which their REST interfaces have: when the socket closes, the carrier goes on with
what it was told to do next. What differs stands in the dialects at the end.

- Twilio Media Streams, bidirectional (``<Connect><Stream>``). The numbers of a call come only as
  ``<Parameter>``s: ``from`` and ``to`` are taken for them. Source: Twilio Docs, "Media Streams -
  WebSocket Messages", "TwiML Voice: <Stream>" and the errors 31924 and 31950 (text only).
- Telnyx media streaming, ``stream_bidirectional_mode: rtp``. It takes 20 ms to 30 s of media, and
  sends it in any order: ``chunk`` tells which. ``start`` names the encoding of what comes; what
  goes out must have that of ``stream_bidirectional_codec``, which nothing names, so both must be
  set alike, or the second told by a custom parameter of that name. Payloads are those of RTP, by
  which L16 is big-endian (RFC 3551, 4.5.11); there are reports that it came little-endian, so the
  order is taken from the caller's first sound. Source: Telnyx Developers, "Media Streaming over
  WebSockets" and "Stream call media over WebSocket" (AsyncAPI).
- Exotel AgentStream (the Voicebot applet), in snake_case. It takes media in multiples of 320 bytes,
  100 ms or more and at most 100 KB. The rate is that of ``?sample-rate=`` in the applet's URL.
  Source: Exotel Developer, "AgentStream: WebSocket protocol" and "Working with the Stream and
  Voicebot Applet".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
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
from voice.wire.phone_audio import Coding, Encoding, Frames, order_of
from voice.wire.phone_json import (
    CarrierEvent,
    Media,
    decoder_of,
    out_of_turn,
    part,
    pressed,
    read,
    texts,
    write,
)
from voice.wire.phone_order import Reordering

# --- what comes -----------------------------------------------------------------------------


class MediaFormat(Struct, kw_only=True):
    encoding: str = ""
    rate: int = field(name="sample_rate", default=8_000)
    channels: int = 1


class Start(Struct, kw_only=True):
    """As Exotel has it."""

    stream: str = field(name="stream_sid")
    call: str = field(name="call_sid")
    media: MediaFormat = field(name="media_format", default_factory=MediaFormat)
    caller: str = field(name="from", default="")
    called: str = field(name="to", default="")
    custom: dict[str, Any] | None = field(name="custom_parameters", default=None)


class TwilioMediaFormat(MediaFormat, kw_only=True):
    rate: int = field(name="sampleRate")


class TwilioStart(Start, kw_only=True):
    stream: str = field(name="streamSid")
    call: str = field(name="callSid")
    media: TwilioMediaFormat = field(name="mediaFormat")
    custom: dict[str, Any] | None = field(name="customParameters", default=None)


class TelnyxStart(Start, kw_only=True):
    """The stream has its name elsewhere, and nobody asks for it."""

    stream: str = "-"
    call: str = field(name="call_control_id")
    media: MediaFormat = field(name="media_format")


class StreamEvent(CarrierEvent, kw_only=True):
    start: Start | None = None


class TwilioEvent(StreamEvent, kw_only=True):
    start: TwilioStart | None = None


class TelnyxEvent(StreamEvent, kw_only=True):
    start: TelnyxStart | None = None


# --- how they differ ------------------------------------------------------------------------


class Spoken(NamedTuple):
    """An encoding as a carrier has it, at these rates in Hz, in frames that the carrier takes."""

    encoding: Encoding
    rates: tuple[int, ...] = (8_000,)
    frame_ms: int = 20


@dataclass(frozen=True, slots=True)
class Dialect:
    """``formats``: by the carrier's names, in small letters. ``stream_key``: what messages to it
    name the stream by, if they do. ``outgoing``: the parameter that tells the encoding of what goes
    out, if there is one. ``ordered``: media comes in order. ``tracks``: our own side may come
    too. ``greetings``: what may come before the start. ``advice``: what to set."""

    name: str
    carrier: str
    events: msgspec.json.Decoder[Any]
    formats: Mapping[str, Spoken]
    advice: str
    stream_key: str = ""
    outgoing: str = ""
    ordered: bool = True
    tracks: bool = True
    greetings: tuple[str, ...] = ("connected",)


class StreamCodec:
    """One leg at a carrier that speaks this dialect."""

    marks = True
    paced = False

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self.rate = 8_000
        self.frame_ms = 20
        self._dialect = dialect
        self._stream: dict[str, str] = {}
        self._started = self._ended = False
        self._incoming = self._outgoing = Coding("mulaw", self.rate)
        self._order_is_sure = True
        self._order = Reordering(self.rate)
        self._frames = Frames(1, b"")

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        dialect = self._dialect
        said: StreamEvent = read(dialect.events, message, dialect.carrier)
        if said.event == "start":
            return self._start(part(said.start, said.event, dialect.carrier))
        if said.event == "stop":
            self._ended = True
            held = self._heard(self._order.flush())
            return (*held, LegEnded(f"{dialect.carrier} stopped the stream"))
        if not self._started:
            if said.event in dialect.greetings:
                return ()
            raise out_of_turn(said.event, dialect.carrier, "start")
        return self._within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking:
            return ()
        return [self._media(frame) for frame in self._frames.cut(self._outgoing.encode(pcm))]

    def mark(self, name: str) -> Sequence[Message]:
        if not self._talking:
            return ()
        rest = [self._media(frame) for frame in self._frames.finish()]
        return [*rest, self._say("mark", mark={"name": name})]

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
        return (self._say("clear"),) if self._talking else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return ()

    @property
    def _talking(self) -> bool:
        return self._started and not self._ended

    # --- the start ----------------------------------------------------------------------

    def _start(self, start: Start) -> Sequence[PhoneEvent]:
        dialect = self._dialect
        if self._started or not start.stream:
            raise out_of_turn("start", dialect.carrier, "one start that names a stream")
        parameters = texts(start.custom)
        self._incoming, _ = self._coding(start.media)
        self._outgoing, self.frame_ms = self._coding(self._sent(start.media, parameters))
        self.rate = self._outgoing.rate
        self._order = Reordering(self._incoming.rate)
        self._frames = Frames(self._outgoing.bytes_of(self.frame_ms), self._outgoing.silence)
        self._stream = {dialect.stream_key: start.stream} if dialect.stream_key else {}
        self._order_is_sure = self._incoming.encoding != "big"
        self._started = True
        caller = start.caller or parameters.get("from", "")
        called = start.called or parameters.get("to", "")
        return (LegStarted(start.call, self._incoming.rate, caller, called, parameters),)

    def _sent(self, came: MediaFormat, parameters: Mapping[str, str]) -> MediaFormat:
        """The format of what goes out: that of what comes, unless a parameter names another."""
        name = parameters.get(self._dialect.outgoing) if self._dialect.outgoing else None
        if name is None or name == came.encoding:
            return came
        known = self._dialect.formats.get(name.lower())
        return MediaFormat(encoding=name, rate=max(known.rates) if known else came.rate)

    def _coding(self, media: MediaFormat) -> tuple[Coding, int]:
        known = self._dialect.formats.get(media.encoding.lower())
        if known is None or media.rate not in known.rates or media.channels != 1:
            raise PhoneWireError(
                f"{self._dialect.carrier} announces {media.channels} channel(s) of"
                f" {media.encoding[:40]} at {media.rate} Hz, which this server does not play."
                f" {self._dialect.advice}"
            )
        return Coding(known.encoding, media.rate), known.frame_ms

    # --- within the call ----------------------------------------------------------------

    def _within_call(self, said: StreamEvent) -> Sequence[PhoneEvent]:
        carrier = self._dialect.carrier
        match said.event:
            case "media":
                return self._hear(part(said.media, said.event, carrier))
            case "dtmf":
                return pressed(part(said.dtmf, said.event, carrier).digit)
            case "mark":
                return (MarkPlayed(part(said.mark, said.event, carrier).name),)
            case _:
                return ()

    def _hear(self, media: Media) -> Sequence[PhoneEvent]:
        dialect = self._dialect
        if (dialect.tracks and media.track != "inbound") or not media.payload:
            return ()
        if not self._order_is_sure:
            self._settle_order(media.payload)
        pcm = self._incoming.decode(media.payload)
        if dialect.ordered:
            return (AudioCame(pcm),)
        if media.chunk is None:
            raise PhoneWireError(
                f"{dialect.carrier} sent media without 'chunk', which tells its order."
            )
        return self._heard(self._order.add(media.chunk, pcm.samples))

    def _heard(self, in_order: Sequence[Any]) -> list[PhoneEvent]:
        return [AudioCame(Pcm(samples, self._incoming.rate)) for samples in in_order]

    def _settle_order(self, payload: bytes) -> None:
        """Both ways the same, as soon as it can be told."""
        if (order := order_of(payload)) is None:
            return
        self._order_is_sure = True
        self._incoming = replace(self._incoming, encoding=order)
        if self._outgoing.encoding == "big":
            self._outgoing = replace(self._outgoing, encoding=order)

    def _media(self, frame: bytes) -> str:
        return self._say("media", media={"payload": frame})

    def _say(self, event: str, **said: object) -> str:
        return write({"event": event, **self._stream, **said})


_LINEAR: Final = Spoken("little", (8_000, 16_000, 24_000), 100)

TWILIO: Final = Dialect(
    name="twilio",
    carrier="Twilio",
    events=decoder_of(TwilioEvent),
    formats={"audio/x-mulaw": Spoken("mulaw")},
    advice="It has only ever sent audio/x-mulaw at 8000 Hz: if it is Twilio, this server has to"
    " learn the new format.",
    stream_key="streamSid",
)
TELNYX: Final = Dialect(
    name="telnyx",
    carrier="Telnyx",
    events=decoder_of(TelnyxEvent),
    formats={
        "pcmu": Spoken("mulaw"),
        "audio/x-mulaw": Spoken("mulaw"),
        "pcma": Spoken("alaw"),
        "audio/x-alaw": Spoken("alaw"),
        "l16": Spoken("big", (8_000, 16_000)),
    },
    advice="Set stream_codec and stream_bidirectional_codec both to PCMU, PCMA or L16 where the"
    " stream is started.",
    outgoing="stream_bidirectional_codec",
    ordered=False,
    greetings=("connected", "error"),
)
EXOTEL: Final = Dialect(
    name="exotel",
    carrier="Exotel",
    events=decoder_of(StreamEvent),
    formats={
        # The documents name the same linear audio by four names, one of them that of its wrapping.
        **dict.fromkeys(("", "base64", "audio/x-raw", "raw/slin", "audio/l16"), _LINEAR),
        "audio/x-mulaw": Spoken("mulaw", frame_ms=200),  # in whole multiples of 320 bytes
    },
    advice="Let the applet stream linear 16-bit audio, and end its URL in ?sample-rate=8000, 16000"
    " or 24000.",
    stream_key="stream_sid",
    tracks=False,
)

TwilioCodec = partial(StreamCodec, TWILIO)
TelnyxCodec = partial(StreamCodec, TELNYX)
ExotelCodec = partial(StreamCodec, EXOTEL)
