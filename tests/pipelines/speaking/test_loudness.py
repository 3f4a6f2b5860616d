"""Loudness from phrase to phrase, and cuts that do not click."""

from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm, Samples
from engines.models import ModelStore
from engines.ports import SpeechRequest
from engines.tts import hibari
from pipelines.speaking.loudness import MOST_GAIN_DB, Leveller, fade_in, fade_out

RATE = 24_000
SILENCE = Pcm.silence(100, RATE)


def voice(level_db: float, milliseconds: int = 800, rate: int = RATE) -> Pcm:
    """A tone that swells and fades four times a second, as syllables do."""
    at = np.arange(milliseconds * rate // 1000) / rate
    tone = np.sin(2 * np.pi * 150 * at) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * at))
    return Pcm.from_floats(tone * 10 ** (level_db / 20), rate)


def level_db(samples: Samples) -> float:
    return float(10 * np.log10(np.mean(np.square(samples.astype(float))) / 32768**2))


def levelled(leveller: Leveller, *pieces: Pcm) -> list[Pcm]:
    phrase = leveller.phrase()
    out = [phrase.feed(piece) for piece in pieces]
    phrase.finish()
    return out


def spread_db(levels: list[float]) -> float:
    return float(np.std(levels))


# --- levels ---------------------------------------------------------------------------------


def test_the_first_phrase_is_the_measure_and_stays_as_it_is() -> None:
    pcm = voice(-20)
    assert levelled(Leveller(), SILENCE, pcm) == [SILENCE, pcm]


def test_phrases_of_a_voice_that_gives_them_whole_come_out_alike() -> None:
    random = np.random.default_rng(1)
    levels = -22 + 4 * random.uniform(-1, 1, 30)
    leveller = Leveller()
    heard = [level_db(levelled(leveller, voice(level))[0].samples) for level in levels]
    assert spread_db(heard[5:]) < 0.4 * spread_db(list(levels[5:]))


def test_a_start_that_says_nothing_of_the_phrase_changes_nothing_of_it() -> None:
    random = np.random.default_rng(2)
    leveller = Leveller()
    gains = []
    for start in -22 + 5 * random.uniform(-1, 1, 60):
        _, rest = levelled(leveller, voice(start, 100), voice(-20, 2_000))
        gains.append(level_db(rest.samples) - level_db(voice(-20, 2_000).samples))
    assert np.abs(gains[:10]).max() > np.abs(gains[-20:]).max()
    assert np.abs(gains[-20:]).max() < 0.8


def test_a_start_that_tells_the_phrase_is_trusted() -> None:
    random = np.random.default_rng(3)
    leveller, heard = Leveller(), []
    for level in -22 + 4 * random.uniform(-1, 1, 40):
        _, rest = levelled(leveller, voice(level, 100), voice(level, 1_500))
        heard.append(level_db(rest.samples))
    assert spread_db(heard[10:]) < 1.0


@given(st.lists(st.floats(-45, -3), min_size=1, max_size=12), st.sampled_from([8_000, 24_000]))
def test_a_gain_is_bounded_holds_for_the_phrase_and_nothing_clips(
    levels: list[float], rate: int
) -> None:
    leveller = Leveller()
    for level in levels:
        pieces = [voice(level, 120, rate), voice(level, 300, rate)]
        out = levelled(leveller, *pieces)
        gains = [
            level_db(b.samples) - level_db(a.samples) for a, b in zip(pieces, out, strict=True)
        ]
        assert abs(gains[0] - gains[1]) < 0.3
        assert abs(gains[0]) < MOST_GAIN_DB + 0.1
        for piece, louder in zip(pieces, out, strict=True):
            assert (len(louder), louder.rate) == (len(piece), rate)
            assert np.all(np.sign(louder.samples) * np.sign(piece.samples) >= 0), "it wrapped"


def test_a_peak_that_nobody_could_foresee_bends_and_does_not_clip() -> None:
    leveller = Leveller()
    for _ in range(3):
        levelled(leveller, voice(-14))
    quiet, loud = voice(-30, 200), voice(0, 200)
    phrase = leveller.phrase()
    phrase.feed(quiet)
    out = phrase.feed(loud).samples.astype(int)
    assert np.abs(out).max() <= 32767
    assert np.all(np.abs(loud.samples[np.abs(out) == 32767].astype(int)) > 32500)
    order = np.argsort(loud.samples, kind="stable")
    assert np.all(np.diff(out[order]) >= 0), "what is louder stays louder"


