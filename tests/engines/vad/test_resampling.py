"""Rate conversion against tones, against soxr, and against every way of cutting a stream."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from engines.vad.resampling import Polyphase

RATES = [8_000, 16_000, 24_000, 48_000]


def convert(samples: NDArray[np.floating], rate: int) -> NDArray[np.float32]:
    """A whole stream, window by window, as the ears do it."""
    polyphase = Polyphase(rate)
    padded = np.concatenate([np.zeros(polyphase.history), samples]).astype(np.float32)
    count = len(samples) // polyphase.samples
    rows = np.stack(
        [
            padded[start : start + polyphase.history + polyphase.samples]
            for start in np.arange(count) * polyphase.samples
        ]
    )
    return polyphase.convert(rows).reshape(-1)


def tone(hertz: float, rate: int, seconds: float = 0.5) -> NDArray[np.float64]:
    return 16_384 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


def decibels(ratio: float) -> float:
    return 20 * np.log10(max(ratio, 1e-9))


def rms(samples: NDArray[np.floating]) -> float:
    """Of the middle, where the filter is full."""
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    return float(np.sqrt(np.mean(np.square(middle, dtype=np.float64))))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("hertz", [100, 440, 1_000, 2_500, 3_400])
def test_a_tone_of_speech_keeps_its_level_and_its_phase(rate: int, hertz: float) -> None:
    output = convert(tone(hertz, rate), rate)
    times = np.arange(len(output)) / 16_000 - Polyphase(rate).delay_ms / 1000
    expected = 0.5 * np.sin(2 * np.pi * hertz * times)
    assert decibels(rms(output - expected) / rms(expected)) < -45


@pytest.mark.parametrize(("rate", "hertz"), [(24_000, 9_000), (24_000, 11_000), (48_000, 10_000),
                                             (48_000, 15_500), (48_000, 20_000)])  # fmt: skip
def test_what_would_fold_back_into_speech_is_gone(rate: int, hertz: float) -> None:
    assert decibels(rms(convert(tone(hertz, rate), rate)) / rms(tone(hertz, rate) / 32_768)) < -65


@pytest.mark.parametrize("hertz", [500, 2_000, 3_000])
def test_the_telephone_brings_no_images(hertz: float) -> None:
    """From 8 kHz up, a tone must not come again, mirrored at 4 kHz."""
    output = convert(tone(hertz, 8_000), 8_000)
    middle = output[1_000:-1_000] * np.hanning(len(output) - 2_000)
    spectrum = np.abs(np.fft.rfft(middle))
    at_tone, at_image = (round(f * len(middle) / 16_000) for f in (hertz, 8_000 - hertz))
    image = spectrum[at_image - 5 : at_image + 6].max()
    assert decibels(image / spectrum[at_tone - 5 : at_tone + 6].max()) < -60


@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
def test_speech_band_noise_agrees_with_soxr(rate: int) -> None:
    white = np.random.default_rng(5).normal(0, 5_000, rate)
    speech = soxr.resample(soxr.resample(white, rate, 6_000, "VHQ"), 6_000, rate, "VHQ")[:rate]
    output = convert(speech, rate)
    # soxr is without delay: give it the stream as late as ours comes out.
    late = np.arange(len(output)) * rate / 16_000 - Polyphase(rate).delay_ms * rate / 1000
    whole = np.floor(late).astype(int)
    assert np.allclose(late - whole, (late - whole)[0] % 1, atol=0.6)
    reference = soxr.resample(speech / 32_768, rate, 16_000 * 32, "VHQ")
    places = np.rint(late * 16_000 * 32 / rate).astype(int)
    inside = (places > 16_000) & (places < len(reference) - 16_000)
    difference = output[inside] - reference[places[inside]]
    assert decibels(np.std(difference) / np.std(reference)) < -35


def test_a_constant_stays_that_constant() -> None:
    for rate in RATES:
        assert np.allclose(convert(np.full(rate, 8_192.0), rate)[1_000:], 0.25, atol=1e-5)


def test_the_delay_of_a_filter_is_short() -> None:
    assert Polyphase(16_000).delay_ms == 0
    assert Polyphase(24_000).delay_ms < 1.5
    assert Polyphase(8_000).delay_ms < 3


def test_many_calls_are_converted_as_each_alone() -> None:
    polyphase = Polyphase(24_000)
    rows = np.random.default_rng(1).normal(0, 3_000, (7, polyphase.history + polyphase.samples))
    rows = rows.astype(np.float32)
    together = polyphase.convert(rows)
    assert together.shape == (7, 512)
    for row, window in zip(rows, together, strict=True):
        assert np.allclose(polyphase.convert(row[None])[0], window, atol=1e-6)


@pytest.mark.parametrize("rate", [0, -8_000, 44_100, 11_025])
def test_a_rate_without_whole_windows_is_refused(rate: int) -> None:
    with pytest.raises(ValueError, match=f"cannot convert {rate} Hz"):
        Polyphase(rate)


def test_a_window_must_be_whole_blocks() -> None:
    with pytest.raises(ValueError, match="in blocks of 32"):
        Polyphase(24_000, window=500)
