"""What each carrier says in one call, as its documents have it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from uuid import UUID

from voice.wire.phone import (
    Answer,
    AudioCame,
    LegStarted,
    Message,
    PhoneCodec,
    PhoneEvent,
)
from voice.wire.phone_audiosocket import AudioSocketCodec
from voice.wire.phone_wires import WIRES

CODECS: dict[str, Callable[[], PhoneCodec]] = {**WIRES, "audiosocket": AudioSocketCodec}

MULAW_20_MS = bytes(range(160))
L16_20_MS = bytes(range(160)) * 2
CALL = UUID("11112222-3333-4444-5555-666677778888")
SESSION = "e160e428-53e2-487c-977d-96989bf5c99d"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def genesys(type_: str, seq: int, **parameters: object) -> str:
    return json.dumps(
        {
            "version": "2",
            "id": SESSION,
            "type": type_,
            "seq": seq,
            "serverseq": 0,
            "position": "PT0.0S",
            "parameters": parameters,
        }
    )


def frame(kind: int, payload: bytes = b"") -> bytes:
    return bytes([kind]) + len(payload).to_bytes(2, "big") + payload


TWILIO_START = {
    "event": "start",
    "sequenceNumber": "1",
    "start": {
        "accountSid": "AC1",
        "streamSid": "MZ1",
        "callSid": "CA1",
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": {"from": "+15550100", "to": "+15550199", "FirstName": "Jane"},
    },
    "streamSid": "MZ1",
}
TELNYX_START = {
    "event": "start",
    "sequence_number": "1",
    "start": {
        "user_id": "3E6F995F",
        "call_control_id": "v2:T02",
        "call_session_id": "ff55a038",
        "from": "+13122010094",
        "to": "+13122123456",
        "tags": ["TAG1"],
        "client_state": "aGF2ZSBhIG5pY2UgZGF5ID1d",
        "custom_parameters": {"customer_id": "customer_123"},
        "media_format": {"encoding": "PCMU", "sample_rate": 8000, "channels": 1},
    },
    "stream_id": "32DE0DEA",
}
PLIVO_START = {
    "event": "start",
    "sequenceNumber": 1,
    "start": {
        "callId": "12345678-1234",
        "streamId": "87654321-4321",
        "accountId": "MAXX",
        "tracks": ["inbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000},
    },
    "extra_headers": "userId=12345;from=+15550100",
}
EXOTEL_START = {
    "event": "start",
    "sequence_number": "1",
    "stream_sid": "MZ9",
    "start": {
        "stream_sid": "MZ9",
        "call_sid": "CA9",
        "account_sid": "AC9",
        "from": "+919876543210",
        "to": "+918047491899",
        "custom_parameters": {"key1": "value1"},
        "media_format": {"encoding": "audio/x-raw", "sample_rate": "8000", "bit_rate": "16"},
    },
}
GENESYS_OPEN = {
    "organizationId": "d7934305-0972-4844-938e-9060eef73d05",
    "conversationId": "090eaa2f-72fa-480a-83e0-8667ff89c0ec",
    "participant": {"id": "883efee8", "ani": "tel:+13125550100", "aniName": "", "dnis": "tel:+1"},
    "media": [
        {
            "type": "audio",
            "format": "PCMU",
            "channels": ["external", "internal"],
            "rate": 8000,
        },
        {"type": "audio", "format": "PCMU", "channels": ["external"], "rate": 8000},
        {"type": "audio", "format": "PCMU", "channels": ["internal"], "rate": 8000},
    ],
    "language": "en-US",
    "inputVariables": {"queue": "sales"},
}
ASTERISK_START = {
    "event": "MEDIA_START",
    "connection_id": "media1",
    "channel": "WebSocket/media1/0x7f",
    "channel_id": "pbx-1",
    "format": "ulaw",
    "optimal_frame_size": 160,
    "ptime": 20,
    "channel_variables": {"from": "+15550100"},
}


def twilio_media(chunk: int, track: str = "inbound") -> str:
    media = {"track": track, "chunk": str(chunk), "timestamp": "5", "payload": b64(MULAW_20_MS)}
    return json.dumps({"event": "media", "sequenceNumber": "4", "media": media, "streamSid": "MZ1"})


def telnyx_media(chunk: int, payload: bytes = MULAW_20_MS, track: str = "inbound") -> str:
    media = {"track": track, "chunk": str(chunk), "timestamp": "5", "payload": b64(payload)}
    return json.dumps(
        {"event": "media", "sequence_number": "4", "media": media, "stream_id": "32DE0DEA"}
    )


def plivo_media(payload: bytes = MULAW_20_MS) -> str:
    media = {"track": "inbound", "timestamp": "1705312200000", "chunk": 41, "payload": b64(payload)}
    return json.dumps({"event": "media", "sequenceNumber": 42, "streamId": "8", "media": media})


def exotel_media(payload: bytes = L16_20_MS * 5) -> str:
    media = {"chunk": "2", "timestamp": "200", "payload": b64(payload)}
    return json.dumps(
        {"event": "media", "sequence_number": "3", "stream_sid": "MZ9", "media": media}
    )


TRANSCRIPTS: dict[str, list[Message]] = {
    "twilio": [
        '{"event": "connected", "protocol": "Call", "version": "1.0.0"}',
        json.dumps(TWILIO_START),
        twilio_media(1),
        '{"event": "dtmf", "streamSid": "MZ1", "sequenceNumber": "5",'
        ' "dtmf": {"track": "inbound_track", "digit": "1"}}',
        '{"event": "mark", "sequenceNumber": "4", "streamSid": "MZ1", "mark": {"name": "e1-1"}}',
        '{"event": "stop", "sequenceNumber": "5", "streamSid": "MZ1",'
        ' "stop": {"accountSid": "AC1", "callSid": "CA1"}}',
    ],
    "telnyx": [
        '{"event": "connected", "version": "1.0.0"}',
        json.dumps(TELNYX_START),
        telnyx_media(1),
        '{"event": "dtmf", "stream_id": "32DE0DEA", "occurred_at": "2025-06-05T08:54:19.698408Z",'
        ' "sequence_number": "5", "dtmf": {"digit": "1"}}',
        '{"event": "mark", "stream_id": "32DE0DEA", "sequence_number": "5",'
        ' "mark": {"name": "e1-1"}}',
        '{"event": "error", "stream_id": "32DE0DEA",'
        ' "payload": {"code": 100005, "title": "rate_limit_reached", "detail": "x"}}',
        '{"event": "stop", "sequence_number": "5", "stream_id": "32DE0DEA",'
        ' "stop": {"user_id": "3E6F995F", "call_control_id": "v2:T02"}}',
    ],
    "plivo": [
        json.dumps(PLIVO_START),
        plivo_media(),
        '{"event": "dtmf", "sequenceNumber": 45, "streamId": "8",'
        ' "dtmf": {"track": "inbound", "digit": "1", "timestamp": "1705312203000"}}',
        '{"event": "playedStream", "sequenceNumber": 50, "streamId": "8", "name": "e1-1"}',
        '{"event": "clearedAudio", "sequenceNumber": 52, "streamId": "8"}',
    ],
    "exotel": [
        '{"event": "connected"}',
        json.dumps(EXOTEL_START),
        exotel_media(),
        '{"event": "dtmf", "sequence_number": "7", "stream_sid": "MZ9",'
        ' "dtmf": {"digit": "1", "duration": "100"}}',
        '{"event": "mark", "sequence_number": "15", "stream_sid": "MZ9", "mark": {"name": "e1-1"}}',
        '{"event": "stop", "sequence_number": "16", "stream_sid": "MZ9",'
        ' "stop": {"call_sid": "CA9", "account_sid": "AC9", "reason": "callended"}}',
    ],
    "vonage": [
        '{"event": "websocket:connected", "content-type": "audio/l16;rate=16000",'
        ' "uuid": "aaaa-bbbb", "from": "15550100", "prop1": "value1"}',
        L16_20_MS * 2,
        '{"event": "websocket:dtmf", "digit": "1", "duration": 260}',
        '{"event": "websocket:notify", "payload": {"name": "e1-1"}}',
        '{"event": "websocket:cleared"}',
    ],
    "genesys": [
        genesys("open", 1, **GENESYS_OPEN),
        MULAW_20_MS,
        genesys("ping", 2, rtt="PT0.053S"),
        genesys("dtmf", 3, digit="1"),
        genesys("playback_completed", 4),
        genesys("close", 5, reason="end"),
    ],
    "freeswitch": [
        '{"call": "9a1c", "sampleRate": 16000, "from": "1000", "to": "2000"}',
        L16_20_MS * 2,
        '{"event": "dtmf", "digit": "1"}',
    ],
    "asterisk": [
        json.dumps(ASTERISK_START),
        MULAW_20_MS,
        '{"event": "DTMF_END", "channel_id": "pbx-1", "digit": "1"}',
        '{"event": "MEDIA_MARK_PROCESSED", "channel_id": "pbx-1", "correlation_id": "e1-1"}',
        '{"event": "MEDIA_XOFF", "channel_id": "pbx-1"}',
        '{"event": "MEDIA_XON", "channel_id": "pbx-1"}',
        '{"event": "STATUS", "channel_id": "pbx-1", "queue_length": 43}',
    ],
    "audiosocket": [
        frame(0x01, CALL.bytes),
        frame(0x10, L16_20_MS),
        frame(0x03, b"1"),
        frame(0x00),
    ],
}


def take_all(codec: PhoneCodec, messages: list[Message]) -> list[PhoneEvent]:
    return [event for message in messages for event in codec.take(message)]


def begun(name: str, *first: Message) -> PhoneCodec:
    """A leg that has started, by these messages instead of the documented ones."""
    codec = CODECS[name]()
    count = 2 if name in ("twilio", "telnyx", "exotel", "audiosocket") else 1
    events = take_all(codec, list(first) or TRANSCRIPTS[name][:count])
    assert any(isinstance(event, LegStarted) for event in events)
    return codec


def samples_in(events: list[PhoneEvent]) -> list[int]:
    return [
        sample
        for event in events
        if isinstance(event, AudioCame)
        for sample in event.pcm.samples.tolist()
    ]


def answered(events: list[PhoneEvent]) -> list[dict[str, object]]:
    return [
        json.loads(message)
        for event in events
        if isinstance(event, Answer)
        for message in event.messages
    ]
