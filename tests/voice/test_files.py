"""File jobs: a place in turn, given up to calls, taken again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engines.audio import Pcm
from engines.ports import AsrRequest, Transcript
from pipelines.places import DisplacedError
from pipelines.strain import Strain
from pipelines.transcription.chunks import Chunk
from pipelines.transcription.hearing import ChunksUnderWay, Wanted
from voice.admission import Admission, AdmissionSettings, Caller, Reason, Room
from voice.files import FileJobs, FileSettings
from voice.metrics import Metrics
from voice.reception import Reception, RefusedError

pytestmark = pytest.mark.virtual_clock


class Line:
    heard_at = 1e9

    def abort(self) -> None:
        pass


class Bench:
    """A reception with two slots of the voice, and its file jobs."""

    def __init__(self, **settings: Any) -> None:
        self.room = Room(4, {"tts": 2})
        admission = Admission(AdmissionSettings(max_calls=4), {}, self.room)
        self.reception = Reception(admission, lambda: self.room, Metrics())
        self.jobs = FileJobs(FileSettings(**settings), self.reception)
        self.began: list[str] = []

    def call(self) -> Any:
        async def gone() -> None:
            await asyncio.Event().wait()

        return self.reception.admit(Caller(), Line(), gone)

    async def work(self, name: str, hold_s: float = 1.0) -> None:
        async with self.jobs.job("tts") as place, place.hold():
            self.began.append(name)
            await asyncio.sleep(hold_s)


async def passed() -> None:
    """Let all that can happen now happen."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return Bench


async def test_jobs_work_side_by_side_as_far_as_there_is_room(bench: Any) -> None:
    house, loop = bench(), asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(house.work(name) for name in "abcd"))
    assert house.began == list("abcd")
    assert loop.time() - began == pytest.approx(2.0)
    assert house.jobs.count == 0


async def test_a_call_takes_the_place_and_the_job_takes_it_again(bench: Any) -> None:
    house, seen = bench(), []
    async with house.jobs.job("tts") as place, house.call():
        first = asyncio.Event()

        async def job() -> None:
            for attempt in range(2):
                try:
                    async with place.hold():
                        seen.append(f"in {attempt}")
                        first.set()
                        await asyncio.sleep(5)
                        seen.append("done")
                except DisplacedError:
                    seen.append("displaced")

        working = asyncio.ensure_future(job())
        await first.wait()
        async with house.call():
            await passed()
            assert seen == ["in 0", "displaced"]
            await asyncio.sleep(100)  # longer than a job waits at its beginning
            assert seen == ["in 0", "displaced"]
        await working
    assert seen == ["in 0", "displaced", "in 1", "done"]


async def test_under_strain_all_jobs_leave_and_come_back(bench: Any) -> None:
    house = bench()
    async with house.jobs.job("tts") as place:
        with pytest.raises(DisplacedError):
            async with place.hold():
                house.room = Room(4, {"tts": 2}, Strain.NO_FILES)
                house.reception.settle()
                await asyncio.sleep(1)
        again = asyncio.ensure_future(place.hold().__aenter__())
        await passed()
        assert not again.done()
        house.room = Room(4, {"tts": 2})
        house.reception.settle()
        await again
        await passed()


async def test_who_gets_no_place_in_time_is_told_why(bench: Any) -> None:
    house, loop = bench(wait_s=7), asyncio.get_running_loop()
    async with house.call(), house.call():
        began = loop.time()
        with pytest.raises(RefusedError) as refused:
            await house.work("late")
        assert loop.time() - began == pytest.approx(7)
    assert refused.value.refusal.reason is Reason.SERVER_FULL
    assert (house.began, house.jobs.count) == ([], 0)


async def test_who_waits_is_served_in_the_order_of_coming(bench: Any) -> None:
    house = bench()
    async with house.call(), house.call():
        waiting = []
        for name in "abc":
            waiting.append(asyncio.ensure_future(house.work(name)))
            await passed()
        assert house.began == []
    await asyncio.gather(*waiting)
    assert house.began == ["a", "b", "c"]


async def test_who_is_last_in_a_queue_is_told_so(bench: Any) -> None:
    house = bench(wait_s=1)
    async with house.call(), house.call():
        first = asyncio.ensure_future(house.work("first"))
        second = asyncio.ensure_future(house.work("second"))
        failures = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(failure) for failure in failures] == [RefusedError, RefusedError]
    assert {each.refusal.reason for each in failures} == {Reason.SERVER_FULL, Reason.WAITED}


async def test_a_server_that_shuts_down_lets_nobody_wait(bench: Any) -> None:
    house = bench()
    house.room = Room(4, {"tts": 2}, closing=True)
    with pytest.raises(RefusedError) as refused:
        await house.work("late")
    assert refused.value.refusal.reason is Reason.CLOSING


async def test_too_many_jobs_wait_for_one_to_end_and_no_longer_than_they_may(bench: Any) -> None:
    house, loop = bench(max_jobs=1, wait_s=7), asyncio.get_running_loop()
    async with house.jobs.job("tts"):
        began = loop.time()
        with pytest.raises(RefusedError) as refused:
            await house.work("second")
        assert loop.time() - began == pytest.approx(7)
        assert refused.value.refusal.reason is Reason.SERVER_FULL
        third = asyncio.ensure_future(house.work("third"))
        await passed()
    await third
    assert house.began == ["third"]


