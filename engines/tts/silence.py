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


def trim(
    samples: NDArray[np.float32], rate: int, pause_s: float
) -> tuple[NDArray[np.float32], int, int]:
    """``samples`` (n,) without the silence in front, and with at most ``pause_s`` of it behind; how
    many samples were in front; and after how many of those that are left the sound is over.

    Empty where there is nothing but silence.
    """
    frame = round(_FRAME_S * rate)
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    loud = np.flatnonzero(np.square(frames).mean(axis=1) > _SPEECH_LEVEL**2)
    if not len(loud):
        return samples[:0], 0, 0
    start = max(int(loud[0]) * frame - round(_HEAD_S * rate), 0)
    quiet = (int(loud[-1]) + 1) * frame
    end = min(quiet + round(pause_s * rate), len(samples))
    kept = samples[start:end].copy()
    fade = min(round(_FADE_S * rate), len(kept))
    kept[-fade:] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
    return kept, start, quiet - start
