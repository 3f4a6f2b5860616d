"""The diarization error rate: the time that nobody, the wrong one, or one too few is heard in.

As NIST counts it: speakers are matched one to one, as well as they can be; speech that is missed,
heard where there is none, or somebody else's is an error; where two speak, both count. Source: NIST
RT-09 evaluation plan, section 3. Errors near the borders of the truth may be left out by a collar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.diarization.turns import SpeakerTurn

_STEP_MS: Final = 10


@dataclass(frozen=True, slots=True)
class Der:
    """Times in ms; ``speech`` is what there is in truth, of all speakers."""

    missed: int
    false_alarm: int
    confused: int
    speech: int

    @property
    def rate(self) -> float:
        """All errors over all speech."""
        return (self.missed + self.false_alarm + self.confused) / max(self.speech, 1)


def diarization_error(
    truth: Sequence[SpeakerTurn], found: Sequence[SpeakerTurn], collar_ms: int = 0
) -> Der:
    """Of what was found. ``collar_ms``: on each side of each border of the truth."""
    ends = [turn.end_ms for turn in (*truth, *found)]
    frames = max(ends, default=0) // _STEP_MS + 1
    counted = np.ones(frames, bool)
    if collar_ms:
        for border in (at for turn in truth for at in (turn.start_ms, turn.end_ms)):
            first = max(0, border - collar_ms) // _STEP_MS
            counted[first : (border + collar_ms) // _STEP_MS] = False
    true, guessed = _active(truth, frames)[:, counted], _active(found, frames)[:, counted]
    there, heard = true.sum(axis=0), guessed.sum(axis=0)
    right = _most_in_common(true.astype(np.int64) @ guessed.T.astype(np.int64))
    confused = int(np.minimum(there, heard).sum()) - right
    missed = int(np.maximum(there - heard, 0).sum())
    false_alarm = int(np.maximum(heard - there, 0).sum())
    in_ms = (_STEP_MS * count for count in (missed, false_alarm, confused, int(there.sum())))
    return Der(*in_ms)


def turns_of_rttm(lines: Iterable[str]) -> list[SpeakerTurn]:
    """The turns of an RTTM file, a line for each."""
    turns = []
    for line in lines:
        if line.startswith("SPEAKER"):
            fields = line.split()
            start_ms, lasts_ms = (round(1000 * float(field)) for field in fields[3:5])
            turns.append(SpeakerTurn(fields[7], start_ms, start_ms + lasts_ms))
    return turns


def _active(turns: Sequence[SpeakerTurn], frames: int) -> NDArray[np.bool_]:
    """(speakers, frames): who speaks in which 10 ms."""
    names = list(dict.fromkeys(turn.speaker for turn in turns))
    active = np.zeros((len(names), frames), bool)
    for turn in turns:
        first, last = turn.start_ms // _STEP_MS, turn.end_ms // _STEP_MS
        active[names.index(turn.speaker), first:last] = True
    return active


def _most_in_common(together: NDArray[np.int64]) -> int:
    """The sum over matched speakers, of (true, found) frames, for the best of all matches."""
    table = together if together.shape[0] >= together.shape[1] else together.T
    best = {0: 0}  # who of the fewer speakers is taken, as bits -> the most in common so far
    for row in table:
        reached = dict(best)
        for taken, common in best.items():
            for column, more in enumerate(row):
                if not taken >> column & 1:
                    now = taken | 1 << column
                    reached[now] = max(reached.get(now, 0), common + int(more))
        best = reached
    return max(best.values())
