"""The benchmark of engines in other processes measures what it says."""

import pytest

from engines.remote import wire
from loadtest.remote_bench import Options, age_us, chat, create, measure, speech


@pytest.mark.parametrize(("gives", "kind"), [("tokens", "llm"), ("audio", "tts")])
async def test_each_item_tells_its_age_on_the_other_side_too(gives, kind):
    engine = create(Options(gives, items=3, pace_ms=0), None)
    async with engine.open(None) as items:
        made = [item async for item in items]
    assert len(made) == 3
    arrived = [wire.item_in(kind, wire.item_of(1, item)) for item in made]
    ages = [age_us(item) for item in arrived]
    assert ages == sorted(ages, reverse=True)
    assert 0 < ages[-1] < 10e6


@pytest.mark.parametrize("request_", [chat, speech])
async def test_the_cost_is_that_of_every_item_of_every_stream(request_):
    cost = await measure(create(Options("audio", items=5, pace_ms=1), None), request_, 4)
    assert cost.cpu_us > 0
    assert 0 < cost.p50_us <= cost.p99_us
