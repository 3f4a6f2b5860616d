"""The gateway's side of the socket, with an engine's side that says what the test wants."""

import asyncio
import os

import numpy as np
import pytest
import zmq

from engines.audio import Pcm
from engines.ports import AsrRequest, EngineError, Load, SpeechRequest
from engines.remote import wire
from engines.remote.client import ProcessLost

HELLO = SpeechRequest("Hello.")
ONE = wire.item_of(1, Pcm(np.ones(1, np.int16), 24_000))
WELCOME = wire.Welcome("tap", "here", 42)


class Puppet:
    """A bare engine's socket: answers each message that it has been told an answer to."""

    def __init__(self, socket, answers):
        self.socket = socket
        self.answers = {wire.Hello: [WELCOME], **answers}
        self.identity = b""
        self.heard = []

    async def play(self):
        while True:
            while self.socket.poll(0):
                self.identity, packet = self.socket.recv_multipart()
                for message in wire.read_gateway(packet):
                    self.heard.append(message)
                    if answer := self.answers.get(type(message)):
                        self.say(*answer)
            await asyncio.sleep(0.002)

    def say(self, *messages):
        self.send(wire.pack([wire.encode(message) for message in messages]))

    def send(self, *frames):
        self.socket.send_multipart([self.identity, *frames])

    def count(self, kind):
        return sum(isinstance(message, kind) for message in self.heard)


@pytest.fixture
async def puppet(house):
    """A function that makes one; it plays until the test ends."""
    sockets, tasks = [], []

    def make(answers=None, **patience):
        spec = house.spec("tts", **patience)
        socket = house.context.socket(zmq.ROUTER)
        socket.set(zmq.LINGER, 0)
        socket.bind(spec.endpoint)
        sockets.append(socket)
        made = Puppet(socket, answers or {})
        made.endpoint = spec.endpoint
        tasks.append(asyncio.create_task(made.play()))
        return made

    yield make
    for task in tasks:
        task.cancel()
    for socket in sockets:
        socket.close()


async def test_an_engine_that_is_not_there_is_unavailable(house):
    spec = house.spec("tts")
    remote = house.remote(spec.endpoint, place_s=0.1)
    with pytest.raises(
        EngineError, match=r"nothing answers at ipc://.* start the engine"
    ) as caught:
        await remote.warm_up()
    assert caught.value.code == "unavailable"
    with pytest.raises(ProcessLost, match="has not answered yet"):
        remote.begin(HELLO)


async def test_a_gateway_may_come_before_its_engine(house, tap, all_of):
    spec = house.spec("tts")
    remote = house.remote(spec.endpoint)
    warm = asyncio.create_task(remote.warm_up())
    await asyncio.sleep(0)
    served = type(await house.serve(tap()))(tap([Pcm.silence(10, 24_000)]), spec)
    await served.start()
    await warm
    assert (remote.alive, remote.pid) == (True, os.getpid())
    assert len(await all_of(remote, HELLO)) == 1
    await served.stop()


async def test_an_engine_that_refuses_says_why(house, puppet):
    engine = puppet({wire.Hello: [wire.Refused("speaks protocol 99")]})
    with pytest.raises(EngineError, match="speaks protocol 99") as caught:
        await house.join(engine.endpoint)
    assert caught.value.code == "unavailable"


async def test_a_refusal_does_not_last(house, puppet):
    engine = puppet({wire.Hello: [wire.Refused("wrong release")]})
    remote = house.remote(engine.endpoint)
    with pytest.raises(EngineError, match="wrong release"):
        await remote.warm_up()
    engine.answers[wire.Hello] = [WELCOME]
    await remote.warm_up()
    assert remote.alive


async def test_silence_fails_all_requests_at_once(house, puppet, eventually):
    engine = puppet()
    remote = await house.join(engine.endpoint, beat_s=0.01, missed_beats=4)
    streams = [remote.begin(HELLO), remote.begin(HELLO)]
    for stream in streams:
        with pytest.raises(ProcessLost, match=r"silent for 0\.04 s"):
            await anext(stream)
    assert "silent" in await remote.wait_lost()
    await eventually(lambda: remote.alive)  # it said hello again


async def test_whoever_beats_is_not_silent(house, puppet):
    engine = puppet()
    engine.answers[wire.Alive] = [wire.Beat(Load(), 0, 0.0)]
    remote = await house.join(engine.endpoint, beat_s=0.01, missed_beats=4)
    stream = remote.begin(HELLO)
    while engine.count(wire.Alive) < 20:
        assert remote.alive
        await asyncio.sleep(0.002)
    assert remote.beat_age_s < 5
    stream.close()


async def test_a_model_that_gives_nothing_for_long_is_given_up(house, puppet):
    engine = puppet()
    remote = await house.join(engine.endpoint, stalled_s=2)
    stream = remote.begin(HELLO)
    engine.say(wire.Beat(Load(), 1, 1900.0), wire.Beat(Load(), 1, 2100.0))
    with pytest.raises(ProcessLost, match="no request got anything for 2 s: it hangs"):
        await anext(stream)


async def test_a_process_that_knows_nobody_has_lost_what_was_open(house, puppet, eventually):
    engine = puppet({wire.Open: [wire.Stranger()]})
    remote = await house.join(engine.endpoint)
    with pytest.raises(ProcessLost, match="it was started again"):
        await anext(remote.begin(HELLO))
    await eventually(lambda: remote.alive)
    assert engine.count(wire.Hello) >= 2


