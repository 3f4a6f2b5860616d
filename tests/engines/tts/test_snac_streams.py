"""Voices on the loop: each awaits its samples, all share one device, and none disturbs another."""

import asyncio
from typing import Any

import numpy as np
import pytest

from engines.ports import EngineError
from engines.tts.snac import SnacDecoder, SnacStreams
from engines.tts.snac_weights import TINY, random_snac
from engines.workers import Workers

pytestmark = pytest.mark.torch

SLOTS = 8
FRAME = SnacDecoder.frame_samples


@pytest.fixture
async def streams() -> Any:
    workers = Workers("snac")
    made = SnacStreams(SnacDecoder(random_snac(**TINY), slots=SLOTS), workers=workers)
    yield made
    await made.close()
    workers.close()
    await workers.wait_closed()


def frames_of(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4096, (count, 7))


def soon() -> float:
    return asyncio.get_running_loop().time() * 1000 + 20


async def speak(streams: SnacStreams, seed: int, count: int) -> np.ndarray:
    async with streams.open(seed) as voice:
        pieces = [await voice.decode(frame, soon()) for frame in frames_of(count, seed)]
        pieces.append(await voice.finish(soon()))
    return np.concatenate(pieces)


async def test_voices_of_any_length_are_whole_and_as_if_alone(streams: SnacStreams) -> None:
    together = await asyncio.gather(*(speak(streams, seed, 3 + seed) for seed in range(SLOTS)))
    assert streams.load().busy == 0
    for seed, heard in enumerate(together):
        assert len(heard) == (3 + seed) * FRAME
        assert np.abs(heard - await speak(streams, seed, 3 + seed)).max() <= 1e-6


async def test_batches_follow_the_voices_that_speak(streams: SnacStreams) -> None:
    rows: list[int] = []
    step = streams.decoder.step

    def counted(slots: Any, frames: Any) -> Any:
        rows.append(len(slots))
        return step(slots, frames)

    streams.decoder.step = counted  # type: ignore[method-assign]
    await asyncio.gather(*(speak(streams, seed, 10) for seed in range(SLOTS)))
    together = max(rows)
    rows.clear()
    await speak(streams, 0, 10)
    assert together > 1
    assert set(rows) == {1}


async def test_beyond_the_slots_a_voice_is_refused(streams: SnacStreams) -> None:
    async with asyncio.TaskGroup() as tasks:
        leave = asyncio.Event()
        inside = [asyncio.Event() for _ in range(SLOTS)]

        async def hold(place: int) -> None:
            async with streams.open(place):
                inside[place].set()
                await leave.wait()

        for place in range(SLOTS):
            tasks.create_task(hold(place))
        for event in inside:
            await event.wait()
        with pytest.raises(EngineError) as caught:
            async with streams.open(99):
                pass
        assert caught.value.code == "unavailable"
        leave.set()
    assert streams.load().busy == 0


async def test_who_is_cancelled_frees_the_slot_and_harms_nobody(streams: SnacStreams) -> None:
    expected = await speak(streams, 1, 12)
    gone = [asyncio.create_task(speak(streams, seed, 50)) for seed in range(10, 17)]
    kept = asyncio.create_task(speak(streams, 1, 12))
    while not streams.load().batch:  # noqa: ASYNC110 - nobody tells of the first batch
        await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.wait(gone)
    assert np.abs(await kept - expected).max() <= 1e-6
    assert streams.load().busy == 0


async def test_what_is_no_frame_may_be_handed_in_anew(streams: SnacStreams) -> None:
    async with streams.open(0) as voice:
        with pytest.raises(EngineError) as caught:
            await voice.decode([4096] * 7, soon())
        assert caught.value.code == "bad_request"
        [frame] = frames_of(1, 0)
        assert len(await voice.decode(frame, soon())) == 0
        assert len(await voice.finish(soon())) == FRAME
        with pytest.raises(EngineError, match="it has ended"):
            await voice.decode(frame, soon())


async def test_a_device_that_fails_ends_its_voices_and_no_others(streams: SnacStreams) -> None:
    step = streams.decoder.step
    frames = frames_of(2, 0)

    def fail(slots: Any, frames: Any) -> Any:
        raise RuntimeError("the device was lost")

    async with streams.open(0) as voice:
        streams.decoder.step = fail  # type: ignore[method-assign]
        with pytest.raises(EngineError, match="the device was lost"):
            await voice.decode(frames[0], soon())
        streams.decoder.step = step  # type: ignore[method-assign]
        with pytest.raises(EngineError, match="was lost: await each one"):
            await voice.decode(frames[1], soon())
    assert len(await speak(streams, 3, 4)) == 4 * FRAME


async def test_a_voice_without_frames_is_nothing(streams: SnacStreams) -> None:
    async with streams.open(0) as voice:
        assert len(await voice.finish(soon())) == 0
