"""The audio of a phrase in pieces that suit the wire: short while the listener waits, else not."""

from __future__ import annotations

from typing import Final

import numpy as np

from engines.audio import Mark, Pcm

MOST_AUDIO_MS: Final = 200
"""No piece is longer: clients cap the size of a message."""

PLENTY_MS: Final = 1_000
"""Whoever has so much in hand is fed in whole pieces: small ones cost the server as much each as
large ones, and a client too. Should the voice stall, what is gathered was not what was lacking."""


class Pieces:
    """Takes a phrase's audio as it comes, all of one rate, and gives it on."""

    def __init__(self) -> None:
        self._gathered: list[Pcm] = []
        self.gathered_ms = 0.0
        """Taken, and not given on yet."""

    def add(self, pcm: Pcm, lead_ms: float) -> list[Pcm]:
        """The pieces that are to go out now, the listener being so far behind."""
        self._gathered.append(pcm)
        self.gathered_ms += pcm.duration_ms
        if lead_ms <= PLENTY_MS:
            return self.finish()
        if self.gathered_ms < MOST_AUDIO_MS:
            return []
        pieces = self.finish()
        if pieces[-1].duration_ms < MOST_AUDIO_MS:
            self._gathered = [pieces.pop()]
            self.gathered_ms = self._gathered[0].duration_ms
        return pieces

    def finish(self) -> list[Pcm]:
        """All that is left."""
        gathered, self._gathered, self.gathered_ms = self._gathered, [], 0.0
        return _slices(_joined(gathered)) if gathered else []


def _joined(parts: list[Pcm]) -> Pcm:
    if len(parts) == 1:
        return parts[0]
    marks, at_ms = list[Mark](), 0.0
    for part in parts:
        marks += [Mark(mark.offset, at_ms + mark.at_ms) for mark in part.marks]
        at_ms += part.duration_ms
    return Pcm(np.concatenate([part.samples for part in parts]), parts[0].rate, tuple(marks))


def _slices(pcm: Pcm) -> list[Pcm]:
    most = MOST_AUDIO_MS * pcm.rate // 1000
    if len(pcm) <= most:
        return [pcm]
    return [pcm.part(start, start + most) for start in range(0, len(pcm), most)]
