"""hibari, the real one: its weights come with its package."""

import asyncio
import sys
import zlib
from contextlib import asynccontextmanager
from pathlib import Path

import hibari
import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import EngineError, Load, SpeechRequest
from engines.tts import hibari as plugin
from engines.tts.hibari import Options


@asynccontextmanager
async def warm(**options):
    engine = plugin.create(Options(**options), models=None)
    await engine.warm_up()
    try:
        yield engine
    finally:
        await engine.close()


async def speech_of(engine, text, **request):
    async with engine.open(SpeechRequest(text, **request)) as chunks:
        return [chunk async for chunk in chunks]


def seconds(chunks):
    return sum(len(chunk) for chunk in chunks) / 24_000


def lead_ms(pcm):
    """Until the first 5 ms above -50 dBFS."""
    frames = pcm.floats()[: len(pcm) // 120 * 120].reshape(-1, 120)
    return int(np.flatnonzero(np.square(frames).mean(axis=1) > 1e-5)[0]) * 5


def level(pcm):
    """RMS of what is loud, in dB of full scale."""
    frames = pcm.floats()[: len(pcm) // 240 * 240].reshape(-1, 240)
    power = np.square(frames).mean(axis=1)
    return 10 * np.log10(power[power > 4e-4].mean())


@pytest.mark.engine
async def test_hibari_speaks_a_phrase_at_once_and_at_24_khz():
    async with warm() as engine:
        (pcm,) = await speech_of(engine, "The capital of France is Paris.")
    assert isinstance(pcm, Pcm)
    assert pcm.rate == 24_000
    assert 1000 < pcm.duration_ms < 3000
    assert lead_ms(pcm) <= 25


async def test_a_voice_that_it_does_not_have_is_told_once(caplog):
    caplog.set_level("INFO")
    engine = plugin.create(Options(), models=None)
    for voice in (None, "hibari", "alloy", "alloy", "mia"):
        engine.open(SpeechRequest("Hello.", voice=voice))
    await engine.close()
    assert caplog.messages == ["hibari has one voice, which speaks for 'alloy' and any other"]


@pytest.mark.engine
async def test_hibari_gives_each_sentence_as_it_is_ready():
    async with warm() as engine:
        chunks = await speech_of(engine, "Hello there. How are you today? I am fine.")
        assert len(chunks) == 3
        async with engine.open(SpeechRequest("One. Two. Three. " * 50)) as stream:
            await anext(stream)
        assert len(await speech_of(engine, "Next.")) == 1


@pytest.mark.engine
async def test_hibari_pauses_by_the_punctuation():
    async with warm() as engine:
        lengths = [seconds(await speech_of(engine, f"of course{end}")) for end in ("", ",", ".")]
    assert lengths == sorted(lengths)
    assert lengths[2] - lengths[0] > 0.1


def loud_until_ms(pcm):
    """The end of the last 5 ms above -45 dBFS."""
    frames = pcm.floats()[: len(pcm) // 120 * 120].reshape(-1, 120)
    return int(np.flatnonzero(np.square(frames).mean(axis=1) > 3e-5)[-1]) * 5 + 5


@pytest.mark.engine
async def test_hibari_marks_the_end_of_every_word():
    text = "Your table is booked, for Tuesday. Would half past seven — well, 7 — suit you?"
    async with warm() as engine:
        chunks = await speech_of(engine, text)
        slow = await speech_of(engine, text, speed=0.5)
    words = [text[: mark.offset].split()[-1] for chunk in chunks for mark in chunk.marks]
    assert words == text.replace(" —", "").replace(".", "").replace(",", "").rstrip("?").split()
    for chunk, slower in zip(chunks, slow, strict=True):
        times = [mark.at_ms for mark in chunk.marks]
        assert times == sorted(set(times))
        assert times[0] > 50
        assert times[-1] == pytest.approx(loud_until_ms(chunk), abs=60)
        assert slower.marks[-1].at_ms > 1.4 * times[-1]


@pytest.mark.engine
async def test_hibari_marks_nothing_where_it_reads_other_words_than_are_written():
    async with warm() as engine:
        (pcm,) = await speech_of(engine, "All 1,250 of them.")
    assert len(pcm)
    assert pcm.marks == ()


@pytest.mark.engine
async def test_hibari_sounds_as_its_package_does():
    text = "The capital of France is Paris."
    async with warm() as engine:
        (pcm,) = await speech_of(engine, text)
    theirs = hibari.Hibari()
    (phonemes,) = theirs.phonemize(text)
    noise = np.random.default_rng(zlib.crc32(phonemes.encode()))
    whole = Pcm.from_floats(theirs.from_ids(theirs.ids(phonemes), 1.0, noise), 24_000)
    body = pcm.samples[:-120]  # the end fades
    found = whole.samples.tobytes().find(body.tobytes())
    assert found >= 0
    assert found % 2 == 0


@pytest.mark.engine
async def test_hibari_keeps_to_the_speed_within_its_bounds():
    text = "The capital of France is the city of Paris."
    async with warm() as engine:
        slowest, slow, normal, fast = [
            seconds(await speech_of(engine, text, speed=speed)) for speed in (0.1, 0.5, 1.0, 2.0)
        ]
    assert fast < 0.7 * normal < normal < 0.7 * slow
    assert slowest == pytest.approx(slow, rel=0.1)


@pytest.mark.engine
async def test_hibari_is_as_loud_in_the_first_phrase_as_in_later_ones():
    phrases = ["Well,", "that depends", "on what you are looking for.", "There are many of them."]
    async with warm() as engine:
        levels = [level((await speech_of(engine, phrase))[0]) for phrase in phrases]
    assert max(levels) - min(levels) < 6


@pytest.mark.engine
async def test_hibari_has_nothing_to_say_to_what_cannot_be_spoken():
    nothing = ["", "  ", "...", "!?", "—", "*", "\U0001f600", "\x00\x01", "日本語"]
    async with warm() as engine:
        assert [await speech_of(engine, text) for text in nothing] == [[]] * len(nothing)


@pytest.mark.engine
async def test_hibari_speaks_digits_markup_and_foreign_letters_somehow():
    async with warm(threads=2, workers=2) as engine:
        spoken = await asyncio.gather(
            *[
                speech_of(engine, text, voice="alloy")
                for text in (
                    "1,250 people paid $9.99 on 3/4/2024 at 7:30 pm.",
                    "<b>x</b> http://a.example/c?d=e",
                    "na\u00efve caf\u00e9 \U0001f600",
                    "[x](/y/) **bold**",
                    "\ud800 lone",
                )
            ]
        )
    assert all(chunks for chunks in spoken)


async def test_hibari_says_how_many_phrases_wait_and_bounds_nobody():
    voice = plugin.create(Options(), None)
    assert voice.load() == Load()
    await voice.close()


async def test_hibari_that_is_not_warm_is_unavailable():
    engine = plugin.create(Options(), models=None)
    with pytest.raises(EngineError, match="warm_up"):
        await speech_of(engine, "Hello.")
    await engine.close()


async def test_hibari_refuses_weights_that_are_not_its_own(monkeypatch, tmp_path):
    package = tmp_path / "hibari"
    (package / "assets").mkdir(parents=True)
    (package / "assets" / "hibari.onnx").write_bytes(b"not it")
    fake = type(sys)("hibari")
    fake.__file__ = str(Path(package, "__init__.py"))
    monkeypatch.setitem(sys.modules, "hibari", fake)
    engine = plugin.create(Options(), models=None)
    with pytest.raises(EngineError, match="sha256"):
        await engine.warm_up()
    await engine.close()


async def test_hibari_reports_a_phrase_that_its_model_cannot_speak():
    class Broken:
        def phonemize(self, text):
            raise ValueError("odd text")

    engine = plugin.create(Options(), models=None)
    engine._model = Broken()
    with pytest.raises(EngineError, match="odd text") as caught:
        await speech_of(engine, "Hello.")
    assert caught.value.code == "failed"
    await engine.close()
