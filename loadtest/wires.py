"""How a caller's audio goes over a line, and what comes back: one small port, a wire each.

A wire is pure: it makes bytes and reads bytes. Callers know no more of it than this, so a phone
wire (a carrier's media stream, AudioSocket) is one more class here.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, Protocol

from loadtest.websocket import text_frame

FRAME_MS: Final = 20
PATH: Final = "/v1/realtime"


class Ear(Protocol):
    """What a wire tells of. ``now`` is when it arrived, in seconds of the caller's clock; items
    and replies are known by whatever the wire calls them."""

    def ready(self, now: float) -> None:
        """The call is set up."""

    def audio(self, now: float, reply: bytes, item: bytes, encoded: bytes) -> None:
        """More of a reply, still as the wire has it: ``Wire.samples_in``, ``Wire.decode``."""

    def words(self, now: float, reply: bytes, text: str) -> None:
        """More of what a reply says."""

    def speech_started(self, now: float, item: bytes) -> None:
        """The server hears the caller: a client drops what it has not played."""

    def cleared(self, now: float) -> None:
        """The server takes back what was not played."""

    def committed(self, now: float, item: bytes) -> None:
        """The server takes the caller's turn for over."""

    def transcript(self, now: float, item: bytes, text: str) -> None:
        """What the server heard."""

    def reply_started(self, now: float, reply: bytes) -> None:
        """A reply is on its way."""

    def reply_done(self, now: float, reply: bytes, status: str) -> None:
        """Nothing more comes of it: completed, cancelled, incomplete or failed."""

    def mark(self, now: float, name: bytes) -> None:
        """The server wants to know when all that came so far has been played."""

    def failed(self, now: float, message: str) -> None:
        """The server complains."""


class Wire(Protocol):
    """One way to call. All messages are made as they go over the line, framing included."""

    @property
    def rate(self) -> int:
        """Samples a second of both directions."""

    @property
    def path(self) -> str:
        """Where a server has its door for it."""

    @property
    def ready_at_once(self) -> bool:
        """Whether a call is set up as soon as its line is open; else ``Ear.ready`` is told."""

    def leg(self) -> Wire:
        """The wire of one call, which may remember what it has read of it."""

    def hello(self) -> bytes:
        """What is said first, once the line is open."""

    def frame(self, pcm: bytes) -> bytes:
        """20 ms of the caller's audio, 16-bit mono at ``rate``."""

    def take(self, message: bytes, now: float, ear: Ear) -> None:
        """Read one message of the server's."""

    def samples_in(self, encoded: bytes) -> int:
        """How much audio that is, without decoding it."""

    def decode(self, encoded: bytes) -> bytes:
        """The audio itself, 16-bit mono at ``rate``."""

    def cut(self, item: bytes, heard_ms: int) -> bytes | None:
        """Tell how much of a reply was heard before it fell silent; None where a wire cannot."""

    def played(self, mark: bytes) -> bytes | None:
        """Tell that all before ``mark`` has been played; None where a wire knows no marks."""


class RealtimeWire:
    """The OpenAI Realtime protocol: JSON in text messages, audio in base64, 24 kHz.

    Only the beginning of a message of audio is looked at: to read it as JSON would cost more
    than all the rest of a caller.
    """

    rate: Final = 24_000
    path: Final = PATH
    ready_at_once: Final = False

    def __init__(self, silence_ms: int | None = None, max_tokens: int | None = None) -> None:
        heard: dict[str, Any] = {"transcription": {"model": "whisper-1"}}
        if silence_ms is not None:
            heard["turn_detection"] = {"type": "server_vad", "silence_duration_ms": silence_ms}
        session: dict[str, Any] = {"type": "realtime", "audio": {"input": heard}}
        if max_tokens is not None:
            session["max_output_tokens"] = max_tokens
        self._hello = _message({"type": "session.update", "session": session})

    def leg(self) -> RealtimeWire:
        return self

    def hello(self) -> bytes:
        return self._hello

    def frame(self, pcm: bytes) -> bytes:
        audio = base64.b64encode(pcm)
        return text_frame(b'{"type":"input_audio_buffer.append","audio":"' + audio + b'"}')

    def take(self, message: bytes, now: float, ear: Ear) -> None:
        if _AUDIO in message[:_BEGINNING]:
            ear.audio(
                now,
                _value(message, b'"response_id":"'),
                _value(message, b'"item_id":"'),
                _value(message, b'"delta":"'),
            )
        elif told := _TOLD.get(_value(message, b'"type":"')):
            told(json.loads(message), now, ear)

    def samples_in(self, encoded: bytes) -> int:
        padding = 2 if encoded.endswith(b"==") else 1 if encoded.endswith(b"=") else 0
        return (len(encoded) * 3 // 4 - padding) // 2

    def decode(self, encoded: bytes) -> bytes:
        return base64.b64decode(encoded)

    def cut(self, item: bytes, heard_ms: int) -> bytes | None:
        return _message(
            {
                "type": "conversation.item.truncate",
                "item_id": item.decode(),
                "content_index": 0,
                "audio_end_ms": heard_ms,
            }
        )

    def played(self, mark: bytes) -> bytes | None:  # noqa: ARG002
        return None


def _message(event: dict[str, Any]) -> bytes:
    return text_frame(json.dumps(event, separators=(",", ":")).encode())


def _value(message: bytes, key: bytes) -> bytes:
    """The text behind ``key``; nothing where it is not there. Of ids and base64, which hold
    neither quotes nor backslashes."""
    begin = message.find(key)
    if begin < 0:
        return b""
    begin += len(key)
    end = message.find(b'"', begin)
    return message[begin:end] if end >= 0 else b""


def _created(event: dict[str, Any], now: float, ear: Ear) -> None:
    ear.reply_started(now, event["response"]["id"].encode())


def _done(event: dict[str, Any], now: float, ear: Ear) -> None:
    ear.reply_done(now, event["response"]["id"].encode(), event["response"].get("status", ""))


def _words(event: dict[str, Any], now: float, ear: Ear) -> None:
    ear.words(now, event["response_id"].encode(), event.get("delta", ""))


def _transcript(event: dict[str, Any], now: float, ear: Ear) -> None:
    ear.transcript(now, event["item_id"].encode(), event.get("transcript", ""))


def _error(event: dict[str, Any], now: float, ear: Ear) -> None:
    error = event.get("error") or {}
    ear.failed(now, f"{error.get('code') or error.get('type')}: {error.get('message', '')}")


_AUDIO: Final = b'"type":"response.output_audio.delta"'
_BEGINNING: Final = 200
_TRANSCRIBED: Final = b"conversation.item.input_audio_transcription."
_TOLD: Final = {
    b"session.updated": lambda _event, now, ear: ear.ready(now),
    b"input_audio_buffer.speech_started": (
        lambda event, now, ear: ear.speech_started(now, event["item_id"].encode())
    ),
    b"input_audio_buffer.committed": (
        lambda event, now, ear: ear.committed(now, event["item_id"].encode())
    ),
    _TRANSCRIBED + b"completed": _transcript,
    b"response.created": _created,
    b"response.output_audio_transcript.delta": _words,
    b"response.done": _done,
    b"error": _error,
}
WIRES: Final = ("realtime", "twilio")
"""What ``--wire`` may be."""