def test_silence_teaches_nothing() -> None:
    leveller = Leveller()
    levelled(leveller, SILENCE)
    levelled(leveller, Pcm.silence(1, RATE))
    pcm = voice(-30)
    assert levelled(leveller, pcm) == [pcm]


def test_a_difference_that_nobody_hears_leaves_the_samples_alone() -> None:
    leveller = Leveller()
    levelled(leveller, voice(-20))
    pcm = voice(-20.1)
    assert levelled(leveller, pcm)[0] is pcm


# --- cuts -----------------------------------------------------------------------------------


def step(samples: Samples) -> int:
    """The largest step from one sample to the next, silence before and behind."""
    return int(np.abs(np.diff(samples.astype(int), prepend=0, append=0)).max())


@given(st.integers(0, 19_000), st.sampled_from([8_000, 16_000, 24_000]))
def test_a_cut_that_fades_does_not_click(at: int, rate: int) -> None:
    pcm = voice(-6, 900, rate)
    at %= len(pcm)
    own = int(np.abs(np.diff(pcm.samples.astype(int))).max())
    assert step(fade_out(Pcm(pcm.samples[: at + 1], rate)).samples) <= 1.2 * own + 32
    assert step(fade_in(Pcm(pcm.samples[at:], rate)).samples) <= 1.2 * own + 32


def test_a_cut_without_a_fade_is_what_the_measure_finds() -> None:
    pcm = voice(-6)
    own = int(np.abs(np.diff(pcm.samples.astype(int))).max())
    top = int(np.argmax(pcm.samples))
    assert step(pcm.samples[:top]) > 10 * own


def test_fades_touch_five_milliseconds_and_no_more() -> None:
    pcm = voice(-6)
    edge = RATE * 5 // 1000
    risen, fallen = fade_in(pcm).samples, fade_out(pcm).samples
    assert np.array_equal(risen[edge:], pcm.samples[edge:])
    assert np.array_equal(fallen[:-edge], pcm.samples[:-edge])
    flat = Pcm(np.full(RATE, 10_000, np.int16), RATE)
    assert np.array_equal(fade_in(flat).samples[::-1], fade_out(flat).samples)
    assert np.all(np.diff(fade_in(flat).samples[:edge].astype(int)) > 0)


@pytest.mark.parametrize("length", [0, 1, 50])
def test_what_is_shorter_than_a_fade_fades_whole(length: int) -> None:
    pcm = Pcm(np.full(length, 10_000, np.int16), RATE)
    assert len(fade_in(pcm)) == len(fade_out(pcm)) == length
    assert step(fade_out(fade_in(pcm)).samples) <= 5_000


# --- a real voice -----------------------------------------------------------------------------

PHRASES = [
    "Sure.",
    "I'm sorry, but I can't do that.",
    "Your order will arrive on Monday.",
    "One moment, please.",
    "The capital of France is Paris, on the Seine.",
    "Okay,",
    "First, turn the device off and wait for ten seconds.",
    "Goodbye!",
]


@pytest.fixture
async def spoken() -> AsyncIterator[list[Pcm]]:
    engine = hibari.create(hibari.Options(), ModelStore())
    await engine.warm_up()
    phrases = []
    for text in PHRASES:
        async with engine.open(SpeechRequest(text)) as audio:
            pieces = [pcm.samples async for pcm in audio]
        phrases.append(Pcm(np.concatenate(pieces), RATE))
    yield phrases
    await engine.close()


@pytest.mark.engine
async def test_real_speech_of_uneven_loudness_comes_out_even(spoken: list[Pcm]) -> None:
    leveller, before, after = Leveller(), [], []
    for turn, pcm in enumerate(spoken * 3):
        uneven = Pcm.from_floats(pcm.floats() * 10 ** ((-4, 0, 3)[turn % 3] / 20), RATE)
        out = levelled(leveller, uneven)[0]
        before.append(level_db(uneven.samples))
        after.append(level_db(out.samples))
    assert spread_db(after[8:]) < 0.6 * spread_db(before[8:])


@pytest.mark.engine
async def test_real_speech_cut_anywhere_does_not_click(spoken: list[Pcm]) -> None:
    random = np.random.default_rng(4)
    for pcm in spoken:
        own = int(np.abs(np.diff(pcm.samples.astype(int))).max())
        for at in random.integers(200, len(pcm) - 200, 50):
            assert step(fade_out(Pcm(pcm.samples[:at], RATE)).samples) <= own
            assert step(fade_in(Pcm(pcm.samples[at:], RATE)).samples) <= own
