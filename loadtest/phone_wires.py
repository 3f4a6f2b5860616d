"""Twilio's media stream as a load test's callers speak it.

It tells nothing of replies but their sound. What this server adds to it is the names of its marks:
``e12-4-end`` stands behind a reply's last sample. Until then, or until a clear, audio is one reply.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np

from loadtest.websocket import text_frame
from loadtest.wires import Ear
from voice.wire import g711

END: Final = b"-end"
_MEDIA: Final = b'"event":"media"'
_MARK: Final = b'"event":"mark"'
_CLEAR: Final = b'"event":"clear"'
_BEGINNING: Final = 40
_STREAM: Final = "MZ00000000000000000000000000000001"


class TwilioWire:
    """Each caller speaks a ``leg`` of it. Frames are made once for all, so they are not
    numbered."""

    rate: Final = g711.RATE
    ready_at_once: Final = True
    path: Final = "/phone/twilio"

    def __init__(self) -> None:
        self._replies = 0
        self._reply = b""

    def leg(self) -> TwilioWire:
        return TwilioWire()

    def hello(self) -> bytes:
        start = {
            "streamSid": _STREAM,
            "accountSid": "AC0",
            "callSid": "CA0",
            "tracks": ["inbound"],
            "customParameters": {},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": g711.RATE, "channels": 1},
        }
        connected = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
        return _message(connected) + _message(
            {"event": "start", "sequenceNumber": "1", "start": start, "streamSid": _STREAM}
        )

    def frame(self, pcm: bytes) -> bytes:
        payload = base64.b64encode(g711.encode(np.frombuffer(pcm, "<i2"), "mulaw")).decode()
        media = {"track": "inbound", "chunk": "1", "timestamp": "0", "payload": payload}
        return _message({"event": "media", "media": media, "streamSid": _STREAM})

    def take(self, message: bytes, now: float, ear: Ear) -> None:
        event = message[:_BEGINNING]
        if _MEDIA in event:
            reply = self._reply or self._begin(now, ear)
            ear.audio(now, reply, reply, _value(message, b'"payload":"'))
        elif _MARK in event:
            name = _value(message, b'"name":"')
            ear.mark(now, name)
            if name.endswith(END):
                self._finish(now, ear, "completed")
        elif _CLEAR in event:
            ear.cleared(now)
            self._finish(now, ear, "cancelled")

    def samples_in(self, encoded: bytes) -> int:
        padding = 2 if encoded.endswith(b"==") else 1 if encoded.endswith(b"=") else 0
        return len(encoded) * 3 // 4 - padding

    def decode(self, encoded: bytes) -> bytes:
        return g711.decode(base64.b64decode(encoded), "mulaw").astype("<i2").tobytes()

    def cut(self, item: bytes, heard_ms: int) -> bytes | None:  # noqa: ARG002
        return None

    def played(self, mark: bytes) -> bytes | None:
        return _message({"event": "mark", "mark": {"name": mark.decode()}, "streamSid": _STREAM})

    def _begin(self, now: float, ear: Ear) -> bytes:
        self._replies += 1
        self._reply = b"%d" % self._replies
        ear.reply_started(now, self._reply)
        return self._reply

    def _finish(self, now: float, ear: Ear, status: str) -> None:
        if self._reply:
            ear.reply_done(now, self._reply, status)
            self._reply = b""


def _message(event: dict[str, Any]) -> bytes:
    return text_frame(json.dumps(event, separators=(",", ":")).encode())


def _value(message: bytes, key: bytes) -> bytes:
    """The text behind ``key``, which holds neither quotes nor backslashes."""
    _, _, rest = message.partition(key)
    return rest.partition(b'"')[0]
