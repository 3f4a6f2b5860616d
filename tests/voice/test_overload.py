"""The watch over a house: what it reads off calls, engines and the loop, and whom it tells."""

import asyncio
import logging
import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from engines.ports import Load
from pipelines.conversation.ports import Engines
from pipelines.conversation.pulse import RESERVE_MS, SETTLED_MS, Pulse
from pipelines.strain import Strain
from voice.admission import Caller
from voice.config import load
from voice.house import House
from voice.ladder import FEW, SETTLE_S
from voice.overload import LAG_S, LOOK_S, WINDOW_S, Overload
from voice.reception import RefusedError

pytestmark = pytest.mark.virtual_clock


class Engine:
    """Says whatever it is told to say of itself."""

    def __init__(self) -> None:
        self.now: Any = Load()

    def load(self) -> Any:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


@dataclass(eq=False)
class FakeCall:
    pulse: Pulse = field(default_factory=Pulse)
    strains: list[Strain] = field(default_factory=list)

    def bear(self, strain: Strain) -> None:
        if strain is not (self.strains or [Strain.NONE])[-1]:
            self.strains.append(strain)


class Watched:
    """A house, its engines, and the watch over it."""

    def __init__(self, *settings: str) -> None:
        self.engines = {kind: Engine() for kind in ("asr", "llm", "tts")}
        nothing: Any = None
        self.house = House(load(settings=settings), Engines(nothing, **self.engines), ready=True)  # type: ignore[arg-type]
        self.loop = asyncio.get_running_loop()
        self.overload = Overload(self.house, self.loop.time)
        self.call = self.enters()

    def enters(self) -> FakeCall:
        call: Any = FakeCall()
        self.house.open_calls.add(call)
        return call

    async def lasts(self, seconds: float) -> Strain:
        watching = asyncio.create_task(self.overload.watch())
        await asyncio.sleep(seconds)
        watching.cancel()
        return self.house.strain

    def figure(self, name: str, **labels: str) -> float | None:
        return self.house.metrics.registry.get_sample_value(f"antiphon_{name}", labels)


# --- signs ------------------------------------------------------------------------------------


async def test_a_house_at_ease_stays_so() -> None:
    watched = Watched()
    assert await watched.lasts(60) is Strain.NONE
    assert watched.call.strains == []
    assert watched.figure("strain") == 0
    assert watched.figure("loop_lag_seconds_count") == pytest.approx(60 / LAG_S, rel=0.01)


@pytest.mark.parametrize("kind", ["asr", "llm", "tts"])
@pytest.mark.parametrize("load", [Load(queued=1, oldest_ms=500.0), Load(queued=128)])
async def test_a_long_or_an_old_queue_of_any_engine_is_strain(kind: str, load: Load) -> None:
    watched = Watched()
    watched.engines[kind].now = load
    assert await watched.lasts(2.7) is Strain.SLOW_PARTIALS
    assert watched.call.strains == [Strain.SLOW_PARTIALS]


async def test_a_queue_that_was_there_for_a_moment_is_none() -> None:
    watched = Watched()
    for _ in range(40):
        for oldest_ms in (900.0, 900.0, 0.0):
            watched.engines["asr"].now = Load(oldest_ms=oldest_ms)
            watched.overload.look()
            await asyncio.sleep(LOOK_S)
            assert watched.house.bearable == math.inf
    assert watched.house.strain is Strain.NONE


async def test_a_batch_that_all_who_speak_are_to_be_in_is_no_queue() -> None:
    watched = Watched()
    watched.engines["tts"].now = Load(speaking=200, queued=200, oldest_ms=12.0)
    assert await watched.lasts(60) is Strain.NONE


