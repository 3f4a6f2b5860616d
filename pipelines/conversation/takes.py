"""The transcriptions of one call: what is asked of the recogniser, and what its words amount to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, Measured, Priority, Transcript, TurnRequest
from pipelines.conversation.completeness import completeness
from pipelines.conversation.events import (
    EndJudged,
    Event,
    Kind,
    Purpose,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
)
from pipelines.conversation.hum import is_hum
from pipelines.conversation.patience import Profile
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.speaker import Speaker
from pipelines.conversation.words import kind_of

logger = logging.getLogger(__name__)

MOST_TAKES: Final = 8
"""Transcriptions that one call may ask for at once: one caller must not fill the recogniser's
queue. People take turns more slowly than they are written down."""

PROMPT_GAP_S: Final = 30.0
"""After so long, what was said before is no hint any more."""

PROMPT_CHARACTERS: Final = 100
"""A longer hint misleads small models: with 400, Whisper base made half as many mistakes again."""

MOST_HUMMED: Final = 2
"""Recognisers take a hum for one word or two."""

JUDGED_MS: Final = 8_000
"""An end-of-turn model hears no more than this."""

_PRIORITIES: Final[dict[Purpose, Priority]] = {
    "partial": Priority.PARTIAL,
    "ahead": Priority.SPECULATIVE,
    "final": Priority.FINAL,
}


class _Sounds(NamedTuple):
    """Whether some of a take may be the agent's own voice, and whether much of it is."""

    may_echo: bool
    echoed: bool


class Takes:
    """The takes that are under way. ``speaker`` has said what their words are compared with."""

    def __init__(
        self,
        engines: Engines,
        tasks: asyncio.TaskGroup,
        happen: Callable[[Event], None],
        *,
        call_id: str,
        speaker: Speaker,
    ) -> None:
        self.language: str | None = None
        """The language that was heard last."""
        self._engines = engines
        self._tasks = tasks
        self._happen = happen
        self._call_id = call_id
        self._speaker = speaker
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, list[asyncio.Task[None]]] = {}
        self._before = self._so_far = ""
        self._before_at = 0.0

    def start(
        self, wanted: Transcribe, pcm: Pcm, settings: CallSettings, profile: Profile | None
    ) -> None:
        """Ask for the words of ``pcm``; ``profile`` is the kind of answer that is expected."""
        take, purpose = wanted.take, wanted.purpose
        if refusal := self._refusal(purpose):
            self._happen(TranscriptFailed(take, refusal))
            return
        request = AsrRequest(
            pcm, settings.language, self._prompt(settings), _PRIORITIES[purpose], self._call_id
        )
        sounds = _Sounds(self._speaker.audible(pcm.duration_ms), wanted.echoed)
        running = [self._tasks.create_task(self._listen(take, request, profile, sounds))]
        if purpose == "ahead":
            self._speaker.look_ahead(settings, self._so_far)
            self._so_far = ""
        if purpose == "ahead" and profile and self._engines.end_of_turn is not None:
            running.append(self._tasks.create_task(self._judge(take, pcm)))
        self._running[take] = running
        running[0].add_done_callback(lambda _: self._running.pop(take, None))

    def drop(self, take: int) -> None:
        """Nobody wants its words any more."""
        for task in self._running.get(take, ()):
            task.cancel()

    def accept(self, text: str, suspicion: str) -> None:
        """These are the words of a turn: a hint for the next, unless they may be made up."""
        self._before = "" if suspicion else f"{self._recent()} {text}"[-PROMPT_CHARACTERS:].strip()
        self._before_at = self._loop.time()

    def close(self) -> None:
        """The call is over."""
        for take in list(self._running):
            self.drop(take)

    def _refusal(self, purpose: Purpose) -> str:
        if len(self._running) >= MOST_TAKES:
            return f"{MOST_TAKES} turns of this call wait for their words: speak more slowly"
        asr = self._engines.asr
        if purpose == "partial" and isinstance(asr, Measured) and asr.load().queued:
            return "the recogniser has turns to write down that are over"
        return ""

    def _prompt(self, settings: CallSettings) -> str:
        return f"{settings.asr_prompt} {self._recent()}".strip()

    def _recent(self) -> str:
        return self._before if self._loop.time() - self._before_at < PROMPT_GAP_S else ""

    async def _listen(
        self, take: int, request: AsrRequest, profile: Profile | None, sounds: _Sounds
    ) -> None:
        try:
            async with self._engines.asr.open(request) as stream:
                transcripts = [transcript async for transcript in stream]
        except EngineError as error:
            logger.warning("a turn stays without words: %s", error)
            self._happen(TranscriptFailed(take, str(error)))
        else:
            arrived = self._understood(take, transcripts, request, profile, sounds)
            if request.priority is Priority.PARTIAL:
                self._so_far = arrived.text
            self._happen(arrived)

    def _understood(
        self,
        take: int,
        transcripts: list[Transcript],
        request: AsrRequest,
        profile: Profile | None,
        sounds: _Sounds,
    ) -> TranscriptArrived:
        text = " ".join(transcript.text for transcript in transcripts if transcript.text)
        heard = next((each.language for each in transcripts if each.language), None)
        self.language = language = request.language or heard or self.language
        spoken = self._speaker.recent_text()
        kind: Kind = kind_of(
            text,
            language,
            spoken if sounds.may_echo else "",
            echoes=self._speaker.echo.echoes,
            echoed=sounds.echoed,
        )
        if kind == "words" and _may_be_hummed(text) and is_hum(request.pcm):
            kind = "backchannel"
        return TranscriptArrived(
            take,
            "" if kind == "nothing" else text,
            kind,
            completeness(text, language, profile or "normal", spoken),
            ", ".join(each.suspicion for each in transcripts if each.suspicion),
        )

    async def _judge(self, take: int, pcm: Pcm) -> None:
        """Ask how surely the turn is over. An opinion that fails is none: the words still count."""
        assert self._engines.end_of_turn is not None
        last = Pcm(pcm.samples[-JUDGED_MS * pcm.rate // 1000 :], pcm.rate)
        try:
            async with self._engines.end_of_turn.open(TurnRequest(last, self._call_id)) as opinions:
                async for probability in opinions:
                    self._happen(EndJudged(take, probability))
        except EngineError as error:
            logger.warning("nobody judges whether the turn is over: %s", error)


def _may_be_hummed(text: str) -> bool:
    return len(text.split()) <= MOST_HUMMED and "?" not in text
