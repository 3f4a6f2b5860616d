"""The silence around synthesised speech: short in front, behind it as long as a speaker pauses."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_FRAME_S: Final = 0.005
_SPEECH_LEVEL: Final = 10 ** (-50 / 20)
"""RMS of a frame of full scale. The soft onset of an f or h lies within _HEAD_S of it."""

_HEAD_S: Final = 0.02
_FADE_S: Final = 0.005
_PAUSES_S: Final = {".": 0.28, "!": 0.28, "?": 0.28, "…": 0.28, ",": 0.14, ";": 0.14, ":": 0.14}
_NO_PAUSE_S: Final = 0.06


def pause_after(text: str) -> float:
    """Seconds that a speaker pauses after ``text``, by the punctuation at its end."""
    return _PAUSES_S.get(text.rstrip(" \"'”’)]—")[-1:], _NO_PAUSE_S)


def sounding(samples: NDArray[np.float32], rate: int) -> NDArray[np.intp]:
    """Where each 5 ms of ``samples`` (n,) that are not silence end, in samples, rising."""
    frame = round(_FRAME_S * rate)
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    loud = np.flatnonzero(np.square(frames).mean(axis=1) > _SPEECH_LEVEL**2)
    return (loud + 1) * frame


def trim(
    samples: NDArray[np.float32], rate: int, pause_s: float
) -> tuple[NDArray[np.float32], int]:
    """``samples`` (n,) without the silence in front, and with at most ``pause_s`` of it behind; and
    how many samples were in front.

    Empty where there is nothing but silence.
    """
    ends = sounding(samples, rate)
    if not len(ends):
        return samples[:0], 0
    start = max(int(ends[0]) - round((_FRAME_S + _HEAD_S) * rate), 0)
    end = min(int(ends[-1]) + round(pause_s * rate), len(samples))
    kept = samples[start:end].copy()
    fade = min(round(_FADE_S * rate), len(kept))
    kept[-fade:] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
    return kept, start
