"""Markdown, HTML and emoji to plain text on one line.

Markup goes; what it marks stays. The tags of the voice (``<laugh>``) stay too: they are spoken.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from engines.tts.orpheus_text import TAGS

_VOICE: Final = "|".join(TAGS)

# --- characters that are no text ------------------------------------------------------------

_PICTURES: Final = (
    "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2300-\u23ff\u25a0-\u25ff"
    "\u3030\u303d\u3297\u3299"
)
_JOINED: Final = "\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f"
_EMOJI: Final = re.compile(
    rf"[{_PICTURES}][{_PICTURES}{_JOINED}]*|[\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f]"
    r"|(?<!\S)[:;=]['’]?-?[)(DPp](?!\S)"
)
_INVISIBLE: Final = re.compile(
    "[\u200b\u2060\ufeff\u00ad\u200e\u200f]|(?<!\\w)[\u200c\u200d]|[\u200c\u200d](?!\\w)"
)
_ARROW: Final = re.compile(r"\s*(?:[\u2190-\u21ff\u27f0-\u27ff]|(?<!\S)[-=]+>(?!\S))\s*")

# --- marks at the start of a line, or all of it ----------------------------------------------

_NOTHING: Final = re.compile(
    r"\s*(?:(?:[-*_~][ \t]*){3,}|={2,}"  # a rule, or what underlines a heading
    r"|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)+"  # what underlines the head of a table
    r"|\[[^\]\n]+\]:[ \t]+\S.*)\s*"  # where a link leads that is named elsewhere
)
_QUOTE: Final = re.compile(r"^\s*(?:>[ \t]?)+(?=\s*\S)")
_HEADING: Final = re.compile(r"^\s*#{1,6}[ \t]+")
_HEADING_END: Final = re.compile(r"[ \t]+#+[ \t]*$")
_BULLET: Final = re.compile(r"^\s*[-*+•‣◦▪●·–][ \t]+(?:\[[ xX]\][ \t]+)?(?=\S)")
_NUMBER: Final = re.compile(r"^(\s*[*_]*)(\d{1,3})[.)]([*_]*[ \t]+)(?=\S)")
_ROW: Final = re.compile(r"^\s*\||\s\|\s|\|\s*$")
_CELL_END: Final = re.compile(r"\s*\|\s*")
_COMPLETE: Final = re.compile(r"[.!?…:;,。！？：；，][\"'”’»)\]*_]*\s*$")

# --- marks within a line ----------------------------------------------------------------------

_CODE: Final = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_TARGET: Final = r"\((?:[^()\s]|\([^()\s]*\))*(?:[ \t]+(?:\"[^\"]*\"|'[^']*'))?\)"
_LINK: Final = re.compile(rf"!?\[([^\[\]]*)\]{_TARGET}")
_NAMED_LINK: Final = re.compile(r"!?\[([^\[\]]+)\]\[[^\[\]]*\]")
_LINK_END: Final = re.compile(rf"\]{_TARGET}")
_REFERENCE: Final = re.compile(
    r"\[\^[^\]\s]*\]:?|【[^】]*】|(?<=\S)[ \t]?\[\d{1,3}(?:[,–-] ?\d{1,3})*\]"
)
_ADDRESS: Final = re.compile(r"<((?:https?://|www\.)[^<>\s]+|(?:mailto:)?[\w.+-]+@[\w.-]+)>")
_ATTRIBUTE: Final = r"\s+[\w:@.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+))"
_TAG: Final = re.compile(
    rf"<(?!(?:{_VOICE})>)(?:!DOCTYPE[^<>]*|/?[A-Za-z][\w:.-]*(?:{_ATTRIBUTE})*\s*/?"
    r"|/?\|[^<>\n]{0,40}\||\?[^<>]*\?)>"
)
_ESCAPED: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_STARS: Final = re.compile(r"\*+")
_LINE_MARKS: Final = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|~~")
_INNER_LINE: Final = re.compile(r"_+")

# --- what may be left ------------------------------------------------------------------------

_LEFT_OVER: Final = re.compile(rf"<(?:{_VOICE})>|[*_`#~|\\{{}}\[\]^<>]+")
_HOLLOW: Final = re.compile(r"\(\s*\)|\[\s*\]|\"\s*\"|“\s*”|‘\s*’")
_BLANKS: Final = re.compile(r"\s+")
_LOOSE: Final = re.compile(r" +(?=[.,;:!?…]+(?:[\s\"'”’)]|$)|\))|(?<=\() +")
_DOUBLED: Final = re.compile(r"([,;:])[,;: ]*(?=[.,;:!?…])")
_LEADING: Final = re.compile(r"^(?:[\s.,;:!?…)\]»–—-]|’(?!\w)|”)+")
_VOICED: Final = re.compile(rf"[^\W_]|<(?:{_VOICE})>")


def plain(text: str, *, starts_line: bool, code: Callable[[str], str]) -> str:
    """``text`` without markup. ``starts_line``: whether a line begins with it, as marks of lists
    and headings do. ``code`` gives the words for a span of code."""
    text = _without_pictures(text)
    text = _CODE.sub(lambda span: f" {code(span[2])} ", text)
    first, *others = text.split("\n")
    lines = [_line(first, starts_line), *(_line(line, True) for line in others)]
    alone = [this or following for (_, this), (_, following) in pairwise(lines)]
    ended = [_ended(line, ends) for (line, _), ends in zip(lines, alone, strict=False)]
    return _inline("\n".join([*ended, lines[-1][0]]))


def tidy(text: str) -> str:
    """``text`` without marks that nobody says, blanks and commas in good order; empty where
    there is nothing to be said."""
    text = _LEFT_OVER.sub(lambda found: found[0] if found[0][1:-1] in TAGS else " ", text)
    text = _BLANKS.sub(" ", _HOLLOW.sub(" ", _without_pictures(text)))
    text = _DOUBLED.sub("", _LOOSE.sub("", text))
    text = _LEADING.sub("", text).strip()
    return text if _VOICED.search(text) else ""


def _without_pictures(text: str) -> str:
    return _INVISIBLE.sub("", _EMOJI.sub(" ", text))


def _line(line: str, starts: bool) -> tuple[str, bool]:
    """A line without the marks of its kind, and whether it had any, so that it stands alone."""
    if not starts:
        return _CELL_END.sub(", ", line) if _ROW.search(line) else line, False
    if _NOTHING.fullmatch(line):
        return "", False
    rest, headings = _HEADING.subn("", _QUOTE.sub("", line))
    if headings:
        return _NUMBER.sub(r"\1\2,\3", _HEADING_END.sub("", rest)), True
    rest, bullets = _BULLET.subn("", rest)
    rest, numbers = _NUMBER.subn(r"\1\2,\3", rest)
    if _ROW.search(rest):
        return ", ".join(filter(None, map(str.strip, _CELL_END.split(rest)))), True
    return rest, bool(bullets or numbers)


def _ended(line: str, alone: bool) -> str:
    return f"{line.rstrip()}." if alone and line.strip() and not _COMPLETE.search(line) else line


def _inline(text: str) -> str:
    if "[" in text or "]" in text:
        text = _REFERENCE.sub("", text)
        for _ in range(2):  # an image may be in a link
            text = _LINK.sub(r"\1", text)
        text = _LINK_END.sub("", _NAMED_LINK.sub(r"\1", text))
    if "<" in text:
        text = _TAG.sub(" ", _ADDRESS.sub(r" \1 ", text))
    while "&" in text and (unescaped := html.unescape(text)) != text:
        text = unescaped
    text = _ESCAPED.sub("", text)
    if "*" in text:
        text = _STARS.sub(_star, text)
    text = _INNER_LINE.sub(" ", _LINE_MARKS.sub("", text))
    return _BLANKS.sub(" ", _ARROW.sub(", ", text)).strip()


def _star(stars: re.Match[str]) -> str:
    """Stars between blanks or between digits multiply; others stress."""
    before, after = stars.string[: stars.start()][-1:], stars.string[stars.end() :][:1]
    alone = not before.strip() and not after.strip()
    return stars[0] if alone or (before.isdigit() and after.isdigit()) else ""
