import json
from unittest.mock import create_autospec

import pytest

from loadtest.websocket import Inbox, text_frame
from loadtest.wires import Ear, RealtimeWire
from voice.wire.realtime import decode, encode_utf8
from voice.wire.realtime_client import (
    ConversationItemTruncateEvent,
    InputAudioBufferAppendEvent,
    SessionUpdateEvent,
)
from voice.wire.realtime_objects import RealtimeError, TranscriptionDurationUsage
from voice.wire.realtime_server import (
    InputAudioBufferCommittedEvent,
    InputAudioBufferSpeechStartedEvent,
    InputAudioTranscriptionCompletedEvent,
    RateLimitsUpdatedEvent,
    RealtimeErrorEvent,
    ResponseAudioDeltaEvent,
    ResponseAudioTranscriptDeltaEvent,
)

USAGE = TranscriptionDurationUsage(1)
PLACE = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}


@pytest.fixture
def ear():
    return create_autospec(Ear, instance=True, spec_set=True)


def message_of(frame: bytes) -> bytes:
    """The payload: a client's frame differs from a server's by its mask of zeros."""
    return frame[frame.index(b"\0\0\0\0{") + 4 :]


def test_the_server_understands_what_is_sent():
    wire = RealtimeWire(silence_ms=200, max_tokens=40)
    update = decode(message_of(wire.hello()))
    assert isinstance(update, SessionUpdateEvent)
    assert b'"silence_duration_ms":200' in wire.hello()
    assert b'"max_output_tokens":40' in wire.hello()
    append = decode(message_of(wire.frame(b"\1\2" * 480)))
    assert isinstance(append, InputAudioBufferAppendEvent)
    assert append.audio == b"\1\2" * 480
    cut = decode(message_of(wire.cut(b"item_1", 320)))
    assert cut == ConversationItemTruncateEvent("item_1", 0, 320)
    assert wire.played(b"mark") is None


@pytest.mark.parametrize("samples", [1, 2, 3, 480, 961])
def test_audio_is_handed_over_as_it_came(ear, samples):
    wire, audio = RealtimeWire(), b"\3\4" * samples
    wire.take(encode_utf8(ResponseAudioDeltaEvent(**PLACE, delta=audio)), 7.0, ear)
    [(now, reply, item, encoded)] = [call.args for call in ear.audio.call_args_list]
    assert (now, reply, item) == (7.0, b"resp_1", b"item_1")
    assert wire.samples_in(encoded) == samples
    assert wire.decode(encoded) == audio


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            InputAudioBufferSpeechStartedEvent(audio_start_ms=1, item_id="i"),
            ("speech_started", b"i"),
        ),
        (InputAudioBufferCommittedEvent(item_id="i"), ("committed", b"i")),
        (
            InputAudioTranscriptionCompletedEvent(
                item_id="i", content_index=0, transcript='a "b"', usage=USAGE
            ),
            ("transcript", b"i", 'a "b"'),
        ),
        (ResponseAudioTranscriptDeltaEvent(**PLACE, delta="Well"), ("words", b"resp_1", "Well")),
        (
            RealtimeErrorEvent(error=RealtimeError("invalid_request_error", "no", "bad")),
            ("failed",),
        ),
    ],
)  # fmt: skip
def test_events_reach_the_ear(ear, event, told):
    RealtimeWire().take(encode_utf8(event), 7.0, ear)
    name, *arguments = told
    [call] = ear.method_calls
    assert call[0] == name
    assert list(call.args[1 : 1 + len(arguments)]) == arguments


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"type": "response.created", "response": {"id": "r"}}, ("reply_started", (b"r",))),
        (
            {"type": "response.done", "response": {"id": "r", "status": "cancelled"}},
            ("reply_done", (b"r", "cancelled")),
        ),
        ({"type": "session.updated", "session": {}}, ("ready", ())),
    ],
)
def test_events_of_other_servers_reach_it_too(ear, event, told):
    RealtimeWire().take(json.dumps(event, separators=(",", ":")).encode(), 7.0, ear)
    [call] = ear.method_calls
    assert (call[0], call.args[1:]) == told


def test_what_is_of_no_concern_is_passed_over(ear):
    RealtimeWire().take(encode_utf8(RateLimitsUpdatedEvent(rate_limits=[])), 7.0, ear)
    RealtimeWire().take(b"{}", 7.0, ear)
    assert ear.method_calls == []


def test_a_frame_is_whole_on_the_line():
    frame = RealtimeWire().frame(bytes(960))
    server_side = frame[:1] + bytes([frame[1] & 0x7F]) + frame[2:4] + frame[8:]
    [(_, message)] = Inbox().messages(server_side)
    assert text_frame(message) == frame
