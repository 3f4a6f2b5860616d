"""A reply as it is read out: the words as the model writes them, and beside them what is said.

What spans several phrases is followed here: a block of code, a comment, a model's thoughts.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.speaking.normalise import spoken_form
from pipelines.speaking.phrases import PhraseSettings, PhraseSplitter
from pipelines.speaking.unspoken import Prose


@dataclass(frozen=True, slots=True)
class Line:
    """A phrase as written, and as spoken: empty where nothing is to be said."""

    text: str
    spoken: str


class Script:
    """Text deltas of one reply in, its lines out. The texts of all lines are the whole reply.

    ``language`` is that of the reply, as in ``normalise.speakable``.
    """

    def __init__(self, language: str | None = None, settings: PhraseSettings | None = None) -> None:
        self._language = language
        self._splitter = PhraseSplitter(settings)
        self._prose = Prose(language)

    def feed(self, delta: str) -> list[Line]:
        """Take more text and give the lines that it completes."""
        return [self._line(phrase) for phrase in self._splitter.feed(delta)]

    def finish(self) -> list[Line]:
        """Give what is left; the script is then as new."""
        lines = [self._line(phrase) for phrase in self._splitter.finish()]
        self._prose = Prose(self._language)
        return lines

    def _line(self, phrase: str) -> Line:
        starts_line = self._prose.at_line_start
        prose = self._prose.feed(phrase)
        return Line(phrase, spoken_form(prose, self._language, starts_line=starts_line))
