"""One engine at several places: where a request goes, and what becomes of it when one is lost."""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import (
    AsrRequest,
    ChatRequest,
    EngineError,
    Load,
    Measured,
    Message,
    Priority,
    SpeechRequest,
    TextDelta,
    Transcript,
    Usage,
)
from engines.remote.pool import EnginePool
from engines.remote.process import make_engine
from engines.remote.spec import EngineSpec, Place

HELLO = SpeechRequest("Hello.")
SECOND = np.arange(8000, dtype=np.int16)


def pieces(size):
    return [Pcm(SECOND[start : start + size], 24_000) for start in range(0, len(SECOND), size)]


def asking(call=""):
    return AsrRequest(Pcm.silence(100, 16_000), call=call)


async def join(house, kind, *served, **patience):
    spec = EngineSpec(kind, f"engines.{kind}.tap")
    return await house.pool(spec, endpoints=[one.endpoint for one in served], **patience)


async def serve(house, kind, *engines, **patience):
    """A pool over servers in this process, one for each of ``engines``."""
    served = [await house.serve(engine, kind, **patience) for engine in engines]
    return await join(house, kind, *served), served


# --- where a request goes -------------------------------------------------------------------


async def test_a_call_stays_at_its_place_and_calls_spread(house, tap, all_of):
    engines = [tap([Transcript("a")]), tap([Transcript("b")]), tap([Transcript("c")])]
    pool, _ = await serve(house, "asr", *engines)
    words = {}
    for _ in range(3):
        for number in range(30):
            call = f"call-{number}"
            (transcript,) = await all_of(pool, asking(call))
            assert words.setdefault(call, transcript) == transcript
    assert len(set(map(str, words.values()))) == 3


async def test_two_gateways_send_a_call_to_the_same_place(house, tap, all_of):
    first, served = await serve(house, "asr", tap([Transcript("a")]), tap([Transcript("b")]))
    second = await join(house, "asr", *reversed(served))
    for number in range(20):
        request = asking(f"call-{number}")
        assert await all_of(first, request) == await all_of(second, request)


async def test_only_the_calls_of_a_lost_place_move(house, tap, all_of, eventually):
    engines = [tap([Transcript(name)]) for name in "abc"]
    pool, served = await serve(house, "asr", *engines)
    calls = [f"call-{number}" for number in range(30)]
    before = {call: (await all_of(pool, asking(call)))[0].text for call in calls}
    await served[0].stop()
    await eventually(lambda: pool.processes[0].state == "down")
    after = {call: (await all_of(pool, asking(call)))[0].text for call in calls}
    assert {call for call in calls if before[call] != after[call]} == {
        call for call in calls if before[call] == "a"
    }


async def test_work_on_files_goes_where_least_is_open_whosever_it_is(house, tap, all_of):
    engines = [tap([Transcript("a")]), tap([Transcript("b")])]
    pool, _ = await serve(house, "asr", *engines)
    chunk = replace(asking("file"), priority=Priority.BATCH)
    async with pool.open(chunk) as first, pool.open(chunk) as second:
        heard = {(await anext(stream)).text for stream in (first, second)}
    assert heard == {"a", "b"}


async def test_a_call_goes_elsewhere_while_its_place_is_full(house, tap, eventually):
    engines = [tap([Transcript("a")]), tap([Transcript("b")])]
    for engine in engines:
        engine.flows.clear()
        engine.load = lambda engine=engine: Load(slots=1, busy=engine.open_now)
    pool, _ = await serve(house, "asr", *engines)
    await eventually(lambda: pool.load().slots == 2)
    async with pool.open(asking("call")), pool.open(asking("call")):
        await eventually(lambda: [engine.open_now for engine in engines] == [1, 1])


async def test_a_voice_goes_where_most_room_is(house, tap, eventually):
    engines = [tap(pieces(100)) for _ in range(3)]
    for engine, slots in zip(engines, (2, 5, 3), strict=True):
        engine.load = lambda engine=engine, slots=slots: Load(slots, engine.open_now)
    pool, _ = await serve(house, "tts", *engines)
    await eventually(lambda: pool.load().slots == 10)
    streams = [await pool.begin(HELLO) for _ in range(10)]  # between two beats
    await eventually(lambda: [engine.open_now for engine in engines] == [2, 5, 3])
    for stream in streams:
        stream.close()


async def test_who_is_in_no_call_goes_where_least_is_open(house, tap):
    engines = [tap([Transcript("a")]), tap([Transcript("b")])]
    pool, _ = await serve(house, "asr", *engines)
    streams = [await pool.begin(asking()) for _ in range(6)]
    busy = Counter(stream.engine.name for stream in streams)
    assert sorted(busy.values()) == [3, 3]
    for stream in streams:
        stream.close()


