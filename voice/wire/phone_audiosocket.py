"""Asterisk AudioSocket: frames of one byte of kind, two of length, and a payload, over TCP.

Asterisk dials us, sends the call's UUID, then audio and keys, each as it comes; at the end 0x00 or
nothing. It takes audio of the same kinds, and 0x00 to hang up. The kind of audio tells its rate,
which nothing says before: so the leg starts with the first frame after the UUID. Nothing is
queued on the other side and nothing can be cleared: audio is kept in time here. Keys cannot be
sent: Asterisk closes the connection at any other kind.

Source: Asterisk Documentation, "Channel Drivers: AudioSocket", and res/res_audiosocket.c of
Asterisk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from engines.audio import Pcm
from voice.wire.phone import (
    AudioCame,
    LegEnded,
    LegStarted,
    Message,
    PhoneEvent,
    PhoneWireError,
)
from voice.wire.phone_audio import Coding
from voice.wire.phone_json import pressed

HANG_UP: Final = 0x00
CALL: Final = 0x01
KEY: Final = 0x03
ERROR: Final = 0xFF
RATES: Final = {
    0x10: 8_000,
    0x11: 12_000,
    0x12: 16_000,
    0x13: 24_000,
    0x14: 32_000,
    0x15: 44_100,
    0x16: 48_000,
    0x17: 96_000,
    0x18: 192_000,
}
_KINDS: Final = {rate: kind for kind, rate in RATES.items()}
_HEADER: Final = 3
_CALL_BYTES: Final = 16


class AudioSocketCodec:
    """One leg over AudioSocket. ``take`` is given any pieces of the stream of bytes; ``frames`` is
    how many were whole."""

    name = "audiosocket"
    marks = False
    paced = True

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 20
        self.frames = 0
        self._unread = b""
        self._call = ""
        self._started = False
        self._ended = False

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if isinstance(message, str):
            raise PhoneWireError("AudioSocket is a stream of bytes, and text came.")
        if self._ended:
            return ()
        self._unread += message
        events: list[PhoneEvent] = []
        for kind, payload in self._frames():
            self.frames += 1
            events += self._read(kind, payload)
            if events and isinstance(events[-1], LegEnded):
                break
        return events

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._talking:
            return ()
        data = Coding("little", self.rate).encode(pcm)
        size = self.rate * self.frame_ms // 1000 * 2
        kind = _KINDS[self.rate]
        return [_frame(kind, data[at : at + size]) for at in range(0, len(data), size)]

    def mark(self, name: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def clear(self) -> Sequence[Message]:
        return ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        """Also before the leg has started: Asterisk takes it at any time."""
        return () if self._ended else (_frame(HANG_UP, b""),)

    @property
    def _talking(self) -> bool:
        return self._started and not self._ended

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames that are whole; the rest stays unread. A frame has at most 64 KB."""
        data, at = self._unread, 0
        while len(data) - at >= _HEADER:
            end = at + _HEADER + int.from_bytes(data[at + 1 : at + _HEADER], "big")
            _check(data[at])
            if end > len(data):
                break
            yield data[at], data[at + _HEADER : end]
            at = end
        self._unread = data[at:]

    def _read(self, kind: int, payload: bytes) -> Sequence[PhoneEvent]:
        if kind in (HANG_UP, ERROR):
            self._ended = True
            said = f"Asterisk reports the error {payload[:8].hex() or 'without a code'}"
            return (LegEnded(said if kind == ERROR else "Asterisk hung up"),)
        if kind == CALL:
            return self._name(payload)
        if not self._call:
            raise PhoneWireError(
                f"AudioSocket begins with the call's UUID, and a frame of kind 0x{kind:02x} came."
                " Only Asterisk's AudioSocket() and Dial(AudioSocket/...) may call this port."
            )
        rate = RATES.get(kind, self.rate)
        started = () if self._started else self._start(rate)
        if kind == KEY:
            return (*started, *pressed(payload.decode("ascii", "replace")))
        audio = (AudioCame(Coding("little", rate).decode(payload)),) if payload else ()
        return (*started, *audio)

    def _name(self, payload: bytes) -> Sequence[PhoneEvent]:
        if self._call or len(payload) != _CALL_BYTES:
            raise PhoneWireError(
                f"AudioSocket names the call once, in {_CALL_BYTES} bytes; {len(payload)} came."
            )
        self._call = str(UUID(bytes=payload))
        return ()

    def _start(self, rate: int) -> Sequence[PhoneEvent]:
        self.rate = rate
        self._started = True
        return (LegStarted(self._call, rate),)


def _check(kind: int) -> None:
    if kind not in RATES and kind not in (HANG_UP, CALL, KEY, ERROR):
        raise PhoneWireError(
            f"AudioSocket knows no frames of kind 0x{kind:02x}: this is another protocol, or bytes"
            " were lost."
        )


def _frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind,)) + len(payload).to_bytes(2, "big") + payload
