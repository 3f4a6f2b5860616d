"""What a call hears through the Realtime door, with the real VAD and real recognisers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr

from engines.asr import moonshine
from engines.audio import FULL_SCALE, Pcm
from engines.models import ModelStore
from engines.ports import AsrRequest, SpeechRequest
from engines.tts import hibari
from engines.vad import silero
from loadtest.noises import at_level, noises
from loadtest.speech import RATE, Recording, recordings
from loadtest.wer import spoken_words, wer
from voice.wire import g711

pytestmark = pytest.mark.engine

PCM = {"type": "audio/pcm", "rate": 24_000}
MULAW = {"type": "audio/pcmu"}
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
BETWEEN_MS = 900
"""Silence after a clip: longer than any default waits for its end."""


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture(scope="module")
def clips(models: ModelStore) -> dict[str, Recording]:
    folder = os.environ.get("ANTIPHON_SPEECH_DIR")
    found = recordings(Path(folder) if folder else models.path("speech"))
    return {clip.name: clip for clip in found}


@pytest.fixture
def vad(models: ModelStore) -> Any:
    """The real one, which tells who holds a slot of it."""

    class Watched:
        def __init__(self) -> None:
            self.slots: set[int] = set()
            self._vad = silero.create(silero.Options(), models)
            self.rate, self.window_samples = self._vad.rate, self._vad.window_samples
            self.step = self._vad.step

        def open(self) -> int:
            self.slots.add(slot := self._vad.open())
            return slot

        def close(self, slot: int) -> None:
            self.slots.remove(slot)
            self._vad.close(slot)

    return Watched()


@pytest.fixture
async def asr(models: ModelStore) -> AsyncIterator[Any]:
    engine = moonshine.create(moonshine.Options(), models)
    await engine.warm_up()
    yield engine
    await engine.close()


def on_wire(pcm: Pcm, form: dict[str, Any], silence_ms: int = BETWEEN_MS) -> bytes:
    """16 kHz, with silence behind it, as the bytes of a wire."""
    silence = np.zeros(RATE * silence_ms // 1000, np.float32)
    rate = form.get("rate", g711.RATE)
    floats = soxr.resample(np.concatenate([pcm.floats(), silence]), RATE, rate)
    samples = Pcm.from_floats(floats, rate).samples
    return samples.tobytes() if form is PCM else g711.encode(samples, "mulaw")


def off_wire(data: bytes, form: dict[str, Any]) -> Pcm:
    """What has come over it, at 16 kHz again."""
    samples = np.frombuffer(data, "<i2") if form is PCM else g711.decode(data, "mulaw")
    rate = form.get("rate", g711.RATE)
    return Pcm.from_floats(soxr.resample(samples.astype(np.float32) / FULL_SCALE, rate, RATE), RATE)


async def words_in(asr: Any, pcm: Pcm) -> str:
    """What the recogniser alone hears."""
    async with asr.open(AsrRequest(pcm)) as transcripts:
        return " ".join([each.text async for each in transcripts])


async def open_session(client: Any, form: dict[str, Any], **detection: Any) -> None:
    turns = {"type": "server_vad", "create_response": False, **detection}
    await client.update(audio={"input": {"format": form, "turn_detection": turns}})


async def turns_of(client: Any, data: bytes) -> list[dict[str, Any]]:
    """The transcripts of what is said, which is sent as fast as it goes."""
    before = len(client.all(COMPLETED))
    await client.hear(data)
    await client.until("input_audio_buffer.committed")
    while len(client.all(COMPLETED)) < len(client.all("input_audio_buffer.committed")):
        await client.next()
    return client.all(COMPLETED)[before:]


@pytest.mark.parametrize("form", [PCM, MULAW])
async def test_a_call_mishears_hardly_more_than_the_recogniser_alone(
    serve: Any, asr: Any, clips: dict[str, Recording], form: dict[str, Any]
) -> None:
    server = await serve(asr=asr)
    alone, within = [], []
    async with server.call() as client:
        await open_session(client, form)
        for clip in clips.values():
            data = on_wire(clip.pcm, form)
            told = await turns_of(client, data)
            within.append((clip.words, " ".join(turn["transcript"] for turn in told)))
            alone.append((clip.words, await words_in(asr, off_wire(data, form))))
    assert wer(within).rate <= wer(alone).rate + 0.01


@pytest.mark.parametrize("word", ["Yes.", "No.", "Two.", "Okay."])
async def test_short_words_pass(serve: Any, asr: Any, word: str) -> None:
    voice = hibari.Hibari(hibari.Options())
    await voice.warm_up()
    async with voice.open(SpeechRequest(word)) as audio:
        said = [pcm async for pcm in audio]
    await voice.close()
    sound = np.concatenate([pcm.floats() for pcm in said])
    pcm = Pcm.from_floats(soxr.resample(sound, said[0].rate, RATE), RATE)
    server = await serve(asr=asr)
    async with server.call() as client:
        await open_session(client, PCM)
        (turn,) = await turns_of(client, on_wire(pcm, PCM))
    assert spoken_words(turn["transcript"]) == spoken_words(word)


async def test_a_client_that_falls_silent_in_mid_word_is_heard_all_the_same(
    serve: Any, asr: Any, clips: dict[str, Recording]
) -> None:
    server = await serve("turns.stall_ms=200", asr=asr)
    clip = clips["goforward.wav"].pcm
    half = Pcm(clip.samples[: len(clip) // 2], RATE)
    async with server.call() as client:
        await open_session(client, PCM)
        (turn,) = await turns_of(client, on_wire(half, PCM, silence_ms=0))
    assert "forward" in turn["transcript"].lower()


async def test_what_a_crowd_says_is_nobodys_words(
    serve: Any, asr: Any, clips: dict[str, Recording]
) -> None:
    server = await serve(asr=asr)
    crowd = at_level(noises(4, list(clips.values()))["babble"], -25)
    async with server.call() as client:
        await open_session(client, MULAW)
        turns = await turns_of(client, on_wire(crowd, MULAW))
        await turns_of(client, on_wire(clips["goforward.wav"].pcm, MULAW))
    assert [(turn["transcript"], turn["suspicion"]) for turn in turns] == [("", "noise")]
    assert [event for event in client.all(DELTA) if event["item_id"] == turns[0]["item_id"]] == []
    doubted = server.house.metrics.doubts.labels("noise")
    assert doubted._value.get() == 1
    assert server.asr.requests[-1].prompt == ""  # nothing that may be made up is handed on


async def test_a_loop_is_resolved_and_named(
    serve: Any, asr: Any, clips: dict[str, Recording]
) -> None:
    server = await serve(asr=asr)
    clip = clips["something.wav"]
    thrice = Pcm(np.tile(clip.pcm.samples, 3), RATE)
    async with server.call() as client:
        await open_session(client, PCM, silence_duration_ms=2_000)
        (turn,) = await turns_of(client, on_wire(thrice, PCM, silence_ms=2_500))
    assert spoken_words(turn["transcript"]) == spoken_words(clip.words) * 3
    assert turn["suspicion"] == "loop"
