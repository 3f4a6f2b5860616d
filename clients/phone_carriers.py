"""The carriers whose every message is JSON: Twilio, Telnyx, Plivo, Exotel.

Source: the documents that the codecs of the same names in ``voice.wire`` cite.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

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


class Twilio:
    """Mu-law at 8 kHz; a clear returns the marks that wait."""

    name = "twilio"
    rate = 8_000
    frame_ms = 20
    returns_cleared = True
    stream = "MZ18ad3ab5a668481ce02b83e7395059f0"

    def __init__(self, **parameters: str) -> None:
        self.parameters = parameters
        self._sequence = 0
        self._chunk = 0

    def hello(self) -> list[Message]:
        start = {
            "accountSid": "AC00000000000000000000000000000001",
            "streamSid": self.stream,
            "callSid": "CA00000000000000000000000000000001",
            "tracks": ["inbound"],
            "customParameters": self.parameters,
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        }
        connected = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
        return [json.dumps(connected), self._say("start", start=start)]

    def media(self, samples: Samples) -> list[Message]:
        self._chunk += 1
        media = {
            "track": "inbound",
            "chunk": str(self._chunk),
            "timestamp": str(self._chunk * self.frame_ms),
            "payload": _b64(g711.encode(samples, "mulaw")),
        }
        return [self._say("media", media=media)]

    def key(self, digit: str) -> list[Message]:
        return [self._say("dtmf", dtmf={"track": "inbound_track", "digit": digit})]

    def played(self, mark: str) -> list[Message]:
        return [self._say("mark", mark={"name": mark})]

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        return [self._say("stop", stop={"accountSid": "AC", "callSid": "CA"})]

    def read(self, message: Message) -> Told:
        said = parsed(message, self.name)
        same(said.get("streamSid"), self.stream, "streamSid")
        match at(said, "event"):
            case "media":
                return Told(audio=g711.decode(_unb64(at(said, "media", "payload")), "mulaw"))
            case "mark":
                return Told(mark=str(at(said, "mark", "name")))
            case "clear":
                return Told(clear=True)
            case other:
                raise CarrierError(f"Twilio knows no event {other!r} (its error 31924)")

    def _say(self, event: str, **parts: Any) -> str:
        self._sequence += 1
        numbered = {"event": event, "sequenceNumber": str(self._sequence), **parts}
        return json.dumps({**numbered, "streamSid": self.stream})


class Telnyx:
    """PCMU or PCMA at 8 kHz, or L16 at 16 kHz, big-endian; a clear returns the marks that wait."""

    name = "telnyx"
    frame_ms = 20
    returns_cleared = True
    stream = "32DE0DEA-53CB-4B21-89A4-9E1819C043BC"

    def __init__(self, encoding: str = "PCMU", **parameters: str) -> None:
        self.rate = 16_000 if encoding == "L16" else 8_000
        self.parameters = parameters
        self._encoding = encoding
        self._sequence = 0
        self._chunk = 0

    def hello(self) -> list[Message]:
        start = {
            "user_id": "3E6F995F-85F7-4705-9741-53B116D28237",
            "call_control_id": "v2:T02llQxIyaRkhfRKxgAP8nY511EhFLizdvdUKJiSw8d6A9BborherQ",
            "call_session_id": "ff55a038-6f5d-11ef-9692-02420aeffb1f",
            "from": "+13122010094",
            "to": "+13122123456",
            "custom_parameters": self.parameters,
            "media_format": {"encoding": self._encoding, "sample_rate": self.rate, "channels": 1},
        }
        return ['{"event": "connected", "version": "1.0.0"}', self._say("start", start=start)]

    def media(self, samples: Samples) -> list[Message]:
        self._chunk += 1
        media = {
            "track": "inbound",
            "chunk": str(self._chunk),
            "timestamp": str(self._chunk * self.frame_ms),
            "payload": _b64(self._encode(samples)),
        }
        return [self._say("media", media=media)]

    def key(self, digit: str) -> list[Message]:
        return [self._say("dtmf", dtmf={"digit": digit}, occurred_at="2025-06-05T08:54:19Z")]

    def played(self, mark: str) -> list[Message]:
        return [self._say("mark", mark={"name": mark})]

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        return [self._say("stop", stop={"call_control_id": "v2:T02"})]

    def read(self, message: Message) -> Told:
        said = parsed(message, self.name)
        match at(said, "event"):
            case "media":
                samples = self._decode(_unb64(at(said, "media", "payload")))
                if not 0.02 <= len(samples) / self.rate <= 30:
                    raise CarrierError(f"Telnyx takes 20 ms to 30 s, not {len(samples)} samples")
                return Told(audio=samples)
            case "mark":
                return Told(mark=str(at(said, "mark", "name")))
            case "clear":
                return Told(clear=True)
            case other:
                raise CarrierError(f"Telnyx knows no event {other!r}")

    def _encode(self, samples: Samples) -> bytes:
        if self._encoding == "L16":
            return linear(samples, ">")
        return g711.encode(samples, "mulaw" if self._encoding == "PCMU" else "alaw")

    def _decode(self, data: bytes) -> Samples:
        if self._encoding == "L16":
            return unlinear(data, ">")
        return g711.decode(data, "mulaw" if self._encoding == "PCMU" else "alaw")

    def _say(self, event: str, **parts: Any) -> str:
        self._sequence += 1
        numbered = {"event": event, "sequence_number": str(self._sequence), **parts}
        return json.dumps({**numbered, "stream_id": self.stream})


class Plivo:
    """Mu-law at 8 kHz, or L16 at 8 or 16 kHz, little-endian; a clear forgets the marks."""

    name = "plivo"
    frame_ms = 20
    returns_cleared = False
    stream = "87654321-4321-4321-4321-cba987654321"

    def __init__(self, content_type: str = "audio/x-mulaw", rate: int = 8_000) -> None:
        self.rate = rate
        self._content_type = content_type
        self._sequence = 0
        self._chunk = 0

    def hello(self) -> list[Message]:
        start = {
            "callId": "12345678-1234-1234-1234-123456789abc",
            "streamId": self.stream,
            "accountId": "MAXXXXXXXXXXXXXXXXXX",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": self._content_type, "sampleRate": self.rate},
        }
        return [self._say("start", start=start, extra_headers="from=+15550100;to=+15550199")]

    def media(self, samples: Samples) -> list[Message]:
        self._chunk += 1
        media = {
            "track": "inbound",
            "timestamp": str(1705312200000 + self._chunk * self.frame_ms),
            "chunk": self._chunk,
            "payload": _b64(self._encode(samples)),
        }
        return [self._say("media", streamId=self.stream, media=media)]

    def key(self, digit: str) -> list[Message]:
        dtmf = {"track": "inbound", "digit": digit, "timestamp": "1705312203000"}
        return [self._say("dtmf", streamId=self.stream, dtmf=dtmf)]

    def played(self, mark: str) -> list[Message]:
        return [self._say("playedStream", streamId=self.stream, name=mark)]

    def cleared(self) -> list[Message]:
        return [self._say("clearedAudio", streamId=self.stream)]

    def bye(self) -> list[Message]:
        return []

    def read(self, message: Message) -> Told:
        said = parsed(message, self.name)
        match at(said, "event"):
            case "playAudio":
                return self._audio(at(said, "media"))
            case "checkpoint":
                same(said.get("streamId"), self.stream, "streamId")
                return Told(mark=str(at(said, "name")))
            case "clearAudio":
                same(said.get("streamId"), self.stream, "streamId")
                return Told(clear=True)
            case "sendDTMF":
                return Told(keys=str(at(said, "dtmf")))
            case other:
                raise CarrierError(f"Plivo knows no event {other!r}")

    def _audio(self, media: dict[str, Any]) -> Told:
        same(media.get("contentType"), self._content_type, "contentType")
        same(media.get("sampleRate"), self.rate, "sampleRate")
        data = _unb64(at(media, "payload"))
        mulaw = self._content_type == "audio/x-mulaw"
        return Told(audio=g711.decode(data, "mulaw") if mulaw else unlinear(data))

    def _encode(self, samples: Samples) -> bytes:
        mulaw = self._content_type == "audio/x-mulaw"
        return g711.encode(samples, "mulaw") if mulaw else linear(samples)

    def _say(self, event: str, **parts: Any) -> str:
        self._sequence += 1
        return json.dumps({"event": event, "sequenceNumber": self._sequence, **parts})


class Exotel:
    """Linear audio at 8, 16 or 24 kHz, little-endian, in messages of 100 ms."""

    name = "exotel"
    frame_ms = 100
    returns_cleared = True
    stream = "MZ6b1cb9b7cbd2e1ad3ab5a668481ce02b"

    def __init__(self, rate: int = 8_000, **parameters: str) -> None:
        self.rate = rate
        self.parameters = parameters
        self._sequence = 0
        self._chunk = 0

    def hello(self) -> list[Message]:
        start = {
            "stream_sid": self.stream,
            "call_sid": "CA1",
            "account_sid": "AC1",
            "from": "+919876543210",
            "to": "+918047491899",
            "custom_parameters": self.parameters,
            "media_format": {
                "encoding": "audio/x-raw",
                "sample_rate": str(self.rate),
                "bit_rate": "16",
            },
        }
        return ['{"event": "connected"}', self._say("start", start=start)]

    def media(self, samples: Samples) -> list[Message]:
        self._chunk += 1
        media = {
            "chunk": str(self._chunk),
            "timestamp": str(self._chunk * self.frame_ms),
            "payload": _b64(linear(samples)),
        }
        return [self._say("media", media=media)]

    def key(self, digit: str) -> list[Message]:
        return [self._say("dtmf", dtmf={"digit": digit, "duration": "100"})]

    def played(self, mark: str) -> list[Message]:
        return [self._say("mark", mark={"name": mark})]

    def cleared(self) -> list[Message]:
        return []

    def bye(self) -> list[Message]:
        stop = {"call_sid": "CA1", "account_sid": "AC1", "reason": "callended"}
        return [self._say("stop", stop=stop)]

    def read(self, message: Message) -> Told:
        said = parsed(message, self.name)
        same(said.get("stream_sid"), self.stream, "stream_sid")
        match at(said, "event"):
            case "media":
                data = _unb64(at(said, "media", "payload"))
                if len(data) % 320 or len(data) > 100_000:
                    raise CarrierError(f"Exotel takes multiples of 320 bytes, not {len(data)}")
                return Told(audio=unlinear(data))
            case "mark":
                return Told(mark=str(at(said, "mark", "name")))
            case "clear":
                return Told(clear=True)
            case other:
                raise CarrierError(f"Exotel knows no event {other!r}")

    def _say(self, event: str, **parts: Any) -> str:
        self._sequence += 1
        numbered = {"event": event, "sequence_number": str(self._sequence)}
        return json.dumps({**numbered, "stream_sid": self.stream, **parts})


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unb64(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise CarrierError(f"a payload is no base64: {error}") from error
