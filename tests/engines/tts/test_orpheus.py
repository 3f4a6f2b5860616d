"""Orpheus as an engine: requests, slots, voices; and the whole of it with a tiny model."""

import asyncio
import json
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.models import ModelStore
from engines.ports import EngineError, Load, Priority, SpeechRequest
from engines.tts.orpheus import Options, Orpheus, Parts, create
from engines.tts.orpheus_tokens import FRAME_SAMPLES, FRAME_TOKENS
from loadtest import tiny_orpheus

SENTENCE = "The weather is very fine today, is it not, my friend?"
FRAMES = [(n, 4095 - n, n * 7 % 4096, 3, 4, n, 6) for n in range(40)]


@asynccontextmanager
async def speaking(tokens, codec, *, warm=True, **options):
    """The engine on stand-ins: a letter is its code point to the tokenizer."""
    closed = []

    async def close():
        closed.append(True)

    async def load():
        return Parts(lambda text: [128_000, *map(ord, text)], codec, close)

    tokens.goes_on(FRAMES)
    engine = Orpheus(Options(**options), tokens, load)
    if warm:
        await engine.warm_up()
        tokens.requests.clear()
    try:
        yield engine
    finally:
        await engine.close()
    assert closed == [True] * warm


async def speech_of(engine, text=SENTENCE, **request):
    async with engine.open(SpeechRequest(text, **request)) as chunks:
        got = [chunk async for chunk in chunks]
    assert all(chunk.rate == 24_000 for chunk in got)
    return np.concatenate([np.zeros(0, np.int16), *[chunk.samples for chunk in got]])


async def test_another_service_s_voice_is_the_engine_s_own(tokens, codec, heard):
    async with speaking(tokens, codec, voice="mia") as engine:
        await speech_of(engine, voice="alloy")
        await speech_of(engine)
    asked, plain = (request.prompt for request in tokens.requests)
    assert asked == plain
    assert asked[2:7] == tuple(map(ord, "mia: "))


async def test_a_request_is_spoken_with_orpheus_s_prompt(tokens, codec, heard):
    async with speaking(tokens, codec, temperature=0.5) as engine:
        samples = await speech_of(engine, voice="leo", priority=Priority.SPECULATIVE)
    assert heard(samples) == [frame[0] for frame in FRAMES]
    (request,) = tokens.requests
    text = (128_000, *map(ord, f"leo: {SENTENCE}"))
    assert request.prompt == (128_259, *text, 128_009, 128_260, 128_261, 128_257)
    assert (request.stop, request.temperature, request.top_p) == (128_258, 0.5, 0.8)
    assert (request.repetition_penalty, request.priority) == (1.1, Priority.SPECULATIVE)
    assert request.grammar.allowed(0)[0].start == 128_266


async def test_the_same_request_has_the_same_seed_and_another_another(tokens, codec):
    async with speaking(tokens, codec) as engine:
        await speech_of(engine)
        await speech_of(engine, voice="tara", call="another call")
        await speech_of(engine, voice="leo")
        await speech_of(engine, f"{SENTENCE} {SENTENCE}")
    seeds = [request.seed for request in tokens.requests]
    assert seeds[0] == seeds[1] == seeds[3]
    assert len(set(seeds)) == 3


async def test_a_long_text_is_spoken_in_pieces(tokens, codec):
    async with speaking(tokens, codec) as engine:
        samples = await speech_of(engine, f"{SENTENCE} <laugh> And so is the one we had before.")
    assert len(samples) == 80 * FRAME_SAMPLES
    said = ["".join(map(chr, r.prompt[2:-4])) for r in tokens.requests]
    assert said == [
        f"tara: {SENTENCE} <laugh>",
        "tara: And so is the one we had before.",
    ]


@pytest.mark.parametrize("text", ["", " ... ", "<b></b>"])
async def test_nothing_to_say_is_no_audio(tokens, codec, text):
    async with speaking(tokens, codec) as engine:
        assert len(await speech_of(engine, text)) == 0


async def test_an_unknown_voice_is_refused_with_those_there_are(tokens, codec):
    async with speaking(tokens, codec) as engine:
        with pytest.raises(EngineError, match=r"adele.*tara, leah") as caught:
            await speech_of(engine, voice="adele")
        assert engine.load().busy == 0
    assert caught.value.code == "bad_request"


async def test_a_finetune_has_voices_and_tags_of_its_own(tokens, codec):
    options = {"voices": ("ann",), "voice": "ann", "tags": ("smile",)}
    async with speaking(tokens, codec, **options) as engine:
        await speech_of(engine, f"{SENTENCE} <smile> <laugh>")
    assert tokens.requests[0].prompt[2:-4] == tuple(map(ord, f"ann: {SENTENCE} <smile>"))


