import json
import os

import numpy as np
import pytest
import soundfile

from loadtest.clips import (
    SpeechError,
    last_speech,
    make_clip,
    read_clips,
    read_transcripts,
    silence,
)
from tests.loadtest.calling import RATE, PlainWire, speech_folder


def test_a_folder_of_recordings_becomes_frames(tmp_path):
    first, second = read_clips(speech_folder(tmp_path, seconds=0.61), PlainWire())
    assert (first.name, first.words, second.words) == ("one.wav", "one", "two")
    assert len(first.frames) == 31
    assert {len(frame) for frame in first.frames} == {960}
    assert len(silence(PlainWire())) == 960


def test_where_speech_begins_and_ends(tmp_path):
    samples = np.zeros(2 * RATE, np.int16)
    time = np.arange(RATE) / RATE
    samples[RATE // 2 : 3 * RATE // 2] = 8_000 * np.sin(2 * np.pi * 220 * time)
    clip = make_clip("a.wav", "a", samples, PlainWire())
    assert clip.first_sound_s == pytest.approx(0.5, abs=0.02)
    assert clip.speech_end_s == pytest.approx(1.5, abs=0.02)


@pytest.mark.parametrize(("click_ms", "gap_ms", "ends_s"), [(30, 400, 1.0), (30, 100, 1.13),
                                                           (80, 400, 1.48)])  # fmt: skip
def test_a_click_behind_the_last_word_is_no_speech(click_ms, gap_ms, ends_s):
    samples = np.zeros(2 * RATE, np.int16)
    samples[:RATE] = 8_000
    begin = RATE + RATE * gap_ms // 1000
    samples[begin : begin + RATE * click_ms // 1000] = 8_000
    assert last_speech(samples) / RATE == pytest.approx(ends_s, abs=0.011)


def test_a_pause_goes_where_it_is_softest():
    samples = np.full(RATE, 8_000, np.int16)
    samples[480 * 22 : 480 * 23] = 0
    assert make_clip("a.wav", "a", samples, PlainWire()).gap == 22


def test_other_wires_have_their_own_rate():
    wire = PlainWire()
    wire.rate = 8_000
    clip = make_clip("a.wav", "a", np.full(RATE, 8_000, np.int16), wire)
    assert len(clip.frames) == 50
    assert len(clip.frames[0]) == 320


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is none"),
        ("{", "is not JSON"),
        ("[1]", "is not a table of files and words"),
        ('{"a.wav": 1}', "is not a table of files and words"),
        ("{}", "names no recording"),
        (b"\xff\xfe", "is not JSON"),
    ],
)
def test_transcripts_that_cannot_be_used_say_what_a_folder_should_hold(tmp_path, text, told):
    if text is not None:
        path = tmp_path / "transcripts.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SpeechError, match=rf"{told}.*it should hold recordings"):
        read_transcripts(tmp_path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(SpeechError, match="there is no such folder"):
        read_transcripts(tmp_path / "nowhere")


def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch):
    speech_folder(tmp_path)

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    with pytest.raises(SpeechError, match="cannot be read: Permission denied"):
        read_transcripts(tmp_path)


def test_a_recording_that_transcripts_name_must_be_there(tmp_path):
    (tmp_path / "transcripts.json").write_text(json.dumps({"gone.wav": "gone"}))
    with pytest.raises(SpeechError, match=r"gone\.wav.*transcripts\.json names it"):
        read_clips(tmp_path, PlainWire())


def test_silence_is_no_turn(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(RATE), RATE)
    (tmp_path / "transcripts.json").write_text(json.dumps({"a.wav": "a"}))
    with pytest.raises(SpeechError, match="holds silence only"):
        read_clips(tmp_path, PlainWire())