@pytest.mark.parametrize("broken", [RuntimeError("a bug"), None, 7, Load(oldest_ms="x")])  # type: ignore[arg-type]
async def test_an_engine_that_says_nonsense_is_asked_no_more_and_the_others_are(
    broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched()
    watched.engines["llm"].now = broken
    assert await watched.lasts(10) is Strain.NONE
    assert sum("llm: its load() is broken" in record.message for record in caplog.records) == 1
    watched.engines["asr"].now = Load(oldest_ms=500.0)
    assert await watched.lasts(2.7) > Strain.NONE


async def test_an_engine_that_says_nothing_or_no_number_is_no_sign() -> None:
    watched = Watched()
    silent: Any = object()
    watched.house.engines = Engines(silent, silent, silent, watched.engines["tts"])  # type: ignore[arg-type]
    watched.engines["tts"].now = Load(oldest_ms=math.nan)
    assert await watched.lasts(60) is Strain.NONE


async def test_a_loop_that_is_late_again_and_again_is_strain_and_once_is_none() -> None:
    watched = Watched()
    watching = asyncio.create_task(watched.overload.watch())
    await asyncio.sleep(2)
    watched.loop._jump(3.0)  # type: ignore[attr-defined]
    await asyncio.sleep(30)
    assert watched.house.strain is Strain.NONE
    for _ in range(60):
        watched.loop._jump(0.5)  # type: ignore[attr-defined]
        await asyncio.sleep(0.06)
    watching.cancel()
    assert watched.house.strain >= Strain.NO_PARTIALS


async def speaks(watched: Watched, rtf: float, looks: int = 10) -> None:
    """The voice takes so long for a second of audio."""
    for _ in range(looks):
        watched.call.pulse.made(500, 500 * rtf)
        watched.overload.look()
        await asyncio.sleep(LOOK_S)


async def test_a_house_whose_models_are_loading_is_not_strained_by_that() -> None:
    watched = Watched()
    watched.house.ready = False
    watched.engines["asr"].now = Load(oldest_ms=math.inf)
    assert await watched.lasts(10) is Strain.NONE
    watched.house.ready = True
    assert await watched.lasts(3) > Strain.NONE


async def test_a_voice_that_has_lost_its_spare_speed_is_strain() -> None:
    watched = Watched()
    await speaks(watched, 0.6)
    assert (watched.house.strain, watched.house.bearable) == (Strain.NONE, math.inf)
    await speaks(watched, 0.85)
    assert (watched.house.strain, watched.house.bearable) == (Strain.NONE, FEW)
    assert watched.figure("bearable_calls") == FEW
    assert watched.figure("tts_realtime_factor") == pytest.approx(0.85)
    await speaks(watched, 0.95, 6)
    assert watched.house.strain > Strain.NONE


@pytest.mark.parametrize("rtf", [0.05, 0.7, 0.98, 3.0])
async def test_a_voice_that_is_as_fast_as_it_ever_was_is_none(rtf: float) -> None:
    """Also one that paces itself, or was never fast enough: who is hurt by that shows otherwise."""
    watched = Watched()
    await speaks(watched, rtf, 60)
    assert (watched.house.strain, watched.house.bearable) == (Strain.NONE, math.inf)


async def test_one_slow_word_is_no_strain() -> None:
    watched = Watched()
    await speaks(watched, 0.1)
    await watched.lasts(10)
    watched.call.pulse.made(400, 4_000)
    assert await watched.lasts(30) is Strain.NONE


async def test_listeners_who_run_dry_are_strain() -> None:
    watched = Watched()
    for _ in range(6):
        now = watched.loop.time() * 1000
        watched.call.pulse.sent(100, now)
        watched.overload.look()
        await asyncio.sleep(LOOK_S)
    assert watched.house.strain > Strain.NONE
    gaps = 5 * (500 - 100) - RESERVE_MS
    assert watched.figure("underruns_total") == 5
    assert watched.figure("underrun_seconds_total") == pytest.approx(gaps / 1000)


async def test_a_lead_that_is_gone_is_strain_and_one_call_of_many_is_not() -> None:
    watched = Watched("overload.ignore=underrun_share")
    calls = [watched.enters() for _ in range(39)]
    pulses = [call.pulse for call in (watched.call, *calls)]
    for pulse in pulses:
        pulse.sent(60_000, watched.loop.time() * 1000)
    watched.call.pulse.cut()
    watched.call.pulse.sent(SETTLED_MS, watched.loop.time() * 1000)
    await asyncio.sleep(SETTLED_MS / 1000)
    assert await watched.lasts(10) is Strain.NONE
    assert watched.figure("playout_lead_seconds_count") >= 40 * 19
    for pulse in pulses[:4]:
        pulse.cut()
        pulse.sent(SETTLED_MS, watched.loop.time() * 1000)
    await asyncio.sleep(SETTLED_MS / 1000)
    assert await watched.lasts(WINDOW_S + 3) > Strain.NONE


async def test_what_a_call_counted_last_is_not_lost_when_it_ends() -> None:
    watched = Watched()
    watched.overload.look()
    pulse = watched.call.pulse
    pulse.underruns, pulse.underrun_ms = 3, 700.0
    watched.house.open_calls.clear()
    for _ in range(3):
        watched.overload.look()
    assert watched.figure("underruns_total") == 3
    assert watched.figure("underrun_seconds_total") == pytest.approx(0.7)
    assert watched.overload._counted == {}, "it holds no call that is over"


# --- whom it tells ----------------------------------------------------------------------------


async def climbed(*settings: str) -> Watched:
    watched = Watched(*settings)
    watched.engines["asr"].now = Load(oldest_ms=math.inf)
    await watched.lasts(6)
    return watched


async def test_under_strain_that_stays_calls_files_and_the_door_are_told() -> None:
    watched = await climbed()
    assert watched.house.strain is Strain.NO_CALLS
    assert watched.call.strains == [Strain.NO_SPECULATION, Strain.NO_CALLS]
    assert not watched.house.files_may_run.is_set()
    with pytest.raises(RefusedError, match="overloaded"):
        async with watched.house.reception.admit(Caller(), None, asyncio.Event().wait):  # type: ignore[arg-type]
            pass
    newcomer = watched.enters()
    await watched.lasts(2 * LOOK_S)
    assert newcomer.strains == [Strain.NO_CALLS]


async def test_and_all_of_them_again_when_it_is_over() -> None:
    watched = await climbed()
    waiting = asyncio.create_task(watched.house.files_may_run.wait())
    watched.engines["asr"].now = Load()
    assert await watched.lasts(12) is Strain.SHORT_REPLIES
    assert await waiting
    assert await watched.lasts(30) is Strain.NONE
    assert watched.call.strains == [3, 6, 5, 4, 3, 2, 1, 0]

    class Line:
        heard_at = watched.loop.time()

        def abort(self) -> None: ...

    async with watched.house.reception.admit(Caller(), Line(), asyncio.Event().wait):
        assert watched.house.calls == 1


async def test_who_waits_comes_in_as_soon_as_it_is_calm() -> None:
    watched = Watched("admission.waiting=1", "admission.wait_s=60")

    class Line:
        heard_at = watched.loop.time()

        def abort(self) -> None: ...

    async def calls() -> float:
        watched.engines["asr"].now = Load(oldest_ms=250.0)
        await watched.lasts(2)
        async with watched.house.reception.admit(Caller(), Line(), asyncio.Event().wait):
            return watched.loop.time()

    watched.enters()
    admit = watched.house.reception.admit
    async with (
        admit(Caller(), Line(), asyncio.Event().wait),
        admit(Caller(), Line(), asyncio.Event().wait),
    ):
        began, caller = watched.loop.time(), asyncio.create_task(calls())
        await watched.lasts(7)
        watched.engines["asr"].now = Load()
        await watched.lasts(SETTLE_S + 3 * LOOK_S)
    assert await caller - began == pytest.approx(7 + SETTLE_S, abs=2 * LOOK_S)


async def test_a_house_that_has_emptied_is_open_at_once() -> None:
    watched = await climbed()
    watched.engines["asr"].now = Load()
    watched.house.open_calls.clear()
    assert await watched.lasts(2 * LOOK_S) is Strain.NONE


async def test_each_step_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "voice.overload")
    watched = Watched()
    watched.engines["tts"].now = Load(oldest_ms=612.0)
    await watched.lasts(2.7)
    watched.engines["tts"].now = Load()
    await watched.lasts(8)
    watched.engines["tts"].now = Load(oldest_ms=612.0)
    await watched.lasts(2.7)
    watched.engines["tts"].now = Load()
    watched.house.open_calls.clear()
    await watched.lasts(2)
    assert [record.message for record in caplog.records] == [
        "overload: captions come less often (step 1 of 6, after 0):"
        " a request has waited for 612 ms; the limit is 500 (overload.queue_ms)",
        "overload: over, all is done again (step 0 of 6, after 1): there is room again",
        "overload: captions come less often (step 1 of 6, after 0):"
        " a request has waited for 612 ms; the limit is 500 (overload.queue_ms)",
        "overload: over, all is done again (step 0 of 6, after 1): no call is open",
    ]
    assert watched.figure("strain_steps_total", to="slow partials") == 2
    assert watched.figure("strain_steps_total", to="none") == 2


