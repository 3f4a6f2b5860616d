"""A ZeroMQ socket on the loop."""

import asyncio

import pytest
import zmq

from engines.remote.channel import Channel, Disconnected, Outbox, dealer, router
from engines.remote.wire import End, encode, read_engine


class Received(list):
    answer = None

    def __call__(self, frames):
        self.append(frames)
        if self.answer:
            self.answer(frames)


@pytest.fixture
async def pair(tmp_path_factory, eventually):
    """Two channels that are connected, and what each has received."""
    context = zmq.Context()
    endpoint = f"ipc://{tmp_path_factory.mktemp('c')}/0"
    near, far = [], Received()
    server = Channel(router(context, endpoint), far)
    client = Channel(dealer(context, endpoint), near.append)

    def said_hello():
        try:
            client.send((b"hello",))
        except Disconnected:
            return False
        return True

    await eventually(said_hello)
    await eventually(lambda: far)
    yield client, server, near, far
    client.close()
    server.close()
    context.term()


async def test_a_burst_arrives_whole_and_in_order(pair, eventually):
    client, server, near, far = pair
    identity = far.pop()[0]
    for number in range(1000):
        client.send((str(number).encode(),))
        server.send((identity, str(number).encode()))
    await eventually(lambda: len(near) == len(far) == 1000)
    numbers = [str(number).encode() for number in range(1000)]
    assert [frames[0] for frames in near] == numbers
    assert [frames[1] for frames in far] == numbers


async def test_packets_that_come_while_one_is_answered_are_not_overlooked(pair, eventually):
    client, server, near, far = pair
    far.answer = server.send
    for number in range(300):
        client.send((str(number).encode(),))
        await asyncio.sleep(0)
    await eventually(lambda: len(near) == 300)


async def test_whoever_is_not_there_is_disconnected(pair):
    _, server, _, _ = pair
    with pytest.raises(Disconnected):
        server.send((b"nobody", b"hello"))


async def test_nothing_is_kept_for_an_engine_that_is_not_there(tmp_path_factory):
    context = zmq.Context()
    channel = Channel(dealer(context, f"ipc://{tmp_path_factory.mktemp('c')}/0"), print)
    with pytest.raises(Disconnected):
        channel.send((b"hello",))
    channel.close()
    channel.close()
    with pytest.raises(Disconnected, match="closed"):
        channel.send((b"hello",))
    context.term()


async def test_an_address_that_cannot_be_bound_leaves_nothing_open(tmp_path_factory):
    context = zmq.Context()
    with pytest.raises(zmq.ZMQError):
        router(context, f"ipc://{tmp_path_factory.mktemp('c')}/no/such/folder")
    context.term()


async def test_what_is_told_in_one_turn_is_one_packet():
    packets = []
    outbox = Outbox(packets.append)
    outbox.put(encode(End(1)))
    outbox.put(encode(End(2)))
    await asyncio.sleep(0)
    outbox.put(encode(End(3)))
    outbox.flush()
    outbox.flush()
    await asyncio.sleep(0)
    assert [read_engine(packet) for packet in packets] == [[End(1), End(2)], [End(3)]]


async def test_no_packet_is_larger_than_the_other_side_takes(monkeypatch):
    packets = []
    outbox = Outbox(packets.append)
    monkeypatch.setattr("engines.remote.wire.MOST_BYTES", 400)
    for number in range(100):
        outbox.put(encode(End(number)))
    await asyncio.sleep(0)
    assert max(map(len, packets)) <= 400
    assert [message for packet in packets for message in read_engine(packet)] == [
        End(number) for number in range(100)
    ]
    assert len(packets) < 10
