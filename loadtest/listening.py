"""What a caller hears: a player without a loudspeaker, and an ear for one reply. No I/O, no clock.

All times are seconds of whatever clock the caller goes by.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

PREBUFFER_S: Final = 0.060
AUDIBLE: Final = 328
"""Of 32768: -40 dB below full scale. What is softer is the silence that voices begin with."""

_ROUNDING_S: Final = 1e-6
_SENTENCE: Final = re.compile(r"[.!?…。！？](?=[\"'”’)\]]*(\s|$))")
# A dot behind these ends no sentence in most replies.
_ABBREVIATED: Final = re.compile(r"\b(?:mr|mrs|ms|dr|st|prof|no|vs|e\.g|i\.e|[a-z])\.$", re.I)


@dataclass(slots=True)
class Reply:
    """One reply as it arrives.

    ``arrivals``: when audio came, and the seconds of the reply that were there then. ``onset_s``:
    where its first audible sample is. ``underruns``: how often and for how many seconds in all a
    listener waited in the middle of it.
    """

    name: bytes
    item: bytes = b""
    arrivals: list[tuple[float, float]] = field(default_factory=list)
    seconds: float = 0.0
    onset_s: float | None = None
    onset_at: float | None = None
    text: str = ""
    underruns: int = 0
    underrun_s: float = 0.0
    status: str = ""
    cut: bool = False
    starts: float = 0.0
    _sentence: int = 0
    """Letters of the first sentence, once it is complete."""
    _sentence_s: float | None = None
    _heard_since: bool = False

    @property
    def first_at(self) -> float | None:
        """When its first audio came."""
        return self.arrivals[0][0] if self.arrivals else None

    @property
    def sentence_complete(self) -> bool:
        """Whether it is known where the first sentence's audio ends."""
        return self._sentence_s is not None

    def say(self, text: str) -> None:
        """More of its words. Where they come with their audio, words that follow a whole
        sentence tell that the sentence's audio is complete."""
        if self._sentence and self._sentence_s is None and self._heard_since:
            self._sentence_s = self.seconds
        self.text += text
        self._heard_since = False
        if not self._sentence:
            self._sentence = _first_sentence(self.text)

    def sound(self, now: float, samples: int, rate: int, decode: Callable[[], bytes]) -> None:
        """More of its audio; ``decode`` is asked for the samples only while none was audible."""
        if self.onset_s is None:
            self._look_for_onset(now, rate, decode())
        self.seconds += samples / rate
        self.arrivals.append((now, self.seconds))
        self._heard_since = True

    def _look_for_onset(self, now: float, rate: int, pcm: bytes) -> None:
        loud = np.abs(np.frombuffer(pcm, "<i2").astype(np.int32)) >= AUDIBLE
        if not loud.any():
            return
        self.onset_s = self.seconds + int(np.argmax(loud)) / rate
        played_at = (self.first_at or now) + self.onset_s
        self.onset_at = max(played_at, now)

    def sentence_at(self) -> float | None:
        """When the last sample of its first sentence was there.

        Of one whose words run ahead of their audio, by the share of its letters.
        """
        if not self.arrivals:
            return None
        wanted = self._sentence_s
        if wanted is None:
            letters = self._sentence or len(self.text)
            wanted = self.seconds * (letters / len(self.text) if self.text else 1.0)
        there = (at for at, seconds in self.arrivals if seconds >= wanted - _ROUNDING_S)
        return next(there, self.arrivals[-1][0])

    def gaps_s(self) -> list[float]:
        """Between one arrival of audio and the next."""
        times = [at for at, _ in self.arrivals]
        return [after - before for before, after in pairwise(times)]


def _first_sentence(text: str) -> int:
    """Letters of the first sentence that is complete; 0 while none is."""
    for match in _SENTENCE.finditer(text):
        if match[0] != "." or not _ABBREVIATED.search(text[: match.end()]):
            return match.end()
    return 0


class VirtualPlayer:
    """Plays replies one after the other. Each begins 60 ms after its first audio came, so that
    what comes a little late is not missed; it never waits again."""

    def __init__(self, prebuffer_s: float = PREBUFFER_S) -> None:
        self.end = 0.0
        """When all that is here has been played."""
        self._prebuffer_s = prebuffer_s
        self._reply: Reply | None = None

    def put(self, now: float, reply: Reply, seconds: float) -> None:
        """So much more of a reply came."""
        if reply is not self._reply:
            self._reply = reply
            self.end = reply.starts = max(self.end, now + self._prebuffer_s)
        elif now - self.end > _ROUNDING_S:
            if not reply.cut:
                reply.underruns += 1
                reply.underrun_s += now - self.end
            self.end = now
        self.end += seconds

    def playing(self, now: float) -> bool:
        """Whether anything is still to be heard."""
        return now < self.end

    def heard_s(self, now: float) -> float:
        """How much of the reply that plays has been heard, its gaps left out."""
        reply = self._reply
        if reply is None:
            return 0.0
        return max(0.0, reply.seconds - max(0.0, self.end - now))

    def fall_silent(self, now: float) -> Reply | None:
        """Drop what was not played. The reply that was cut; None where nothing was playing."""
        if not self.playing(now):
            return None
        self.end = now
        if self._reply is not None:
            self._reply.cut = True
        return self._reply
