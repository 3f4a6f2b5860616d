"""Vonage, Genesys, FreeSWITCH, Asterisk and AudioSocket as simulated: strict where those are."""

import json

import numpy as np
import pytest

from clients.phone import Asterisk, AudioSocket, CarrierError, FreeSwitch, Genesys, Vonage
from clients.phone_words import Message, Words


def refused(words: Words, message: Message) -> str:
    with pytest.raises(CarrierError) as error:
        words.read(message)
    return str(error.value)


def test_vonage_wants_20_ms_at_a_time() -> None:
    assert "length of audio" in refused(Vonage(), bytes(320))
    assert "no action" in refused(Vonage(), '{"action": "dance"}')


def test_genesys_wants_to_be_told_opened_first_and_numbers_in_turn() -> None:
    genesys = Genesys()
    (opening,) = genesys.hello()
    assert genesys.media(np.zeros(160, np.int16)) == []
    assert "before opened" in refused(genesys, b"\xff" * 160)
    said = {"version": "2", "id": genesys.session, "seq": 1, "clientseq": 1, "parameters": {}}
    assert "seq" in refused(genesys, json.dumps({**said, "type": "pong", "seq": 2}))
    assert "version" in refused(genesys, json.dumps({**said, "type": "pong", "version": "1"}))
    assert "AudioHook" in refused(genesys, json.dumps({**said, "type": "pong", "clientseq": 9}))
    media = {"media": [{"channels": ["internal"]}]}
    wrong = json.dumps({**said, "type": "opened", "parameters": media})
    assert "channels" in refused(genesys, wrong)
    assert "no 'audio'" in refused(genesys, json.dumps({**said, "type": "audio", "seq": 2}))
    assert json.loads(opening)["seq"] == 1


def test_freeswitch_wants_raw_audio_at_its_rate() -> None:
    sound = {"audioDataType": "wav", "sampleRate": 8000, "audioData": ""}
    said = {"type": "streamAudio", "data": sound}
    assert "audioDataType" in refused(FreeSwitch(), json.dumps(said))
    sound |= {"audioDataType": "raw", "sampleRate": 16000}
    assert "sampleRate" in refused(FreeSwitch(), json.dumps(said))
    assert "nobody acts" in refused(FreeSwitch(), '{"type": "x"}')


def test_asterisk_wants_whole_frames_and_short_commands() -> None:
    asterisk = Asterisk()
    assert "no whole frames" in refused(asterisk, bytes(161))
    assert "no whole frames" in refused(asterisk, bytes(160 * 300))
    assert "128 bytes" in refused(asterisk, " " * 128)
    assert "no command" in refused(asterisk, '{"command": "DANCE"}')
    assert "no command" in refused(Asterisk(plain=True), "DANCE now")


def test_audiosocket_wants_one_kind_of_audio() -> None:
    assert "kind" in refused(AudioSocket(), b"\x12\x00\x02\0\0")
    assert "bytes" in refused(AudioSocket(), "text")
    words = AudioSocket()
    nothing = words.read(b"\x10\x00\x04\0\0").audio
    assert nothing is not None
    assert len(nothing) == 0
    told = words.read(b"\0\0\x00\0\0")
    assert told.hang_up
    assert told.audio is not None
    assert len(told.audio) == 2
