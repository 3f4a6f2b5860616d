"""Asterisk's AudioSocket: one TCP connection is one call, and nobody proves who they are."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, cast

from voice.admission import Caller
from voice.doors.phone_call import serve_leg
from voice.doors.phone_leg import Leg
from voice.doors.phone_pacer import STEADY
from voice.house import House
from voice.phone_settings import PhoneSettings
from voice.rates import Bucket
from voice.wire.phone import Message
from voice.wire.phone_audiosocket import AudioSocketCodec

logger = logging.getLogger(__name__)

CLOSE_S: Final = 2.0
"""How long who reads slowly may take to read the last of it."""

START_S: Final = 10.0
"""Asterisk names the call at once, and sends its audio."""

SLICE_BYTES: Final = 4 * 1024
"""What is taken of one line's data before the others have their turn: 1,365 frames at most."""
_BURST_S: Final = 2.0
"""Of frames may come at once: a network that was held up brings them all together."""


class AudioSocketLine(asyncio.BufferedProtocol):
    """One connection; a ``PhoneLine``. ``answer`` is told of it. Who sends more frames than
    ``frames_per_s`` waits, so that others need not."""

    def __init__(self, answer: Callable[[AudioSocketLine], None], frames_per_s: float) -> None:
        self.leg: Leg | None = None
        self.codec = AudioSocketCodec()
        self.peer = ""
        self.heard_at = 0.0
        self.is_writable = True
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._bucket = Bucket(_BURST_S * frames_per_s, frames_per_s)
        self._buffer = bytearray(SLICE_BYTES)

    @property
    def unsent(self) -> int:
        """Bytes that the transport keeps."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, message: Message) -> None:
        """Send it now; of no effect once the line is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message.encode() if isinstance(message, str) else message)

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close it once all is sent, or has not been taken for long enough."""
        if self._transport is not None:
            self._transport.close()
            self._loop.call_later(CLOSE_S, self._transport.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = (transport.get_extra_info("peername") or ("",))[0]
        self.heard_at = self._loop.time()
        self._answer(self)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._loop.time()
        if self.leg is None:
            return
        before = self.codec.frames
        self.leg.take(bytes(self._buffer[:nbytes]))
        if wait_s := self._bucket.spend(self.codec.frames - before, self.heard_at):
            self._hold(wait_s)

    def _hold(self, seconds: float) -> None:
        """Read no more for so long: what is sent meanwhile waits where it is."""
        assert self._transport is not None, "it has brought data"
        self._transport.pause_reading()
        self._loop.call_later(seconds, self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if self.leg is not None:
            self.leg.pump()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self.leg is not None:
            self.leg.end("the line is gone")


def audiosocket_listener(phone: PhoneSettings) -> socket.socket | None:
    """A socket that listens where the settings say; None where they give no port. Raises
    OSError."""
    if phone.audiosocket_port is None:
        return None
    host, port = phone.audiosocket_host, phone.audiosocket_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise OSError(
            f"cannot listen on {host}:{port} for AudioSocket: {reason}; try another"
            " phone.audiosocket_port"
        ) from error


async def serve_audiosocket(house: House, listener: socket.socket) -> None:
    """Take calls until cancelled, which hangs all of them up."""
    phone, loop = house.config.phone, asyncio.get_running_loop()
    async with asyncio.TaskGroup() as legs:

        def answer(line: AudioSocketLine) -> None:
            if not phone.lets_in(line.peer):
                logger.warning("a call of %s was dropped: see phone.audiosocket_from", line.peer)
                line.abort()
                return
            line.leg = _leg_of(house, line)
            legs.create_task(_serve(house, line, line.leg))

        pace = house.config.server.messages_per_s
        server = await loop.create_server(lambda: AudioSocketLine(answer, pace), sock=listener)
        try:
            await loop.create_future()  # serve_forever would wait for the calls before they end
        finally:
            server.close()


def _leg_of(house: House, line: AudioSocketLine) -> Leg:
    return Leg(
        line,
        lambda _first: line.codec,
        quiet_ms=house.config.phone.digits_quiet_ms,
        lead=STEADY,
        tell_late=house.metrics.phone_lateness.observe,
    )


async def _serve(house: House, line: AudioSocketLine, leg: Leg) -> None:
    """A bug ends this call, and no other."""
    try:
        await leg.wait_begun(START_S)
        if leg.started.done():
            caller = Caller(house.config.phone.tenant, phone=True)
            await serve_leg(house, leg, caller, {})
        elif leg.ended.done():
            told = leg.ended.result()
            logger.log(leg.log_level, "AudioSocket: a connection was no call: %s", told)
    except* Exception:
        logger.exception("a phone call ended by a bug")
    finally:
        leg.hang_up()
        leg.close()
        line.close()
