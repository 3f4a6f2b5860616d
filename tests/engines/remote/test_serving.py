"""The engine's side of the socket, with the gateway's side and with bare sockets."""

import asyncio
import dataclasses
import logging

import msgspec
import numpy as np
import pytest
import zmq

from engines.audio import Pcm
from engines.ports import ChatRequest, EngineError, Load, Message, SpeechRequest, TextDelta
from engines.remote import serving, wire
from engines.remote.client import ProcessLost

PIECES = [Pcm(np.array([number], np.int16), 24_000) for number in range(100)]
HELLO = SpeechRequest("Hello.")


def say(socket, *messages):
    socket.send(wire.pack([wire.encode(message) for message in messages]))


def speak(number=1, credits=8):
    return msgspec.structs.replace(wire.request_of("tts", number, HELLO), credits=credits)


async def hear(socket, eventually, kind):
    """The next message of this kind."""
    found = []

    def look():
        while not found and socket.poll(0):
            messages = wire.read_engine(socket.recv(zmq.NOBLOCK))
            found.extend(message for message in messages if isinstance(message, kind))
        return found

    await eventually(look)
    return found[0]


async def test_every_item_arrives_in_order(house, tap, all_of, samples_of):
    served = await house.serve(tap(PIECES))
    remote = await house.join(served.endpoint)
    assert samples_of(await all_of(remote, HELLO)) == list(range(100))


async def test_the_engine_gets_the_request_as_it_was(house, tap, all_of):
    engine = tap([TextDelta("Hi.")])
    served = await house.serve(engine, "llm")
    request = ChatRequest((Message("user", "Hello?"),), call="call-1")
    await all_of(await house.join(served.endpoint, "llm"), request)
    assert engine.requests == [request]


