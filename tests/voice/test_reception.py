"""The reception: who waits, who goes meanwhile, whose connection has died, which files stop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.strain import Strain
from voice.admission import Admission, AdmissionSettings, Caller, Reason, Room
from voice.metrics import Metrics
from voice.reception import CallerGoneError, Reception, RefusedError

pytestmark = pytest.mark.virtual_clock


@dataclass
class FakeLine:
    """A connection from which something came at this time."""

    heard_at: float = 0.0
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True


@dataclass
class House:
    """What the reception looks at, and the callers who try it."""

    room: Room
    settings: AdmissionSettings
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        admission = Admission(self.settings, {}, self.room)
        self.reception = Reception(admission, lambda: self.room, self.metrics)

    def change(self, **values: Any) -> None:
        self.room = replace(self.room, **values)
        self.reception.settle()

    @property
    def calls(self) -> int:
        return self.reception.admission().calls

    @property
    def waiting(self) -> int:
        return self.reception.admission().waiting

    def figure(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def house(calls: int = 1, **settings: Any) -> House:
    return House(Room(calls), AdmissionSettings(**settings))


async def stays() -> None:
    """A caller who waits as long as it takes."""
    await asyncio.Event().wait()


async def call(
    of: House,
    until: asyncio.Event,
    gone: Callable[[], Awaitable[object]] = stays,
    line: FakeLine | None = None,
) -> None:
    async with of.reception.admit(Caller(), line or FakeLine(), gone):
        await until.wait()


async def settled() -> None:
    """All that can be done is done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def refusal(of: House) -> Reason:
    with pytest.raises(RefusedError) as caught:
        await call(of, asyncio.Event())
    return caught.value.refusal.reason


async def test_a_place_is_held_as_long_as_the_call_lasts_and_given_back_whatever_ends_it() -> None:
    home, over = house(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        assert home.calls == 1
        assert await refusal(home) is Reason.SERVER_FULL
        over.set()
    with pytest.raises(RuntimeError, match="a bug"):
        async with home.reception.admit(Caller(), FakeLine(), stays):
            raise RuntimeError("a bug")
    cancelled = asyncio.create_task(call(home, asyncio.Event()))
    await settled()
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert home.calls == 0
    assert home.figure("antiphon_calls_opened_total", outcome="admitted") == 3


async def test_what_a_caller_would_be_told_is_known_before_anything_is_taken() -> None:
    home, over = house(), asyncio.Event()
    assert home.reception.refuses(Caller()) is None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        refused = home.reception.refuses(Caller())
        assert refused is not None
        assert refused.reason is Reason.SERVER_FULL
        home.room = Room(2)
        assert home.reception.refuses(Caller()) is None
        assert home.calls == 1
        over.set()


async def test_who_waits_comes_in_when_a_call_ends() -> None:
    home, over, later = house(waiting=2), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        first = tasks.create_task(call(home, later))
        await settled()
        second = tasks.create_task(call(home, later))
        await settled()
        assert (home.calls, home.waiting) == (1, 2)
        assert await refusal(home) is Reason.SERVER_FULL
        over.set()
        await settled()
        assert (home.calls, home.waiting) == (1, 1)
        later.set()
    assert (first.done(), second.done(), home.calls) == (True, True, 0)
    assert home.figure("antiphon_wait_seconds_count", outcome="admitted") == 2


async def test_nobody_waits_longer_than_is_said() -> None:
    home, over = house(waiting=1, wait_s=7), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        began = loop.time()
        assert await refusal(home) is Reason.WAITED
        assert loop.time() - began == pytest.approx(7)
        assert home.waiting == 0
        over.set()
    assert home.figure("antiphon_wait_seconds_sum", outcome="refused") == pytest.approx(7)


async def test_who_hangs_up_while_waiting_leaves_the_place_to_another() -> None:
    home, over, hung_up = house(waiting=1), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        gone = asyncio.create_task(call(home, asyncio.Event(), hung_up.wait))
        await settled()
        hung_up.set()
        with pytest.raises(CallerGoneError):
            await gone
        assert home.waiting == 0
        over.set()
    assert home.calls == 0
    assert home.figure("antiphon_wait_seconds_count", outcome="gone") == 1


async def test_who_hangs_up_as_the_place_comes_free_does_not_keep_it() -> None:
    """Both happen in one turn of the loop: the next in line gets the place."""
    home, over, hung_up, done = (house(waiting=2), *(asyncio.Event() for _ in range(3)))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        gone = asyncio.create_task(call(home, asyncio.Event(), hung_up.wait))
        await settled()
        tasks.create_task(call(home, done))
        await settled()
        hung_up.set()
        over.set()
        with pytest.raises(CallerGoneError):
            await gone
        await settled()
        assert (home.calls, home.waiting) == (1, 0)
        done.set()
    assert home.calls == 0


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_caller_leaves_nothing_however_far_it_has_come(turns: int) -> None:
    """The place comes free, and so many turns of the loop later the waiting caller is cancelled."""
    home, over = house(waiting=1), asyncio.Event()
    first = asyncio.create_task(call(home, over))
    await settled()
    second = asyncio.create_task(call(home, asyncio.Event()))
    await settled()
    over.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (home.calls, home.waiting) == (0, 0)


async def test_what_ends_the_listening_for_a_waiting_caller_ends_the_waiting() -> None:
    home, over = house(waiting=1), asyncio.Event()

    async def breaks() -> None:
        raise OSError("a broken socket")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(call(home, over))
        await settled()
        with pytest.raises(OSError, match="a broken socket"):
            await call(home, asyncio.Event(), breaks)
        over.set()
    assert (home.calls, home.waiting) == (0, 0)


async def test_more_room_lets_the_waiting_in_and_a_closing_house_sends_them_away() -> None:
    home, over = house(waiting=3), asyncio.Event()
    tasks = [asyncio.create_task(call(home, over)) for _ in range(4)]
    await settled()
    home.change(calls=2)
    await settled()
    assert (home.calls, home.waiting) == (2, 2)
    home.change(closing=True)
    over.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, RefusedError) for each in ended] == [False, False, True, True]
    assert (home.calls, home.waiting) == (0, 0)


