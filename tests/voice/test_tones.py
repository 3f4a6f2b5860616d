"""The tones of phone legs: busy, failure, and keys as any receiver knows them."""

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.keypads import KEYPAD, keys_in
from voice.tones import KEY_S, PAUSE_S, busy_tone, failure_tone, key_tones
from voice.wire import g711

RATES = [8_000, 16_000, 24_000, 44_100]


def loudest(sound: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(spectrum.argmax() * rate / len(sound))


def dbm0(sound: np.ndarray) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(sound**2)) * np.sqrt(2)) + 3.14)


@pytest.mark.parametrize("rate", RATES)
def test_the_busy_tone_sounds_for_half_a_second_and_is_silent_for_as_long(rate: int) -> None:
    tone = busy_tone(rate, periods=2)
    assert (tone.rate, len(tone.samples)) == (rate, 2 * 2 * round(rate / 2))
    halves = np.split(tone.floats(), 4)
    assert [bool(half.any()) for half in halves] == [True, False, True, False]
    assert abs(loudest(halves[0], rate) - 425) < 2


def test_it_is_as_loud_as_networks_make_it_and_does_not_click() -> None:
    samples = busy_tone(8_000).floats()
    assert -15 < dbm0(samples[400:3_600]) < -5  # by E.180
    steps = np.abs(np.diff(samples))
    assert steps.max() <= 0.22 * 2 * np.pi * 425 / 8_000 + 1e-3
    assert abs(samples[0]) == abs(samples[3_999]) == 0


@pytest.mark.parametrize("rate", RATES)
def test_a_failure_is_three_tones_that_rise(rate: int) -> None:
    tone = failure_tone(rate)
    thirds = np.split(tone.floats(), 3)
    assert tone.duration_ms == pytest.approx(990, abs=1)
    assert [round(loudest(third, rate), -1) for third in thirds] == [950, 1_400, 1_800]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("law", ["", "mulaw", "alaw"])
def test_keys_are_known_again_also_after_a_telephone_has_coded_them(rate: int, law: str) -> None:
    digits = "".join(KEYPAD)
    tones = key_tones(digits, rate)
    if law == "mulaw" or law == "alaw":
        tones = Pcm(g711.decode(g711.encode(tones.samples, law), law), rate)
    assert tones.duration_ms == pytest.approx(len(digits) * 1_000 * (KEY_S + PAUSE_S), abs=1)
    assert keys_in(tones.samples, rate) == digits
    steps = np.array_split(tones.floats(), len(digits))
    assert all(-18 < dbm0(step[: len(step) // 2]) < -3 for step in steps)  # as Q.24 has it
    assert all(np.abs(step[len(step) // 2 + 2 :]).max() < 0.001 for step in steps)


def test_what_is_no_key_has_no_tone() -> None:
    assert len(key_tones("", 8_000)) == 0
    with pytest.raises(ValueError, match="substring not found"):
        key_tones("x", 8_000)
