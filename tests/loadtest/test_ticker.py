import asyncio

import pytest

from loadtest.ticker import SLOT_S, SLOTS, Lateness, Ticker


@pytest.mark.virtual_clock
async def test_each_slot_is_due_once_in_a_frame():
    loop, due = asyncio.get_running_loop(), {0: [], 2: []}
    ticker = Ticker(loop.time)
    began = loop.time()
    for slot, times in due.items():
        ticker.join(slot, times.append)
    ticker.start()
    await asyncio.sleep(1.0)
    ticker.stop()
    assert due[0][:3] == pytest.approx([began, began + 0.02, began + 0.04])
    assert due[2][0] == pytest.approx(began + 2 * SLOT_S)
    assert len(due[0]) in (50, 51)
    assert ticker.late.quantile_ms(0.99) <= 0.2


@pytest.mark.virtual_clock
async def test_a_late_frame_does_not_delay_those_after_it():
    loop, due = asyncio.get_running_loop(), []
    ticker = Ticker(loop.time)
    began = loop.time()

    def tick(at: float) -> None:
        due.append(at)
        if len(due) == 10:
            loop._jump(0.1)  # something holds the loop for 100 ms

    ticker.join(0, tick)
    ticker.start()
    await asyncio.sleep(1.0)
    ticker.stop()
    assert due == pytest.approx([began + 0.02 * index for index in range(len(due))])
    assert len(due) >= 50
    assert 90 < ticker.late.quantile_ms(1.0) < 110
    assert ticker.late.quantile_ms(0.5) < 1


@pytest.mark.virtual_clock
async def test_who_has_left_is_called_no_more():
    loop, due = asyncio.get_running_loop(), []
    ticker = Ticker(loop.time)
    ticker.join(SLOTS + 1, due.append)
    ticker.start()
    await asyncio.sleep(0.1)
    ticker.leave(1, due.append)
    ticker.leave(1, due.append)
    before = len(due)
    await asyncio.sleep(0.1)
    ticker.stop()
    assert len(due) == before > 3


def test_lateness_is_counted_in_tenths():
    late = Lateness()
    assert late.quantile_ms(0.99) == 0.0
    late.add(-0.005, 50)
    late.add(0.0021, 49)
    late.add(0.02, 1)
    assert late.quantile_ms(0.5) == pytest.approx(0.1)
    assert late.quantile_ms(0.99) == pytest.approx(2.2)
    assert late.quantile_ms(1.0) == pytest.approx(20.1)
    assert Lateness(dict(late.counts)).quantile_ms(1.0) == late.quantile_ms(1.0)
