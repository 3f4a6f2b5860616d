"""The text of a web page, without what is not read: scripts, styles, menus."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

from pipelines.memory.parts import Part

_UNREAD: Final = frozenset({"script", "style", "template", "noscript", "svg", "nav", "select"})
_HEADINGS: Final = frozenset({"title", "h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCK_TAGS: Final = (
    "p div section article main header footer aside ul ol li dl dt dd table tr pre blockquote"
    " figure figcaption form fieldset body head hr address details summary"
)
_BLOCKS: Final = _HEADINGS | frozenset(_BLOCK_TAGS.split())
_CELLS: Final = frozenset({"td", "th"})


def html_parts(page: str) -> list[Part]:
    """The parts of a page, in order. What is still open where the page ends, a tag or a comment, is
    no text: browsers show none of it either."""
    parser = _Parser()
    # Sections such as <![if x]> are comments; html.parser before 3.11.14 fails at some of them. Nor
    # is it to be closed: it then looks for the end of each open tag as far as the page goes.
    parser.feed(page.replace("<![", "<! ") + "\n")
    return parser.finish()


class _Parser(HTMLParser):
    """Feed it a page, and take its parts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[Part] = []
        self._words: list[str] = []
        self._line = 0
        self._heading = ""
        self._unread = 0

    def finish(self) -> list[Part]:
        """All of them, in order."""
        self._end_block()
        return self._parts

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag in _UNREAD:
            self._unread += 1
        elif tag in _BLOCKS:
            self._end_block()
        elif tag in _CELLS and self._words:
            self._words.append(" | ")
        elif tag == "br":
            self._words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNREAD:
            self._unread = max(0, self._unread - 1)
        elif tag in _HEADINGS:
            self._heading = self._taken() or self._heading
        elif tag in _BLOCKS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        if self._unread:
            return
        if not self._words:
            if not data.strip():
                return
            self._line = self.getpos()[0]
        self._words.append(data)

    def _taken(self) -> str:
        text, self._words = " ".join("".join(self._words).split()), []
        return text

    def _end_block(self) -> None:
        if text := self._taken():
            self._parts.append(Part(text, f"line {self._line}", self._heading))
