"""From text to sound with a tiny Orpheus and the real decoder: each frame counted."""

import asyncio

import numpy as np
import pytest

from engines.models import ModelStore
from engines.ports import EngineError, SpeechRequest
from engines.tokens.ports import TokenRequest
from engines.tts.orpheus import Options, create
from engines.tts.orpheus_tokens import (
    FRAME_SAMPLES,
    GRAMMAR,
    STOP,
    FrameParser,
    prompt_ids,
    seed_of,
)
from loadtest import tiny_orpheus

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
TEXT = "How are you doing today?"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_orpheus.make(tmp_path_factory.mktemp("orpheus"))


@pytest.fixture
async def orpheus(tiny):
    """A function that gives a warm engine on the tiny model."""
    engines = []

    async def warm(**options):
        settings = {"source": "transformers", "device": "cpu", "watch": False, **options}
        engine = create(Options(model=str(tiny), snac=str(tiny / "snac"), **settings), ModelStore())
        engines.append(engine)
        await engine.warm_up()
        return engine

    yield warm
    for engine in engines:
        await engine.close()


async def speech_of(engine, text=TEXT, **request):
    pieces = [np.zeros(0, np.int16)]
    async with engine.open(SpeechRequest(text, **request)) as chunks:
        pieces += [pcm.samples async for pcm in chunks]
    return np.concatenate(pieces)


async def test_eight_voices_at_once_sound_as_each_alone_and_lose_no_frame(orpheus):
    engine = await orpheus(slots=8)
    together = await asyncio.gather(*[speech_of(engine, voice=voice) for voice in VOICES])
    assert engine.load().busy == 0
    for voice, heard in zip(VOICES, together, strict=True):
        assert len(heard) % FRAME_SAMPLES == 0
        alone = await speech_of(engine, voice=voice)
        assert len(heard) == len(alone)
        # A batch may round differently, so by one step of 16 bits.
        assert np.abs(heard.astype(int) - alone).max() <= 1
    assert len({len(heard) for heard in together}) > 4


async def test_there_are_as_many_frames_as_the_model_has_made(orpheus):
    engine = await orpheus()
    heard = await speech_of(engine)
    request = TokenRequest(
        prompt_ids(engine._parts.encode(f"tara: {TEXT}")),
        7 * 200,
        STOP,
        seed=seed_of("tara", TEXT, 0, 0),
        grammar=GRAMMAR,
    )
    parser, frames = FrameParser(), []
    async with engine._source.open(request) as chunks:
        async for chunk in chunks:
            frames += parser.feed(chunk)
    parser.finish()
    assert 0 < len(frames) < 60
    assert len(heard) == len(frames) * FRAME_SAMPLES
    assert (parser.broken, parser.misplaced, parser.foreign) == (0, 0, 0)


async def test_speech_that_pauses_after_each_frame_is_the_same_speech(orpheus):
    flowing, halting = await orpheus(), await orpheus(ahead_ms=50.0)
    opened = []
    open_source = halting._source.open
    halting._source.open = lambda request: opened.append(request) or open_source(request)
    one, other = await speech_of(flowing, voice="leo"), await speech_of(halting, voice="leo")
    assert len(one) == len(other)
    assert np.abs(one.astype(int) - other).max() <= 1
    assert len(opened) > len(one) // FRAME_SAMPLES // 2


async def test_slots_can_be_taken_again_the_moment_they_are_given_back(orpheus):
    engine = await orpheus(slots=4)
    for _ in range(5):
        streams = [engine.open(SpeechRequest(TEXT, voice)) for voice in VOICES[:4]]
        opened = await asyncio.gather(*[stream.__aenter__() for stream in streams])
        await asyncio.gather(*[anext(chunks) for chunks in opened])  # decodes are in flight
        with pytest.raises(EngineError, match="slots"):
            await speech_of(engine)
        await asyncio.gather(*[stream.__aexit__(None, None, None) for stream in streams])
        assert engine.load().busy == 0
    assert len(await speech_of(engine)) > 0


async def test_a_text_of_several_pieces_is_whole_frames_too(orpheus):
    engine = await orpheus()
    heard = await speech_of(engine, f"{TEXT} <laugh> And what is there to do for me now?")
    assert len(heard) % FRAME_SAMPLES == 0
    first = await speech_of(engine, f"{TEXT} <laugh>")
    assert np.abs(heard[: len(first)].astype(int) - first).max() <= 1
    assert len(heard) > len(first)


async def test_an_early_opening_changes_the_beginning_alone(orpheus):
    exact, early = await orpheus(), await orpheus(early=True)
    one, other = await speech_of(exact), await speech_of(early)
    assert len(one) == len(other)
    assert np.abs(one[FRAME_SAMPLES:].astype(int) - other[FRAME_SAMPLES:]).max() <= 1
