"""Nothing of a long file is lost, doubled, or in another's place."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.asr import whisper
from engines.audio import Samples
from engines.models import ModelStore
from engines.ports import AsrRequest, Transcript
from engines.vad import silero
from loadtest.speech import Recording, recordings
from loadtest.wer import spoken_words, wer
from pipelines.transcription.captions import Utterance
from pipelines.transcription.hearing import Wanted, transcribe

RATE = 16_000


class Everywhere:
    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        yield


class Reader:
    """Reads the number that a chunk's samples are, and takes its time over some of them."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        yield self._play(request)

    async def _play(self, request: AsrRequest) -> AsyncIterator[Transcript]:
        for _ in range(self._chance.choice([0, 0, 3, 20])):
            await asyncio.sleep(0)
        spoken = request.pcm.samples[request.pcm.samples > 0]
        assert spoken.min() == spoken.max(), "two numbers in one chunk"
        yield Transcript(str(spoken[0]), "en")


async def told(source: AsyncIterator[Samples], vad: Any, asr: Any, wanted: Wanted) -> Any:
    heard: list[Utterance] = []

    async def put(utterance: Utterance) -> None:
        heard.append(utterance)

    lasts_ms = await transcribe(source, wanted, vad, asr, Everywhere(), put)
    return heard, lasts_ms


async def test_thousands_of_numbered_words_come_out_each_once_and_in_its_place(vad: Any) -> None:
    """Six hours of them."""
    count, at_ms = 3_000, list[int]()

    async def numbers() -> AsyncIterator[Samples]:
        chance, position = random.Random(2), 0
        for number in range(count):
            silent, loud = chance.randrange(12_800, 160_000), chance.randrange(8_000, 100_000)
            at_ms.append((position + silent) * 1_000 // RATE)
            yield np.concatenate(
                [np.zeros(silent, np.int16), np.full(loud, 3_500 + number, np.int16)]
            )
            position += silent + loud

    heard, lasts_ms = await told(numbers(), vad, Reader(), Wanted("en"))
    assert lasts_ms > 5 * 3_600_000
    assert [int(each.text) for each in heard] == [3_500 + number for number in range(count)]
    for each, expected_ms in zip(heard, at_ms, strict=True):
        assert abs(each.segments[0].start_ms - expected_ms) <= 64


def placed(clips: Sequence[Recording], count: int) -> tuple[Samples, list[tuple[float, Recording]]]:
    """So many clips in a row with silences, and where each begins, in ms."""
    rng, parts, places, position = np.random.default_rng(4), list[Samples](), [], 0
    for number in range(count):
        clip = clips[number % len(clips)]
        noise = rng.normal(size=int(RATE * rng.uniform(0.8, 2.5))) * 5
        places.append(((position + len(noise)) * 1_000 / RATE, clip))
        parts += [noise.astype(np.int16), clip.pcm.samples]
        position += len(noise) + len(clip.pcm)
    return np.concatenate(parts), places


@pytest.mark.engine
async def test_what_real_speech_says_stands_where_it_was_said() -> None:
    """Every clip's words within its own time, by the times of the words; no word anywhere else."""
    models = ModelStore()
    clips = [clip for clip in recordings(models.path("speech")) if clip.name.startswith("lv_")]
    samples, places = placed(clips, 20)

    async def blocks() -> AsyncIterator[Samples]:
        for start in range(0, len(samples), 40_000):
            yield samples[start : start + 40_000]

    vad = silero.create(silero.Options(), models)
    asr = whisper.create(whisper.Options(language="en"), models)
    await asr.warm_up()
    heard, _ = await told(blocks(), vad, asr, Wanted("en", word_times=True))
    await asr.close()
    words = [word for each in heard for segment in each.segments for word in segment.words]
    assert [word.text for word in words] == " ".join(each.text for each in heard).split()
    assert all(0 < word.probability <= 1 for word in words)
    starts = [word.start_ms for word in words]
    assert starts == sorted(starts)
    pairs, counted = [], 0
    for at_ms, clip in places:
        end_ms = at_ms + clip.pcm.duration_ms
        own = [w.text for w in words if at_ms - 300 < (w.start_ms + w.end_ms) / 2 < end_ms + 300]
        counted += len(own)
        assert wer([(clip.words, " ".join(own))]).rate <= 0.25, (clip.name, own)
        pairs.append((clip.words, " ".join(own)))
    assert counted == len(words)
    assert wer(pairs).rate <= 0.06
    assert len(spoken_words(" ".join(each.text for each in heard))) > 200
