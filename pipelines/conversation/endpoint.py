"""From speech probabilities to the borders of a turn, counted in samples, never in wall time.

The hysteresis is Silero's own (``VADIterator`` of silero-vad): a window at or above the
threshold is speech, one 0.15 below it is silence, and between the two whatever was going on
goes on.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated

from msgspec import Meta

WINDOW_MS = 32
"""Silero's window: 512 samples at 16 kHz."""

HYSTERESIS = 0.15

SOUND_DB = 25.0
"""A window this far below the loudest of its turn holds no sound of it."""

HANG = 3
"""Windows for which Silero goes on to believe in speech after a sound has ended: it falls silent
80 to 110 ms late on clean recordings. Silence is counted from where the sound ended, but from no
further back than this, since a last consonant may be as soft."""

RISE = 4
"""Windows for which Silero does not believe yet in speech that has begun: two, or four where it
begins with an f or an s. How long speech lasts is counted from where the sound began, but from no
further back than this."""

RISE_DB = 20.0
"""A window this far below the first that is speech holds no sound of it."""

MOST_ECHO = 0.5
"""A window that is more echo than this holds no caller."""

MOST_ECHOED = 0.45
"""A turn of which so much was echo is none of a caller's: of theirs, 3 windows in 10 at most were,
of an echo's at least 5."""

ECHO_ONSET_MS = 128
"""The echo guard needs this much of an echo to know it for one."""

SURE_ECHOES = 2
"""A path that the guard has just found takes one window of a caller over headphones for echo now
and then, and is given up in the next: one such window says nothing yet."""

ECHOING = 2_000 // WINDOW_MS
ECHO_CAUTION_MS = 64
"""As long as there was echo of late, speech has to last longer: the guard is sure of most windows
and not of all."""