async def test_bodies_on_their_way_are_no_jobs(bench: Any) -> None:
    house = bench(max_jobs=1, max_uploads=2)
    with house.jobs.upload(), house.jobs.upload():
        with pytest.raises(RefusedError) as refused, house.jobs.upload():
            pass
        assert refused.value.refusal.reason is Reason.SERVER_FULL
        await house.work("quick")
        assert house.jobs.count == 0
    with house.jobs.upload():
        pass


async def test_nobody_sends_a_body_for_a_job_that_there_is_no_room_for(bench: Any) -> None:
    house = bench(max_jobs=1)
    async with house.jobs.job("tts"):
        with pytest.raises(RefusedError), house.jobs.upload():
            pass


async def test_one_of_several_tenants_has_its_share_and_no_more(bench: Any) -> None:
    house = bench(max_jobs=4, max_uploads=4, wait_s=1)
    jobs = FileJobs(house.jobs.settings, house.reception, shared=True)
    with jobs.upload("a"), jobs.upload("a"):
        with pytest.raises(RefusedError) as refused, jobs.upload("a"):
            pass
        assert refused.value.refusal.reason is Reason.TENANT_FULL
        with jobs.upload("b"):
            pass
    async with jobs.job("tts", "a"), jobs.job("asr", "a"):
        with pytest.raises(RefusedError) as refused:
            async with jobs.job("tts", "a"):
                pass
        assert refused.value.refusal.reason is Reason.TENANT_FULL
        async with jobs.job("tts", "b"):
            assert jobs.count == 3


async def test_engines_have_queues_of_their_own(bench: Any) -> None:
    house = bench()
    async with house.call(), house.call():
        speaking = asyncio.ensure_future(house.work("speech"))
        await passed()
        async with house.jobs.job("asr") as place, place.hold():
            pass
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


async def test_who_is_cancelled_from_outside_is_not_displaced(bench: Any) -> None:
    house = bench()
    working = asyncio.ensure_future(house.work("a", 100))
    await passed()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert house.jobs.count == 0
    await house.work("b")


async def test_both_at_once_is_a_cancellation(bench: Any) -> None:
    house = bench()
    async with house.call():
        working = asyncio.ensure_future(house.work("a", 100))
        await passed()
        async with house.call():
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working


async def test_work_that_is_done_as_its_place_is_lost_is_done(bench: Any) -> None:
    house = bench()
    async with house.call(), house.jobs.job("tts") as place:
        async with place.hold():
            house.room = Room(4, {"tts": 2}, Strain.NO_FILES)
            house.reception.settle()
        await passed()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


# --- several places of one job --------------------------------------------------------------


async def hold(place: Any, name: str, began: list[str], hold_s: float = 1.0) -> None:
    async with place.hold():
        began.append(name)
        await asyncio.sleep(hold_s)


async def test_a_job_holds_as_many_places_as_are_free(bench: Any) -> None:
    house, began, loop = bench(), list[str](), asyncio.get_running_loop()
    start = loop.time()
    async with house.jobs.job("tts") as place:
        await asyncio.gather(*(hold(place, name, began) for name in "abcd"))
    assert began == list("abcd")
    assert loop.time() - start == pytest.approx(2.0)


async def test_a_second_job_need_not_wait_for_all_that_the_first_wants(bench: Any) -> None:
    house, began = bench(), list[str]()
    async with house.jobs.job("tts") as one, house.jobs.job("tts") as other:
        work = [asyncio.ensure_future(hold(one, f"one {n}", began)) for n in range(6)]
        await passed()
        work += [asyncio.ensure_future(hold(other, f"other {n}", began)) for n in range(2)]
        await asyncio.gather(*work)
    assert began[:4] == ["one 0", "one 1", "one 2", "other 0"]


async def test_only_the_first_place_has_to_come_in_time(bench: Any) -> None:
    house, began = bench(wait_s=7), list[str]()
    async with house.jobs.job("tts") as place:
        await asyncio.gather(*(hold(place, str(n), began, 100.0) for n in range(6)))
    assert began == list("012345")


class Hearing:
    """Hears a chunk a second, and tells how many it was asked for."""

    def __init__(self) -> None:
        self.asked = self.heard = 0

    @asynccontextmanager
    async def open(self, _: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        self.asked += 1
        yield self._play()

    async def _play(self) -> AsyncIterator[Transcript]:
        await asyncio.sleep(1)
        self.heard += 1
        yield Transcript(str(self.heard), "en")


async def test_a_transcription_pauses_while_the_house_is_strained_and_loses_nothing(
    bench: Any,
) -> None:
    house, asr, told = bench(), Hearing(), list[str]()
    async with house.jobs.job("tts") as place:

        async def all_of(chunks: int) -> None:
            async with asyncio.TaskGroup() as tasks:
                hearing = ChunksUnderWay(Wanted("en"), asr, place, tasks)  # type: ignore[arg-type]
                tasks.create_task(hearing.begin_all(some(chunks)))
                while (each := await hearing.begun.get()) is not None:
                    told.append((await each[1]).text)

        working = asyncio.ensure_future(all_of(10))
        await asyncio.sleep(2.5)
        assert asr.heard == 4
        house.room = Room(4, {"tts": 2}, Strain.NO_FILES)
        house.reception.settle()
        await asyncio.sleep(1_000)
        assert (asr.asked, asr.heard) == (6, 4), "two were broken off, and none was begun"
        house.room = Room(4, {"tts": 2})
        house.reception.settle()
        await working
    assert (len(told), asr.heard, asr.asked) == (10, 10, 12)


async def some(count: int) -> AsyncIterator[Chunk]:
    for number in range(count):
        yield Chunk(
            Pcm.silence(1_000, 16_000), 1_000 * number, 1_000 * number, 1_000 * number + 900
        )
