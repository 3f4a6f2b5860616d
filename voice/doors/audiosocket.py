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
from voice.wire.phone import Message
from voice.wire.phone_audiosocket import AudioSocketCodec

logger = logging.getLogger(__name__)

START_S: Final = 10.0
"""Asterisk names the call at once, and sends its audio."""


class AudioSocketLine(asyncio.Protocol):
    """One connection; a ``PhoneLine``. ``answer`` is told of it."""

    def __init__(self, answer: Callable[[AudioSocketLine], None]) -> None:
        self.leg: Leg | None = None
        self.peer = ""
        self.heard_at = 0.0
        self.is_writable = True
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

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
        """Close it once all is sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = (transport.get_extra_info("peername") or ("",))[0]
        self.heard_at = self._loop.time()
        self._answer(self)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        if self.leg is not None:
            self.leg.take(data)

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

        server = await loop.create_server(lambda: AudioSocketLine(answer), sock=listener)
        try:
            await loop.create_future()  # serve_forever would wait for the calls before they end
        finally:
            server.close()


def _leg_of(house: House, line: AudioSocketLine) -> Leg:
    return Leg(
        line,
        lambda _first: AudioSocketCodec(),
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
