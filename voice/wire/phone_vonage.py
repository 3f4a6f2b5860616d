"""Vonage Voice API WebSockets: binary linear 16-bit audio, little-endian, beside JSON.

Vonage sends ``websocket:connected`` with the format and the endpoint's ``headers``, then audio in
20 ms messages, ``websocket:dtmf``, ``websocket:cleared`` and ``websocket:notify``; it takes audio
in messages of 20 ms, ``clear`` and ``notify``, whose payload comes back when all before it has
been played. It queues about 60 seconds. The call's name and numbers come only as headers:
``uuid``, ``from`` and ``to`` are taken for them. The call ends when the socket closes, if the NCCO
has nothing after ``connect``.

Source: Vonage Developer, "WebSockets in the Vonage Voice API" and "NCCO reference".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from engines.audio import Pcm
from voice.wire.phone import (
    AudioCame,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneEvent,
    PhoneWireError,
)
from voice.wire.phone_audio import Coding, Frames
from voice.wire.phone_json import decoder_of, out_of_turn, part, pressed, read, texts, write

WIRE = "Vonage"

_FORMAT = re.compile(r"audio/l16;\s*rate=(8000|16000|24000)", re.IGNORECASE)
_OURS: Final = ("event", "content-type")


class Notice(Struct):
    name: str | None = None


class VonageEvent(Struct):
    event: str
    content_type: str | None = field(name="content-type", default=None)
    digit: str | None = None
    payload: Notice | None = None


class Clear(Struct, tag_field="action", tag="clear"):
    pass


class Notify(Struct, tag_field="action", tag="notify"):
    payload: Notice


_events = decoder_of(VonageEvent)
_objects = decoder_of(dict[str, Any])


class VonageCodec:
    """One leg at Vonage."""

    name = "vonage"
    marks = True
    paced = False

    def __init__(self) -> None:
        self.rate = 16_000
        self.frame_ms = 20
        self._started = False
        self._coding = Coding("little", self.rate)
        self._frames = Frames(1, b"")

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if isinstance(message, bytes):
            if not self._started:
                raise out_of_turn("audio", WIRE, "websocket:connected")
            return (AudioCame(self._coding.decode(message)),) if message else ()
        said = read(_events, message, WIRE)
        if said.event == "websocket:connected":
            return self._start(part(said.content_type, said.event, WIRE), message)
        if not self._started:
            raise out_of_turn(said.event, WIRE, "websocket:connected")
        if said.event == "websocket:dtmf":
            return pressed(part(said.digit, said.event, WIRE))
        if said.event == "websocket:notify" and said.payload and said.payload.name is not None:
            return (MarkPlayed(said.payload.name),)
        return ()

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        return self._frames.cut(self._coding.encode(pcm)) if self._started else ()

    def mark(self, name: str) -> Sequence[Message]:
        if not self._started:
            return ()
        return [*self._frames.finish(), write(Notify(Notice(name)))]

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
        return (write(Clear()),) if self._started else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return ()

    def _start(self, content_type: str, message: Message) -> Sequence[PhoneEvent]:
        if self._started:
            raise out_of_turn("websocket:connected", WIRE, "audio")
        match = _FORMAT.fullmatch(content_type.strip())
        if match is None:
            raise PhoneWireError(
                f"Vonage announces '{content_type[:40]}', which this server does not play. Set"
                ' "content-type": "audio/l16;rate=16000" (or 8000, or 24000) on the websocket'
                " endpoint of the NCCO."
            )
        self.rate = int(match[1])
        self._coding = Coding("little", self.rate)
        self._frames = Frames(self._coding.bytes_of(self.frame_ms), self._coding.silence)
        self._started = True
        headers = texts(read(_objects, message, WIRE))
        parameters = {name: text for name, text in headers.items() if name not in _OURS}
        call, caller, called = (parameters.get(name, "") for name in ("uuid", "from", "to"))
        return (LegStarted(call, self.rate, caller, called, parameters),)
