"""Recordings in and out."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clients.recordings import (
    RATE,
    RecordingError,
    check_writable,
    read_recording,
    speech_end,
    write_recording,
)


def tone(seconds: float, rate: int, level: float = 0.5) -> np.ndarray:
    return level * np.sin(2 * np.pi * 440 * np.arange(int(seconds * rate)) / rate)


@pytest.mark.parametrize("rate", [8000, 16_000, 24_000, 44_100])
def test_any_rate_becomes_24_khz(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(0.5, rate), rate)
    samples = read_recording(path)
    assert samples.dtype == np.int16
    assert abs(len(samples) - RATE // 2) <= 2
    spectrum = np.abs(np.fft.rfft(samples[2000:10_000]))
    assert abs(int(spectrum.argmax()) * RATE / 8000 - 440) <= 3
    assert 15_000 < np.abs(samples[2000:10_000]).max() < 17_500


def test_channels_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "stereo.flac"
    soundfile.write(path, np.stack([np.full(2400, 0.5), np.zeros(2400)], axis=1), RATE)
    assert np.abs(read_recording(path) - 8192).max() <= 2


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file"):
        read_recording(tmp_path / "missing.wav")


def test_a_file_that_is_no_sound_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("not a sound")
    with pytest.raises(RecordingError, match=r"words\.txt cannot be read as sound"):
        read_recording(path)


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.wav"
    soundfile.write(path, np.zeros(0), RATE)
    with pytest.raises(RecordingError, match="holds no sound"):
        read_recording(path)


def test_two_channels_are_written_to_one_length(tmp_path: Path) -> None:
    path = tmp_path / "call"
    write_recording(path, np.full(100, 1000, np.int16), np.full(50, -1000, np.int16))
    samples, rate = soundfile.read(path, dtype="int16")
    assert (rate, samples.shape) == (RATE, (100, 2))
    assert samples[:50].tolist() == [[1000, -1000]] * 50
    assert samples[50:].tolist() == [[1000, 0]] * 50


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"call\.wav cannot .*: there is no such folder"):
        write_recording(tmp_path / "missing" / "call.wav", np.zeros(10, np.int16))
    with pytest.raises(RecordingError, match="it is a folder"):
        write_recording(tmp_path, np.zeros(10, np.int16))


def test_looking_whether_a_place_can_be_written_leaves_it_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "call.wav"
    check_writable(path)
    assert not path.exists()
    path.write_bytes(b"yesterday's")
    check_writable(path)
    assert path.read_bytes() == b"yesterday's"
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(RecordingError, match="permission denied"):
        check_writable(path)


def speech(*pieces: tuple[float, float]) -> np.ndarray:
    """Noise of (seconds, level)."""
    random = np.random.default_rng(1)
    return np.concatenate(
        [random.normal(0, level, int(seconds * RATE)) for seconds, level in pieces]
    ).astype(np.int16)


def test_speech_ends_before_the_noise_that_follows() -> None:
    clip = speech((0.3, 30), (1.0, 6000), (0.5, 30))
    assert abs(speech_end(clip) - 1.3 * RATE) <= RATE // 100


def test_speech_that_fills_the_clip_ends_with_it() -> None:
    assert speech_end(speech((1.0, 6000))) == RATE


def test_a_pause_does_not_end_speech() -> None:
    clip = speech((0.5, 6000), (1.0, 0), (0.5, 5000), (0.4, 0))
    assert abs(speech_end(clip) - 2.0 * RATE) <= RATE // 100


def test_silence_ends_where_it_ends() -> None:
    assert speech_end(np.zeros(RATE, np.int16)) == RATE
    assert speech_end(np.zeros(7, np.int16)) == 7
