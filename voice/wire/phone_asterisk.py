"""Asterisk chan_websocket: binary audio in the channel's codec beside commands and events.

Asterisk dials us with the subprotocol ``media``. It sends ``MEDIA_START``, then audio, one message
for each frame of the channel (so their length follows the other side's ptime), ``DTMF_END``,
``MEDIA_XOFF`` and ``MEDIA_XON``, ``MEDIA_MARK_PROCESSED``, ``QUEUE_DRAINED``, ``STATUS`` and
``ERROR``. It keeps time by itself and queues about 20 seconds; audio that does not fill a frame of
``optimal_frame_size`` is dropped, so only whole frames are sent. A mark that was flushed is never
told of. Events and commands are JSON (``control_message_format = json``, since 20.18 and 22.8) or
plain text; each leg is answered in the words in which it began. A command may have 128 bytes.

Source: Asterisk Documentation, "Channel Drivers: WebSocket", and channels/chan_websocket.c of
Asterisk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from engines.audio import Pcm
from voice.wire.phone import (
    AudioCame,
    FlowChanged,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneEvent,
    PhoneWireError,
)
from voice.wire.phone_audio import Coding, Encoding, Frames
from voice.wire.phone_json import decoder_of, out_of_turn, part, pressed, read, texts, write

WIRE = "Asterisk"
MOST_COMMAND_BYTES: Final = 128
MOST_FRAME_BYTES: Final = 16_384

_FORMATS: Final[dict[str, tuple[Encoding, int]]] = {
    "ulaw": ("mulaw", 8_000),
    "alaw": ("alaw", 8_000),
    "slin": ("little", 8_000),
    "slin12": ("little", 12_000),
    "slin16": ("little", 16_000),
    "slin24": ("little", 24_000),
    "slin32": ("little", 32_000),
    "slin44": ("little", 44_100),
    "slin48": ("little", 48_000),
}


class AsteriskEvent(Struct):
    event: str
    connection_id: str = ""
    channel: str = ""
    channel_id: str = ""
    format: str | None = None
    optimal_frame_size: int = 0
    channel_variables: dict[str, Any] | None = None
    correlation_id: str = ""
    digit: str | None = None


class Command(Struct, omit_defaults=True):
    command: str
    correlation_id: str = ""


_events = decoder_of(AsteriskEvent)


class AsteriskCodec:
    """One leg at Asterisk."""

    name = "asterisk"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 20
        self._started = False
        self._plain = False
        self._coding = Coding("mulaw", self.rate)
        self._frames = Frames(1, b"")

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if isinstance(message, bytes):
            if not self._started:
                raise out_of_turn("audio", WIRE, "MEDIA_START")
            return (AudioCame(self._coding.decode(message)),) if message else ()
        plain = not message.lstrip().startswith("{")
        said = _plain_event(message) if plain else read(_events, message, WIRE)
        if said.event == "MEDIA_START":
            self._plain = plain
            return self._start(said)
        if not self._started:
            raise out_of_turn(said.event, WIRE, "MEDIA_START")
        return _within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        return self._frames.cut(self._coding.encode(pcm)) if self._started else ()

    def mark(self, name: str) -> Sequence[Message]:
        """Nothing for a name so long that Asterisk would not read the command."""
        command = self._command("MARK_MEDIA", name)
        if not self._started or len(command.encode("utf-8", "replace")) >= MOST_COMMAND_BYTES:
            return ()
        return [*self._frames.finish(), command]

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
        return (self._command("FLUSH_MEDIA"),) if self._started else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return (self._command("HANGUP"),) if self._started else ()

    def _command(self, command: str, name: str = "") -> str:
        if self._plain:
            return f"{command} {name}".rstrip()
        return write(Command(command, name))

    def _start(self, start: AsteriskEvent) -> Sequence[PhoneEvent]:
        if self._started:
            raise out_of_turn("MEDIA_START", WIRE, "audio")
        spoken = part(start.format, start.event, WIRE)
        if spoken not in _FORMATS:
            raise PhoneWireError(
                f"Asterisk announces the format '{spoken[:20]}', which this server does not play."
                " Name the codec where the channel is dialled:"
                " Dial(WebSocket/NAME/c(slin16)), or ulaw, alaw, slin."
            )
        encoding, self.rate = _FORMATS[spoken]
        self._coding = Coding(encoding, self.rate)
        size = start.optimal_frame_size
        if not 0 < size <= MOST_FRAME_BYTES or size % self._coding.bytes_a_sample:
            raise PhoneWireError(
                f"Asterisk announces frames of {size} bytes of {spoken}. Dial without the option"
                " 'p' (passthrough), and with Asterisk 20.16, 22.6 or later."
            )
        self.frame_ms = max(1, round(1000 * size / (self.rate * self._coding.bytes_a_sample)))
        self._frames = Frames(size, self._coding.silence)
        self._started = True
        parameters = texts(start.channel_variables)
        call = start.channel_id or start.connection_id
        caller, called = parameters.get("from", ""), parameters.get("to", "")
        return (LegStarted(call, self.rate, caller, called, parameters),)


def _within_call(said: AsteriskEvent) -> Sequence[PhoneEvent]:
    match said.event:
        case "DTMF_END":
            return pressed(part(said.digit, said.event, WIRE))
        case "MEDIA_MARK_PROCESSED":
            return (MarkPlayed(said.correlation_id),)
        case "MEDIA_XOFF":
            return (FlowChanged(open=False),)
        case "MEDIA_XON":
            return (FlowChanged(open=True),)
        case _:
            return ()


def _plain_event(message: str) -> AsteriskEvent:
    """``NAME key:value key:value``; of a mark, ``NAME id``. Raises PhoneWireError."""
    event, _, rest = message.strip().partition(" ")
    if event == "MEDIA_MARK_PROCESSED":
        return AsteriskEvent(event, correlation_id=rest)
    said = dict(word.split(":", 1) for word in rest.split() if ":" in word)
    size = said.get("optimal_frame_size", "0")
    return AsteriskEvent(
        event,
        connection_id=said.get("connection_id", ""),
        channel=said.get("channel", ""),
        channel_id=said.get("channel_id", ""),
        format=said.get("format"),
        optimal_frame_size=int(size) if size.isdecimal() and len(size) < 8 else 0,
        digit=said.get("digit"),
    )
