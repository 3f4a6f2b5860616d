"""Audio that was made and not read yet: room, deadlines, and taking back."""

import asyncio

import numpy as np
import pytest

from engines.tts.orpheus_buffer import SpeechBuffer

RATE = 1000


def tone(milliseconds, level=0.5):
    return np.full(milliseconds, level, np.float32)


def now_ms():
    return asyncio.get_running_loop().time() * 1000


async def rest(buffer):
    buffer.end()
    return [pcm async for pcm in buffer]


async def test_what_is_put_is_read_in_order():
    buffer = SpeechBuffer(RATE, 2.0)
    buffer.put(tone(100, 0.25))
    buffer.put(tone(0))
    buffer.put(tone(50, -0.25))
    first = await anext(buffer)
    assert (first.rate, len(first), first.samples[0]) == (RATE, 100, 8192)
    assert (buffer.read, buffer.written) == (100, 150)
    assert [len(pcm) for pcm in await rest(buffer)] == [50]


async def test_a_reader_waits_for_what_is_to_come():
    buffer = SpeechBuffer(RATE, 2.0)
    reader = asyncio.ensure_future(anext(buffer))
    await asyncio.sleep(0)
    assert not reader.done()
    buffer.put(tone(10))
    assert len(await reader) == 10


async def test_an_error_is_raised_after_what_came_before_it():
    buffer = SpeechBuffer(RATE, 2.0)
    buffer.put(tone(10))
    buffer.end(ValueError("broken"))
    assert len(await anext(buffer)) == 10
    with pytest.raises(ValueError, match="broken"):
        await anext(buffer)


async def test_it_is_full_at_its_limit_and_has_room_at_half_of_it():
    buffer = SpeechBuffer(RATE, 0.4)
    for _ in range(3):
        buffer.put(tone(100))
    assert not buffer.full
    buffer.put(tone(100))
    assert buffer.full
    room = asyncio.ensure_future(buffer.wait_room())
    await anext(buffer)
    await asyncio.sleep(0)
    assert not room.done()
    await anext(buffer)
    await room
    assert not buffer.full


@pytest.mark.virtual_clock
async def test_the_next_audio_is_due_when_the_listener_runs_dry():
    buffer = SpeechBuffer(RATE, 2.0)
    assert buffer.due_ms == pytest.approx(now_ms() + 5)
    start = now_ms()
    buffer.put(tone(100))
    await asyncio.sleep(0.03)
    buffer.put(tone(100))
    assert buffer.due_ms == pytest.approx(start + 200)
    await asyncio.sleep(0.5)
    assert buffer.due_ms == pytest.approx(start + 200)  # late: nobody is more urgent
    buffer.put(tone(100))
    assert buffer.due_ms == pytest.approx(start + 630)


@pytest.mark.virtual_clock
async def test_what_is_unread_can_be_taken_back():
    buffer = SpeechBuffer(RATE, 2.0)
    start = now_ms()
    for _ in range(3):
        buffer.put(tone(100))
    buffer.cut(150)
    assert buffer.written == 150
    assert buffer.due_ms == pytest.approx(start + 150)
    assert sum(map(len, await rest(buffer))) == 150


async def test_what_was_read_stays_read():
    buffer = SpeechBuffer(RATE, 2.0)
    buffer.put(tone(100))
    await anext(buffer)
    buffer.put(tone(100))
    buffer.cut(20)
    assert (buffer.read, buffer.written) == (100, 100)
    assert await rest(buffer) == []


async def test_a_cut_can_fade_out_over_what_is_left():
    buffer = SpeechBuffer(RATE, 2.0)
    buffer.put(tone(100))
    buffer.cut(60, fade=True)
    (pcm,) = await rest(buffer)
    assert len(pcm) == 60
    assert (np.diff(pcm.samples[40:].astype(int)) < 0).all()
    assert (pcm.samples[0], pcm.samples[39], pcm.samples[-1]) == (16384, 16384, 0)


async def test_where_all_that_is_right_was_read_some_of_the_rest_is_faded():
    buffer = SpeechBuffer(RATE, 2.0)
    buffer.put(tone(100))
    await anext(buffer)
    buffer.put(tone(100))
    buffer.cut(80, fade=True)
    (pcm,) = await rest(buffer)
    assert len(pcm) == 20
    assert pcm.samples[-1] == 0


async def test_taking_back_makes_room():
    buffer = SpeechBuffer(RATE, 0.2)
    buffer.put(tone(300))
    room = asyncio.ensure_future(buffer.wait_room())
    await asyncio.sleep(0)
    buffer.cut(0)
    await room
    assert buffer.written == 0
