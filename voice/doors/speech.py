"""``POST /v1/audio/speech``: text to a file of speech, sent as it is made.

Source: https://platform.openai.com/docs/api-reference/audio/createSpeech
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from engines.audio import Pcm
from pipelines.failures import cause_of
from pipelines.media.threads import one_thread
from pipelines.media.writing import CONTENT_TYPES, Encoder
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.narrating import narrate
from pipelines.narration.pieces import Narration, pieces
from voice.doors.companions import EVENTS, Companion, Job, Upload, while_there
from voice.doors.uploads import read_body
from voice.house import House
from voice.wire.audio_api import (
    SpeechBody,
    SpeechDelta,
    SpeechDone,
    SpeechUsage,
    speech_body,
    sse,
)

logger = logging.getLogger(__name__)

PATH: Final = "/v1/audio/speech"

_BODY_BYTES: Final = 64 * 1024
"""What a body may have beside the text, of which a character takes 12 bytes at most."""

_AHEAD: Final = 16
"""Parts of 200 ms that may wait for a slow client; then the voice is held back."""


def speech(house: House) -> Companion:
    """The endpoint of this house."""
    return Companion(house, "tts", SpeechDoor(house).serve)


class SpeechDoor:
    """Of one house."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def serve(self, upload: Upload) -> None:
        """Read the request and speak. Raises what ``companions.answer_for`` knows."""
        files = self._house.config.files
        most, most_bytes = files.max_characters, 12 * files.max_characters + _BODY_BYTES
        read = await read_body(upload.request, most_bytes, files.least_bytes_per_s)
        body = speech_body(read, most)
        async with upload.begin() as job:
            if body.instructions:
                logger.info("%s: instructions are not followed: no voice here takes any", job.call)
            await while_there(job.request, self._speak(job, body))

    async def _speak(self, job: Job, body: SpeechBody) -> None:
        sound: asyncio.Queue[Pcm | None] = asyncio.Queue(_AHEAD)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._narrate(job, body, sound))
                await _send(job, body, sound)
        except ExceptionGroup as group:
            raise cause_of(group) from group

    async def _narrate(self, job: Job, body: SpeechBody, sound: asyncio.Queue[Pcm | None]) -> None:
        config = self._house.config
        narration = Narration(
            body.voice_name or config.agent.voice,
            body.speed,
            config.agent.language,
            job.call,
            live=True,
            settings=config.narration,
        )
        said = pieces(chapters(blocks(body.input)), narration)
        await narrate(said, narration, self._house.engines.tts, job.place, sound.put)
        await sound.put(None)


async def _send(job: Job, body: SpeechBody, sound: asyncio.Queue[Pcm | None]) -> None:
    """The file as it is made; its headers go out with its first bytes, so that what fails before
    is an error like any other."""
    events = body.stream_format == "sse"
    kind = EVENTS if events else CONTENT_TYPES[body.response_format]
    spoken_ms = 0.0
    async for data, piece_ms in _encoded(body.response_format, sound):
        spoken_ms += piece_ms
        if data:
            await job.out.piece(sse(SpeechDelta(data)) if events else data, kind)
    if events:
        words, tenths = len(body.input.split()), round(spoken_ms / 100)
        done = SpeechDone(SpeechUsage(words, tenths, words + tenths))
        await job.out.piece(sse(done), kind)
    await job.out.piece(b"", kind)
    await job.out.finish()


async def _encoded(
    form: str, sound: asyncio.Queue[Pcm | None]
) -> AsyncIterator[tuple[bytes, float]]:
    async with one_thread() as thread:
        encoder = await thread.run(Encoder, form)
        while (pcm := await sound.get()) is not None:
            yield await thread.run(encoder.encode, pcm), pcm.duration_ms
        yield await thread.run(encoder.finish), 0.0