async def test_a_call_whose_line_is_dead_is_dropped_and_its_place_free_at_once() -> None:
    home = house(2, lost_s=30)
    now = asyncio.get_running_loop().time()
    dead, alive, over = FakeLine(now), FakeLine(now), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(home.reception.watch())
        for line in (dead, alive):
            tasks.create_task(call(home, over, line=line))
        for _ in range(4):
            await asyncio.sleep(10)
            alive.heard_at = asyncio.get_running_loop().time()
        assert (dead.aborted, alive.aborted, home.calls) == (True, False, 1)
        tasks.create_task(call(home, over, line=alive))
        await settled()
        assert home.calls == 2
        over.set()
        await settled()
        watch.cancel()
    assert home.calls == 0
    assert home.figure("antiphon_calls_expired_total") == 1


async def test_a_place_that_was_given_and_not_taken_for_too_long_is_free_again() -> None:
    """As it may be where the server has stood still in between."""
    home, over, loop = house(waiting=1, lost_s=30), asyncio.Event(), asyncio.get_running_loop()
    first = asyncio.create_task(call(home, over))
    await settled()
    second = asyncio.create_task(call(home, asyncio.Event()))
    await settled()
    over.set()
    await first
    assert home.calls == 1
    loop._now += 31  # type: ignore[attr-defined]
    home.reception.expire()
    assert home.calls == 0
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert home.calls == 0


