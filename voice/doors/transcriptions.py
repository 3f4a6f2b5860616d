"""``POST /v1/audio/transcriptions``: a file of speech to text.

Source: https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from engines.audio import Samples
from engines.diarization.turns import SpeakerTurn
from engines.ports import EngineError
from pipelines.diarization import Speakers, heard_and_told_apart, told_apart
from pipelines.media.threads import decoded
from pipelines.transcription.captions import Utterance
from pipelines.transcription.chunks import ChunkSettings
from pipelines.transcription.hearing import Wanted, transcribe
from voice.doors.companions import EVENTS, Companion, Job, Upload, while_there
from voice.doors.uploads import Form, read_form
from voice.house import House
from voice.transcribing.formats import body
from voice.wire.audio_api import (
    TextDelta,
    TranscriptionForm,
    segment_event,
    sse,
    text_done,
    text_of,
    transcription_form,
)
from voice.wire.diarized_api import diarized_segments

logger = logging.getLogger(__name__)

PATH: Final = "/v1/audio/transcriptions"
Put: TypeAlias = Callable[[Utterance], Awaitable[None]]

_TYPES: Final = {
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}
"""Of the formats that are not JSON."""


def transcriptions(house: House) -> Companion:
    """The endpoint of this house."""
    return Companion(house, "asr", TranscriptionDoor(house).serve)


class TranscriptionDoor:
    """Of one house."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def serve(self, upload: Upload) -> None:
        """Read the request and transcribe. Raises what ``companions.answer_for`` knows."""
        files = self._house.config.files
        most, least_per_s = files.max_upload_bytes, files.least_bytes_per_s
        async with read_form(upload.request, most, least_per_s) as form:
            wanted = transcription_form(form.fields)
            async with upload.begin() as job:
                await while_there(job.request, self._transcribe(job, form, wanted))

    async def _transcribe(self, job: Job, form: Form, asked: TranscriptionForm) -> None:
        began, heard = asyncio.get_running_loop().time(), list[Utterance]()
        segments = 0

        async def put(utterance: Utterance) -> None:
            nonlocal segments
            if asked.stream:
                await _stream(job, asked, utterance, first=not text_of(heard), number=segments)
            segments += len(utterance.segments)
            heard.append(utterance)

        async with decoded(form.file, self._house.config.files.max_audio_s) as blocks:
            duration_ms, turns = await self._hear(job, asked, blocks, put)
        took_s = asyncio.get_running_loop().time() - began
        logger.info("%s: %.1f s of sound heard in %.1f s", job.call, duration_ms / 1000, took_s)
        await _finish(job, asked, heard, duration_ms, turns)

    async def _hear(
        self, job: Job, asked: TranscriptionForm, blocks: AsyncIterator[Samples], put: Put
    ) -> tuple[int, Sequence[SpeakerTurn]]:
        """How long it is, and who speaks when in it where that is asked for: both at once."""
        wanted, house = _wanted(job, asked, self._house), self._house
        vad, asr = house.engines.ears.vad, house.engines.asr
        if not asked.by_speaker:
            return await transcribe(blocks, wanted, vad, asr, job.place, put), ()
        if house.diarizer is None:
            told = "this server tells no speakers apart: diarization.engine is none"
            raise EngineError("diarization", "unavailable", told)
        tell_apart = partial(
            told_apart,
            diarizer=house.diarizer,
            wanted=Speakers(asked.speakers),
            may_run=house.files_may_run,
            call=job.call,
        )
        hear = partial(transcribe, wanted=wanted, vad=vad, asr=asr, place=job.place, put=put)
        return await heard_and_told_apart(blocks, hear, tell_apart)


def _wanted(job: Job, asked: TranscriptionForm, house: House) -> Wanted:
    vad = asked.chunking_strategy
    chunks = ChunkSettings()
    if vad is not None:
        chunks = ChunkSettings(vad.threshold, vad.silence_duration_ms, vad.prefix_padding_ms)
    language = asked.language or house.config.agent.language
    if asked.temperature:
        logger.info("%s: temperature is not followed: the guard chooses it", job.call)
    words = asked.by_speaker or "word" in asked.timestamp_granularities
    # Whoever wants to read along must not wait for what the file's language is found to be.
    return Wanted(language, asked.prompt, chunks, job.call, words, mixed=asked.stream)


async def _stream(
    job: Job, asked: TranscriptionForm, utterance: Utterance, *, first: bool, number: int
) -> None:
    """What was just heard, as events."""
    if utterance.text:
        delta = utterance.text if first else f" {utterance.text}"
        await job.out.piece(sse(TextDelta(delta)), EVENTS)
    if asked.response_format == "verbose_json":
        for count, segment in enumerate(utterance.segments, number):
            await job.out.piece(sse(segment_event(count, segment)), EVENTS)


async def _finish(
    job: Job,
    asked: TranscriptionForm,
    heard: list[Utterance],
    duration_ms: int,
    turns: Sequence[SpeakerTurn],
) -> None:
    if asked.stream:
        if asked.by_speaker:
            for segment in diarized_segments(heard, turns):
                await job.out.piece(sse(segment), EVENTS)
        await job.out.piece(sse(text_done(heard, duration_ms)), EVENTS)
        await job.out.finish()
        return
    kind = _TYPES.get(asked.response_format, "application/json")
    await job.out.whole(body(asked, heard, duration_ms, turns), kind)
