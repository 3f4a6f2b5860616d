"""Whether a sound was made with the mouth closed: an "mm-hm" that a recogniser takes for a word.

A closed mouth lets little out above the first resonance of the nose. Recognisers write such a hum
as whatever short word is nearest ("Mama", "Hello"), so its words tell nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.audio import Pcm

MOST_MS: Final = 700
"""Whoever hums for longer means something by it."""

MUFFLED_HZ: Final = 700
MOST_ABOVE: Final = 0.15
"""The share of a window's energy above MUFFLED_HZ: 0.15 at most in the embedded voice's
hums, 0.16 or more in its "now", 0.21 in "no". A "who" without its h is as low."""

_LOWEST_HZ: Final = 80
_LOUD: Final = 0.03
_WINDOW: Final = 512


def is_hum(pcm: Pcm) -> bool:
    """Whether all that is loud in ``pcm`` (16 kHz) is a hum, and short."""
    windows = pcm.floats()[: len(pcm) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
    if not len(windows):
        return False
    powers = np.square(windows).mean(axis=1)
    loud = windows[powers > _LOUD * powers.max()]
    if not len(loud) or len(loud) * _WINDOW * 1000 > MOST_MS * pcm.rate:
        return False
    spectra = np.square(np.abs(np.fft.rfft(loud * np.hanning(_WINDOW), axis=1)))
    hertz = np.fft.rfftfreq(_WINDOW, 1 / pcm.rate)
    voiced = spectra[:, hertz > _LOWEST_HZ].sum(axis=1)
    above = spectra[:, hertz > MUFFLED_HZ].sum(axis=1)
    return bool((above <= MOST_ABOVE * voiced).all())
