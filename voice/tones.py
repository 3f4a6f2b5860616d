"""Tones as telephone networks make them, for those who can be told nothing better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.audio import Pcm

_EDGE_S: Final = 0.005
"""Rises and falls, so that nothing clicks."""

BUSY_HERTZ: Final = 425.0
BUSY_S: Final = 0.5
"""ITU-T E.180: one tone of 425 Hz, as long on as off, is the busy tone of most countries."""
_BUSY_LEVEL: Final = 0.22
"""-10 dBm0, where a full-scale sine is +3.14: the middle of what E.180 allows."""

FAILURE_HERTZ: Final = (950.0, 1_400.0, 1_800.0)
FAILURE_S: Final = 0.33
"""ITU-T E.180: the special information tone, three tones that rise: something has gone wrong."""
_FAILURE_LEVEL: Final = 0.1

KEY_S: Final = 0.1
PAUSE_S: Final = 0.1
"""ITU-T Q.24 has all networks hear keys from 70 ms on, 70 ms apart, or nearly."""
_KEY_LEVEL: Final = 0.2
"""Of each of the two: -11 dBm0, well within what Q.24 has receivers hear."""
_LOW: Final = (697.0, 770.0, 852.0, 941.0)
_HIGH: Final = (1_209.0, 1_336.0, 1_477.0, 1_633.0)
_KEYS: Final = "123A456B789C*0#D"
"""Row by row, a low tone each; ITU-T Q.23."""


def busy_tone(rate: int, periods: int = 4) -> Pcm:
    """So many seconds of the busy tone at ``rate`` Hz, silent in each second half."""
    sound = _sound((BUSY_HERTZ,), BUSY_S, _BUSY_LEVEL, rate)
    return Pcm.from_floats(np.tile(np.concatenate([sound, np.zeros(len(sound))]), periods), rate)


def failure_tone(rate: int) -> Pcm:
    """The special information tone at ``rate`` Hz: one second."""
    tones = [_sound((hertz,), FAILURE_S, _FAILURE_LEVEL, rate) for hertz in FAILURE_HERTZ]
    return Pcm.from_floats(np.concatenate(tones), rate)


def key_tones(digits: str, rate: int) -> Pcm:
    """Keys of 0-9, *, #, A-D as a telephone sounds them at ``rate`` Hz, each followed by a pause.
    Raises ValueError for any other."""
    pause = np.zeros(round(PAUSE_S * rate))
    parts: list[npt.NDArray[np.float64]] = []
    for digit in digits:
        row, column = divmod(_KEYS.index(digit), len(_HIGH))
        parts += [_sound((_LOW[row], _HIGH[column]), KEY_S, _KEY_LEVEL, rate), pause]
    return Pcm.from_floats(np.concatenate([pause[:0], *parts]), rate)


def _sound(
    hertz: Sequence[float], seconds: float, level: float, rate: int
) -> npt.NDArray[np.float64]:
    """Sines together, each of this level (1 is full scale)."""
    at = np.arange(round(seconds * rate))
    edge = np.minimum(1.0, np.minimum(at, at[::-1]) / (_EDGE_S * rate))
    waves = sum(np.sin(2 * np.pi * each / rate * at) for each in hertz)
    return np.asarray(level * edge * waves)