async def test_the_load_of_a_pool_is_the_sum_of_its_processes(house, tap, eventually):
    engines = [tap(), tap()]
    engines[0].load = lambda: Load(4, 2, 1, 3, 5.0, 6, 80.0)
    engines[1].load = lambda: Load(8, 1, 1, 2, 9.0, 0, 20.0)
    pool, _ = await serve(house, "tts", *engines)
    assert pool.load().slots == 12  # from the first moment on
    await eventually(lambda: pool.load() == Load(12, 3, 2, 5, 9.0, 6, 80.0))
    assert isinstance(pool, Measured)
    engines[1].load = Load
    await eventually(lambda: pool.load().slots == 0)  # one without a bound: none at all
    assert EnginePool(EngineSpec("tts", "x")).load() == Load()


async def test_a_pool_has_no_more_room_while_its_processes_are_away(house, tap, eventually):
    pool, served = await serve(house, "tts", tap(), tap())
    for one in served:
        one.server._engine.load = lambda: Load(slots=4)
    await eventually(lambda: pool.load().slots == 8)
    await served[0].stop()
    await eventually(lambda: pool.load().slots == 4)
    await served[1].stop()
    await eventually(lambda: not any(status.pid for status in pool.processes))
    assert pool.load() == Load(slots=8)


# --- what is lost with a process ------------------------------------------------------------


async def test_a_voice_goes_on_elsewhere_without_a_sample_lost_or_doubled(house, tap, samples_of):
    for first, second in ((100, 100), (100, 70), (70, 100), (100, 8000), (1, 3)):
        engines = [tap(pieces(first)), tap(pieces(second))]
        pool, served = await serve(house, "tts", *engines, drain_s=0)
        heard = []
        async with pool.open(HELLO) as items:
            heard = [await anext(items) for _ in range(3)]
            begun = 0 if engines[0].open_now else 1
            await served[begun].stop()
            heard += [item async for item in items]
        assert samples_of(heard) == SECOND.tolist()
        assert engines[1 - begun].requests == [HELLO]


async def test_a_recogniser_starts_again_elsewhere(house, tap, eventually):
    engines = [tap([Transcript("one"), Transcript("two")]) for _ in range(2)]
    pool, served = await serve(house, "asr", *engines, drain_s=0)
    for engine in engines:
        engine.flows.clear()
    async with pool.open(asking("call")) as items:
        await eventually(lambda: any(engine.open_now for engine in engines))
        begun = 0 if engines[0].open_now else 1
        engines[1 - begun].flows.set()
        await served[begun].stop()
        assert [item.text async for item in items] == ["one", "two"]


async def test_a_language_model_is_asked_again_only_if_it_said_nothing(house, tap, eventually):
    request = ChatRequest((Message("user", "Hello?"),), call="call")
    answer = [TextDelta(f" {number}") for number in range(200)] + [Usage()]
    for said in (0, 1):
        engines = [tap(answer), tap(answer)]
        pool, served = await serve(house, "llm", *engines, drain_s=0)
        if not said:
            for engine in engines:
                engine.flows.clear()
        async with pool.open(request) as items:
            await eventually(lambda engines=engines: any(one.open_now for one in engines))
            for _ in range(said):
                await anext(items)
            begun = 0 if engines[0].open_now else 1
            engines[1 - begun].flows.set()
            await served[begun].stop()
            if said:
                with pytest.raises(EngineError, match="its process is lost") as caught:
                    [item async for item in items]
                assert caught.value.code == "unavailable"
            else:
                assert [item async for item in items] == answer


async def test_a_request_is_tried_twice_and_not_more(house, tap, eventually):
    engines = [tap(pieces(100)) for _ in range(3)]
    for engine in engines:
        engine.flows.clear()
    pool, served = await serve(house, "tts", *engines, drain_s=0)

    def asked():
        return [number for number, engine in enumerate(engines) if engine.requests]

    async with pool.open(HELLO) as items:
        reading = asyncio.ensure_future(anext(items))
        await eventually(lambda: len(asked()) == 1)
        (first,) = asked()
        await served[first].stop()
        await eventually(lambda: len(asked()) == 2)
        (second,) = set(asked()) - {first}
        await served[second].stop()
        with pytest.raises(EngineError, match="its process is lost"):
            await reading
    assert len(asked()) == 2


async def test_an_engines_own_error_is_not_asked_again(house, tap, all_of):
    engines = [tap([], EngineError("tap", "unavailable", "is full")) for _ in range(2)]
    pool, _ = await serve(house, "tts", *engines)
    with pytest.raises(EngineError, match="is full"):
        await all_of(pool, HELLO)
    assert sum(len(engine.requests) for engine in engines) == 1


async def test_a_process_that_is_about_to_end_passes_its_requests_on(house, tap, all_of):
    engines = [tap(pieces(100)), tap(pieces(100))]
    pool, served = await serve(house, "tts", *engines)
    async with pool.open(HELLO) as items:
        await anext(items)
        begun = 0 if engines[0].open_now else 1
        left = served[begun].leave()
        assert len(await all_of(pool, HELLO)) == 80
        assert len([item async for item in items]) == 79
    await left
    assert len(engines[1 - begun].requests) == 1


