"""Token ids as text while they come, never half a character.

A token is a run of bytes: a character beyond ASCII may be spread over several, and how a token
is spelt may depend on those before it. So the last few tokens are decoded together, and what
ends in the mark for a broken character waits for the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

_BROKEN: Final = "\ufffd"
_LONGEST: Final = 4
"""Bytes, and so tokens, of the longest character in UTF-8: what is still broken then, stays so."""

_CONTEXT: Final = 16
"""Tokens decoded with the next one at most; of those the last few are kept for longer."""


class Detokenizer:
    """``decode`` turns ids into text, special tokens left out."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._told: list[int] = []  # the last tokens whose text is out: what comes leans on them
        self._text = ""  # of these
        self._new: list[int] = []

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that these complete, possibly none."""
        return "".join(map(self._add, tokens))

    def finish(self) -> str:
        """What was left, broken or not."""
        return self._take() if self._new else ""

    def _add(self, token: int) -> str:
        self._new.append(token)
        text = self._decode(self._told + self._new)
        if text.endswith(_BROKEN) and len(self._new) < _LONGEST:
            return ""
        return self._take(text)

    def _take(self, text: str | None = None) -> str:
        text = self._decode(self._told + self._new) if text is None else text
        more = text[len(self._text) :]
        self._told, self._new, self._text = self._told + self._new, [], text
        if len(self._told) > _CONTEXT:
            self._told = self._told[-_LONGEST:]
            self._text = self._decode(self._told)
        return more
