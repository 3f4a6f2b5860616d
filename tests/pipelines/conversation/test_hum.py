"""Hums are known by their sound."""

from __future__ import annotations

import numpy as np
import pytest
import soxr

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import SpeechRequest
from engines.tts import hibari
from pipelines.conversation.hum import is_hum

RATE = 16_000


def tone(hertz: float, ms: int, level: float = 0.3) -> np.ndarray:
    time = np.arange(RATE * ms // 1000) / RATE
    return (level * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def pcm(*parts: np.ndarray) -> Pcm:
    return Pcm.from_floats(np.concatenate(parts), RATE)


SILENCE = np.zeros(RATE // 2, np.float32)


def test_a_short_low_sound_between_silences_is_a_hum() -> None:
    assert is_hum(pcm(SILENCE, tone(220, 300), SILENCE))


def test_a_sound_with_an_open_vowel_in_it_is_none() -> None:
    assert not is_hum(pcm(SILENCE, tone(220, 200), tone(1_000, 100), SILENCE))


def test_whoever_hums_for_long_means_something_by_it() -> None:
    assert not is_hum(pcm(SILENCE, tone(220, 1_000), SILENCE))


@pytest.mark.parametrize("samples", [0, 100, RATE])
def test_nothing_is_no_hum(samples: int) -> None:
    assert not is_hum(Pcm(np.zeros(samples, np.int16), RATE))


@pytest.mark.engine
async def test_a_voice_that_hums_is_told_from_one_that_says_a_short_word() -> None:
    store = ModelStore()
    voice = hibari.create(hibari.Options(), store)
    await voice.warm_up()

    async def sounds_hummed(text: str) -> bool:
        async with voice.open(SpeechRequest(text)) as audio:
            pieces = [piece async for piece in audio]
        spoken = np.concatenate([piece.floats() for piece in pieces])
        return is_hum(pcm(SILENCE, soxr.resample(spoken, pieces[0].rate, RATE), SILENCE))

    assert [text for text in ("Mm-hm.", "Mmm.") if not await sounds_hummed(text)] == []
    words = ("No.", "Yes.", "Wait.", "Stop.", "Now.", "Two.", "Hello.", "Mama.", "Uh-huh.")
    assert [text for text in words if await sounds_hummed(text)] == []
    await voice.close()
