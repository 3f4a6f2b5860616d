"""What a caller hears: a playback buffer without a loudspeaker.

A client of the Realtime door owns playback, so only it knows how much of a reply was heard.
``Player`` keeps that account on whatever clock its caller passes in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voice.wire.realtime_client import ConversationItemTruncateEvent
from voice.wire.realtime_server import ResponseAudioDeltaEvent

RATE = 24_000
# Chunks are laid end to end on a clock of floats; what is below this is rounding, not silence.
_ROUNDING_S = 1e-6


@dataclass(slots=True)
class _Chunk:
    """``samples`` that play from ``start`` on, in seconds of the caller's clock."""

    start: float
    samples: NDArray[np.int16]

    @property
    def end(self) -> float:
        return self.start + len(self.samples) / RATE

    def cut(self, now: float) -> None:
        """Keep what has been heard by ``now``."""
        self.samples = self.samples[: max(0, round((now - self.start) * RATE))]


@dataclass(slots=True)
class _Part:
    """One content part of a reply: what was queued of it, in playing order."""

    item_id: str
    content_index: int
    chunks: list[_Chunk] = field(default_factory=list)

    def heard_s(self, now: float) -> float:
        return sum(max(0.0, min(now, chunk.end) - chunk.start) for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Gap:
    """Silence inside a reply, because its next audio came late. Seconds."""

    start: float
    length: float


class Player:
    """Plays 16-bit 24 kHz mono as it comes, each sample once and in order.

    Times are seconds of one clock, and never go back. ``end`` is when the last sample that is
    here has been heard; ``gaps`` tells of every underrun.
    """

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.end = 0.0
        self._parts: list[_Part] = []

    def put(self, event: ResponseAudioDeltaEvent, now: float) -> None:
        """Queue a piece of a reply that arrived at ``now``."""
        samples = np.frombuffer(event.delta, "<i2")
        part = self._part(event.item_id, event.content_index)
        if part.chunks and now - self.end > _ROUNDING_S:
            self.gaps.append(Gap(self.end, now - self.end))
        chunk = _Chunk(max(now, self.end), samples)
        part.chunks.append(chunk)
        self.end = chunk.end

    def playing(self, now: float) -> bool:
        """Whether anything is still to be heard."""
        return now < self.end

    def heard_ms(self, item_id: str, now: float) -> int:
        """How much of an item's audio has been heard by ``now``."""
        heard = sum(part.heard_s(now) for part in self._parts if part.item_id == item_id)
        return round(heard * 1000)

    def interrupt(self, now: float) -> ConversationItemTruncateEvent | None:
        """Fall silent. The event, if audio was lost, tells the server what was heard of it."""
        if not self.playing(now):
            return None
        cut = next(part for part in self._parts if part.chunks and part.chunks[-1].end > now)
        for part in self._parts:
            for chunk in part.chunks:
                chunk.cut(now)
        self.end = now
        heard_ms = round(cut.heard_s(now) * 1000)
        return ConversationItemTruncateEvent(cut.item_id, cut.content_index, heard_ms)

    def recording(self, start: float, end: float) -> NDArray[np.int16]:
        """All that was heard between two times, silence where there was none. int16, 24 kHz."""
        heard = np.zeros(max(0, round((end - start) * RATE)), np.int16)
        for part in self._parts:
            for chunk in part.chunks:
                _lay(heard, chunk.samples, round((chunk.start - start) * RATE))
        return heard

    def forget(self) -> None:
        """Drop what has been kept for ``recording`` and ``heard_ms``. For calls without end."""
        self._parts.clear()

    def _part(self, item_id: str, content_index: int) -> _Part:
        last = self._parts[-1] if self._parts else None
        if last and (last.item_id, last.content_index) == (item_id, content_index):
            return last
        part = _Part(item_id, content_index)
        self._parts.append(part)
        return part


def _lay(track: NDArray[np.int16], samples: NDArray[np.int16], at: int) -> None:
    """Copy ``samples`` into ``track`` at an index, without what falls beyond its ends."""
    first, last = max(0, at), min(len(track), at + len(samples))
    if first < last:
        track[first:last] = samples[first - at : last - at]
