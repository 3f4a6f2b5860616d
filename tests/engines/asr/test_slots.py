import asyncio

import pytest

from engines.asr.slots import Slots
from engines.ports import EngineError, Load, Priority

pytestmark = pytest.mark.virtual_clock


class Crowd:
    """Tasks that take a slot, note their turn and leave when they are told to."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.turns: list[str] = []
        self.leave: dict[str, asyncio.Event] = {}

    async def come(self, name: str, priority: Priority) -> asyncio.Task[None]:
        self.leave[name] = asyncio.Event()

        async def stay() -> None:
            async with self.slots.hold(priority):
                self.turns.append(name)
                await self.leave[name].wait()

        task = asyncio.create_task(stay())
        await asyncio.sleep(0.001)
        return task

    async def go(self, name: str) -> None:
        self.leave[name].set()
        await asyncio.sleep(0.001)


async def test_the_most_urgent_goes_first_and_equals_in_order_of_arrival():
    crowd = Crowd(Slots("asr", 1))
    tasks = [
        await crowd.come(name, priority)
        for name, priority in [
            ("first", Priority.BATCH),
            ("partial", Priority.PARTIAL),
            ("final", Priority.FINAL),
            ("partial too", Priority.PARTIAL),
            ("guess", Priority.SPECULATIVE),
        ]
    ]
    for name in ("first", "final", "guess", "partial", "partial too"):
        await crowd.go(name)
    await asyncio.gather(*tasks)
    assert crowd.turns == ["first", "final", "guess", "partial", "partial too"]


async def test_it_tells_how_many_are_inside_and_how_many_wait():
    slots = Slots("asr", 2)
    crowd = Crowd(slots)
    tasks = [await crowd.come(name, Priority.FINAL) for name in "abc"]
    await asyncio.sleep(0.499)
    load = slots.load()
    assert (load.slots, load.busy, load.queued) == (2, 2, 1)
    assert load.oldest_ms == pytest.approx(500)
    tasks[2].cancel()
    await asyncio.sleep(0.001)
    assert slots.load() == Load(slots=2, busy=2, queued=0)
    await crowd.go("a")
    assert slots.load() == Load(slots=2, busy=1, queued=0)
    await crowd.go("b")
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_files_may_wait_for_long_and_nobody_is_late():
    slots = Slots("asr", 1)
    crowd = Crowd(slots)
    tasks = [await crowd.come("inside", Priority.FINAL), await crowd.come("file", Priority.BATCH)]
    await asyncio.sleep(60)
    tasks.append(await crowd.come("partial", Priority.PARTIAL))
    load = slots.load()
    assert (load.queued, load.oldest_ms) == (2, pytest.approx(1, abs=0.1))
    for name in ("inside", "partial", "file"):
        await crowd.go(name)
    await asyncio.gather(*tasks)


async def test_when_the_room_is_full_the_least_urgent_is_refused_whoever_came_first():
    crowd = Crowd(Slots("asr", 1, capacity=1))
    inside = await crowd.come("inside", Priority.FINAL)
    batch = await crowd.come("batch", Priority.BATCH)
    again = await crowd.come("batch again", Priority.BATCH)
    with pytest.raises(EngineError, match="1 clips are being heard and 1 wait") as refused:
        await again
    assert refused.value.code == "unavailable"
    final = await crowd.come("final", Priority.FINAL)
    with pytest.raises(EngineError, match="try again later"):
        await batch
    for name in ("inside", "final"):
        await crowd.go(name)
    await asyncio.gather(inside, final)
    assert crowd.turns == ["inside", "final"]


async def test_who_leaves_at_the_very_moment_of_his_turn_passes_it_on():
    slots = Slots("asr", 1)
    crowd = Crowd(slots)
    async with slots.hold(Priority.FINAL):
        second = await crowd.come("second", Priority.FINAL)
        third = await crowd.come("third", Priority.FINAL)
    # the slot is the second's, who has not run since
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await crowd.go("third")
    await third
    assert crowd.turns == ["third"]
    assert slots.load() == Load(slots=1)


async def test_a_slot_comes_back_after_a_failure():
    slots = Slots("asr", 1)
    with pytest.raises(RuntimeError):
        async with slots.hold(Priority.FINAL):
            raise RuntimeError
    assert slots.load() == Load(slots=1)
