"""The part that all recognisers of whole clips share: from a request to its one transcript.

A recogniser hears at most 28 s of sound at a time and says how many clips it hears at once;
this brings the queue in front of it, the cutting of longer sound, and the guard's last word.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from engines.asr.cutting import quiet_pieces
from engines.asr.guard import Doubt, Heard, compression_ratio, doubt, without_loop
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
)
from engines.workers import Workers

RATE = 16_000
SHORTEST_MS = 100
LONGEST_MS = 28_000


@dataclass(frozen=True, slots=True)
class Clip:
    """What a recogniser hears at a time: ``samples`` (n,) in [-1, 1] at 16 kHz."""

    samples: FloatArray
    language: str | None
    prompt: str

    @property
    def duration_ms(self) -> float:
        return 1000 * len(self.samples) / RATE


@dataclass(frozen=True, slots=True)
class Hearing:
    """What it heard, in which language."""

    heard: Heard
    language: str | None


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
    """An ``engines.ports.Asr`` around a recogniser."""

    def __init__(self, name: str, recogniser: Recogniser) -> None:
        self._name = name
        self._recogniser = recogniser
        self._slots: Slots | None = None

    async def warm_up(self) -> None:
        """Load the model and let it hear a second of nothing. Raises EngineError."""
        await self._recogniser.warm_up()
        nothing = Clip(Pcm.silence(1000, RATE).floats(), None, "")
        await self._recogniser.hear(nothing, Priority.FINAL)
        self._slots = Slots(self._name, self._recogniser.slots)

    async def close(self) -> None:
        """Free the model."""
        self._slots = None
        await self._recogniser.close()

    def load(self) -> Load:
        """Clips that are being heard, and those that wait."""
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
        samples = request.pcm.floats()
        parts: list[Transcript] = []
        prompt, language = request.prompt, request.language
        for piece in quiet_pieces(samples, RATE, LONGEST_MS):
            async with self._slots.hold(request.priority):
                clip = Clip(samples[piece], language, prompt)
                hearing = await self._recogniser.hear(clip, request.priority)
            parts.append(_judged(hearing, piece))
            prompt, language = parts[-1].text or prompt, hearing.language or language
        yield _joined(parts)


def _judged(hearing: Hearing, piece: slice) -> Transcript:
    """The transcript of one piece, less what the guard throws away."""
    heard, text = hearing.heard, hearing.heard.text
    match why := doubt(heard):
        case Doubt.SILENCE:
            text = ""
        case Doubt.LOOP:
            text = without_loop(text)
    segment = Segment(
        text,
        piece.start * 1000 // RATE,
        piece.stop * 1000 // RATE,
        heard.avg_logprob,
        heard.no_speech_prob,
        compression_ratio(heard.text),
    )
    thrown = why.value if why and text != heard.text else ""
    return Transcript(text, hearing.language, (segment,) if text else (), thrown)


def _joined(parts: list[Transcript]) -> Transcript:
    return Transcript(
        " ".join(part.text for part in parts if part.text),
        parts[0].language,
        tuple(segment for part in parts for segment in part.segments),
        ", ".join(dict.fromkeys(part.suspicion for part in parts if part.suspicion)),
    )
