"""What the turn machine knows of a stretch of the caller's speech."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pipelines.conversation.agreement import Agreement
from pipelines.conversation.events import Kind, TranscriptArrived
from pipelines.conversation.patience import Profile, wait_ms

SURE_READINGS: Final = 2
"""Readings in a row with words, before a silent reply is given up: half of an "I see" is an "I".
As many without any, before a sound that lasts is taken for noise."""

TENTATIVE_MS: Final = 2_000
"""Silence after which a sound over a reply, whose words are still unknown, is forgotten."""


@dataclass(slots=True)
class Partial:
    """The readings of a turn that is still being spoken. ``take`` is the one under way;
    ``readings_with_words``, how many in a row, the last included, had words that say something;
    ``empty_readings``, how many had none at all."""

    agreement: Agreement = field(default_factory=Agreement)
    readings_with_words: int = 0
    empty_readings: int = 0
    take: int | None = None
    due_at: int = 0
    _asked_at: int = 0
    _every_ms: int = 0

    def ask(self, take: int, now: int, every_ms: int) -> None:
        """A reading is under way, and the next is due after twice what this one takes, but at least
        ``every_ms`` and at most three times that."""
        self.take, self._asked_at, self._every_ms = take, now, every_ms

    def read(self, kind: Kind, now: int) -> None:
        """It is done, after so much time: the more it took, the later is the next."""
        self.take = None
        self.readings_with_words = self.readings_with_words + 1 if kind == "words" else 0
        self.empty_readings = self.empty_readings + 1 if kind == "nothing" else 0
        took_ms, every_ms = now - self._asked_at, self._every_ms
        self.due_at = self._asked_at + max(every_ms, min(3 * every_ms, 2 * took_ms))

    def fail(self) -> None:
        """It was not done: the recogniser has enough to do."""
        self.take = None
        self.due_at = self._asked_at + 3 * self._every_ms


@dataclass(slots=True)
class Turn:
    """A stretch of the caller's speech.

    It is ``confirmed`` once it is surely one, ``over_reply`` where it has silenced a reply, and
    ``answers`` where a mere "yes" in it is an answer. ``text`` is None until its take has
    arrived; the opinions are about that take, from -1 (the caller goes on) to 1, 0 for none.
    """

    number: int
    answers: bool = True
    confirmed: bool = False
    over_reply: bool = False
    take: int | None = None
    text: str | None = None
    kind: Kind = "words"
    suspicion: str = ""
    by_words: float = 0.0
    by_sound: float = 0.0
    partial: Partial = field(default_factory=Partial)
    deadline: int = 0

    @property
    def opinions(self) -> tuple[float, float]:
        """What is thought of its being over: by its words, and by its sound."""
        return self.by_words, self.by_sound

    @property
    def is_noise(self) -> bool:
        """It goes on and on without words."""
        return self.partial.empty_readings >= SURE_READINGS

    @property
    def says_something(self) -> bool:
        """Its words are meant for the agent, and more than a sign of listening."""
        if not self.text or self.kind == "nothing":
            return False
        if self.over_reply or not self.confirmed:
            return self.kind == "words" or (self.kind == "backchannel" and self.answers)
        return True

    def is_to_be_read(self, now: int) -> bool:
        """It may have new words to show."""
        partial = self.partial
        return self.confirmed and partial.take is None and now >= partial.due_at

    def wait_ms(self, profile: Profile | None, silence_ms: int) -> int:
        """The silence that ends it, as far as is known now; without a profile ``silence_ms``."""
        if not self.confirmed:
            return TENTATIVE_MS
        return silence_ms if profile is None else wait_ms(profile, self.opinions)

    def understand(self, words: TranscriptArrived) -> None:
        """Its take has arrived."""
        self.text, self.kind, self.suspicion = words.text, words.kind, words.suspicion
        self.by_words = words.completeness

    def forget(self) -> None:
        """The caller has gone on: what its take said is not all."""
        self.take = self.text = None
        self.by_words = self.by_sound = 0.0
