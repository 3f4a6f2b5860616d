"""Voices on the loop: each awaits its samples, all share one device, and none disturbs another."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from engines.ports import EngineError, Priority
from engines.tts.snac import SnacDecoder, SnacStreams
from engines.tts.snac_weights import TINY, random_snac
from engines.workers import Workers

pytestmark = pytest.mark.torch

SLOTS = 8
FRAME = SnacDecoder.frame_samples


@pytest.fixture
async def workers() -> Any:
    made = Workers("snac")
    yield made
    made.close()
    await made.wait_closed()


@pytest.fixture
async def streams(workers: Workers) -> Any:
    made = SnacStreams(SnacDecoder(random_snac(**TINY), slots=SLOTS), workers=workers)
    yield made
    await made.close()


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


# --- who holds a slot, and until when ---------------------------------------------------------


class HeldUp:
    """A decoder's step that waits to be let go, and says when it is entered."""

    def __init__(self, decoder: SnacDecoder) -> None:
        self.step = decoder.step
        self.batches: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        decoder.step = self  # type: ignore[method-assign,assignment]

    def __call__(self, slots: Any, frames: Any) -> Any:
        self.batches.append([*slots])
        self.entered.release()
        assert self.gate.acquire(timeout=10)
        return self.step(slots, frames)

    async def wait_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=10)


async def decode_one(streams: SnacStreams, seed: int) -> np.ndarray:
    async with streams.open(seed) as voice:
        return await voice.decode(frames_of(1, seed)[0], soon())


async def test_a_slot_is_not_free_while_a_step_uses_it(streams: SnacStreams) -> None:
    held = HeldUp(streams.decoder)
    leaving = asyncio.create_task(decode_one(streams, 0))
    await held.wait_entered()
    leaving.cancel()
    await asyncio.wait([leaving])
    assert streams.load().busy == 1
    async with streams.open(1) as next_voice:
        assert [next_voice.slot] != held.batches[0]
        held.gate.release(2)
        await next_voice.decode(frames_of(1, 1)[0], soon())
        assert streams.load().busy == 1
    assert streams.load().busy == 0


async def test_what_is_left_behind_in_the_queue_never_runs(streams: SnacStreams) -> None:
    held = HeldUp(streams.decoder)
    first = asyncio.create_task(decode_one(streams, 0))
    await held.wait_entered()
    queued = asyncio.create_task(decode_one(streams, 1))
    while not streams.load().queued:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    queued.cancel()
    await asyncio.wait([queued])
    assert streams.load().busy == 1
    held.gate.release(2)
    await first
    await decode_one(streams, 2)
    assert [len(batch) for batch in held.batches] == [1, 1]


async def test_a_voice_left_once_its_batch_is_on_its_way_is_passed_over(
    streams: SnacStreams, workers: Workers
) -> None:
    workers_busy, let_go = threading.Event(), threading.Event()
    held = HeldUp(streams.decoder)
    held.gate.release(3)

    def occupy() -> None:
        workers_busy.set()
        assert let_go.wait(10)

    blocking = asyncio.create_task(workers.run(Priority.FINAL, occupy))
    assert await asyncio.to_thread(workers_busy.wait, 10)
    gone = asyncio.create_task(decode_one(streams, 0))
    kept = asyncio.create_task(decode_one(streams, 1))
    while streams.load().queued or not streams.load().busy:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    gone.cancel()
    await asyncio.wait([gone])
    let_go.set()
    await asyncio.gather(blocking, kept)
    assert [slot for batch in held.batches for slot in batch] == [1]
    assert streams.load().busy == 0


async def test_a_voice_hands_in_one_frame_at_a_time(streams: SnacStreams) -> None:
    held = HeldUp(streams.decoder)
    frames = frames_of(2, 0)
    async with streams.open(0) as voice:
        first = asyncio.create_task(voice.decode(frames[0], soon()))
        await held.wait_entered()
        with pytest.raises(EngineError, match="await each one"):
            await voice.decode(frames[1], soon())
        held.gate.release()
        assert len(await first) == 0
        held.gate.release()
        assert len(await voice.decode(frames[1], soon())) == 0
    with pytest.raises(EngineError, match="takes no more: it was left"):
        await voice.decode(frames[1], soon())


async def test_until_it_is_heard_a_voice_is_urgent(
    streams: SnacStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines: list[float] = []
    submit = streams.submit

    async def watched(item: Any, deadline_ms: float) -> Any:
        deadlines.append(deadline_ms - asyncio.get_running_loop().time() * 1000)
        return await submit(item, deadline_ms)

    monkeypatch.setattr(streams, "submit", watched)
    async with streams.open(0) as voice:
        for frame in frames_of(4, 0):
            await voice.decode(frame, asyncio.get_running_loop().time() * 1000 + 10_000)
        await voice.finish(asyncio.get_running_loop().time() * 1000 + 10_000)
    assert all(0 < left <= 5 for left in deadlines[:3])
    assert all(left > 5_000 for left in deadlines[3:])
    assert len(deadlines) == 7


async def test_a_voice_that_pauses_is_not_waited_for(streams: SnacStreams) -> None:
    async with streams.open(0) as voice, streams.open(1):
        assert streams.load().speaking == 0
        await voice.decode(frames_of(1, 0)[0], soon())
        assert streams.load().speaking == 1
        voice.handed_in_at -= 170
        assert streams.load().speaking == 0
        await voice.decode(frames_of(1, 0)[0], soon())
        await voice.finish(soon())
        assert streams.load().speaking == 0


async def test_after_the_close_nothing_is_decoded(streams: SnacStreams) -> None:
    async with streams.open(0) as voice:
        await streams.close()
        with pytest.raises(EngineError) as caught:
            await voice.decode(frames_of(1, 0)[0], soon())
        assert caught.value.code == "unavailable"
