"""The part that all recognisers of whole clips share: from a request to its one transcript.

A recogniser hears at most 28 s of sound at a time and says how many clips it hears at once;
this brings the queue in front of it, the cutting of longer sound, and the guard: sound that holds
no single voice is not heard at all, and what is doubted is heard again in smaller pieces, once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from engines.asr.cutting import quiet_pieces
from engines.asr.guard import Doubt, Heard, Sound, compression_ratio, doubt, without_loop
from engines.asr.slots import Slots
from engines.audio import Pcm
from engines.ports import (
    AsrRequest,
    EngineError,
    FloatArray,
    Load,
    Priority,
    Segment,
    Transcript,
    Word,
)
from engines.workers import Workers

RATE = 16_000
SHORTEST_MS = 100
LONGEST_MS = 28_000
WORTH_AGAIN_MS = 4000  # from here on a clip has pieces that are long enough to be understood
AGAIN_PIECES = 2  # or one more: they are cut where it is quiet, and none is longer than a half
AGAIN_FOR = (Doubt.LOOP, Doubt.PACE, Doubt.UNSURE)


@dataclass(frozen=True, slots=True)
class Clip:
    """What a recogniser hears at a time: ``samples`` (n,) in [-1, 1] at 16 kHz."""

    samples: FloatArray
    language: str | None
    prompt: str
    word_times: bool = False

    @property
    def duration_ms(self) -> float:
        return 1000 * len(self.samples) / RATE

    @property
    def sound(self) -> Sound:
        """Measured anew each time."""
        return Sound.of(self.samples, RATE)


@dataclass(frozen=True, slots=True)
class Hearing:
    """What it heard, in which language; the words with the times of the clip where they were asked
    for and it can tell; and what it heard before and did not believe, if it tried again."""

    heard: Heard
    language: str | None
    words: tuple[Word, ...] = ()
    disbelieved: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """What was heard in ``place``, the guard's ``doubt`` of it, and that of what was heard
    ``before`` in a larger part, which this is in place of."""

    hearing: Hearing
    place: slice
    doubt: Doubt | None
    before: Doubt | None = None

    @property
    def text(self) -> str:
        """The words, less what is thrown away."""
        if self.doubt in (Doubt.SILENCE, Doubt.NOISE):
            return ""
        text = self.hearing.heard.text
        return without_loop(text) if self.doubt is Doubt.LOOP else text

    @property
    def reasons(self) -> list[str]:
        """Why words were thrown away or replaced, or are still doubted. What is merely said twice
        is not: people do, and who can tell has listened twice."""
        unspoken = self.doubt is Doubt.SILENCE and not self.hearing.heard.text
        own = None if unspoken or self.doubt is Doubt.ECHO else self.doubt
        return [why.value for why in (self.before, *self.hearing.disbelieved, own) if why]

    @property
    def segment(self) -> Segment:
        """Its words with their place and the recogniser's own doubts."""
        heard, start_ms = self.hearing.heard, self.place.start * 1000 // RATE
        words = self.hearing.words if self.text == heard.text else ()
        return Segment(
            self.text,
            start_ms,
            self.place.stop * 1000 // RATE,
            heard.avg_logprob,
            heard.no_speech_prob,
            compression_ratio(heard.text),
            tuple(
                replace(word, start_ms=start_ms + word.start_ms, end_ms=start_ms + word.end_ms)
                for word in words
            ),
        )


class Recogniser(Protocol):
    """A model that hears ``slots`` clips at once; ``slots`` holds from ``warm_up`` on."""

    slots: int

    async def warm_up(self) -> None:
        """Load the model. Raises EngineError."""
        ...

    async def hear(self, clip: Clip, priority: Priority) -> Hearing:
        """Cancelled, it stops or at least hinders nobody. Raises EngineError."""
        ...

    async def close(self) -> None:
        """Free the model."""
        ...


Hear: TypeAlias = Callable[[Clip], Hearing]


class Threaded:
    """A blocking recogniser, which has one thread to itself.

    ``load`` makes it: it is called in that thread by ``warm_up`` and raises EngineError.
    """

    slots = 1

    def __init__(self, name: str, load: Callable[[], Hear]) -> None:
        self._load = load
        self._hear: Hear | None = None
        self._workers = Workers(name)

    async def warm_up(self) -> None:
        """Load the model in the thread."""
        self._hear = await self._workers.run(Priority.FINAL, self._load)

    async def hear(self, clip: Clip, priority: Priority) -> Hearing:
        """Hear it in the thread. A clip that nobody waits for any more is heard to its end."""
        assert self._hear is not None, "the Listener warms up first"
        return await self._workers.run(priority, self._hear, clip)

    async def close(self) -> None:
        """Free the model, once the clip that it may still be hearing is done."""
        self._workers.close()
        await self._workers.wait_closed()
        self._hear = None


