"""A text that nobody waits behind, spoken as the replies of calls are.

The same words are said for what is written, the same phrases are cut, and each is as loud as the
others. Calls go first: a phrase is begun only where there is a place for it, and where it loses
that, it is begun again later. The same request gives the same audio, so what has been given of it
already is left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from engines.audio import Pcm
from engines.ports import Priority, SpeechRequest, Tts
from pipelines.places import DisplacedError, Place
from pipelines.speaking.loudness import LevelledPhrase, Leveller
from pipelines.speaking.script import Line, Script
from pipelines.stall import timely

Put: TypeAlias = Callable[[Pcm], Awaitable[None]]
"""Takes the next piece, and may wait; cancelled, it has not taken it."""

_TEXT_AT_A_TIME: Final = 256
"""Characters: each phrase takes some of a millisecond, and a book of them would hold the loop."""

_PIECE_MS: Final = 200
"""The most that is handed on at a time, so that what comes behind can begin early."""


@dataclass(frozen=True, slots=True)
class Narration:
    """What is to be said, and how. ``call`` names the work, for whoever counts it."""

    text: str
    voice: str | None = None
    speed: float = 1.0
    language: str | None = None
    call: str = ""


def lines_of(narration: Narration) -> Iterator[Line]:
    """The phrases that have something to be said, each worked out when it is asked for."""
    script, text = Script(narration.language), narration.text
    for start in range(0, len(text), _TEXT_AT_A_TIME):
        lines = script.feed(text[start : start + _TEXT_AT_A_TIME])
        yield from (line for line in lines if line.spoken)
    yield from (line for line in script.finish() if line.spoken)


async def narrate(narration: Narration, tts: Tts, place: Place, put: Put) -> None:
    """Say all of it. Raises EngineError, and what the place raises."""
    leveller = Leveller()
    for line in lines_of(narration):
        request = SpeechRequest(
            line.spoken, narration.voice, narration.speed, Priority.BATCH, narration.call
        )
        phrase = _Phrase(request, leveller.phrase(), put)
        while not phrase.whole:
            try:
                async with place.hold():
                    await phrase.say(tts)
            except DisplacedError:
                continue


class _Phrase:
    """One phrase, which may take several beginnings."""

    def __init__(
        self,
        request: SpeechRequest,
        levelled: LevelledPhrase,
        put: Callable[[Pcm], Awaitable[None]],
    ) -> None:
        self.whole = False
        self._request = request
        self._levelled = levelled
        self._put = put
        self._given = 0

    async def say(self, tts: Tts) -> None:
        """Give what has not been given yet."""
        place = 0
        async with tts.open(self._request) as given, timely(given, "tts") as audio:
            async for pcm in audio:
                fresh = pcm.part(min(len(pcm), max(0, self._given - place)))
                place += len(pcm)
                for piece in _pieces(self._levelled.feed(fresh)) if len(fresh) else ():
                    await self._put(piece)
                    self._given += len(piece)
        self._levelled.finish()
        self.whole = True


def _pieces(pcm: Pcm) -> Iterator[Pcm]:
    size = max(1, _PIECE_MS * pcm.rate // 1000)
    return (pcm.part(start, start + size) for start in range(0, len(pcm), size))
