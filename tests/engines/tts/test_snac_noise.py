"""Noise that depends on where it is and on nothing else, and looks like noise."""

import numpy as np
import pytest
import torch

from engines.tts.snac_noise import gaussian_noise

pytestmark = pytest.mark.torch


def noise(seed=1, layer=0, start=0, count=100_000, dtype=torch.float64):
    seeds = torch.tensor([[seed & 0xFFFFFFFF, seed >> 32]])
    places = torch.arange(start, start + count)[None]
    return gaussian_noise(seeds, torch.full((count,), layer), places, dtype)[0].numpy()


def test_it_is_the_same_however_it_is_cut():
    whole = noise(count=5000)
    pieces = [noise(start=start, count=1000) for start in range(0, 5000, 1000)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-12)


def test_each_row_has_the_noise_of_its_own_seed():
    seeds = torch.tensor([[1, 0], [2, 0], [1, 7]])
    places = torch.tensor([[0, 1, 2], [10, 11, 12], [-1, 0, 1]])
    layers = torch.tensor([0, 0, 3])
    rows = gaussian_noise(seeds, layers, places, torch.float64).numpy()
    far = (7 << 32) + 1
    expected = [
        [noise(1, 0, 0, 1), noise(1, 0, 1, 1), noise(1, 3, 2, 1)],
        [noise(2, 0, 10, 1), noise(2, 0, 11, 1), noise(2, 3, 12, 1)],
        [noise(far, 0, -1, 1), noise(far, 0, 0, 1), noise(far, 3, 1, 1)],
    ]
    np.testing.assert_allclose(rows, np.array(expected)[:, :, 0], rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_it_is_normal(seed, dtype):
    x = noise(seed, dtype=dtype).astype(np.float64)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.015
    assert abs(x.std() - 1) < 0.01
    assert abs((x**3).mean()) < 0.05
    assert abs((x**4).mean() - 3) < 0.15
    assert abs((np.abs(x) > 1.96).mean() - 0.05) < 0.004


def test_neither_samples_nor_layers_nor_seeds_are_alike():
    x = noise()
    others = [x[lag:] for lag in (1, 2, 3, 64, 2048)]
    others += [noise(layer=1), noise(seed=2), noise(seed=1 + (1 << 32)), noise(start=100_000)]
    for other in others:
        count = len(other)
        assert abs(np.corrcoef(x[:count], other)[0, 1]) < 0.02


def test_it_has_no_tone():
    power = np.abs(np.fft.rfft(noise(count=65_536))) ** 2 / 65_536
    assert power.max() < 20  # exponential: one in e**20 is beyond
