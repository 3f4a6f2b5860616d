"""A call on a clock of its own: what an agent that is speaking makes of some sound.

The real VAD, turn machine and recogniser in a plain loop, so a minute takes as long as there is to
compute. A transcript is there as soon as it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import Asr, AsrRequest, Priority
from engines.vad import silero
from engines.vad.ears import levels_db
from pipelines.conversation.endpoint import WINDOW_MS, EndpointSettings
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DiscardTurn,
    Event,
    OpenTurn,
    PauseReply,
    ReplyRequested,
    ReplySounded,
    ShowWords,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.hearing import Hearing
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.settings import TurnSettings
from pipelines.conversation.words import kind_of

WINDOW: Final = 512
PREROLL_MS: Final = EndpointSettings().prefix_ms + 5 * WINDOW_MS


@dataclass(slots=True)
class Overheard:
    """What came of it. ``readings``: how often the recogniser was asked; ``words``: what it was
    believed to have heard; ``paused`` and ``stopped``: what the agent did."""

    turns: int = 0
    readings: int = 0
    words: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    paused: int = 0
    stopped: int = 0

    def note(self, command: Command) -> None:
        """Count what the machine decided."""
        match command:
            case OpenTurn():
                self.turns += 1
            case Transcribe():
                self.readings += 1
            case ShowWords() | AcceptTranscript() if command.text:
                self.words.append(command.text)
            case PauseReply():
                self.paused += 1
            case StopReply():
                self.stopped += 1


async def overhear(pcm: Pcm, asr: Asr, models: ModelStore, *, partials: bool = True) -> Overheard:
    """Play 16 kHz to an agent that speaks all the while."""
    call = _Call(asr, TurnSettings(partials=partials))
    await call.happens(ReplyRequested())
    vad = silero.create(silero.Options(), models)
    slots = np.array([vad.open()], np.intp)
    for window in pcm.samples[: len(pcm) // WINDOW * WINDOW].reshape(-1, WINDOW):
        floats = Pcm(window, pcm.rate).floats()[np.newaxis]
        probability = float(vad.step(slots, floats)[0])
        call.hear(window)
        await call.happens(WindowHeard(probability, levels_db(floats)[0]))
    return call.heard


class _Call:
    """The shell of the machine, without a wire and without waiting."""

    def __init__(self, asr: Asr, settings: TurnSettings) -> None:
        self.heard = Overheard()
        self._asr = asr
        self._machine = TurnMachine(settings)
        self._hearing = Hearing(PREROLL_MS, 120_000)
        self._now = 0

    def hear(self, window: np.ndarray[tuple[int], np.dtype[np.int16]]) -> None:
        """Keep the window, and let its time pass."""
        self._hearing.add(window)
        self._now += WINDOW_MS

    async def happens(self, *events: Event) -> None:
        """Take the events, and those that they cause."""
        waiting = list(events)
        while waiting:
            for command in self._machine.step(waiting.pop(0), self._now):
                waiting += await self._do(command)

    async def _do(self, command: Command) -> list[Event]:
        self.heard.note(command)
        match command:
            case Transcribe():
                return [await self._read(command)]
            case OpenTurn():
                self._hearing.open()
            case CommitTurn():
                self._hearing.close(command.quiet_ms)
            case DiscardTurn():
                self._hearing.close()
            case StopReply():
                return [ReplyRequested()]
            case StartReply():
                return [ReplySounded(command.epoch)]
        return []

    async def _read(self, command: Transcribe) -> TranscriptArrived:
        urgency = Priority.PARTIAL if command.purpose == "partial" else Priority.FINAL
        request = AsrRequest(self._hearing.audio(), "en", priority=urgency)
        async with self._asr.open(request) as transcripts:
            (transcript,) = [each async for each in transcripts]
        self.heard.doubts += [transcript.suspicion] if transcript.suspicion else []
        kind = kind_of(transcript.text, "en", "")
        text = "" if kind == "nothing" else transcript.text
        return TranscriptArrived(command.take, text, kind, suspicion=transcript.suspicion)