async def test_a_process_that_goes_in_order_takes_nothing_along(house, puppet, eventually):
    engine = puppet({wire.Open: [ONE, wire.End(1), wire.Goodbye()]})
    remote = await house.join(engine.endpoint)
    stream = remote.begin(HELLO)
    assert len([item async for item in stream]) == 1
    await eventually(lambda: engine.count(wire.Goodbye) == 1)


async def test_what_arrived_before_the_loss_is_read_first(house, puppet):
    engine = puppet({wire.Open: [ONE, ONE, wire.Stranger()]})
    remote = await house.join(engine.endpoint)
    stream = remote.begin(HELLO)
    assert [len(await anext(stream)), len(await anext(stream))] == [1, 1]
    with pytest.raises(ProcessLost):
        await anext(stream)


@pytest.mark.parametrize("frames", [[b"nonsense"], [b"\x91\x90"], [b"\x90", b"\x90"]])
async def test_an_engine_that_talks_nonsense_is_lost(house, puppet, frames):
    engine = puppet()
    remote = await house.join(engine.endpoint)
    stream = remote.begin(HELLO)
    engine.send(*frames)
    with pytest.raises(ProcessLost, match="what it says is not of protocol"):
        await anext(stream)


async def test_credit_is_given_for_what_was_read(house, puppet, eventually):
    engine = puppet({wire.Open: [ONE] * 8})
    remote = await house.join(engine.endpoint)
    stream = remote.begin(HELLO)
    for _ in range(8):
        await anext(stream)
    await eventually(lambda: engine.count(wire.Credit) == 2)
    given = [message.more for message in engine.heard if isinstance(message, wire.Credit)]
    assert given == [4, 4]
    stream.close()


async def test_a_request_that_is_left_is_cancelled_and_one_that_ended_is_not(
    house, puppet, eventually, all_of
):
    engine = puppet({wire.Open: [ONE, wire.End(1)]})
    remote = await house.join(engine.endpoint)
    await all_of(remote, HELLO)
    async with remote.open(HELLO) as items:
        waits = asyncio.ensure_future(anext(items))
        await eventually(lambda: engine.count(wire.Open) == 2)
        waits.cancel()
    await eventually(lambda: engine.count(wire.Cancel) == 1)
    assert wire.Cancel(2) in engine.heard
    assert remote.load().busy == 0


async def test_a_reader_that_was_interrupted_may_read_on(house, puppet, eventually):
    engine = puppet()
    remote = await house.join(engine.endpoint)
    stream = remote.begin(HELLO)
    waits = asyncio.ensure_future(anext(stream))
    await eventually(lambda: engine.count(wire.Open) == 1)
    waits.cancel()
    engine.say(ONE)
    assert len(await anext(stream)) == 1
    stream.close()


async def test_items_of_a_request_that_was_left_are_dropped(house, puppet, eventually):
    engine = puppet({wire.Cancel: [ONE, wire.End(1)], wire.Alive: [wire.Beat(Load(9), 0, 0.0)]})
    remote = await house.join(engine.endpoint)
    remote.begin(HELLO).close()
    await eventually(lambda: engine.count(wire.Cancel) and remote.free == 9)
    assert remote.load().busy == 0


async def test_a_request_that_cannot_travel_is_a_bad_one(house, puppet):
    remote = await house.join(puppet().endpoint)
    with pytest.raises(EngineError, match="cannot be sent") as caught:
        remote.begin(SpeechRequest("\ud800"))
    assert caught.value.code == "bad_request"
    assert remote.load().busy == 0


async def test_a_request_that_is_too_large_is_a_bad_one(house, puppet, monkeypatch):
    monkeypatch.setattr(wire, "MOST_BYTES", 10_000)
    remote = await house.join(puppet().endpoint, "asr")
    with pytest.raises(EngineError, match="the most is 5000: cut it") as caught:
        remote.begin(AsrRequest(Pcm.silence(1000, 16_000)))
    assert caught.value.code == "bad_request"


async def test_room_is_counted_down_between_two_beats(house, puppet, eventually):
    engine = puppet({wire.Alive: [wire.Beat(Load(slots=8, busy=5), 2, 0.0)]})
    remote = await house.join(engine.endpoint, beat_s=0.01)
    await eventually(lambda: remote.free == 5)  # three are of other gateways
    engine.answers.clear()
    streams = [remote.begin(HELLO) for _ in range(2)]
    assert (remote.busy, remote.free) == (5, 3)
    streams.pop().close()
    assert (remote.busy, remote.free, remote.load()) == (4, 4, Load(slots=8, busy=4))
    streams.pop().close()


async def test_an_engine_without_a_bound_has_no_number_of_free_places(house, puppet):
    remote = await house.join(puppet().endpoint)
    assert remote.free is None


async def test_closing_fails_what_is_open_and_may_be_done_twice(house, puppet):
    remote = await house.join(puppet().endpoint)
    stream = remote.begin(HELLO)
    await remote.close()
    with pytest.raises(ProcessLost, match="the gateway closes"):
        await anext(stream)
    stream.close()
    await remote.close()
