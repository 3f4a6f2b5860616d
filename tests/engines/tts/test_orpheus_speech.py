"""A request being spoken: tokens to audio, held back, and made again where it went wrong."""

import asyncio
import itertools
import random

import numpy as np
import pytest

from engines.ports import EngineError
from engines.tokens.ports import TokenRequest
from engines.tts.orpheus_buffer import SpeechBuffer
from engines.tts.orpheus_speech import Piece, Speech
from engines.tts.orpheus_tokens import CODES, FRAME_SAMPLES, GRAMMAR, STOP, ids_of

SENTENCE = "The weather is very fine today, is it not, my friend?"  # some 4 s, or 48 frames
OTHER = "And here is another one, of about the same length, too."


def speech(count, seed=0):
    lots = random.Random(seed)
    return [tuple(lots.randrange(CODES) for _ in range(7)) for _ in range(count)]


def firsts(frames):
    return [frame[0] for frame in frames]


def piece(text=SENTENCE, max_tokens=2000):
    def request(attempt):
        return TokenRequest((1, 2, 3), max_tokens, STOP, seed=attempt, grammar=GRAMMAR)

    return Piece(text, request)


def by_seed(*attempts):
    """A script: the frames of each attempt, two frames a chunk."""

    def script(request):
        frames = attempts[min(request.seed, len(attempts) - 1)]
        ids = [token for frame in frames for token in ids_of(frame)]
        return [ids[start : start + 14] for start in range(0, len(ids), 14)]

    return script


async def until(condition):
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


class Speaking:
    def __init__(self, tokens, codec, pieces, *, ahead_s=60.0, retries=2, watched=True):
        self.buffer = SpeechBuffer(24_000, ahead_s)
        self.made = list[int]()
        speech = Speech(
            tokens, codec, self.buffer, retries=retries, watched=watched, made=self.made.append
        )
        self.task = asyncio.ensure_future(speech.speak(pieces))

    async def rest(self):
        return np.concatenate([np.zeros(0, np.int16), *[pcm.samples async for pcm in self.buffer]])


async def test_every_frame_is_heard_once_and_in_order(tokens, codec, heard):
    frames = speech(40)
    tokens.script = by_seed(frames)
    speaking = Speaking(tokens, codec, [piece()])
    samples = await speaking.rest()
    assert len(samples) == 40 * FRAME_SAMPLES
    assert sum(speaking.made) == 7 * 40
    assert heard(samples) == firsts(frames)
    assert (tokens.open_now, codec.open_now) == (0, 0)


async def test_pieces_follow_each_other_each_with_a_decoder_of_its_own(tokens, codec, heard):
    tokens.script = by_seed(speech(30))
    speaking = Speaking(tokens, codec, [piece(), piece(OTHER)])
    assert heard(await speaking.rest()) == firsts(speech(30)) * 2
    assert len(codec.seeds) == 2


async def test_while_nobody_reads_the_source_is_left_and_later_gone_on_with(tokens, codec, heard):
    frames = speech(60)
    tokens.goes_on(frames)
    speaking = Speaking(tokens, codec, [piece()], ahead_s=1.0)
    await until(lambda: speaking.buffer.full and tokens.open_now == 0)
    paused = tokens.read_chunks
    for _ in range(50):
        await asyncio.sleep(0)
    assert tokens.read_chunks == paused
    assert speaking.buffer.written <= 24_000 + FRAME_SAMPLES
    assert heard(await speaking.rest()) == firsts(frames)
    assert len(tokens.requests) >= 2
    whole = [token for frame in frames for token in ids_of(frame)]
    for request in tokens.requests:
        said = request.prompt[3:]
        assert request.prompt[:3] == (1, 2, 3)
        assert len(said) % 7 == 0
        assert list(said) == whole[: len(said)]
        assert request.max_tokens == 2000 - len(said)
        assert request.seed == 0


async def test_tokens_of_a_frame_that_was_not_whole_at_a_pause_are_made_again(tokens, codec, heard):
    frames = speech(60)
    tokens.goes_on(frames, chunk=10)
    speaking = Speaking(tokens, codec, [piece()], ahead_s=0.5)
    assert heard(await speaking.rest()) == firsts(frames)


async def test_no_more_tokens_are_asked_for_than_the_piece_may_have(tokens, codec, heard):
    frames = speech(60)
    tokens.goes_on(frames)
    speaking = Speaking(tokens, codec, [piece(max_tokens=20 * 7)], ahead_s=0.5)
    assert heard(await speaking.rest()) == firsts(frames[:20])
    assert sum(request.max_tokens > 0 for request in tokens.requests) == len(tokens.requests)


async def test_a_fault_that_nobody_heard_is_made_again(tokens, codec, heard):
    tokens.script = by_seed(speech(3), speech(40, seed=1))
    speaking = Speaking(tokens, codec, [piece()])
    await speaking.task
    assert heard(await speaking.rest()) == firsts(speech(40, seed=1))
    assert [request.seed for request in tokens.requests] == [0, 1]
    assert codec.seeds == [0, 1]


