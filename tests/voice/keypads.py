"""A receiver of a telephone's keys: which were sounded, in a recording of the line."""

import numpy as np
from numpy.typing import NDArray

HERTZ = (697, 770, 852, 941, 1_209, 1_336, 1_477, 1_633)
KEYPAD = ("123A", "456B", "789C", "*0#D")
WINDOW_S, STEP_S = 0.04, 0.01


def keys_in(samples: NDArray[np.int16], rate: int) -> str:
    """Each key once for each time that it sounded."""
    size, step = round(WINDOW_S * rate), round(STEP_S * rate)
    windows = [samples[at : at + size] for at in range(0, len(samples) - size + 1, step)]
    found = [_key(window / 32_768, rate) for window in windows]
    return "".join(
        key for before, key in zip(["", *found], found, strict=False) if key and key != before
    )


def _key(sound: NDArray[np.float64], rate: int) -> str:
    """The key that sounds through the whole window; empty where it is something else."""
    at = np.arange(len(sound)) / rate
    waves = np.exp(-2j * np.pi * np.outer(HERTZ, at))
    power = 2 * np.abs(waves @ sound) ** 2 / len(sound)
    low, high = int(np.argmax(power[:4])), int(np.argmax(power[4:]))
    both, energy = power[low] + power[4 + high], float(np.sum(sound**2))
    if energy / len(sound) < 1e-3 or both < 0.9 * energy:
        return ""
    return KEYPAD[low][high] if 0.3 < power[low] / power[4 + high] < 3 else ""
