"""What is said in one go, and how long nobody speaks before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pipelines.narration.blocks import Block, Kind
from pipelines.narration.chapters import Chapter
from pipelines.narration.settings import NarrationSettings
from pipelines.speaking.phrases import PhraseSettings
from pipelines.speaking.script import Script

_TEXT_AT_A_TIME: Final = 256
"""Characters: each phrase takes some of a millisecond, and a book of them would hold the loop."""

_CLOSED: Final = r"[\"'”’»)\]}*_」』）]*\s*$"
_SENTENCE: Final = re.compile(rf"[.!?…。！？]{_CLOSED}")
_CLAUSE: Final = re.compile(rf"(?:[,;:—–，；：、]|\s-){_CLOSED}")


@dataclass(frozen=True, slots=True)
class Narration:
    """How a text is to be said. ``call`` names the work, for whoever counts it. ``live``: somebody
    listens while it is made, so the first phrase is short and sound is given on as it comes; else
    phrases are whole sentences, each as loud as the others by all that is known of it."""

    voice: str | None = None
    speed: float = 1.0
    language: str | None = None
    call: str = ""
    live: bool = False
    settings: NarrationSettings = field(default_factory=NarrationSettings)


@dataclass(frozen=True, slots=True)
class Piece:
    """``spoken`` after ``pause_ms`` of silence, in this of the chapters; at its end ``done`` of
    their characters are said. Of marks alone nothing is, not even the pause."""

    spoken: str
    pause_ms: int
    chapter: int
    done: int


def pieces(chapters: Iterable[Chapter], narration: Narration) -> Iterator[Piece]:
    """What there is to say, each worked out when it is asked for."""
    settings, script = narration.settings, Script(narration.language, _phrases(narration))
    pause, done, begun, inside, before = 0, 0, False, False, Kind.PARAGRAPH
    for number, block, opens in _blocks(chapters):
        if begun:
            between = settings.chapter_ms if opens else _between(before, block.kind, settings)
            pause, inside = between if inside else max(pause, between), False
        for text, spoken in _lines(script, block):
            done += len(text)
            yield Piece(spoken, pause, number, done)
            if spoken:
                begun, inside, pause = True, True, _after(text, settings)
        before = block.kind


def size_of(chapters: Iterable[Chapter]) -> int:
    """What ``done`` is at the end, at most."""
    return sum(len(block.text) + 1 for chapter in chapters for block in chapter.blocks)


def _blocks(chapters: Iterable[Chapter]) -> Iterator[tuple[int, Block, bool]]:
    """Each with the number of its chapter, and whether that begins with it."""
    for number, chapter in enumerate(chapters):
        for place, block in enumerate(chapter.blocks):
            yield number, block, number > 0 and place == 0


def _phrases(narration: Narration) -> PhraseSettings:
    settings = narration.settings
    most, characters = settings.most_words, settings.most_characters
    if narration.live:
        return PhraseSettings(most=most, most_characters=characters)
    never = most + 2  # what ends a first phrase early comes later than what ends any
    return PhraseSettings(never, never, never, most, characters)


def _lines(script: Script, block: Block) -> Iterator[tuple[str, str]]:
    """A block ends a line, so that no phrase goes on in the next."""
    text = block.text + "\n"
    for start in range(0, len(text), _TEXT_AT_A_TIME):
        for line in script.feed(text[start : start + _TEXT_AT_A_TIME]):
            yield line.text, _closed(line.spoken) if line.text.endswith("\n") else line.spoken


def _closed(spoken: str) -> str:
    """With a full stop, so that a voice lowers at the end of a line that has no mark."""
    bare = spoken[-1:].isascii() and spoken[-1:].isalnum()
    return f"{spoken}." if bare else spoken


def _after(text: str, settings: NarrationSettings) -> int:
    """By the marks at the end of what was said; the end of a line is like that of a sentence."""
    if _CLAUSE.search(text):
        return settings.clause_ms
    if text.endswith("\n") or _SENTENCE.search(text):
        return settings.sentence_ms
    return settings.cut_ms


def _between(before: Kind, after: Kind, settings: NarrationSettings) -> int:
    """By what the blocks are on both sides."""
    kinds = {before, after}
    if Kind.RULE in kinds:
        return settings.scene_ms
    if Kind.HEADING in kinds:
        return settings.heading_ms
    return settings.sentence_ms if kinds == {Kind.ITEM} else settings.paragraph_ms
