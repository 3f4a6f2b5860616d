"""The carriers and exchanges whose audio is binary: Vonage, Genesys, FreeSWITCH, Asterisk.

Source: the documents that the codecs of the same names in ``voice.wire`` cite.
"""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from clients.phone_words import (
    CarrierError,
    Message,
    Samples,
    Told,
    at,
    linear,
    parsed,
    same,
    unlinear,
)
from voice.wire import g711

CALL = UUID("1b4e28ba-2fa1-11d2-883f-0016d3cca427")


class Vonage:
    """Linear audio, little-endian, in messages of 20 ms."""

    name = "vonage"
    frame_ms = 20
    returns_cleared = False

    def __init__(self, rate: int = 16_000, **headers: str) -> None:
        self.rate = rate
        self.headers = headers

    def hello(self) -> list[Message]:
        format_ = f"audio/l16;rate={self.rate}"
        told = {"uuid": str(CALL), "from": "15550100", **self.headers}
        return [json.dumps({"event": "websocket:connected", "content-type": format_, **told})]

    def media(self, samples: Samples) -> list[Message]:
        return [linear(samples)]

    def key(self, digit: str) -> list[Message]:
        return [json.dumps({"event": "websocket:dtmf", "digit": digit, "duration": 260})]

    def played(self, mark: str) -> list[Message]:
        return [json.dumps({"event": "websocket:notify", "payload": json.loads(mark)})]

    def cleared(self) -> list[Message]:
        return ['{"event": "websocket:cleared"}']

    def bye(self) -> list[Message]:
        return []

    def read(self, message: Message) -> Told:
        if isinstance(message, bytes):
            same(len(message), self.rate * self.frame_ms // 1000 * 2, "the length of audio")
            return Told(audio=unlinear(message))
        said = parsed(message, self.name)
        match at(said, "action"):
            case "notify":
                return Told(mark=json.dumps(at(said, "payload")))
            case "clear":
                return Told(clear=True)
            case other:
                raise CarrierError(f"Vonage knows no action {other!r}")


class Genesys:
    """Mu-law at 8 kHz. It sends no audio before it was told ``opened``, and closes by itself."""

    name = "genesys"
    rate = 8_000
    frame_ms = 20
    returns_cleared = False
    session = "e160e428-53e2-487c-977d-96989bf5c99d"

    def __init__(self, **inputs: str) -> None:
        self.inputs = inputs
        self._seq = 0
        self._server_seq = 0
        self._opened = False
        self._closing = False

    def hello(self) -> list[Message]:
        channels = (["external", "internal"], ["external"], ["internal"])
        media = [
            {"type": "audio", "format": "PCMU", "channels": each, "rate": 8000} for each in channels
        ]
        parameters = {
            "organizationId": "d7934305-0972-4844-938e-9060eef73d05",
            "conversationId": str(CALL),
            "participant": {"id": str(CALL), "ani": "tel:+13125550100", "dnis": "tel:+13175550104"},
            "media": media,
            "language": "en-US",
            "inputVariables": self.inputs,
        }
        return [self._say("open", parameters)]

    def media(self, samples: Samples) -> list[Message]:
        return [g711.encode(samples, "mulaw")] if self._opened and not self._closing else []

    def key(self, digit: str) -> list[Message]:
        return [self._say("dtmf", {"digit": digit})]

    def played(self, mark: str) -> list[Message]:  # noqa: ARG002
        return []

    def cleared(self) -> list[Message]:
        return [self._say("playback_completed", {})]

    def bye(self) -> list[Message]:
        self._closing = True
        return [self._say("close", {"reason": "end"})]

    def read(self, message: Message) -> Told:
        if isinstance(message, bytes):
            if not self._opened:
                raise CarrierError("audio came before opened")
            return Told(audio=g711.decode(message, "mulaw"))
        said = parsed(message, self.name)
        same(said.get("version"), "2", "version")
        same(said.get("id"), self.session, "id")
        same(said.get("seq"), self._server_seq + 1, "seq")
        if not isinstance(at(said, "parameters"), dict) or at(said, "clientseq") > self._seq:
            raise CarrierError(f"no message of AudioHook: {message[:200]}")
        self._server_seq += 1
        return self._understood(said)

    def _understood(self, said: dict[str, Any]) -> Told:
        match at(said, "type"):
            case "opened":
                (media,) = at(said, "parameters", "media")
                same(media["channels"], ["external"], "the channels")
                self._opened = True
                return Told(answers=[self._say("ping", {"rtt": "PT0.05S"})])
            case "event":
                kinds = [entity["type"] for entity in at(said, "parameters", "entities")]
                return Told(clear="barge_in" in kinds)
            case "disconnect":
                return Told(hang_up=True, answers=self.bye())
            case "pong" | "updated" | "closed":
                return Told()
            case other:
                raise CarrierError(f"AudioHook knows no {other!r} from a server")

    def _say(self, type_: str, parameters: dict[str, Any]) -> str:
        self._seq += 1
        return json.dumps(
            {
                "version": "2",
                "id": self.session,
                "type": type_,
                "seq": self._seq,
                "serverseq": self._server_seq,
                "position": "PT0.0S",
                "parameters": parameters,
            }
        )


class FreeSwitch:
    """mod_audio_stream: linear audio, little-endian, and a script that passes keys on."""

    name = "freeswitch"
    frame_ms = 20
    returns_cleared = False

    def __init__(self, rate: int = 8_000, metadata: bool = True) -> None:
        self.rate = rate
        self._metadata = metadata

    def hello(self) -> list[Message]:
        metadata = {"call": str(CALL), "sampleRate": self.rate, "from": "1000", "to": "2000"}
        return [json.dumps(metadata)] if self._metadata else []

    def media(self, samples: Samples) -> list[Message]:
        return [linear(samples)]

    def key(self, digit: str) -> list[Message]:
        return [json.dumps({"event": "dtmf", "digit": digit})]

    def played(self, mark: str) -> list[Message]:  # noqa: ARG002
        return []

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        return []

    def read(self, message: Message) -> Told:
        said = parsed(message, self.name)
        match at(said, "type"):
            case "streamAudio":
                same(at(said, "data", "audioDataType"), "raw", "audioDataType")
                same(at(said, "data", "sampleRate"), self.rate, "sampleRate")
                return Told(audio=unlinear(base64.b64decode(at(said, "data", "audioData"))))
            case "killAudio":
                return Told(clear=True)
            case "disconnect":
                return Told(hang_up=True)
            case other:
                raise CarrierError(f"nobody acts on {other!r}")


class Asterisk:
    """chan_websocket: any linear rate or G.711, JSON or plain text. A flush forgets the marks."""

    name = "asterisk"
    frame_ms = 20
    returns_cleared = False

    def __init__(self, format_: str = "ulaw", *, plain: bool = False) -> None:
        rates = {"ulaw": 8, "alaw": 8, "slin": 8, "slin16": 16, "slin24": 24, "slin48": 48}
        self.rate = rates[format_] * 1000
        self._format = format_
        self._plain = plain
        width = 1 if format_ in ("ulaw", "alaw") else 2
        self._frame_bytes = self.rate * self.frame_ms // 1000 * width

    def hello(self) -> list[Message]:
        return [
            self._say(
                "MEDIA_START",
                connection_id="media1",
                channel="WebSocket/media1/0x7f0c",
                channel_id=str(CALL),
                format=self._format,
                optimal_frame_size=self._frame_bytes,
                ptime=self.frame_ms,
            )
        ]

    def media(self, samples: Samples) -> list[Message]:
        if self._format == "ulaw" or self._format == "alaw":
            return [g711.encode(samples, "mulaw" if self._format == "ulaw" else "alaw")]
        return [linear(samples)]

    def key(self, digit: str) -> list[Message]:
        return [self._say("DTMF_END", digit=digit, channel_id=str(CALL))]

    def played(self, mark: str) -> list[Message]:
        if self._plain:
            return [f"MEDIA_MARK_PROCESSED {mark}"]
        return [self._say("MEDIA_MARK_PROCESSED", channel_id=str(CALL), correlation_id=mark)]

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        return []

    def read(self, message: Message) -> Told:
        if isinstance(message, bytes):
            return Told(audio=self._queued(message))
        if len(message.encode()) >= 128:
            raise CarrierError("Asterisk reads no command of 128 bytes or more")
        command, _, mark = message.partition(" ")
        if not self._plain:
            said = parsed(message, self.name)
            command, mark = at(said, "command"), said.get("correlation_id", "")
        match command:
            case "MARK_MEDIA":
                return Told(mark=mark)
            case "FLUSH_MEDIA":
                return Told(clear=True)
            case "HANGUP":
                return Told(hang_up=True)
            case other:
                raise CarrierError(f"Asterisk knows no command {other!r}")

    def _queued(self, audio: bytes) -> Samples:
        """What does not fill a frame is dropped there, and is a mistake here."""
        if len(audio) % self._frame_bytes or len(audio) > 32_768:
            raise CarrierError(f"{len(audio)} bytes are no whole frames of {self._frame_bytes}")
        if self._format == "ulaw" or self._format == "alaw":
            return g711.decode(audio, "mulaw" if self._format == "ulaw" else "alaw")
        return unlinear(audio)

    def _say(self, event: str, **parts: Any) -> str:
        if self._plain:
            return " ".join([event, *(f"{name}:{value}" for name, value in parts.items())])
        return json.dumps({"event": event, **parts})


class AudioSocket:
    """Linear audio over TCP, at 8 kHz or what the kind of frame says. It queues nothing."""

    name = "audiosocket"
    frame_ms = 20
    returns_cleared = False

    def __init__(self, rate: int = 8_000) -> None:
        self.rate = rate
        self._kind = {8_000: 0x10, 16_000: 0x12, 24_000: 0x13, 48_000: 0x16}[rate]
        self._unread = b""

    def hello(self) -> list[Message]:
        return [_frame(0x01, CALL.bytes)]

    def media(self, samples: Samples) -> list[Message]:
        return [_frame(self._kind, linear(samples))]

    def key(self, digit: str) -> list[Message]:
        return [_frame(0x03, digit.encode())]

    def played(self, mark: str) -> list[Message]:  # noqa: ARG002
        return []

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        return [_frame(0x00, b"")]

    def read(self, message: Message) -> Told:
        """Any piece of the stream."""
        if isinstance(message, str):
            raise CarrierError("AudioSocket is bytes")
        self._unread += message
        audio = b""
        while len(self._unread) >= 3:
            end = 3 + int.from_bytes(self._unread[1:3], "big")
            if len(self._unread) < end:
                break
            kind, payload = self._unread[0], self._unread[3:end]
            self._unread = self._unread[end:]
            if kind == 0x00:
                return Told(audio=unlinear(audio), hang_up=True)
            same(kind, self._kind, "the kind of a frame")
            audio += payload
        return Told(audio=unlinear(audio))


def _frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind,)) + len(payload).to_bytes(2, "big") + payload
