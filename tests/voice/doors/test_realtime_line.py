"""A client's WebSocket: what comes goes to its listener, and what waits goes out."""

import asyncio
from typing import Any

import pytest

from voice.doors.realtime_line import accept, connected

pytestmark = pytest.mark.virtual_clock


class Socket:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.held_s: list[float] = []
        self.on_message: Any = None
        self.on_writable: Any = None
        self.on_frame: Any = None

    def hold(self, seconds: float) -> None:
        self.held_s.append(seconds)


class Side:
    """A listener and an outbox that do what they are told, or break."""

    def __init__(self, bug: Exception | None = None) -> None:
        self.took: list[bytes] = []
        self.flushed = 0
        self._bug = bug

    def take(self, message: bytes) -> None:
        self.took.append(message)
        if self._bug is not None:
            raise self._bug

    def flush(self) -> None:
        self.flushed += 1
        if self._bug is not None:
            raise self._bug


@pytest.mark.parametrize(
    ("offered", "selected"),
    [(["realtime", "openai-insecure-api-key.k"], "realtime"), (["other"], None), ([], None)],
)
async def test_the_subprotocol_is_selected_where_it_was_offered(
    offered: list[str], selected: str | None
) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await accept({"subprotocols": offered}, send)
    [message] = sent
    assert (message["type"], message.get("subprotocol")) == ("websocket.accept", selected)


async def test_messages_take_the_short_cut_as_long_as_they_are_connected() -> None:
    socket, side, crashes = Socket(), Side(), []
    line: Any = socket
    with connected(line, crashes.append, side, side, 100):  # type: ignore[arg-type]
        socket.on_message(b"one")
        socket.on_writable()
        assert (side.took, side.flushed, crashes) == ([b"one"], 1, [])
    assert socket.on_message is socket.on_writable is socket.on_frame is None


async def test_who_sends_more_than_its_share_waits() -> None:
    socket, side = Socket(), Side()
    line: Any = socket
    with connected(line, lambda _: None, side, side, 100):  # type: ignore[arg-type]
        for _ in range(400):
            socket.on_frame()
        assert socket.held_s == []
        socket.on_message(b"x" * 16 * 1024)  # as two
    assert socket.held_s == [pytest.approx(0.02)]


async def test_what_breaks_is_the_caller_s_own_affair() -> None:
    bug = ValueError("oh")
    socket, side, crashes = Socket(), Side(bug), []
    line: Any = socket
    with connected(line, crashes.append, side, side, 100):  # type: ignore[arg-type]
        socket.on_message(b"one")
        socket.on_writable()
    assert crashes == [bug, bug]
