"""What people write, kept from being read as a command by the model.

A chat template marks who speaks with tokens such as ``<|im_end|>``. They are text until they are
encoded, so whoever writes the same letters into a message could speak as somebody else. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


class PlainText:
    """Takes the meaning from the ``tokens`` of a model wherever they stand in a text: a space
    behind their first letter makes them words like others. Tokens with a space in them, which
    some vocabularies have for indented code, command nothing."""

    def __init__(self, tokens: Iterable[str]) -> None:
        marks = {token for token in tokens if len(token) > 1 and not re.search(r"\s", token)}
        longest_first = sorted(marks, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def of(self, value: Any) -> Any:
        """``value`` with all text in it made plain; lists and dicts are gone through."""
        if isinstance(value, str):
            return self._plain(value)
        if isinstance(value, dict):
            return {self.of(key): self.of(item) for key, item in value.items()}
        return [self.of(item) for item in value] if isinstance(value, list | tuple) else value

    def _plain(self, text: str) -> str:
        # Again until there is none: where two overlap, breaking one up leaves the other.
        while self._marks.search(text):
            text = self._marks.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return text
