"""The features against the definition, written out in float64 without any of its shortcuts."""

import numpy as np
import pytest

from engines.asr.logmel import frames_of, log_mel, mel_filters


def hz(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def triangle(index: int, frequency: float, mels: int) -> float:
    top = 15 + 27 * np.log(8000 / 1000) / np.log(6.4)
    low, centre, high = (hz(top * (index + i) / (mels + 1)) for i in range(3))
    if frequency <= low or frequency >= high:
        return 0.0
    flank = centre - low if frequency <= centre else high - centre
    from_foot = frequency - low if frequency <= centre else high - frequency
    return from_foot / flank * 2 / (high - low)


def by_definition(samples: np.ndarray, frames: int, mels: int = 80) -> np.ndarray:
    padded = np.pad(np.float64(samples), (0, frames * 160 + 200 - len(samples)))
    padded = np.pad(padded, (200, 0), mode="reflect")
    window = np.sin(np.pi * np.arange(400) / 400) ** 2
    turns = np.exp(-2j * np.pi * np.outer(np.arange(201), np.arange(400)) / 400)
    power = np.array(
        [abs(turns @ (window * padded[i * 160 : i * 160 + 400])) ** 2 for i in range(frames)]
    )
    bank = np.array([[triangle(m, 40.0 * k, mels) for k in range(201)] for m in range(mels)])
    mel = np.log10(np.maximum(bank @ power.T, 1e-10))
    return (np.maximum(mel, mel.max() - 8) + 4) / 4


@pytest.mark.parametrize("length", [150, 1_600, 12_345])
def test_features_are_those_of_the_definition(length):
    rng = np.random.default_rng(length)
    samples = (0.1 * rng.standard_normal(length)).astype(np.float32)
    samples += 0.3 * np.sin(np.arange(length) * 0.2, dtype=np.float32)
    features = log_mel(samples, 100)
    assert (features.shape, features.dtype) == ((80, 100), np.float32)
    np.testing.assert_allclose(features, by_definition(samples, 100), atol=2e-5)


def test_sound_past_the_last_frame_is_left_out():
    samples = np.random.default_rng(3).standard_normal(32_000).astype(np.float32)
    np.testing.assert_allclose(log_mel(samples, 50), by_definition(samples[:8_200], 50), atol=2e-5)


def test_filters_are_those_that_the_model_was_trained_with():
    """Values from mel_filters.npz (mel_80) of the published code."""
    bank = mel_filters(80)
    np.testing.assert_allclose(bank[0, :3], [0, 0.02486259, 0], atol=1e-8)
    np.testing.assert_allclose(bank[1, 1:4], [0.00199082, 0.02287177, 0], atol=1e-8)


def test_large_v3_has_128_bands():
    samples = (0.1 * np.random.default_rng(4).standard_normal(8_000)).astype(np.float32)
    features = log_mel(samples, 60, 128)
    assert features.shape == (128, 60)
    np.testing.assert_allclose(features, by_definition(samples, 60, 128), atol=2e-5)


@pytest.mark.parametrize(
    ("milliseconds", "frames"), [(20, 2), (20.1, 4), (8000, 800), (30_000, 3000), (40_000, 3000)]
)
def test_frames_come_in_pairs_and_end_at_thirty_seconds(milliseconds, frames):
    assert frames_of(milliseconds) == frames
