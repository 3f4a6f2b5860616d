"""Seconds by tenant: none is lost, none is counted twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.ports import AsrRequest, EngineError, Load, Measured
from engines.scripted import AsrOptions, ScriptedAsr
from voice.metering import NOBODY, CpuClock, Meter, metered, watch_cpu


@pytest.fixture
def meter() -> Meter:
    meter = Meter()
    meter.watch("asr")
    return meter


def test_a_moment_is_shared_among_all_whose_requests_are_open(meter: Meter) -> None:
    meter.begin("asr", "ann", 10.0)
    meter.begin("asr", "bob", 11.0)
    meter.begin("asr", "bob", 11.0)
    meter.end("asr", "ann", 14.0)
    meter.end("asr", "bob", 15.0)
    meter.end("asr", "bob", 16.0)
    meter.settle("asr", 60.0)
    assert meter.engine_s == {
        ("ann", "asr"): pytest.approx(2.0),
        ("bob", "asr"): pytest.approx(4.0),
    }


def test_two_places_are_two_engines_as_long_as_two_are_busy() -> None:
    meter = Meter()
    meter.watch("tts", places=2)
    meter.begin("tts", "ann", 0.0)
    meter.begin("tts", "bob", 1.0)
    meter.begin("tts", "bob", 2.0)
    meter.settle("tts", 5.0)
    assert meter.engine_s["ann", "tts"] == pytest.approx(1 + 1 + 2)
    assert meter.engine_s["bob", "tts"] == pytest.approx(1 + 4)


STEPS = st.lists(st.tuples(st.sampled_from(["ann", "bob", "cy"]), st.floats(0, 10)), max_size=30)


@given(STEPS, st.integers(1, 3))
def test_all_shares_together_are_the_time_that_the_engine_was_held(
    steps: list[tuple[str, float]], places: int
) -> None:
    meter, now, held = Meter(), 0.0, 0.0
    meter.watch("llm", places=places)
    open_ones: list[str] = []
    for tenant, wait in steps:
        held += wait * min(places, len(open_ones))
        now += wait
        if tenant in open_ones:
            open_ones.remove(tenant)
            meter.end("llm", tenant, now)
        else:
            open_ones.append(tenant)
            meter.begin("llm", tenant, now)
    assert sum(meter.engine_s.values()) == pytest.approx(held)


def test_the_loops_cpu_goes_to_calls_and_the_models_cpu_to_who_held_them(meter: Meter) -> None:
    with meter.call("c1", "ann"), meter.call("c2", "bob"), meter.call("c3", "bob"):
        meter.begin("asr", "ann", 0.0)
        meter.end("asr", "ann", 1.0)
        meter.book_cpu(0.3, 2.0, 1.0)
        assert meter.cpu_s == {"ann": pytest.approx(2.1), "bob": pytest.approx(0.2)}
    meter.book_cpu(0.1, 0.2, 2.0)
    assert meter.cpu_s[NOBODY] == pytest.approx(0.3)


def test_engines_elsewhere_use_no_cpu_of_ours() -> None:
    meter = Meter()
    meter.watch("asr")
    meter.watch("tts", places=1)
    meter.begin("tts", "ann", 0.0)
    meter.begin("asr", "bob", 0.9)
    meter.book_cpu(0.0, 1.0, 1.0)
    assert meter.cpu_s == {"bob": pytest.approx(1.0)}


def test_a_call_is_its_tenants_only_while_it_lasts(meter: Meter) -> None:
    with meter.call("c1", "ann"):
        assert meter.tenant_of("c1") == "ann"
    assert meter.tenant_of("c1") == NOBODY


def test_this_process_uses_cpu() -> None:
    clock = CpuClock()
    sum(range(200_000))
    mine, others = clock.read()
    assert mine > 0
    assert others >= 0


@pytest.mark.virtual_clock
async def test_an_engines_requests_are_booked_until_they_are_left() -> None:
    meter = Meter()
    engine = metered(ScriptedAsr(AsrOptions(start_delay_ms=2_000)), "asr", meter)
    await engine.warm_up()
    with meter.call("c1", "ann"):
        async with engine.open(AsrRequest(None, call="c1")) as transcripts:  # type: ignore[arg-type]
            assert [each.text async for each in transcripts]
        async with engine.open(AsrRequest(None, call="c1")):  # type: ignore[arg-type]
            await asyncio.sleep(1.0)
    await engine.close()
    assert meter.engine_s == {("ann", "asr"): pytest.approx(3.0)}


async def test_a_request_that_fails_is_not_booked_for_ever() -> None:
    meter = Meter()
    engine = metered(ScriptedAsr(AsrOptions(fail_code="failed")), "asr", meter)
    with pytest.raises(EngineError):
        async with engine.open(AsrRequest(None)):  # type: ignore[arg-type]
            pass
    meter.settle("asr", asyncio.get_running_loop().time() + 60)
    assert sum(meter.engine_s.values()) < 1


class Busy:
    """An engine that says what it is doing."""

    @asynccontextmanager
    async def open(self, request: object) -> AsyncIterator[AsyncIterator[str]]:
        raise NotImplementedError
        yield

    def load(self) -> Load:
        return Load(slots=3)


class Mute:
    """An engine that does not."""


def test_an_engine_that_can_tell_still_can_and_one_that_cannot_does_not_pretend() -> None:
    busy = metered(Busy(), "tts", Meter())
    assert isinstance(busy, Measured)
    assert busy.load().slots == 3
    assert not isinstance(metered(Mute(), "asr", Meter()), Measured)


@pytest.mark.virtual_clock
async def test_what_this_process_uses_is_booked_while_it_is_watched() -> None:
    meter = Meter()
    watching = asyncio.create_task(watch_cpu(meter))
    await asyncio.sleep(1.0)
    watching.cancel()
    assert meter.cpu_s[NOBODY] > 0


async def test_a_call_is_booked_on_the_tenant_whose_key_it_came_with(
    serve: Callable[..., Any],
) -> None:
    server = await serve("server.api_keys=k0", "tenants.acme.keys=k1")
    meter = server.house.meter
    async with server.call(additional_headers={"Authorization": "Bearer k1"}):
        meter.book_cpu(1.0, 0.0, 1.0)
    await server.is_empty()
    meter.book_cpu(0.5, 0.0, 2.0)
    assert meter.cpu_s == {"acme": pytest.approx(1.0), NOBODY: pytest.approx(0.5)}


async def test_what_an_engine_says_of_itself_is_said_through_the_meter() -> None:
    class Blind:
        sees_images = False

    class Seeing:
        sees_images = True

    meter = Meter()
    assert metered(Seeing(), "llm", meter).sees_images
    assert not metered(Blind(), "llm", meter).sees_images
    assert not metered(object(), "llm", meter).sees_images
