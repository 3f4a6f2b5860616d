"""The part that all recognisers of whole clips share: from a request to its one transcript.

A recogniser brings ``hear``, a blocking function over at most 28 s of sound; this brings the
thread it runs in, the cutting of longer sound, and the guard's last word.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from engines.asr.cutting import quiet_pieces
from engines.asr.guard import Doubt, Heard, compression_ratio, doubt, without_loop
from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, FloatArray, Priority, Segment, Transcript
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


@dataclass(frozen=True, slots=True)
class Hearing:
    """What it heard, in which language."""

    heard: Heard
    language: str | None


Hear: TypeAlias = Callable[[Clip], Hearing]


class Listener:
    """An ``engines.ports.Asr`` around one blocking recogniser, which has one thread to itself.

    ``load`` makes it: it is called in that thread by ``warm_up`` and raises EngineError.
    """

    def __init__(self, name: str, load: Callable[[], Hear]) -> None:
        self._name = name
        self._load = load
        self._hear: Hear | None = None
        self._workers = Workers(name)

    async def warm_up(self) -> None:
        """Load the model and let it hear a second of nothing. Raises EngineError."""
        self._hear = await self._workers.run(Priority.FINAL, self._load)
        nothing = Clip(Pcm.silence(1000, RATE).floats(), None, "")
        await self._workers.run(Priority.FINAL, self._hear, nothing)

    async def close(self) -> None:
        """Free the model, once the clip that it may still be hearing is done."""
        self._workers.close()
        await self._workers.wait_closed()
        self._hear = None

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
        if self._hear is None:
            raise EngineError(self._name, "unavailable", "it is not loaded: await warm_up() first")
        samples = request.pcm.floats()
        parts: list[Transcript] = []
        prompt, language = request.prompt, request.language
        for piece in quiet_pieces(samples, RATE, LONGEST_MS):
            clip = Clip(samples[piece], language, prompt)
            hearing = await self._workers.run(request.priority, self._hear, clip)
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