async def test_a_piece_that_was_heard_ends_at_its_last_right_frame_and_the_next_follows(
    tokens, codec
):
    stuck = speech(10) + speech(1, seed=2) * 30
    tokens.script = lambda request: by_seed(stuck if len(tokens.requests) == 1 else speech(30))(
        request
    )
    speaking = Speaking(tokens, codec, [piece(), piece(OTHER)])
    first = await anext(speaking.buffer)
    await speaking.task
    samples = np.concatenate([first.samples, await speaking.rest()])
    assert len(tokens.requests) == 2
    assert len(samples) == (11 + 30) * FRAME_SAMPLES
    assert samples[11 * FRAME_SAMPLES - 1] == 0  # faded


async def test_a_repeat_that_was_heard_already_ends_in_a_fade(tokens, codec):
    stuck = speech(10) + speech(1, seed=2) * 30
    tokens.script = by_seed(stuck)
    samples = await Speaking(tokens, codec, [piece()]).rest()  # reads all at once
    assert 11 * FRAME_SAMPLES < len(samples) < 24 * FRAME_SAMPLES
    assert samples[-1] == 0
    assert len(tokens.requests) == 1


async def test_the_last_attempt_is_heard_as_far_as_it_is_right(tokens, codec):
    tokens.script = by_seed(speech(3), speech(4), speech(5, seed=3))
    speaking = Speaking(tokens, codec, [piece()], retries=2)
    await speaking.task
    assert len(await speaking.rest()) == 5 * FRAME_SAMPLES
    assert len(tokens.requests) == 3


async def test_too_long_is_cut_where_it_should_have_ended(tokens, codec):
    tokens.script = by_seed(speech(400))
    speaking = Speaking(tokens, codec, [piece()], retries=0)
    await speaking.task
    limit = (3 * len(SENTENCE) / 13 + 2) / (2048 / 24_000)
    assert len(await speaking.rest()) // FRAME_SAMPLES == int(limit)


async def test_unwatched_anything_goes(tokens, codec):
    tokens.script = by_seed(speech(1) * 40)
    speaking = Speaking(tokens, codec, [piece()], watched=False)
    assert len(await speaking.rest()) == 40 * FRAME_SAMPLES


async def test_no_audio_at_all_is_an_error(tokens, codec):
    tokens.script = lambda request: [(5, 6, 7)]
    with pytest.raises(EngineError, match="no audio") as caught:
        await Speaking(tokens, codec, [piece()]).rest()
    assert caught.value.code == "bad_response"
    assert len(tokens.requests) == 3


async def test_no_pieces_are_no_error(tokens, codec):
    assert len(await Speaking(tokens, codec, []).rest()) == 0


@pytest.mark.parametrize("error", [EngineError("gpu", "failed", "gone"), KeyError("a bug")])
async def test_what_the_source_raises_comes_after_what_it_gave(tokens, codec, error):
    frames = speech(20)
    tokens.script = lambda request: [*by_seed(frames)(request), error]
    speaking = Speaking(tokens, codec, [piece()])
    got = 0
    with pytest.raises(type(error)):
        async for pcm in speaking.buffer:
            got += len(pcm)
    assert got == (20 - codec.delay) * FRAME_SAMPLES
    assert (tokens.open_now, codec.open_now) == (0, 0)


@pytest.mark.virtual_clock
async def test_the_first_frame_is_due_at_once_and_later_ones_when_the_listener_runs_dry(
    tokens, codec
):
    start = asyncio.get_running_loop().time() * 1000
    tokens.script = by_seed(speech(30))
    await Speaking(tokens, codec, [piece()]).rest()
    at_once, later = codec.deadlines[:3], codec.deadlines[3:]
    assert at_once == pytest.approx([start + 5] * 3)
    assert later == pytest.approx([start + 2048 / 24 * (n + 1) for n in range(len(later))])


async def test_stopping_frees_decoder_and_source_while_a_frame_is_being_decoded(tokens, codec):
    tokens.script = by_seed(speech(30))
    codec.hold.clear()
    speaking = Speaking(tokens, codec, [piece()])
    await codec.decoding.wait()
    assert (tokens.open_now, codec.open_now) == (1, 1)
    speaking.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await speaking.task
    assert (tokens.open_now, codec.open_now) == (0, 0)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("endless", ["audio", "text"])
async def test_a_source_that_heeds_no_limit_is_left(tokens, codec, watched, endless):
    frames = speech(100)
    ids = itertools.cycle(ids_of(frame) if endless == "audio" else (5, 6, 7) for frame in frames)
    tokens.script = lambda request: ids
    async with asyncio.timeout(5):
        speaking = Speaking(tokens, codec, [piece(max_tokens=70)], retries=0, watched=watched)
        await speaking.task
    assert tokens.open_now == codec.open_now == 0
    assert speaking.buffer.written == (10 * FRAME_SAMPLES if endless == "audio" else 0)