async def test_without_any_process_a_request_waits_and_then_fails(house, tap):
    served = await house.serve(tap(pieces(100)))
    pool = await join(house, "tts", served, place_s=0.05)
    await served.stop()
    with pytest.raises(EngineError, match=r"none of its processes.*/1 down") as caught:
        async with pool.open(HELLO):
            pass
    assert (caught.value.engine, caught.value.code) == ("tap", "unavailable")


async def test_a_request_that_waits_is_served_once_a_process_is_back(house, tap, all_of):
    served = await house.serve(tap(pieces(100)))
    pool = await join(house, "tts", served)
    await served.stop()
    waits = [asyncio.create_task(all_of(pool, HELLO)) for _ in range(3)]
    await asyncio.sleep(0)
    again = type(served)(tap(pieces(100)), served.spec)
    await again.start()
    assert [len(items) for items in await asyncio.gather(*waits)] == [80, 80, 80]
    await again.stop()


# --- children -------------------------------------------------------------------------------


async def test_speech_goes_on_when_its_process_is_killed(
    house, place, counting, samples_of, eventually
):
    spec = counting("tts", items=300)  # far more than the credits let go ahead of the reader
    pool = await house.pool(spec, place("a", chunk=10), place("b", chunk=10))
    heard = {number: [] for number in range(4)}
    killed = asyncio.Event()

    async def listen(number):
        async with pool.open(HELLO) as items:
            async for item in items:
                heard[number].append(item)
                if len(heard[number]) == 5:
                    await killed.wait()

    async with asyncio.TaskGroup() as tasks:
        for number in heard:
            tasks.create_task(listen(number))
        await eventually(lambda: all(len(items) == 5 for items in heard.values()))
        victim = pool.processes[0]
        assert victim.load.busy == 2
        os.kill(victim.pid, signal.SIGKILL)
        await eventually(lambda: pool.processes[0].pid != victim.pid)
        killed.set()
    assert [samples_of(items) for items in heard.values()] == [list(range(3000))] * 4


async def test_a_request_that_is_left_frees_its_slot_in_the_child(
    house, place, counting, eventually
):
    pool = await house.pool(counting("tts", items=500), place("a"))
    async with pool.open(HELLO) as items:
        await anext(items)
        remote = pool._places[0].remote
        await eventually(lambda: remote._load.busy == 1)  # as the child counts
        assert pool.load() == Load(slots=4, busy=1, step_ms=1.5)
    await eventually(lambda: remote._load.busy == 0)


async def test_two_gateways_share_the_process_of_one(
    house, place, counting, all_of, samples_of, eventually
):
    spec = counting("tts", items=200)
    owner = await house.pool(spec, place("a"))
    guest = await house.pool(spec, endpoints=[owner.processes[0].endpoint])
    assert guest.processes[0].pid == owner.processes[0].pid
    both = await asyncio.gather(all_of(owner, HELLO), all_of(guest, HELLO))
    assert [samples_of(items) for items in both] == [list(range(2000))] * 2
    os.kill(owner.processes[0].pid, signal.SIGKILL)
    await eventually(lambda: guest.processes[0].state == "down")
    assert samples_of(await all_of(guest, HELLO)) == list(range(2000))  # from the next process


async def test_one_place_that_cannot_get_warm_ends_the_others(house, place, counting, tmp_path):
    spec = counting("tts", breaks="refuses")
    pool = house.cold_pool(spec, place("a"), place("b"))
    with pytest.raises(EngineError, match="the key is wrong"):
        await pool.warm_up()
    assert [status.pid for status in pool.processes] == [None, None]


async def test_sockets_lie_where_nobody_else_may_look(house, place, counting):
    pool = await house.pool(counting("tts"), place("a"))
    folder, _, _ = pool.processes[0].endpoint.removeprefix("ipc://").rpartition("/")
    assert os.stat(folder).st_mode & 0o777 == 0o700
    await pool.close()
    assert not os.access(folder, os.F_OK)


async def test_a_temporary_folder_with_a_long_name_is_told(house, counting, monkeypatch):
    def long_folder(prefix):
        return f"/{prefix}{'x' * 120}"

    monkeypatch.setattr("tempfile.mkdtemp", long_folder)
    pool = house.cold_pool(counting("tts"), Place("a"))
    with pytest.raises(EngineError, match="set TMPDIR shorter"):
        await pool.warm_up()


@pytest.mark.engine
async def test_speech_of_a_child_is_the_speech_of_this_process_bit_for_bit(
    house, place, all_of, samples_of
):
    spec = EngineSpec("tts", "engines.tts.hibari", {"threads": "1"})
    here = make_engine(spec)
    pool = await house.pool(spec, place("cpu"))
    try:
        await here.warm_up()
        request = SpeechRequest("Hello there. The capital of France is Paris.")
        spoken = samples_of(await all_of(pool, request))
        assert len(spoken) > 24_000
        assert spoken == samples_of(await all_of(here, request))
    finally:
        await here.close()
