"""The ears: what windows they hear, when batches run, and what one call may do to another."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.vad.ears import BacklogError, Ear, Ears

pytestmark = pytest.mark.virtual_clock


class Heard:
    """Notes the windows of one call."""

    def __init__(self) -> None:
        self.windows: list[NDArray[np.int16]] = []
        self.probabilities: list[float | None] = []
        self.levels_db: list[float] = []
        self.at_ms: list[float] = []

    def __call__(
        self, window: NDArray[np.int16], probability: float | None, level_db: float
    ) -> None:
        self.windows.append(window)
        self.probabilities.append(probability)
        self.levels_db.append(level_db)
        self.at_ms.append(asyncio.get_running_loop().time() * 1000)

    @property
    def samples(self) -> NDArray[np.int16]:
        return np.concatenate(self.windows)


def noise(count: int, seed: int = 0) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-20_000, 20_000, count, np.int16)


async def settle() -> None:
    await asyncio.sleep(0.1)


async def hear_in_pieces(ears: Ears, rate: int, pieces: list[NDArray[np.int16]]) -> Heard:
    heard = Heard()
    ear = ears.open(rate, heard)
    for piece in pieces:
        ear.hear(piece)
        await asyncio.sleep(len(piece) / rate)
    await settle()
    ear.close()
    return heard


# --- windows --------------------------------------------------------------------------------


async def test_samples_of_16_khz_are_heard_as_they_are(vad: Any) -> None:
    samples = noise(512 * 5 + 100)
    heard = await hear_in_pieces(Ears(vad), 16_000, np.array_split(samples, 13))
    assert np.array_equal(heard.samples, samples[: 512 * 5])
    assert all(window.dtype == np.int16 and len(window) == 512 for window in heard.windows)


async def test_what_is_loud_is_loud_in_its_own_window(vad: Any) -> None:
    samples = np.zeros(24_000, np.int16)
    samples[768 * 4 : 768 * 8] = 10_000
    heard = await hear_in_pieces(Ears(vad), 24_000, np.array_split(samples, 50))
    loud = [index for index, p in enumerate(heard.probabilities) if p > 0.9]
    assert loud == [4, 5, 6, 7, 8]  # the filter's delay shows in a fifth
    assert heard.levels_db[5:7] == pytest.approx([-10.3, -10.3], abs=0.1)
    assert heard.levels_db[2] == pytest.approx(-100.0)


@pytest.mark.parametrize("rate", [8_000, 24_000])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 24_000), max_size=30))
def test_windows_are_the_same_however_the_audio_is_cut(
    vad: Any, run_virtually: Any, rate: int, cuts: list[int]
) -> None:
    samples = noise(24_000, seed=3)

    async def hear(*pieces: NDArray[np.int16]) -> Heard:
        return await hear_in_pieces(Ears(vad), rate, list(pieces))

    whole = run_virtually(hear(samples))
    pieces = run_virtually(hear(*np.split(samples, sorted(cuts))))
    assert np.array_equal(whole.samples, pieces.samples)
    assert whole.probabilities == pieces.probabilities


async def test_a_window_is_the_callees_to_keep(vad: Any) -> None:
    heard = Heard()
    ear = Ears(vad).open(16_000, heard)
    ear.hear(np.full(512, 5, np.int16))
    await settle()
    ear.hear(np.full(512, 9, np.int16))
    await settle()
    assert [window[0] for window in heard.windows] == [5, 9]
    assert all(window.base is None for window in heard.windows)


async def test_what_is_beyond_full_scale_is_clipped(vad: Any) -> None:
    """A filter overshoots at a step between the extremes."""
    samples = np.repeat(np.array([-32_768, 32_767], np.int16), 400)
    heard = await hear_in_pieces(Ears(vad), 24_000, [np.tile(samples, 10)])
    assert heard.samples.max() == 32_767
    assert heard.samples.min() == -32_768
    assert np.median(np.abs(heard.samples.astype(int))) > 20_000  # nothing wraps around


async def test_a_change_of_rate_forgets_what_is_no_window_yet(vad: Any) -> None:
    heard = Heard()
    ear = Ears(vad).open(24_000, heard)
    ear.hear(np.full(700, 9_000, np.int16))
    ear.set_rate(24_000)  # no change: forgets nothing
    ear.set_rate(8_000)
    ear.hear(np.zeros(256, np.int16))
    await settle()
    assert len(heard.windows) == 1
    assert not heard.samples.any()
    ear.set_rate(16_000)
    ear.hear(np.full(512, 7, np.int16))
    await settle()
    assert heard.windows[1].tolist() == [7] * 512


async def test_a_window_that_waits_is_heard_before_the_rate_changes(vad: Any) -> None:
    heard = Heard()
    ear = Ears(vad).open(16_000, heard)
    ear.hear(noise(512 * 2))
    ear.set_rate(8_000)
    await settle()
    assert np.array_equal(heard.samples, noise(512 * 2))
    ear.hear(noise(256))
    await settle()
    assert len(heard.windows) == 3


@pytest.mark.parametrize("judged", [True, False])
async def test_a_flushed_ear_has_heard_all_there_is_unjudged(vad: Any, judged: bool) -> None:
    heard, samples = Heard(), noise(512 * 3 + 100)
    ear = Ears(vad).open(16_000, heard)
    ear.judged = judged
    for piece in np.array_split(samples, 7):
        ear.hear(piece)
    ear.flush()
    assert ear.waiting_ms == 0
    assert np.array_equal(heard.samples[: len(samples)], samples)
    assert len(heard.windows) == 4
    assert not heard.samples[len(samples) :].any()
    ear.flush()
    await settle()
    assert len(heard.windows) == 4
    assert set(heard.probabilities) == {None}


async def test_what_nobody_wants_judged_is_heard_as_it_comes(vad: Any) -> None:
    ears, heard, judged = Ears(vad), Heard(), Heard()
    ear = ears.open(24_000, heard)
    ear.judged = False
    samples = noise(24_000)
    for piece in np.array_split(samples, 50):
        ear.hear(piece)
    assert ear.waiting_ms < 32
    assert vad.batches == []
    other = ears.open(24_000, judged)
    other.hear(samples)
    await settle()
    assert np.allclose(heard.samples, judged.samples, atol=1)


async def test_an_ear_closed_while_it_hears_all_at_once_hears_no_more(vad: Any) -> None:
    heard: list[Any] = []
    ears = Ears(vad)
    ear = ears.open(16_000, lambda *window: (heard.append(window), ear.close()))
    ear.hear(noise(512 * 3))
    ear.flush()
    ear.flush()
    await settle()
    assert len(heard) == 1


# --- batches --------------------------------------------------------------------------------


async def test_one_caller_alone_never_waits(vad: Any) -> None:
    ears, heard = Ears(vad), Heard()
    ear = ears.open(16_000, heard)
    await asyncio.sleep(1)
    now = asyncio.get_running_loop().time() * 1000
    ear.hear(noise(512))
    await settle()
    assert heard.at_ms == [pytest.approx(now)]


async def test_a_batch_runs_as_soon_as_all_who_speak_are_in(vad: Any) -> None:
    ears, heard = Ears(vad, tick_ms=8), [Heard() for _ in range(4)]
    calls = [ears.open(16_000, each) for each in heard]
    await asyncio.sleep(1)
    for _ in range(10):
        for call in calls:
            call.hear(noise(512))
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.028)
    assert vad.batches[-9:] == [4] * 9
    assert ears.windows == 40
    assert ears.batches == len(vad.batches)


async def test_no_one_waits_longer_than_a_tick_for_the_others(vad: Any) -> None:
    ears, prompt, late = Ears(vad, tick_ms=8), Heard(), Heard()
    first, second = ears.open(16_000, prompt), ears.open(16_000, late)
    await asyncio.sleep(1)
    for _ in range(5):
        sent = asyncio.get_running_loop().time() * 1000
        first.hear(noise(512))
        await asyncio.sleep(0.020)
        second.hear(noise(512))
        await asyncio.sleep(0.012)
        assert prompt.at_ms[-1] - sent <= 8 + 0.1
    assert len(late.windows) == 5


async def test_who_sends_nothing_is_not_waited_for(vad: Any) -> None:
    ears, heard = Ears(vad, tick_ms=8), Heard()
    silent = [ears.open(16_000, Heard()) for _ in range(3)]
    speaking = ears.open(16_000, heard)
    for ear in [*silent, speaking]:
        ear.hear(noise(512))
    await asyncio.sleep(1)
    for _ in range(3):
        speaking.hear(noise(512))
        await asyncio.sleep(0.032)
    now = asyncio.get_running_loop().time() * 1000
    speaking.hear(noise(512))
    await settle()
    assert heard.at_ms[-1] == pytest.approx(now)


async def test_calls_of_different_rates_share_the_ears(vad: Any) -> None:
    ears = Ears(vad)
    heard = await asyncio.gather(
        *(hear_in_pieces(ears, rate, np.array_split(noise(rate), 50)) for rate in (8_000, 16_000,
                                                                                   24_000))
    )  # fmt: skip
    assert [len(each.windows) for each in heard] == [31, 31, 31]


async def test_a_batch_has_a_bound(vad: Any) -> None:
    ears = Ears(vad, max_batch=3)
    calls = [ears.open(16_000, Heard()) for _ in range(8)]
    for call in calls:
        call.hear(noise(512 * 2))
    await settle()
    assert ears.windows == 16
    assert max(vad.batches) == 3


# --- what a call may do to others, and leave behind -----------------------------------------


async def test_who_sends_too_fast_is_told_and_the_others_are_heard(vad: Any) -> None:
    ears, heard = Ears(vad), Heard()
    flooding, healthy = ears.open(24_000, Heard()), ears.open(24_000, heard)
    with pytest.raises(BacklogError, match="more than 60 s"):
        flooding.hear(np.zeros(24_000 * 61, np.int16))
    refused = 0
    for _ in range(100):
        try:
            flooding.hear(np.zeros(24_000, np.int16))
        except BacklogError:
            refused += 1
        healthy.hear(noise(480))
        await asyncio.sleep(0.02)
        assert len(flooding._buffer) <= 24_000 * 60 * 2
    assert refused
    await settle()
    assert len(heard.windows) == 100 * 480 // 768


async def test_a_backlog_is_heard_in_the_end_and_its_memory_given_back(vad: Any) -> None:
    heard = Heard()
    ear = Ears(vad).open(16_000, heard)
    samples = noise(512 * 300)
    ear.hear(samples)
    await settle()
    assert np.array_equal(heard.samples, samples)
    for _ in range(350):  # once the room of the backlog has been used up
        ear.hear(noise(512))
        await asyncio.sleep(0.032)
    assert len(ear._buffer) < 512 * 10
    assert len(heard.windows) == 650


async def test_a_closed_ear_hears_nothing_and_frees_its_slot(vad: Any) -> None:
    ears, heard = Ears(vad), Heard()
    ear = ears.open(16_000, heard)
    ear.hear(noise(512 * 2))
    assert len(vad.slots) == 1
    ear.close()
    ear.close()
    ear.hear(noise(512 * 2))
    await settle()
    assert heard.windows == []
    assert vad.slots == set()


async def test_an_ear_closed_by_its_own_window_hears_no_further_one(vad: Any) -> None:
    ears, heard = Ears(vad), Heard()
    closing: list[Ear] = []

    def close(window: NDArray[np.int16], probability: float, level_db: float) -> None:
        heard(window, probability, level_db)
        closing[0].close()

    closing.append(ears.open(16_000, close))
    closing[0].hear(noise(512 * 3))
    await settle()
    assert len(heard.windows) == 1


async def test_an_ear_closed_by_another_of_its_batch_hears_nothing(vad: Any) -> None:
    ears, heard = Ears(vad), Heard()
    others: list[Ear] = []
    first = ears.open(16_000, lambda *_: others[0].close())
    others.append(ears.open(16_000, heard))
    for ear in (first, others[0]):
        ear.hear(noise(512))
    await settle()
    assert heard.windows == []


@pytest.mark.parametrize("rate", [0, 44_100])
async def test_a_rate_that_cannot_be_heard_takes_no_slot(vad: Any, rate: int) -> None:
    with pytest.raises(ValueError, match="cannot convert"):
        Ears(vad).open(rate, Heard())
    assert vad.slots == set()