async def test_nobody_is_lost_because_the_server_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has come meanwhile is read only after the watcher has run."""
    home, loop = house(lost_s=30), asyncio.get_running_loop()
    line, over = FakeLine(loop.time()), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(home.reception.watch())
        tasks.create_task(call(home, over, line=line))
        await asyncio.sleep(0.5)
        loop._now += 100  # type: ignore[attr-defined]
        await asyncio.sleep(0.6)
        assert not line.aborted
        line.heard_at = loop.time()
        await asyncio.sleep(2)
        assert not line.aborted
        over.set()
        await settled()
        watch.cancel()


async def test_strain_that_has_passed_lets_the_waiting_in_by_and_by() -> None:
    home, over = house(waiting=1), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(home.reception.watch())
        tasks.create_task(call(home, over))
        await settled()
        tasks.create_task(call(home, over))
        await settled()
        home.room = Room(2, strain=Strain.NO_CALLS)
        await asyncio.sleep(2)
        assert home.waiting == 1
        home.room = Room(2)
        await asyncio.sleep(2)
        assert (home.calls, home.waiting) == (2, 0)
        over.set()
        await settled()
        watch.cancel()


async def test_a_file_stops_when_a_call_wants_its_slot() -> None:
    home, over = house(2), asyncio.Event()
    home.room = Room(2, {"asr": 1})
    async with asyncio.TaskGroup() as tasks:
        with home.reception.hold_for_file(["asr"]) as stop:
            with pytest.raises(RefusedError), home.reception.hold_for_file(["asr"]):
                pass
            assert not stop.is_set()
            tasks.create_task(call(home, over))
            await settled()
            assert stop.is_set()
        over.set()
    with home.reception.hold_for_file(["asr"]) as stop:
        assert not stop.is_set()
        home.change(strain=Strain.NO_FILES)
        assert stop.is_set()
    assert home.figure("antiphon_files_displaced_total") == 2


async def test_a_file_that_ends_gives_its_slot_back() -> None:
    home = house()
    home.room = Room(1, {"asr": 1})
    for _ in range(3):
        with pytest.raises(RuntimeError), home.reception.hold_for_file(["asr"]):
            raise RuntimeError("a bug")
    assert home.figure("antiphon_slots", of="asr", state="leased") == 0


async def test_metrics_tell_who_is_in_and_what_is_free() -> None:
    home, over = house(2, waiting=4), asyncio.Event()
    home.room = Room(3, {"tts": 2})
    async with AsyncExitStack() as stack:
        stack.callback(over.set)
        tasks = [asyncio.create_task(call(home, over)) for _ in range(3)]
        await settled()
        assert home.figure("antiphon_calls") == 2
        assert home.figure("antiphon_waiting") == 1
        assert home.figure("antiphon_tenant_calls", tenant="default") == 2
        for state, number in (("total", 2), ("leased", 2), ("free", 0)):
            assert home.figure("antiphon_slots", of="calls", state=state) == number
            assert home.figure("antiphon_slots", of="tts", state=state) == number
        home.change(calls=1)
        assert home.figure("antiphon_slots", of="calls", state="free") == 0
    home.change(calls=2)
    await asyncio.gather(*tasks)
    assert home.figure("antiphon_calls") == 0


# --- every way out --------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("come"), st.just(0)),
    st.tuples(st.sampled_from(["end", "hang up", "cancel", "fail", "die"]), st.integers(0, 9)),
    st.tuples(st.just("turn the loop"), st.integers(1, 6)),
    st.tuples(st.just("pass seconds"), st.sampled_from([1, 4, 12])),
    st.tuples(st.just("have room"), st.integers(0, 4)),
    st.tuples(st.just("be strained"), st.sampled_from([0, 0, 6])),
)


class Someone:
    """A caller who may be at any point of a call, and what can happen there."""

    def __init__(self, home: House) -> None:
        self.over, self.gone = asyncio.Event(), asyncio.Event()
        self.line = FakeLine(asyncio.get_running_loop().time())
        self.alive = True
        self.failing = False
        self.task = asyncio.create_task(self.call(home))

    async def call(self, home: House) -> None:
        async with home.reception.admit(Caller(), self.line, self.gone.wait):
            await self.over.wait()
            if self.failing:
                raise RuntimeError("a bug")

    def happen(self, what: str) -> None:
        if what == "cancel":
            self.task.cancel()
        elif what == "hang up":
            self.gone.set()
            self.over.set()
        elif what == "die":
            self.alive = False
        else:
            self.failing = what == "fail"
            self.over.set()


async def take(home: House, callers: list[Someone], what: str, value: int) -> None:
    match what:
        case "come":
            callers.append(Someone(home))
        case "turn the loop":
            for _ in range(value):
                await asyncio.sleep(0)
        case "pass seconds":
            await asyncio.sleep(value)
        case "have room":
            home.room = replace(home.room, calls=value)
        case "be strained":
            home.room = replace(home.room, strain=Strain(value))
        case _ if callers:
            callers[value % len(callers)].happen(what)


def carry(callers: list[Someone]) -> None:
    """What comes from those who are there; and a dropped connection ends its call."""
    for each in callers:
        if each.alive:
            each.line.heard_at = asyncio.get_running_loop().time()
        if each.line.aborted:
            each.over.set()


async def leave(callers: list[Someone]) -> None:
    """All go, each in the way that suits where they are."""
    for each in callers:
        each.happen("end")
        each.happen("hang up")
    ended = await asyncio.gather(*(each.task for each in callers), return_exceptions=True)
    expected = RefusedError | CallerGoneError | asyncio.CancelledError
    assert all(how is None or isinstance(how, expected) or str(how) == "a bug" for how in ended)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(steps=st.lists(STEPS, max_size=40), waiting=st.integers(0, 3))
def test_nothing_stays_behind_however_calls_come_and_go(
    run_virtually: Any, steps: list[tuple[str, int]], waiting: int
) -> None:
    async def live() -> None:
        home, callers = house(2, waiting=waiting, wait_s=5, lost_s=10), list[Someone]()
        watch = asyncio.create_task(home.reception.watch())
        for what, value in steps:
            await take(home, callers, what, value)
            carry(callers)
            assert home.waiting <= waiting
        await settled()
        await leave(callers)
        assert not watch.done()
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        assert (home.calls, home.waiting) == (0, 0)
        assert home.reception._lines == home.reception._waiting == {}

    run_virtually(live())
