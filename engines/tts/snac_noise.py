"""Gaussian noise as a pure function of where it is: (seed, layer, sample) and nothing else.

SNAC's decoder scales a noise signal into its activations. Drawn from a generator, it would
depend on what else is in the batch and on how the stream was cut; counted, each sample has its
own, whenever and with whomever it is decoded. The idea is that of counter-based generators
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011); a 32-bit integer hash is
enough for what is heard.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

_LOW_32: Final = 0xFFFFFFFF


def gaussian_noise(seeds: Tensor, layers: Tensor, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers, shape (rows, n).

    ``seeds`` (rows, 2) int64 holds the halves of each row's seed, both below 2**32; ``layers``
    (n,) and ``positions`` (rows, n), int64, say which sample of which layer each column is.
    Box and Muller's transform of two hashes.
    """
    radius = _uniform(seeds, 2 * layers, positions, dtype).log_().mul_(-2.0).sqrt_()
    angle = _uniform(seeds, 2 * layers + 1, positions, dtype).mul_(2.0 * math.pi)
    return angle.cos_().mul_(radius)


def _uniform(seeds: Tensor, channels: Tensor, positions: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers in (0, 1]: one hash of the position under a key of the seed and the channel."""
    low, high = seeds[:, :1], seeds[:, 1:]
    key = _mixed(_mixed(low ^ channels) ^ high)
    hashed = _mixed((positions ^ key) & _LOW_32)
    return hashed.to(dtype).add_(0.5).mul_(2.0**-32)


def _mixed(x: Tensor) -> Tensor:
    """A bijection of 32 bits that leaves no pattern, in int64.

    Of the family in C. Wellons, "Prospecting for hash functions" (2018): the constants are below
    2**31, so that no product leaves int64.
    """
    x = (x ^ (x >> 16)) * 0x21F0AAAD & _LOW_32
    x = (x ^ (x >> 15)) * 0x735A2D97 & _LOW_32
    return x ^ (x >> 15)