class Listener:
    """An ``engines.ports.Asr`` around a recogniser, and one of its own for ``files`` where theirs
    are not to wait among the clips of calls."""

    def __init__(self, name: str, recogniser: Recogniser, files: Recogniser | None = None) -> None:
        self._name = name
        self._recogniser = recogniser
        self._files = files or recogniser
        self._slots: Slots | None = None
        self._file_slots: Slots | None = None

    async def warm_up(self) -> None:
        """Load the model and let it hear a second of nothing. Raises EngineError."""
        await self._recogniser.warm_up()
        nothing = Clip(Pcm.silence(1000, RATE).floats(), None, "")
        await self._recogniser.hear(nothing, Priority.FINAL)
        self._slots = self._file_slots = Slots(self._name, self._recogniser.slots)
        if self._files is not self._recogniser:
            await self._files.warm_up()
            self._file_slots = Slots(self._name, self._files.slots)

    async def close(self) -> None:
        """Free the model."""
        self._slots = self._file_slots = None
        await self._recogniser.close()
        if self._files is not self._recogniser:
            await self._files.close()

    def load(self) -> Load:
        """Clips of calls that are being heard, and those that wait."""
        return self._slots.load() if self._slots else Load()

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        """One transcript of ``request``. Raises EngineError (``bad_request``) for another rate.

        Clips under 100 ms give an empty one at once.
        """
        if request.pcm.rate != RATE:
            raise EngineError(
                self._name,
                "bad_request",
                f"the audio has {request.pcm.rate} samples a second, the model hears {RATE}: "
                "resample it first (engines.audio)",
            )
        async with aclosing(self._transcripts(request)) as transcripts:
            yield transcripts

    async def _transcripts(self, request: AsrRequest) -> AsyncGenerator[Transcript, None]:
        if request.pcm.duration_ms < SHORTEST_MS:
            yield Transcript("", request.language)
            return
        if self._slots is None:
            raise EngineError(self._name, "unavailable", "it is not loaded: await warm_up() first")
        clip = Clip(request.pcm.floats(), request.language, request.prompt, request.word_times)
        parts: list[Part] = []
        for part in await self._hear(clip, 0, LONGEST_MS, request.priority):
            parts += await self._hear_again(clip, part, request.priority)
        yield _joined(parts, request.language)

    async def _hear(
        self, clip: Clip, start: int, longest_ms: float, priority: Priority
    ) -> list[Part]:
        """The clip in pieces of at most so much, each told what the one before it said."""
        parts: list[Part] = []
        prompt, language = clip.prompt, clip.language
        for place in quiet_pieces(clip.samples, RATE, int(longest_ms)):
            piece = Clip(clip.samples[place], language, prompt, clip.word_times)
            if why := piece.sound.doubt:
                hearing = Hearing(Heard("", piece.sound), None)
            else:
                hearing = await self._heard(piece, priority)
                why = doubt(hearing.heard)
            parts.append(Part(hearing, slice(start + place.start, start + place.stop), why))
            prompt, language = parts[-1].text or prompt, hearing.language or language
        return parts

    async def _heard(self, piece: Clip, priority: Priority) -> Hearing:
        of_file = priority is Priority.BATCH
        slots, recogniser = (
            (self._file_slots, self._files) if of_file else (self._slots, self._recogniser)
        )
        assert slots is not None
        async with slots.hold(priority):
            return await recogniser.hear(piece, priority)

    async def _hear_again(self, clip: Clip, part: Part, priority: Priority) -> list[Part]:
        """The part, or what comes out in smaller pieces where it is doubted and they are not.

        A loop is worth less than anything that comes of its pieces. A partial is not heard
        again: the next one will.
        """
        if part.doubt not in AGAIN_FOR or priority is Priority.PARTIAL:
            return [part]
        again = replace(
            clip,
            samples=clip.samples[part.place],
            language=part.hearing.language or clip.language,
            prompt="",
        )
        if again.duration_ms < WORTH_AGAIN_MS:
            return [part]
        longest_ms = again.duration_ms / AGAIN_PIECES
        pieces = await self._hear(again, part.place.start, longest_ms, priority)
        if part.doubt is Doubt.LOOP or not any(piece.doubt in AGAIN_FOR for piece in pieces):
            return [replace(piece, before=part.doubt) for piece in pieces]
        return [part]


def _joined(parts: list[Part], language: str | None) -> Transcript:
    languages = (part.hearing.language for part in parts)
    return Transcript(
        " ".join(part.text for part in parts if part.text),
        next(filter(None, languages), language),
        tuple(part.segment for part in parts if part.text),
        ", ".join(dict.fromkeys(reason for part in parts for reason in part.reasons)),
    )
