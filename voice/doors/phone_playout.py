"""What a telephone is sent, and how much of it its caller has heard.

The clock of the samples says when each of them is heard at the earliest. A wire that tells what
was played (a *mark* comes back) says more: by how much it is later than that. Marks carry the epoch
of their reply and a number (``e12-3``, and ``e12-4-end`` behind the last sample); one that is not
waited for, since its audio was thrown away, says nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import soxr

from engines.audio import Pcm, Samples
from pipelines.conversation.dialogue import AgentItem
from pipelines.speaking.loudness import fade_out
from voice.doors.phone_pacer import Pacer

MARK_EVERY_MS: Final = 500.0
MOST_LAG_MS: Final = 2_000.0
"""A mark that is later than this was delayed itself."""

GRACE_MS: Final = 500.0
"""How much longer than expected the last mark is waited for."""

MOST_WAITING_MS: Final = 120_000.0
"""A call whose other side takes nothing for so long, and is spoken to all the while, is ended."""

Sent: TypeAlias = Samples | str
"""A frame, or the name of a mark that follows it."""


class BlockedError(Exception):
    """The other side takes no audio."""


@dataclass(slots=True)
class _Said:
    """An item's audio: from ``start_ms`` of all that is sent on."""

    epoch: int
    item: AgentItem | None
    start_ms: float


@dataclass(frozen=True, slots=True)
class _Mark:
    """It comes back when all up to ``at_ms`` was heard, at ``due`` at the earliest."""

    name: str
    at_ms: float
    due: float


class Playout:
    """One leg's speech. ``marks``: its wire tells what was played."""

    def __init__(self, pacer: Pacer, *, marks: bool) -> None:
        self._pacer = pacer
        self._marks = marks
        self._stream: soxr.ResampleStream | None = None
        self._said: deque[_Said] = deque()
        self._pending: deque[_Mark] = deque()
        self._marked_ms = self._known_ms = self._lag_ms = 0.0
        self._numbers = 0
        self._fresh = self._over = True

    @property
    def deadline(self) -> float | None:
        """When there is something to ``take``, in milliseconds; None for not yet."""
        return self._pacer.deadline

    @property
    def lag_ms(self) -> float:
        """How much later than the clock believes its listener hears it, by the last mark."""
        return self._lag_ms

    def heard_at(self, now: float) -> float:
        """When all that was put will have been heard, at the latest that is likely; ``now`` or
        before where it is so already."""
        pacer = self._pacer
        if not pacer.waiting_ms and self._known_ms >= pacer.sent_ms:
            return now
        late_ms = self._lag_ms + (GRACE_MS if self._marks else 0.0)
        begins_at = max(pacer.ends_at, now) if pacer.waiting_ms else pacer.ends_at
        return begins_at + pacer.waiting_ms + late_ms

    # --- what is said -------------------------------------------------------------------

    def begin(self, epoch: int, item: AgentItem | None, now: float) -> None:
        """What is put from here on is this item's."""
        self.finish()
        self._forget(self.heard_ms(now))
        self._said.append(_Said(epoch, item, self._pacer.sent_ms + self._pacer.waiting_ms))
        self._fresh = True

    def put(self, pcm: Pcm) -> None:
        """More of it. Raises BlockedError."""
        self._over = False
        rate = self._pacer.rate
        if pcm.rate == rate:
            self._add(pcm.samples)
            return
        if self._stream is None:
            self._stream = soxr.ResampleStream(pcm.rate, rate, 1, dtype="int16", quality="MQ")
        self._add(self._stream.resample_chunk(pcm.samples))

    def finish(self) -> None:
        """That was all of it: what the filter holds back, and a last frame that is whole."""
        if self._over:
            return
        self._over = True
        if self._stream is not None:
            self._add(self._stream.resample_chunk(np.zeros(0, np.int16), last=True))
            self._stream = None
        self._pacer.fill()

    def hold(self, held: bool) -> None:
        """The other side takes nothing for now, or takes it again."""
        self._pacer.hold(held)

    def take(self, now: float) -> list[Sent]:
        """What is to be sent now, in order."""
        sent: list[Sent] = [*self._pacer.take(now)]
        if self._marks and self._is_to_be_marked():
            sent.append(self._mark())
        return sent

    # --- what is heard ------------------------------------------------------------------

    def heard_ms(self, now: float) -> float:
        """How much of all that was sent has been heard."""
        pacer = self._pacer
        unheard_ms = max(0.0, pacer.ends_at + self._lag_ms - now)
        return max(self._known_ms, pacer.sent_ms - unheard_ms)

    def played(self, name: str, now: float) -> None:
        """A mark has come back."""
        if all(mark.name != name for mark in self._pending):
            return
        while (mark := self._pending.popleft()).name != name:
            pass
        self._known_ms = mark.at_ms
        self._lag_ms = min(max(0.0, now - mark.due), MOST_LAG_MS)

    def stop(self, now: float, *, flushed: bool) -> None:
        """Fall silent: nothing that waits goes out, and what nobody has heard is cut from the
        items. ``flushed``: the other side has thrown away what it had not played; one that cannot
        hears all that was sent, and one frame more, which fades out."""
        heard_ms = self.heard_ms(now) if flushed else self._pacer.sent_ms
        for said in self._said:
            _cut(said, heard_ms)
        sounds = now < self._pacer.ends_at
        following = self._pacer.clear(now, flushed=flushed)
        if sounds and not flushed and len(following):
            faded = fade_out(Pcm(following, self._pacer.rate), self._pacer.frame_ms)
            self._pacer.put(faded.samples)
            self._pacer.fill()
        self._said.clear()
        self._pending.clear()
        self._stream, self._fresh, self._over = None, True, True
        self._known_ms = self._marked_ms = self._pacer.sent_ms

    # --- within -------------------------------------------------------------------------

    def _add(self, samples: Samples) -> None:
        self._pacer.put(samples)
        if self._pacer.waiting_ms > MOST_WAITING_MS:
            seconds = round(self._pacer.waiting_ms / 1000)
            raise BlockedError(f"{seconds} s of audio wait for a carrier that takes none")

    def _is_to_be_marked(self) -> bool:
        unmarked_ms = self._pacer.sent_ms - self._marked_ms
        return unmarked_ms > 0 and (self._fresh or self._all_sent or unmarked_ms >= MARK_EVERY_MS)

    @property
    def _all_sent(self) -> bool:
        return self._over and not self._pacer.waiting_ms

    def _mark(self) -> str:
        at_ms, self._numbers = self._pacer.sent_ms, self._numbers + 1
        epoch = max((said.epoch for said in self._said if said.start_ms < at_ms), default=0)
        name = f"e{epoch}-{self._numbers}{'-end' if self._all_sent else ''}"
        mark = _Mark(name, at_ms, self._pacer.ends_at)
        self._pending.append(mark)
        self._marked_ms, self._fresh = at_ms, False
        return mark.name

    def _forget(self, heard_ms: float) -> None:
        """Items that have been heard whole."""
        while len(self._said) > 1 and self._said[1].start_ms <= heard_ms - MOST_LAG_MS:
            self._said.popleft()


def _cut(said: _Said, heard_ms: float) -> None:
    item = said.item
    if item is None:
        return
    heard_ms -= said.start_ms
    if item.status != "completed" or heard_ms < item.audio_ms:
        item.cut(max(0.0, heard_ms))