async def test_who_stops_reading_holds_the_engine_back(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    async with remote.open(HELLO) as slow, remote.open(HELLO) as quick:
        assert len([item async for item in quick]) == 100
        assert engine.given == 100 + wire.CREDITS["tts"]
        assert len([item async for item in slow]) == 100


async def test_a_cancelled_request_ends_in_the_engine(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    async with remote.open(HELLO) as items:
        await anext(items)
        assert served.server.load == Load(busy=1)
    await eventually(lambda: engine.open_now == 0)
    assert served.server.load == Load(busy=0)
    assert engine.given < 100


async def test_a_request_that_waits_for_its_first_item_is_cancelled_too(house, tap, eventually):
    engine = tap(PIECES)
    engine.flows.clear()
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    async with remote.open(HELLO):
        await eventually(lambda: engine.open_now == 1)
    await eventually(lambda: engine.open_now == 0)


@pytest.mark.parametrize("code", ["unavailable", "rate_limited", "bad_response", "failed"])
async def test_the_errors_of_an_engine_pass_unchanged(house, tap, code):
    served = await house.serve(tap(PIECES[:3], EngineError("its name", code, "what to do")))
    remote = await house.join(served.endpoint)
    async with remote.open(HELLO) as items:
        for _ in range(3):
            await anext(items)
        with pytest.raises(EngineError) as caught:
            await anext(items)
    error = caught.value
    assert (error.engine, error.code, error.message) == ("its name", code, "what to do")
    assert not isinstance(error, ProcessLost)


async def test_a_bug_of_an_engine_fails_its_request_and_no_other(house, tap, all_of, caplog):
    engine = tap(PIECES[:2], ZeroDivisionError("oh"))
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    with pytest.raises(EngineError, match=r"bug, ZeroDivisionError.*see the log of here"):
        await all_of(remote, HELLO)
    assert "ZeroDivisionError" in caplog.text
    engine.error = None
    assert len(await all_of(remote, HELLO)) == 2


async def test_a_request_that_the_engine_itself_cancels_is_lost_and_does_not_hang(
    house, tap, all_of, caplog
):
    """A library's cancelled future looks like a cancelled request."""
    served = await house.serve(tap(PIECES[:2], asyncio.CancelledError()))
    remote = await house.join(served.endpoint)
    with pytest.raises(ProcessLost, match="the engine itself has cancelled it"):
        async with asyncio.timeout(10):
            await all_of(remote, HELLO)


async def test_an_item_that_is_too_large_fails_its_request_alone(house, tap, all_of, monkeypatch):
    monkeypatch.setattr(wire, "MOST_BYTES", 10_000)
    engine = tap([Pcm.silence(5000, 24_000)])
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    with pytest.raises(EngineError, match="the most is 5000"):
        await all_of(remote, HELLO)
    engine.items = PIECES[:2]
    assert len(await all_of(remote, HELLO)) == 2


@pytest.mark.parametrize(
    ("item", "code", "message"),
    [
        (object(), "failed", "object cannot travel"),
        ("no audio", "bad_response", "an item of its answer is not of protocol"),
        (Pcm(PIECES[0].samples, 24_000.5), "bad_response", "rate"),
    ],
)
async def test_an_item_that_is_none_fails_its_request_alone(
    house, tap, all_of, eventually, item, code, message
):
    engine = tap([PIECES[0], item, *PIECES])
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    with pytest.raises(EngineError, match=message) as caught:
        await all_of(remote, HELLO)
    assert caught.value.code == code
    await eventually(lambda: engine.open_now == 0)
    engine.items = PIECES
    assert len(await all_of(remote, HELLO)) == 100


async def test_a_request_of_a_wrong_type_fails_alone(house, tap, all_of):
    engine = tap(PIECES)
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    with pytest.raises(EngineError, match=r"the request is not of protocol .*speed") as caught:
        await all_of(remote, SpeechRequest("Hello.", speed="fast"))
    assert caught.value.code == "bad_request"
    assert len(await all_of(remote, HELLO)) == 100
    assert engine.requests == [HELLO]


async def test_two_gateways_share_one_engine(house, tap, samples_of):
    served = await house.serve(tap(PIECES))
    first, second = await house.join(served.endpoint), await house.join(served.endpoint)
    heard = {first: [], second: []}

    async def listen(remote):
        async with remote.open(HELLO) as items:
            async for item in items:
                heard[remote].append(item)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(first))
        tasks.create_task(listen(second))
    assert [samples_of(pieces) for pieces in heard.values()] == [list(range(100))] * 2


async def test_a_gateway_that_goes_leaves_nothing_open(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    gone, stays = await house.join(served.endpoint), await house.join(served.endpoint)
    lost, kept = gone.begin(HELLO), stays.begin(HELLO)
    await eventually(lambda: engine.open_now == 2)
    await gone.close()
    await eventually(lambda: engine.open_now == 1)
    with pytest.raises(ProcessLost):
        [item async for item in lost]
    assert len([item async for item in kept]) == 100


async def test_a_gateway_that_falls_silent_is_given_up(house, tap, eventually, caplog):
    engine = tap(PIECES)
    served = await house.serve(engine, beat_s=0.01, missed_beats=3)
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", "of process 1"), speak())
    await hear(socket, eventually, wire.Item)
    await eventually(lambda: engine.open_now == 0)
    assert "of process 1: 1 requests are cancelled: it is silent" in caplog.text


async def test_a_gateway_that_says_hello_again_begins_anew(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    socket = house.stranger(served.endpoint)
    hello = wire.Hello(wire.VERSION, "tts", "")
    say(socket, hello, speak())
    await hear(socket, eventually, wire.Item)
    say(socket, hello)
    await eventually(lambda: engine.open_now == 0)


async def test_who_has_not_said_hello_is_a_stranger(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    socket = house.stranger(served.endpoint)
    say(socket, speak())
    await hear(socket, eventually, wire.Stranger)
    assert engine.requests == []


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        (wire.VERSION + 1, "tts", "run the same release of both"),
        (wire.VERSION, "asr", "serves tts and the gateway wants asr"),
    ],
)
async def test_a_gateway_that_does_not_fit_is_told_why(house, tap, eventually, version, kind, why):
    served = await house.serve(tap())
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(version, kind, ""))
    refused = await hear(socket, eventually, wire.Refused)
    assert why in refused.why


async def test_a_number_that_is_in_use_is_declined(house, tap, eventually):
    served = await house.serve(tap(PIECES))
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", ""), speak(1), speak(1))
    assert (await hear(socket, eventually, wire.Declined)).request == 1


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"\xff\xfe nonsense"],
        [b"\x91\x90", b"and", b"more"],
        [msgspec.msgpack.encode([["Open", "one", None, {}]])],
        [b"\xdd\xff\xff\xff\xff"],
        [b"\x91" * 5000],
    ],
)
async def test_nonsense_is_refused_and_harms_nobody(house, tap, eventually, all_of, frames):
    engine = tap(PIECES)
    served = await house.serve(engine)
    remote = await house.join(served.endpoint)
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", ""), speak())
    await eventually(lambda: engine.open_now == 1)
    socket.send_multipart(frames)
    refused = await hear(socket, eventually, wire.Refused)
    assert f"protocol {wire.VERSION}" in refused.why
    await eventually(lambda: engine.open_now == 0)
    assert len(await all_of(remote, HELLO)) == 100


