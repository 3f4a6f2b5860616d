"""Twilio's wire as callers speak it: the server's codec understands them, and they it."""

from unittest.mock import create_autospec

import numpy as np
import pytest

from engines.audio import Pcm
from loadtest.phone_wires import TwilioWire
from loadtest.websocket import TEXT, Inbox
from loadtest.wires import Ear
from voice.wire.phone import AudioCame, LegStarted, MarkPlayed
from voice.wire.phone_streams import TwilioCodec

PCM = np.full(160, 8_000, np.int16)


@pytest.fixture
def ear():
    return create_autospec(Ear, instance=True, spec_set=True)


def messages_of(frames: bytes) -> list[str]:
    """What a server reads: a client's mask is of zeros here."""
    inbox, found = Inbox(), []
    for opcode, message in inbox.messages(unmasked(frames)):
        assert opcode == TEXT
        found.append(message.decode())
    return found


def unmasked(frames: bytes) -> bytes:
    out, at = b"", 0
    while at < len(frames):
        size, head = frames[at + 1] & 0x7F, 2
        if size == 126:
            size, head = int.from_bytes(frames[at + 2 : at + 4], "big"), 4
        out += bytes([frames[at], frames[at + 1] & 0x7F]) + frames[at + 2 : at + head]
        at += head + 4
        out += frames[at : at + size]
        at += size
    return out


def codec() -> TwilioCodec:
    codec = TwilioCodec()
    events = [e for message in messages_of(TwilioWire().hello()) for e in codec.take(message)]
    assert isinstance(events[0], LegStarted)
    return codec


def test_the_server_understands_what_is_sent():
    server, wire = codec(), TwilioWire()
    [heard] = [e for m in messages_of(wire.frame(PCM.tobytes())) for e in server.take(m)]
    assert isinstance(heard, AudioCame)
    assert np.abs(heard.pcm.samples.astype(int) - 8_000).max() < 300
    [played] = [e for m in messages_of(wire.played(b"e1-1")) for e in server.take(m)]
    assert played == MarkPlayed("e1-1")
    assert wire.cut(b"1", 100) is None


def test_audio_between_two_ends_is_one_reply(ear):
    server, wire = codec(), TwilioWire().leg()
    said = [
        *server.speak(Pcm(PCM, 8_000)),
        *server.mark("e1-1"),
        *server.speak(Pcm(PCM, 8_000)),
        *server.mark("e1-2-end"),
        *server.speak(Pcm(PCM, 8_000)),
        *server.clear(),
        *server.clear(),
    ]
    for at, message in enumerate(said):
        wire.take(message.encode(), float(at), ear)
    assert [call.args[:2] for call in ear.audio.call_args_list] == [(0, b"1"), (2, b"1"), (4, b"2")]
    assert [call.args[0] for call in ear.mark.call_args_list] == [1, 3]
    assert [call.args for call in ear.reply_done.call_args_list] == [
        (3, b"1", "completed"),
        (5, b"2", "cancelled"),
    ]
    assert ear.cleared.call_count == 2
    encoded = ear.audio.call_args_list[0].args[3]
    assert wire.samples_in(encoded) == 160
    assert len(wire.decode(encoded)) == 320


def test_a_leg_remembers_nothing_of_another(ear):
    wire = TwilioWire()
    one, other = wire.leg(), wire.leg()
    [message] = codec().speak(Pcm(PCM, 8_000))
    one.take(message.encode(), 0.0, ear)
    other.take(message.encode(), 0.0, ear)
    one.take(message.encode(), 0.0, ear)
    assert ear.reply_started.call_count == 2
