"""Files through the stock openai package, with real models: what is spoken is heard again."""

import io
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import soundfile
from openai import AsyncOpenAI

from engines.asr import moonshine
from engines.clips import CLIPS
from engines.models import ModelStore
from engines.tts import hibari
from engines.vad import silero
from tests.voice.doors.stock import stock_client, words_in

pytestmark = pytest.mark.engine

TEXT = (
    "The harbour is quiet this morning, and the boats are coming home. "
    "Dr. Green paid $5 for a ticket at 3 pm."
)
WRITTEN = (  # a recogniser writes as people do
    "the harbor is quiet this morning and the boats are coming home "
    "dr green paid 5 for a ticket at 3 p m"
)
FORMATS: list[Any] = ["mp3", "opus", "aac", "flac", "wav", "pcm"]


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture
def vad(models: ModelStore) -> Any:
    vad = silero.create(silero.Options(), models)
    vad.slots = vad._taken  # type: ignore[attr-defined]
    return vad


@pytest.fixture
async def client(serve: Any, models: ModelStore) -> AsyncIterator[AsyncOpenAI]:
    """Of a server whose ASR and TTS are real."""
    hears = moonshine.create(moonshine.Options(), models)
    speaks = hibari.create(hibari.Options(), models)
    for engine in (hears, speaks):
        await engine.warm_up()
    server = await serve(asr=hears, tts=speaks)
    async with stock_client(server) as client:
        yield client
    for engine in (hears, speaks):
        await engine.close()


def clip(models: ModelStore, name: str) -> tuple[bytes, str]:
    path = models.path("speech") / name
    return path.read_bytes(), next(each.words for each in CLIPS if each.name == name)


def wer(reference: str, text: str) -> float:
    """Word errors a word of the reference."""
    wanted, got = reference.split(), words_in(text)
    row = np.arange(len(got) + 1)
    for place, word in enumerate(wanted, 1):
        before, row[0] = row.copy(), place
        for at, other in enumerate(got, 1):
            row[at] = min(before[at] + 1, row[at - 1] + 1, before[at - 1] + (word != other))
    return row[-1] / len(wanted)


async def test_what_is_spoken_in_any_format_is_heard(client: AsyncOpenAI) -> None:
    for form in FORMATS:
        spoken = await client.audio.speech.create(
            model="tts-1", voice="alloy", input=TEXT, response_format=form
        )
        data = spoken.content
        if form == "pcm":
            wave = io.BytesIO()
            soundfile.write(wave, np.frombuffer(data, "<i2"), 24_000, format="WAV")
            data = wave.getvalue()
        heard = await client.audio.transcriptions.create(model="whisper-1", file=("x.bin", data))
        assert wer(WRITTEN, heard.text) <= 0.1, (form, heard.text)


async def test_recordings_are_transcribed_in_every_format(
    client: AsyncOpenAI, models: ModelStore
) -> None:
    for name in ("lv_0880.wav", "goforward.wav"):
        data, words = clip(models, name)
        asked: Any = {"model": "whisper-1", "file": (name, data)}
        heard = (await client.audio.transcriptions.create(**asked)).text
        assert wer(words, heard) <= 0.2, heard
        text = await client.audio.transcriptions.create(**asked, response_format="text")
        srt = await client.audio.transcriptions.create(**asked, response_format="srt")
        vtt = await client.audio.transcriptions.create(**asked, response_format="vtt")
        stream = await client.audio.transcriptions.create(**asked, stream=True)
        events: list[Any] = [event async for event in stream]
        assert text == f"{heard}\n"
        assert [words_in(each)[9:] for each in (srt, vtt)] == [words_in(heard)] * 2
        assert "".join(event.delta for event in events[:-1]) == events[-1].text == heard


async def test_a_long_file_is_cut_where_nobody_speaks(
    client: AsyncOpenAI, models: ModelStore
) -> None:
    names = ("lv_0880.wav", "goforward.wav", "lv_0930.wav", "something.wav")
    parts, words, starts, silence = [], [], [], np.zeros(16_000 * 2, np.int16)
    for name in names:
        data, said = clip(models, name)
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        assert rate == 16_000
        starts.append(sum(map(len, parts)) / rate)
        parts += [samples, silence]
        words.append(said)
    file = io.BytesIO()
    soundfile.write(file, np.concatenate(parts), 16_000, format="FLAC")
    heard = await client.audio.transcriptions.create(
        model="whisper-1",
        file=("four.flac", file.getvalue()),
        response_format="verbose_json",
        timestamp_granularities=["segment", "word"],
    )
    assert wer(" ".join(words), heard.text) <= 0.2, heard.text
    assert heard.duration == pytest.approx(sum(map(len, parts)) / 16_000, abs=0.01)
    begun = [segment.start for segment in heard.segments or []]
    assert all(any(abs(at - start) < 0.8 for at in begun) for start in starts), (starts, begun)
    assert [word.word for word in heard.words or []] == heard.text.split()
