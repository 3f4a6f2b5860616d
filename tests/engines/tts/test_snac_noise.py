"""Noise that is counted, not drawn: the same at the same place, and normal."""

import pytest
import torch

from engines.tts.snac_noise import gaussian_noise

pytestmark = pytest.mark.torch


def noise(seed: int, layer: int, places: range) -> torch.Tensor:
    seeds = torch.tensor([[seed & 0xFFFFFFFF, seed >> 32]])
    layers = torch.full((len(places),), layer)
    return gaussian_noise(seeds, layers, torch.tensor([list(places)]), torch.float32)[0]


def test_each_place_has_its_own_wherever_one_begins() -> None:
    whole = noise(7, 2, range(1000))
    assert torch.equal(noise(7, 2, range(300, 700)), whole[300:700])
    for other in (
        noise(8, 2, range(1000)),
        noise(7, 3, range(1000)),
        noise(7 << 32, 2, range(1000)),
    ):
        assert abs(torch.corrcoef(torch.stack([whole, other]))[0, 1]) < 0.15


def test_it_is_normal_and_without_pattern() -> None:
    many = noise(123, 0, range(200_000))
    assert many.isfinite().all()
    assert abs(many.mean()) < 0.01
    assert abs(many.std() - 1) < 0.01
    assert abs((many**4).mean() - 3) < 0.1
    for lag in (1, 2, 8, 512):
        assert abs((many[lag:] * many[:-lag]).mean()) < 0.01