async def test_the_signs_are_shown_as_shares_of_what_is_strained() -> None:
    watched = Watched()
    watched.engines["tts"].now = Load(oldest_ms=250.0)
    await watched.lasts(1.5)
    assert watched.figure("strain_sign", sign="queue_ms") == 0.5
    assert watched.figure("strain_sign", sign="tts_load") == 0


async def test_turned_off_it_measures_and_leaves_all_as_it_is() -> None:
    watched = await climbed("overload.enabled=false")
    assert watched.house.strain is Strain.NONE
    assert watched.call.strains == []
    assert watched.figure("strain_sign", sign="queue_ms") == math.inf


async def test_what_was_before_a_step_is_no_reason_for_the_next() -> None:
    """One gap is in the window for five seconds: it must not be climbed for five times."""
    watched = Watched()
    now = watched.loop.time() * 1000
    watched.call.pulse.sent(500, now)
    await asyncio.sleep(0.7)
    watched.call.pulse.sent(500, watched.loop.time() * 1000)
    watched.call.pulse.rest()
    assert await watched.lasts(4) <= Strain.NO_SPECULATION
    assert len(watched.call.strains) == 1


async def test_a_clock_that_stands_still_moves_nothing() -> None:
    watched = Watched()
    watched.overload = Overload(watched.house, lambda: 100.0)
    watched.engines["asr"].now = Load(oldest_ms=math.inf)
    assert await watched.lasts(60) is Strain.NONE
    for _ in range(50):
        watched.overload.look()
    assert watched.house.strain is Strain.NONE
