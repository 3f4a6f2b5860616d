"""What a model writes that is not for the ear, and may be longer than a phrase.

Nobody can listen to code, so a block of it is only mentioned, once: without a word the caller,
who was told that here it comes, would wait for it. Comments and thoughts go without a word.
"""

from __future__ import annotations

import re
from typing import Final

from pipelines.speaking.languages import primary

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r"\s*(?:>\s*|[-*+]\s+|\d{1,3}[.)]\s+)*(`{3,}(?=[^`]*$)|~{3,})")
_HIDDEN: Final = re.compile(r"(?<!`)<!--|^\s*<(?:think|thinking|tool_call)>")
_CLOSED_BY: Final = {
    "<!--": "-->",
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<tool_call>": "</tool_call>",
}
_MENTIONS: Final = {
    "de": "Ein Stück Code.",
    "en": "A block of code.",
    "es": "Un bloque de código.",
    "fr": "Un bloc de code.",
    "it": "Un blocco di codice.",
    "nl": "Een stuk code.",
    "pt": "Um bloco de código.",
}


class Prose:
    """Follows a text, piece by piece, and gives what of it is prose."""

    def __init__(self, language: str | None = None) -> None:
        self.at_line_start = True
        self._mention = _MENTIONS.get(primary(language), "")
        self._fence = ""
        self._closer = ""

    def feed(self, text: str) -> str:
        """The next piece, without what is not to be read, and with a mention of code in its
        place."""
        return "".join(map(self._prose_of, _LINE.findall(text)))

    def _prose_of(self, line: str) -> str:
        starts = self.at_line_start
        self.at_line_start = line.endswith("\n") or (starts and not line.strip())
        if self._fence:
            if starts and _closes(line.strip(), self._fence):
                self._fence = ""
            return ""
        if not self._closer and starts and (fence := _FENCE.match(line)):
            self._fence = fence[1]
            return self._mention + "\n"
        return self._shown(line)

    def _shown(self, line: str) -> str:
        """A line without comments and the like, of which the last may stay open."""
        shown = ""
        while line:
            if self._closer:
                _, closer, line = line.partition(self._closer)
                self._closer = "" if closer else self._closer
            elif hidden := _HIDDEN.search(line):
                shown += line[: hidden.start()]
                self._closer = _CLOSED_BY[hidden[0].strip()]
                line = line[hidden.end() :]
            else:
                return shown + line
        return shown


def _closes(line: str, fence: str) -> bool:
    return len(line) >= len(fence) and not line.strip(fence[0])