async def test_an_engine_takes_only_so_many_requests(house, tap, monkeypatch):
    monkeypatch.setattr(serving, "MOST_REQUESTS", 2)
    served = await house.serve(tap(PIECES))
    remote = await house.join(served.endpoint)
    streams = [remote.begin(HELLO) for _ in range(3)]
    with pytest.raises(ProcessLost, match="admit fewer callers"):
        await anext(streams[2])
    assert len([item async for item in streams[0]]) == 100


async def test_what_is_open_may_end_before_the_process_does(house, tap, eventually):
    served = await house.serve(tap(PIECES))
    remote = await house.join(served.endpoint)
    stream = remote.begin(HELLO)
    await anext(stream)
    left = served.leave()
    await eventually(lambda: not remote.alive)
    with pytest.raises(ProcessLost, match="about to end"):
        remote.begin(HELLO)
    assert len([item async for item in stream]) == 99
    await left


async def test_what_does_not_end_in_time_is_cancelled(house, tap, eventually):
    engine = tap(PIECES)
    engine.flows.clear()
    served = await house.serve(engine, drain_s=0.05)
    remote = await house.join(served.endpoint)
    remote.begin(HELLO)
    await eventually(lambda: engine.open_now == 1)
    await served.leave()
    assert engine.open_now == 0


async def test_a_request_that_comes_too_late_is_declined(house, tap, eventually):
    served = await house.serve(tap(PIECES))
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", ""), speak(1, 8))
    await hear(socket, eventually, wire.Item)
    left = served.leave()
    await hear(socket, eventually, wire.Leaving)
    say(socket, speak(2))
    assert (await hear(socket, eventually, wire.Declined)).request == 2
    say(socket, wire.Cancel(1), wire.Goodbye())
    await left


async def test_a_beat_tells_what_the_engine_says_of_itself(house, tap, eventually):
    engine = tap(PIECES)
    engine.load = lambda: Load(4, 3, 2, 1, 7.5, 6)
    served = await house.serve(engine)
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", ""), speak())
    await hear(socket, eventually, wire.Item)
    beat = await hear(socket, eventually, wire.Beat)
    assert (beat.load, beat.yours) == (Load(4, 3, 2, 1, 7.5, 6), 1)


async def test_a_beat_tells_since_when_the_model_gives_nothing(house, tap, eventually):
    engine = tap(PIECES)
    served = await house.serve(engine)
    socket = house.stranger(served.endpoint)
    say(socket, wire.Hello(wire.VERSION, "tts", ""), speak(1, 1))
    await hear(socket, eventually, wire.Item)
    assert (await hear(socket, eventually, wire.Beat)).stalled_ms == 0  # it waits for credit
    engine.flows.clear()
    say(socket, wire.Credit(1, 5))
    stalled = [0.0]

    async def grows():
        stalled.append((await hear(socket, eventually, wire.Beat)).stalled_ms)
        return stalled[-1] > stalled[-2] > 0

    while not await grows():
        pass
    engine.flows.set()
    await hear(socket, eventually, wire.Item)
    await hear(socket, eventually, wire.Beat)
    assert (await hear(socket, eventually, wire.Beat)).stalled_ms == 0


async def test_an_endpoint_that_cannot_be_bound_says_so(house, tap):
    spec = house.spec("tts")
    server = serving.EngineServer(
        tap(), dataclasses.replace(spec, endpoint="ipc:///no/such/folder/0")
    )
    with pytest.raises(EngineError, match="choose another endpoint"):
        await server.serve(asyncio.Event(), lambda: None)


async def test_a_place_that_is_taken_is_left_as_it_is(house, tap, all_of, tmp_path):
    served = await house.serve(tap(PIECES[:3]))
    second = serving.EngineServer(tap(), served.spec)
    with pytest.raises(EngineError, match="another process listens there already"):
        await second.serve(asyncio.Event(), lambda: None)
    assert len(await all_of(await house.join(served.endpoint), HELLO)) == 3
    file = tmp_path / "f"
    file.write_text("precious")
    second = serving.EngineServer(tap(), dataclasses.replace(served.spec, endpoint=f"ipc://{file}"))
    with pytest.raises(EngineError, match="a file that is no socket"):
        await second.serve(asyncio.Event(), lambda: None)
    assert file.read_text() == "precious"


@pytest.fixture(autouse=True)
def _levels(caplog):
    caplog.set_level(logging.INFO)
