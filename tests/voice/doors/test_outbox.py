"""The outbox: order, bounds, and what may be taken back."""

import asyncio

import pytest

from voice.doors.outbox import MOST_BYTES, Outbox, SlowClientError


class Socket:
    """Takes ``room`` messages, then is full."""

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.written: list[bytes] = []

    @property
    def is_writable(self) -> bool:
        return self.room > 0

    def write_text(self, message: bytes) -> None:
        self.room -= 1
        self.written.append(message)


def test_messages_go_out_at_once() -> None:
    socket = Socket(room=2)
    outbox = Outbox(socket)
    outbox.put(b"a")
    outbox.put(b"b", epoch=1)
    assert socket.written == [b"a", b"b"]


@pytest.mark.virtual_clock
async def test_all_that_waits_is_waited_for_but_not_for_ever() -> None:
    socket = Socket(room=0)
    outbox, loop = Outbox(socket), asyncio.get_running_loop()
    began = loop.time()
    await outbox.wait_empty(5.0)
    assert loop.time() == began, "nothing waits"
    outbox.put(b"a")
    outbox.put(b"b")
    await outbox.wait_empty(5.0)
    assert loop.time() == pytest.approx(began + 5)

    def make_room() -> None:
        socket.room += 1
        outbox.flush()

    loop.call_later(1.0, make_room)
    loop.call_later(2.0, make_room)
    await outbox.wait_empty(5.0)
    assert loop.time() == pytest.approx(began + 7)
    assert socket.written == [b"a", b"b"]


def test_what_waits_goes_out_first_and_as_far_as_it_goes() -> None:
    socket = Socket(room=1)
    outbox = Outbox(socket)
    for message in (b"a", b"b", b"c", b"d"):
        outbox.put(message)
    socket.room = 2
    outbox.put(b"e")  # does not overtake
    assert socket.written == [b"a"]
    outbox.flush()
    assert socket.written == [b"a", b"b", b"c"]
    socket.room = 9
    outbox.flush()
    outbox.put(b"f")
    assert b"".join(socket.written) == b"abcdef"


def test_what_is_unsent_of_a_reply_can_be_taken_back() -> None:
    socket = Socket()
    outbox = Outbox(socket)
    for epoch, message in ((1, b"1"), (None, b"x"), (2, b"2"), (1, b"1")):
        outbox.put(message, epoch)
    outbox.take_back(1)
    socket.room = 9
    outbox.flush()
    assert socket.written == [b"x", b"2"]


def test_a_client_that_does_not_read_is_given_up_on() -> None:
    outbox = Outbox(Socket())
    half = bytes(MOST_BYTES // 2)
    outbox.put(half, epoch=1)
    outbox.put(half)
    with pytest.raises(SlowClientError, match="does not read"):
        outbox.put(b"more")


def test_what_was_sent_or_taken_back_does_not_count() -> None:
    socket = Socket()
    outbox = Outbox(socket)
    half = bytes(MOST_BYTES // 2)
    for _ in range(5):
        outbox.put(half, epoch=1)
        outbox.put(half)
        outbox.take_back(1)
        socket.room = 9
        outbox.flush()
        socket.room = 0
    assert len(socket.written) == 5


def test_taking_back_a_reply_of_which_nothing_waits_leaves_all() -> None:
    socket = Socket()
    outbox = Outbox(socket)
    outbox.put(b"a", epoch=1)
    outbox.put(b"b")
    outbox.take_back(2)
    socket.room = 2
    outbox.flush()
    assert socket.written == [b"a", b"b"]
