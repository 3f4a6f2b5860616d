"""How long the silences of a narration are, and how long what is said between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

_Ms = Annotated[int, Meta(ge=0, le=60_000)]

_WORDS_PER_S: Final = 2.75
"""Of a narrator: 165 a minute."""

_CHARACTERS_PER_S: Final = 24.0
"""No language is written in more: a bound for words that do not end."""


@dataclass(frozen=True, slots=True)
class NarrationSettings:
    """The section ``narration``. ``piece_s``: what is said in one go; a voice that decays sooner
    wants less. The others are silences at speed 1.0, measured from the last sound to the next:
    after a place where nothing but length asked for a cut (``cut_ms``), a clause that was cut
    off, a sentence, a paragraph, before and after a heading (``heading_ms``), where a rule
    divides (``scene_ms``), before a chapter, and at the end of a file.
    """

    piece_s: Annotated[float, Meta(ge=2.0, le=60.0)] = 12.0
    cut_ms: _Ms = 50
    clause_ms: _Ms = 180
    sentence_ms: _Ms = 400
    paragraph_ms: _Ms = 800
    heading_ms: _Ms = 1000
    scene_ms: _Ms = 1500
    chapter_ms: _Ms = 2000
    end_ms: _Ms = 300

    @property
    def most_words(self) -> int:
        """What can be said in ``piece_s``, nearly."""
        return round(self.piece_s * _WORDS_PER_S)

    @property
    def most_characters(self) -> int:
        """The same for what has no words."""
        return round(self.piece_s * _CHARACTERS_PER_S)
