"""What was said and when, as people read it: subtitles, and times of words.

Words have the times that the recogniser tells, where it was asked for them and can. Where not, the
time of a stretch of speech is spread over its text by length, which is off by a word or two where
somebody hesitates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from engines.ports import Segment

MOST_CHARACTERS: Final = 84
"""Of a caption: two lines of 42, as broadcasters have them."""

MOST_MS: Final = 7_000
GAP_MS: Final = 1_500
"""A pause within a stretch that no caption stays over, where words have their own times."""

_LINE: Final = 42
_PAUSE: Final = 1
"""What a blank counts for, in letters."""

_CLAUSE: Final = tuple(",;:.!?…")


@dataclass(frozen=True, slots=True)
class Spoken:
    """Text with its place in a file: a stretch of speech, a caption, or a word. ``words``: those of
    a stretch, where their times are known; ``speaker``: who says it, where that is told."""

    text: str
    start_ms: int
    end_ms: int
    words: tuple[Spoken, ...] = ()
    speaker: str = ""


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
    words = tuple(Spoken(word.text.strip(), word.start_ms, word.end_ms) for word in segment.words)
    return Spoken(segment.text, segment.start_ms, segment.end_ms, words)


def words_of(spoken: Spoken) -> list[Spoken]:
    """Its words, with their own times, or else each with its share of the time."""
    if spoken.words:
        return list(spoken.words)
    words = spoken.text.split()
    whole = sum(len(word) + _PAUSE for word in words)
    lasts, borders, passed = spoken.end_ms - spoken.start_ms, [spoken.start_ms], 0
    for word in words:
        passed += len(word) + _PAUSE
        borders.append(spoken.start_ms + lasts * passed // whole)
    return [Spoken(word, *between) for word, between in zip(words, pairwise(borders), strict=True)]


def captions_of(spoken: Iterable[Spoken]) -> Iterator[Spoken]:
    """The same, in pieces that can be read at a glance, ended at a clause where there is one."""
    for stretch in spoken:
        caption: list[Spoken] = []
        for word in words_of(stretch):
            if caption and not _fits(caption, word):
                yield _joined(caption, stretch.speaker)
                caption = []
            caption.append(word)
            if word.text.endswith(_CLAUSE) and 2 * _length(caption) > MOST_CHARACTERS:
                yield _joined(caption, stretch.speaker)
                caption = []
        if caption:
            yield _joined(caption, stretch.speaker)


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


def _fits(caption: list[Spoken], word: Spoken) -> bool:
    return (
        _length(caption) + 1 + len(word.text) <= MOST_CHARACTERS
        and word.end_ms - caption[0].start_ms <= MOST_MS
        and word.start_ms - caption[-1].end_ms < GAP_MS
    )


def _length(caption: list[Spoken]) -> int:
    return sum(len(word.text) + 1 for word in caption) - 1


def _joined(caption: list[Spoken], speaker: str) -> Spoken:
    text = " ".join(word.text for word in caption)
    end_ms = max(caption[-1].end_ms, caption[0].start_ms + 1)
    return Spoken(text, caption[0].start_ms, end_ms, speaker=speaker)


def _lines(text: str) -> str:
    """In two lines where one is too long, cut nearest to the middle."""
    if len(text) <= _LINE:
        return text
    blanks = [place for place, character in enumerate(text) if character == " "]
    if not blanks:
        return text
    middle = min(blanks, key=lambda place: abs(2 * place - len(text)))
    return f"{text[:middle]}\n{text[middle + 1 :]}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{point}{rest:03}"