_SLACK_WINDOWS = 3
"""Windows between the onset of speech and the decision that it is speech."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """When a turn begins and ends. Durations are rounded to whole windows of 32 ms.

    ``ahead_ms`` of silence is enough to start working a reply out, ``silence_ms`` ends the
    turn; ``onset_ms`` of speech begin one; ``max_turn_ms`` end it whatever the caller does.
    """

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    silence_ms: Annotated[int, Meta(ge=0, le=10_000)] = 500
    prefix_ms: Annotated[int, Meta(ge=0, le=5_000)] = 300
    ahead_ms: Annotated[int, Meta(ge=0, le=10_000)] = 160
    onset_ms: Annotated[int, Meta(ge=0, le=2_000)] = 64
    max_turn_ms: Annotated[int, Meta(ge=1_000, le=600_000)] = 60_000

    @property
    def preroll_ms(self) -> int:
        """Audio that may belong to a turn when it is decided that there is one."""
        return self.prefix_ms + self.onset_ms + _SLACK_WINDOWS * WINDOW_MS


class Border(Enum):
    """What a window has changed."""

    STARTED = auto()
    PAUSED = auto()
    RESUMED = auto()
    STOPPED = auto()


class Endpointer:
    """Finds the borders of the caller's turns, one window at a time.

    Borders come in the order ``STARTED (PAUSED RESUMED)* [PAUSED] STOPPED``. A pause is told
    once ``ahead_ms`` of silence have passed, unless the turn ends no later than that.

    ``wait`` moves the silence that ends the turn, until it is over or moved again.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self.position = 0
        """Windows heard since the call began."""
        self.quiet_ms = 0
        """The silence at the end of the turn that STOPPED has last told of."""
        self.speaking = False
        self.was_echo = False
        """What sounded like speech until now was the beginning of an echo."""
        self._echoes: deque[int] = deque(maxlen=SURE_ECHOES)
        self._suspect = self._echoed = 0
        self._paused = False
        self._loud = 0
        self._run = self._rise = self._gap = 0
        self._before_db = (-math.inf,) * RISE
        self._waiting: int | None = None
        self._quiet_since: int | None = None
        self._loudest_db = -math.inf
        self._sound_at = 0
        self._started_at = self._free_from = 0
        self.configure(settings)

    def configure(self, settings: EndpointSettings) -> None:
        """Take new settings, in mid-turn too."""
        self.settings = settings
        self._onset = _windows(settings.onset_ms)
        self._ahead = _windows(settings.ahead_ms)
        self._silence = _windows(settings.silence_ms)
        self._max_turn = _windows(settings.max_turn_ms)

    @property
    def position_ms(self) -> int:
        """Audio heard since the call began."""
        return self.position * WINDOW_MS

    @property
    def run_ms(self) -> int:
        """How long the caller has been speaking, without the gaps that are shorter than a pause."""
        return (self._run + self._rise) * WINDOW_MS if self._run else 0

    def lasts(self, milliseconds: int) -> bool:
        """The caller has been speaking for so long, or longer where echo makes it doubtful."""
        needed_ms = milliseconds + (ECHO_CAUTION_MS if self._echoes_of_late else 0)
        return self.run_ms > needed_ms - WINDOW_MS // 2

    @property
    def echoed(self) -> bool:
        """Of what sounded like speech in the open turn, too much was the agent's own voice."""
        return self._echoed > MOST_ECHOED * self._suspect

    @property
    def silent_ms(self) -> int:
        """How long the caller has been silent within the open turn."""
        return 0 if self._quiet_since is None else (self.position - self._quiet_since) * WINDOW_MS

    def wait(self, silence_ms: int) -> None:
        """End the open turn after so much silence, counted from its beginning; where it has
        passed already, with the next window of it."""
        self._waiting = _windows(silence_ms)

    @property
    def start_ms(self) -> int:
        """Where the turn began in the call's audio: its pre-roll in, the last turn's audio not."""
        pre_roll_at = self._started_at * WINDOW_MS - self.settings.prefix_ms
        return max(self._free_from * WINDOW_MS, pre_roll_at)

    def hear(self, probability: float, level_db: float = 0.0, echo: float = 0.0) -> Border | None:
        """Take the next window's speech probability, its level in dB of full scale, and the share
        of it that is the agent's own voice: beyond MOST_ECHO it is nobody's."""
        self.position += 1
        is_echo, suspect = echo > MOST_ECHO, probability >= self.settings.threshold
        self._suspect += suspect
        self._echoed += suspect and is_echo
        if is_echo:
            probability = 0.0
            self._echoes.append(self.position)
        self.was_echo = is_echo and self._echoes_of_late and 0 < self.run_ms <= ECHO_ONSET_MS
        self._loudest_db = max(self._loudest_db, level_db)
        if level_db > self._loudest_db - SOUND_DB:
            self._sound_at = self.position
        self._measure_run(probability, level_db)
        if self.speaking:
            return self._hear_within_turn(probability)
        return self._hear_before_turn(probability)

    def skip(self) -> None:
        """Let a window pass unjudged: an open turn stays open, its silence starts over."""
        self.position += 1
        self._sound_at = self.position
        self._loud = self._run = 0
        self._paused = False
        self._quiet_since = self._waiting = None

    def reset(self) -> None:
        """Forget the open turn: it ended by other means."""
        self.speaking = self._paused = False
        self._loud = 0
        self._quiet_since = self._waiting = None
        self._free_from = self.position
        self._loudest_db = -math.inf

    @property
    def _echoes_of_late(self) -> bool:
        return len(self._echoes) == SURE_ECHOES and self.position - self._echoes[0] < ECHOING

    def _measure_run(self, probability: float, level_db: float) -> None:
        if not self._run and probability >= self.settings.threshold:
            sounds = [before_db > level_db - RISE_DB for before_db in self._before_db]
            self._rise = (*sounds, False).index(False)
        if probability >= self.settings.threshold or (self._run and self._lingers(probability)):
            self._run, self._gap = self._run + 1, 0
        else:
            self._gap += 1
            self._run = self._run if self._gap < self._ahead else 0
        self._before_db = (level_db, *self._before_db[:-1])

    def _hear_before_turn(self, probability: float) -> Border | None:
        self._loud = self._loud + 1 if probability >= self.settings.threshold else 0
        if self._loud < self._onset:
            return None
        self.speaking = True
        self._started_at = self.position - self._loud
        self._suspect, self._echoed = self._loud, 0
        return Border.STARTED

    def _hear_within_turn(self, probability: float) -> Border | None:
        loud = probability >= self.settings.threshold
        if loud and self._paused:  # told even where the turn is full: its words have changed
            self._paused = False
            self._quiet_since = None
            return Border.RESUMED
        if self.position - self._started_at >= self._max_turn:
            return self._stop(quiet=0)
        if loud:
            self._quiet_since = None
            return None
        if self._quiet_since is None:
            if self._lingers(probability):
                return None
            before = self.position - 1
            self._quiet_since = min(before, max(self._sound_at, before - HANG))
        return self._grow_quiet(self.position - self._quiet_since)

    def _grow_quiet(self, quiet: int) -> Border | None:
        if quiet >= (self._silence if self._waiting is None else self._waiting):
            return self._stop(quiet)
        if quiet >= self._ahead and not self._paused:
            self._paused = True
            return Border.PAUSED
        return None

    def _lingers(self, probability: float) -> bool:
        return probability >= self.settings.threshold - HYSTERESIS

    def _stop(self, quiet: int) -> Border:
        self.quiet_ms = quiet * WINDOW_MS
        self.reset()
        return Border.STOPPED


def _windows(milliseconds: int) -> int:
    return max(1, round(milliseconds / WINDOW_MS))
