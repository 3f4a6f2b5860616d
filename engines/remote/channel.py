"""A ZeroMQ socket on the event loop, without a future for each message.

The descriptor of a ZeroMQ socket tells only that something has changed since somebody looked,
and every send looks: so the socket is read until it is empty, and looked at after each send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import zmq

from engines.remote import wire

MOST_PACKETS: Final = 65_536
"""On their way in one direction. Credits bind what may be, and stay far below it."""

_AT_ONCE: Final = 64
_CUT_OFF: Final = frozenset({zmq.EAGAIN, zmq.EHOSTUNREACH})


class Disconnected(Exception):  # noqa: N818 - a state of the connection
    """Nobody is at the other end, or it takes nothing any more."""


def dealer(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A gateway's socket. It keeps nothing for an engine that is not there."""
    socket = _socket(context, zmq.DEALER)
    socket.set(zmq.IMMEDIATE, 1)
    socket.set(zmq.RECONNECT_IVL, 20)
    socket.set(zmq.RECONNECT_IVL_MAX, 1000)
    socket.set(zmq.LINGER, 0)
    socket.connect(endpoint)
    return socket


def router(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """An engine's socket. It says so where a gateway is gone. Raises zmq.ZMQError."""
    socket = _socket(context, zmq.ROUTER)
    socket.set(zmq.ROUTER_MANDATORY, 1)
    socket.set(zmq.LINGER, 500)
    try:
        socket.bind(endpoint)
    except zmq.ZMQError:
        socket.close(0)
        raise
    return socket


def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.set(zmq.SNDHWM, MOST_PACKETS)
    socket.set(zmq.RCVHWM, MOST_PACKETS)
    socket.set(zmq.MAXMSGSIZE, wire.MOST_BYTES)
    return socket


class Channel:
    """Calls ``receive`` with the frames of each packet; ``send`` never waits."""

    def __init__(
        self, socket: zmq.Socket[bytes], receive: Callable[[Sequence[bytes]], None]
    ) -> None:
        self._socket = socket
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.get(zmq.FD))
        self._looks_again = False
        self._loop.add_reader(self._descriptor, self._read)
        self._look_again()

    def send(self, frames: Sequence[bytes]) -> None:
        """Raises Disconnected."""
        if self._socket.closed:
            raise Disconnected("closed")
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in _CUT_OFF:
                raise
            raise Disconnected(error.strerror) from error
        finally:
            if self._has_packets():
                self._look_again()

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove_reader(self._descriptor)
            self._socket.close()

    def _has_packets(self) -> bool:
        return bool(int(self._socket.get(zmq.EVENTS)) & zmq.POLLIN)

    def _look_again(self) -> None:
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._looks_again = False
        for _ in range(_AT_ONCE):
            if self._socket.closed or not self._has_packets():
                return
            self._receive(self._socket.recv_multipart(zmq.NOBLOCK))
        self._look_again()


class Outbox:
    """Gathers what is told in one turn of the loop into one packet, or into several where one
    would be more than the other side takes: it cuts off who sends that."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._told: list[bytes] = []
        self._bytes = 0

    def put(self, message: bytes) -> None:
        if self._bytes + len(message) > wire.MOST_BYTES // 2:
            self.flush()
        if not self._told:
            self._loop.call_soon(self.flush)
        self._told.append(message)
        self._bytes += len(message)

    def flush(self) -> None:
        """Send what has been told, now."""
        if self._told:
            told, self._told, self._bytes = self._told, [], 0
            self._send(wire.pack(told))
