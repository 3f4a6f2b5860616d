"""The server: one port for WebSocket and REST, on uvicorn."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

from engines.ports import EngineError
from voice.app import open_house, warm_up
from voice.auth import is_loopback
from voice.config import Config, ConfigError
from voice.doors.audiosocket import audiosocket_listener, serve_audiosocket
from voice.doors.client_secrets import PATH as SECRETS_PATH
from voice.doors.client_secrets import client_secrets
from voice.doors.handshake import PATH, turn_away
from voice.doors.phone import PATHS as PHONE_PATHS
from voice.doors.phone import PhoneDoor
from voice.doors.realtime import RealtimeDoor
from voice.doors.rest import routes
from voice.house import House
from voice.metering import watch_cpu
from voice.overload import Overload
from voice.socket import CallSocket, DoorstepProtocol, Turnstile

BACKLOG: Final = 2048
_LOOPBACKS: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
CLOSE_S: Final = 10
"""How long clients may take to go once their calls were closed."""


class DrainingServer(uvicorn.Server):
    """uvicorn's, which once it is told to stop by SIGTERM (SIGHUP is taken for it) lets calls go on
    for ``server.drain_s``. Meanwhile it still answers, so that whoever asks is told at once that
    there are no more calls. A person at the keyboard (SIGINT) waits for nothing, and a second
    signal ends any wait."""

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house
        self._signals: list[int] = []
        self._leave_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._signals.append(sig)

    async def on_tick(self, counter: int) -> bool:
        """Asked ten times a second whether it is time to go."""
        if not await super().on_tick(counter):
            return False
        if self._leave_at is None:
            self._house.close()
            patient = self._signals == [signal.SIGTERM]
            drain_s = self._house.config.server.drain_s if patient else 0.0
            self._leave_at = asyncio.get_running_loop().time() + drain_s
            return False  # those who wait are told why by then
        overdue = asyncio.get_running_loop().time() >= self._leave_at
        return overdue or not self._house.calls or len(self._signals) > 1


def make_app(house: House) -> Starlette:
    """All doors of this house."""
    realtime = WebSocketRoute(PATH, RealtimeDoor(house))
    phones = [WebSocketRoute(path, PhoneDoor(house)) for path in PHONE_PATHS]
    secrets = Route(SECRETS_PATH, client_secrets(house), methods=["POST"])
    return Starlette(routes=[realtime, secrets, *phones, *routes(house)])


async def serve(config: Config, told: Callable[[str], None]) -> None:
    """Serve until a signal ends it. ``told`` is given what a person at a terminal should see;
    the line that begins with READY comes once calls are taken.

    Raises ConfigError, EngineError where a model cannot be loaded, OSError where the address
    cannot be listened at.
    """
    check_exposure(config)
    with ExitStack() as last:
        async with open_house(config) as house:  # before the port, which may be right another day
            listener = last.enter_context(listen(config))
            phones = audiosocket_listener(config.phone)
            last.enter_context(phones or nullcontext())
            # Asked now: the socket may be closed before the models are warm.
            address: tuple[str, int] = listener.getsockname()[:2]
            server = DrainingServer(_uvicorn_config(house), house)
            last.enter_context(_terminated_last(server))
            last.enter_context(_hangup_as_termination())
            try:
                async with asyncio.TaskGroup() as tasks:
                    aside = [
                        tasks.create_task(Overload(house).watch()),
                        tasks.create_task(house.reception.watch()),
                        tasks.create_task(watch_cpu(house.meter)),
                        tasks.create_task(_get_ready(house, address, told)),
                    ]
                    if phones is not None:
                        told("listening for AudioSocket at {}:{}".format(*phones.getsockname()))
                        aside.append(tasks.create_task(serve_audiosocket(house, phones)))
                    await server.serve(sockets=[listener])
                    for task in aside:
                        task.cancel()
            except* EngineError as failures:
                raise failures.exceptions[0] from None


@contextmanager
def _terminated_last(server: uvicorn.Server) -> Iterator[None]:
    """SIGTERM ends this process at the end of the context. uvicorn raises it again as soon as
    the calls are over, when engines in processes of their own are still to be told. One that comes
    before uvicorn listens for it ends the server as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        server.handle_exit(number, frame)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    for number in came[:1]:
        signal.raise_signal(number)


@contextmanager
def _hangup_as_termination() -> Iterator[None]:
    """A terminal that is closed (SIGHUP) ends the server as SIGTERM does, for as long as the
    context lasts; but not one that was started to outlive it (``nohup``)."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(hangup)
    if before is not signal.SIG_IGN:
        signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(hangup, before)


def check_exposure(config: Config) -> None:
    """Raises ConfigError where anyone on the network could use the server."""
    host = config.server.host
    if any(config.keys.values()) or is_loopback(host):
        return
    raise ConfigError(
        f"server.host: {host} is not a loopback address, and there are no API keys."
        " Set VOICE_API_KEYS=key1,key2, or listen on 127.0.0.1"
    )


async def _get_ready(house: House, address: tuple[str, int], told: Callable[[str], None]) -> None:
    if not any(house.config.keys.values()):
        told("no API keys are set: listening on the loopback only (set VOICE_API_KEYS for more)")
    await warm_up(house, told)
    _settle_memory()
    url, here = url_of(*address), url_of(*address, here=True)
    if here != url:
        told(f"on this machine it is {here}")
    told(f"READY {url}")


def _settle_memory() -> None:
    """What is there now stays, and need not be looked through for garbage again: a full collection
    took 76 ms with 96 calls open, in which nobody heard anything. What comes goes by itself, but
    for a few cycles a turn: to look for them at each 700th object was 4 % of the server's work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def url_of(host: str, port: int, *, here: bool = False) -> str:
    """The address of a server that listens there. ``here``: one that can be opened on this machine,
    where it listens at all of them."""
    host = _LOOPBACKS.get(host, host) if here else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _uvicorn_config(house: House) -> uvicorn.Config:
    class Doorstep(DoorstepProtocol):
        turn_away = staticmethod(partial(turn_away, house))
        turnstile = Turnstile()

    return uvicorn.Config(
        make_app(house),
        http=Doorstep,
        ws=CallSocket,
        # Whoever is there answers a ping; who does not loses the lease (``Reception.expire``).
        ws_ping_interval=house.config.admission.lost_s / 3,
        ws_ping_timeout=None,
        ws_max_size=house.config.server.max_message_bytes,
        ws_per_message_deflate=False,  # 63 us a frame to save a fifth of its size
        lifespan="off",
        log_config=None,
        log_level="warning",  # below, websockets writes handshakes down, keys and all
        access_log=False,
        timeout_graceful_shutdown=CLOSE_S,
    )


def listen(config: Config) -> socket.socket:
    """A socket that listens where the configuration says. Raises OSError."""
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        another = f"try another --port (`make run PORT={port + 1}`)"
        raise OSError(f"cannot listen on {host}:{port}: {reason}; {another}") from error
