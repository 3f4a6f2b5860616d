"""Long audio into pieces that a recogniser can take whole, cut where nobody speaks."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import numpy as np

from engines.ports import FloatArray

FRAME_MS = 20
HUSH_FRAMES = 5  # a cut wants 100 ms of quiet: shorter dips lie inside words


def quiet_pieces(samples: FloatArray, rate: int, longest_ms: int) -> list[slice]:
    """Slices that cover ``samples`` (n,) without a gap, none longer than ``longest_ms``.

    The pieces come out of similar length: each cut is made at the quietest 100 ms around the
    place where an even division would fall, so that no sliver of a word is left at the end.
    """
    if len(samples) * 1000 <= longest_ms * rate:
        return [slice(0, len(samples))]
    frame = rate * FRAME_MS // 1000
    longest = longest_ms // FRAME_MS
    levels = _levels(samples, frame)
    cuts = [0]
    while (left := ceil(len(samples) / frame) - cuts[-1]) > longest:
        even = left / ceil(left / longest)
        first = cuts[-1] + int(even / 2)
        last = cuts[-1] + min(longest, int(even * 1.5))
        cuts.append(first + int(np.argmin(levels[first : last + 1])))
    bounds = [cut * frame for cut in cuts] + [len(samples)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _levels(samples: FloatArray, frame: int) -> FloatArray:
    """Mean power around the start of each frame, over ``HUSH_FRAMES``."""
    whole = samples[: len(samples) // frame * frame].reshape(-1, frame)
    power = np.einsum("ij,ij->i", whole, whole)
    return np.convolve(power, np.ones(HUSH_FRAMES, np.float32), mode="same")
