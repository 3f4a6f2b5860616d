"""Words that may be shown while their speaker goes on: LocalAgreement-2.

A recogniser that hears half a sentence guesses its last words; where two readings in a row begin
alike, that beginning stands (Liu et al. 2020, as used for Whisper by Macháček et al. 2023).
"""

from __future__ import annotations


class Agreement:
    """The agreed beginning of one turn. What was shown is never taken back."""

    def __init__(self) -> None:
        self._last: list[str] = []
        self._shown = 0

    def add(self, text: str) -> str | None:
        """Take the next reading; the agreed beginning, where it has grown."""
        words = text.split()
        agreed = 0
        for word, before in zip(words, self._last, strict=False):
            if _plain(word) != _plain(before):
                break
            agreed += 1
        self._last = words
        if agreed <= self._shown:
            return None
        self._shown = agreed
        return " ".join(words[:agreed])


def _plain(word: str) -> str:
    return "".join(letter for letter in word.casefold() if letter.isalnum())
