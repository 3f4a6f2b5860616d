"""What was said and when, as people read it: subtitles, and times of words.

Words have the times that the recogniser tells, where it was asked for them and can. Where not, the
time of a stretch of speech is spread over its text by length, which is off by a word or two where
somebody hesitates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from engines.asr.guard import UNSPACED
from engines.ports import Segment

LINE: Final = 42
"""Letters of a line, of which a caption has two, as broadcasters have it. Those of Chinese and
Japanese are twice as wide."""

MOST_MS: Final = 7_000
GAP_MS: Final = 1_500
"""A pause within a stretch that no caption stays over, where words have their own times."""

_LEAST: Final = 16
"""Letters: less is not left over for a caption of its own."""

_PAUSE: Final = 1
"""What a blank counts for, in letters."""

_SENTENCE: Final = tuple(".!?…。！？")
_CLAUSE: Final = (*_SENTENCE, *",;:、，；：")

_WORD: Final = re.compile(rf"[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+")
"""Between blanks, or a character of a script that has none, with what stands behind it."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Text with its place in a file: a stretch of speech, a caption, or a word. ``words``: those of
    a stretch, where their times are known; ``speaker``: who says it, where that is told. ``joined``
    is a word with no blank before it."""

    text: str
    start_ms: int
    end_ms: int
    words: tuple[Spoken, ...] = ()
    speaker: str = ""
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Utterance:
    """What was said in one chunk. ``segments`` have the times of the file; ``suspicion`` is the
    guard's (``engines.ports.Transcript``)."""

    text: str
    segments: tuple[Segment, ...]
    language: str | None
    suspicion: str

    @property
    def spoken(self) -> list[Spoken]:
        """Its segments as text with a place."""
        return [spoken_of(segment) for segment in self.segments]


def spoken_of(segment: Segment) -> Spoken:
    """The same as text with a place."""
    words = [Spoken(word.text.strip(), word.start_ms, word.end_ms) for word in segment.words]
    return Spoken(segment.text, segment.start_ms, segment.end_ms, _as_written(words, segment.text))


def words_of(spoken: Spoken) -> list[Spoken]:
    """Its words, with their own times, or else each with its share of the time."""
    if spoken.words:
        return list(spoken.words)
    words = _WORD.findall(spoken.text)
    whole = sum(len(word) + _PAUSE for word in words)
    lasts, borders, passed = spoken.end_ms - spoken.start_ms, [spoken.start_ms], 0
    for word in words:
        passed += len(word) + _PAUSE
        borders.append(spoken.start_ms + lasts * passed // whole)
    timed = [Spoken(word, *between) for word, between in zip(words, pairwise(borders), strict=True)]
    return list(_as_written(timed, spoken.text))


def joined(words: Sequence[Spoken]) -> Spoken:
    """One piece of text, never empty in time."""
    text = "".join(word.text if word.joined else f" {word.text}" for word in words).strip()
    end_ms = max(words[-1].end_ms, words[0].start_ms + 1)
    return Spoken(text, words[0].start_ms, end_ms)


def captions_of(spoken: Iterable[Spoken]) -> Iterator[Spoken]:
    """The same, in pieces that can be read at a glance, ended at a sentence or a clause where there
    is one."""
    for stretch in spoken:
        words = words_of(stretch)
        while words:
            count = _at_a_glance(words, stretch.speaker)
            yield replace(joined(words[:count]), speaker=stretch.speaker)
            words = words[count:]


def srt(spoken: Iterable[Spoken]) -> str:
    """SubRip: numbered captions. Who speaks stands before what is said."""
    return "\n".join(
        f"{number}\n{_time(caption.start_ms, ',')} --> {_time(caption.end_ms, ',')}\n"
        f"{_lines(said_by(caption))}\n"
        for number, caption in enumerate(captions_of(spoken), 1)
    )


def vtt(spoken: Iterable[Spoken]) -> str:
    """WebVTT. What would be markup there, or a time, is made none."""
    return "".join(
        [
            "WEBVTT\n",
            *(
                f"\n{_time(caption.start_ms, '.')} --> {_time(caption.end_ms, '.')}\n"
                f"{_voice(caption.speaker)}{_escaped(_lines(caption.text))}\n"
                for caption in captions_of(spoken)
            ),
        ]
    )


def said_by(spoken: Spoken) -> str:
    """Its text, after who says it."""
    return f"{spoken.speaker}: {spoken.text}" if spoken.speaker else spoken.text


def _voice(speaker: str) -> str:
    return f"<v {_escaped(speaker)}>" if speaker else ""


def _as_written(words: Sequence[Spoken], text: str) -> tuple[Spoken, ...]:
    """The same, with the blanks between them that ``text`` has."""
    written, place = list[Spoken](), 0
    for word in words:
        found = text.find(word.text, place)
        written.append(replace(word, joined=found == place and found > 0))
        place = max(found, place) + len(word.text)
    return tuple(written)


def _at_a_glance(words: Sequence[Spoken], speaker: str) -> int:
    """How many of them make up a caption."""
    most = next((n for n in range(1, len(words)) if not _fits(words[: n + 1], speaker)), len(words))
    if most == len(words) or words[most].start_ms - words[most - 1].end_ms >= GAP_MS:
        return most
    for ends in (_SENTENCE, _CLAUSE):
        for count in range(most, 0, -1):
            full = _width(joined(words[:count]).text) > LINE
            if full and words[count - 1].text.endswith(ends) and _is_worth(words[count:]):
                return count
    while most > 1 and not _is_worth(words[most:]):
        most -= 1
    return most


def _fits(words: Sequence[Spoken], speaker: str) -> bool:
    text = said_by(replace(joined(words), speaker=speaker))
    return (
        max(map(_width, _lines(text).split("\n"))) <= LINE
        and words[-1].end_ms - words[0].start_ms <= MOST_MS
        and words[-1].start_ms - words[-2].end_ms < GAP_MS
    )


def _is_worth(words: Sequence[Spoken]) -> bool:
    """A caption of their own."""
    return _width(joined(words).text) >= _LEAST


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide


def _lines(text: str) -> str:
    """In two lines where one is too long, cut nearest to the middle."""
    if _width(text) <= LINE:
        return text
    cuts = [match.start() for match in _WORD.finditer(text)][1:]
    if not cuts:
        return text
    middle = min(cuts, key=lambda place: abs(2 * _width(text[:place]) - _width(text)))
    return f"{text[:middle].rstrip()}\n{text[middle:]}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{point}{rest:03}"