async def test_all_slots_taken_is_unavailable_until_one_is_free(tokens, codec, hang):
    async with speaking(tokens, codec, slots=2) as engine:
        tokens.script = lambda request: [hang]
        first = engine.open(SpeechRequest(SENTENCE))
        await first.__aenter__()
        async with engine.open(SpeechRequest(SENTENCE)):
            await asyncio.sleep(0)
            load = engine.load()
            with pytest.raises(EngineError, match="2 slots") as caught:
                await speech_of(engine)
        assert caught.value.code == "unavailable"
        assert (load.slots, load.busy) == (2, 2)
        await first.__aexit__(None, None, None)
        made = engine.load().tokens
        assert engine.load() == Load(slots=2, batch=3, step_ms=1.5, tokens=made)
        tokens.goes_on(FRAMES)
        assert len(await speech_of(engine)) == 40 * FRAME_SAMPLES
        assert engine.load().tokens == made + 40 * FRAME_TOKENS


async def test_leaving_while_a_frame_is_decoded_frees_everything_at_once(tokens, codec):
    async with speaking(tokens, codec) as engine:
        codec.hold.clear()
        codec.decoding.clear()
        async with engine.open(SpeechRequest(SENTENCE)):
            await codec.decoding.wait()
            assert (tokens.open_now, codec.open_now, engine.load().busy) == (1, 1, 1)
        assert (tokens.open_now, codec.open_now, engine.load().busy) == (0, 0, 0)


async def test_a_cancelled_reader_frees_everything(tokens, codec, hang):
    async with speaking(tokens, codec) as engine:
        tokens.script = lambda request: [hang]
        tokens.asked.clear()
        reader = asyncio.create_task(speech_of(engine))
        await tokens.asked.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (tokens.open_now, codec.open_now, engine.load().busy) == (0, 0, 0)


async def test_an_error_of_the_reader_comes_out_as_it_is(tokens, codec):
    async with speaking(tokens, codec) as engine:
        with pytest.raises(ZeroDivisionError):
            async with engine.open(SpeechRequest(SENTENCE)):
                raise ZeroDivisionError


async def test_whoever_stops_reading_holds_generation_back(tokens, codec):
    async with speaking(tokens, codec, ahead_ms=500.0) as engine:
        codec.decoded = 0
        async with engine.open(SpeechRequest(SENTENCE)) as chunks:
            read = len(await anext(chunks))
            for _ in range(300):
                await asyncio.sleep(0)
            assert tokens.open_now == 0
            assert codec.decoded * FRAME_SAMPLES < read + 12_000 + 4 * FRAME_SAMPLES


async def test_before_it_is_loaded_nothing_can_be_said(tokens, codec):
    async with speaking(tokens, codec, warm=False) as engine:
        assert engine.load() == Load(slots=8)
        with pytest.raises(EngineError, match="warm_up"):
            await speech_of(engine)


def test_a_source_is_named_by_a_word_or_by_an_import_path(tmp_path):
    store = ModelStore(tmp_path)
    named = create(Options(source="completions"), store)
    pathed = create(Options(source="engines.tokens.completions"), store)
    assert type(named) is type(pathed) is Orpheus
    with pytest.raises(EngineError, match="slots"):
        create(Options(source="completions", slots=0), store)


async def test_a_model_without_audio_tokens_is_refused(tmp_path):
    store = ModelStore(tmp_path)
    vocabulary = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", **vocabulary}))
    engine = create(Options(model=str(tmp_path), source="completions"), store)
    with pytest.raises(EngineError, match="not an Orpheus model"):
        await engine.warm_up()
    await engine.close()


async def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    engine = create(Options(model=str(tmp_path), source="completions"), ModelStore(tmp_path))
    with pytest.raises(EngineError, match=r"no tokenizer\.json"):
        await engine.warm_up()
    await engine.close()


async def test_a_reader_that_is_cancelled_twice_gives_its_slot_back(tokens, codec, hang):
    asked, leaving, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow_to_leave(request):
        asked.set()
        try:
            yield tokens._play(request)
        finally:
            leaving.set()
            await left.wait()

    async with speaking(tokens, codec, slots=1) as engine:
        tokens.open = slow_to_leave
        tokens.script = lambda request: [hang]
        reading = asyncio.create_task(speech_of(engine))
        await asked.wait()
        reading.cancel()
        await leaving.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert engine.load().busy == 0
        left.set()


@pytest.mark.torch
@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="has a CUDA device")
def test_a_device_that_torch_was_not_built_for_is_told(tmp_path):
    from engines.tts.orpheus import _load_decoder

    folder = tiny_orpheus.make(tmp_path)
    with pytest.raises(EngineError, match=r"no decoder on cuda .*see to \[tts\] device") as caught:
        _load_decoder(Options(snac=str(folder / "snac"), device="cuda"))
    assert caught.value.code == "unavailable"
