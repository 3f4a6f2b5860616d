"""A caller made of recordings: speaks them in real time, listens, and notes how each turn went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.playback import Player
from clients.realtime import RATE, CallError, Microphone, RealtimeCall, connect
from clients.recordings import speech_end
from clients.turns import Turn
from voice.wire.realtime_server import RealtimeErrorEvent, ServerEvent, SessionUpdatedEvent


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording to be spoken. ``samples`` (n,) int16 at 24 kHz."""

    name: str
    samples: NDArray[np.int16]

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


_PATIENCE_S = 10.0

# Called every frame with what the caller is doing and the seconds since the clip began.
Watch = Callable[[str, float], None]


class Caller:
    """Talks and listens at once. ``listen`` must be running while ``speak`` is."""

    def __init__(self, call: RealtimeCall) -> None:
        self.microphone = Microphone(call)
        self.player = Player()
        self._call = call
        self._turn: Turn | None = None
        self._configured = asyncio.Event()

    async def configure(self, session: dict[str, Any]) -> None:
        """Set the session up, and wait until the server has."""
        await self._call.configure(session)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._configured.wait()
        except TimeoutError as error:
            raise CallError("The server did not answer session.update: is it stuck?") from error

    async def listen(self) -> None:
        """Take in what the server says, until the call ends. Raises CallError."""
        async for event in self._call:
            if self._turn is None:
                self._prepare(event)
            elif truncation := self._turn.take(event, self.player, _now()):
                await self._call.send(truncation)
        raise CallError("The server ended the call.")

    async def speak(self, clip: Clip, timeout_s: float, watch: Watch) -> Turn:
        """Say a recording and hear the reply out. A reply that stays away is the turn's problem."""
        begin = self.microphone.say(clip.samples)
        turn = Turn(clip.name, begin + speech_end(clip.samples) / RATE, begin + clip.seconds)
        self._turn = turn
        while not turn.complete(self.player, now := await self.microphone.tick()):
            watch(self._doing(turn, now), now - begin)
            if now > self._patience(turn) + timeout_s:
                turn.problems.append(f"{_stuck_at(turn)} (no reply within {timeout_s:g} s)")
                break
        return turn

    def recording(self) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """The call so far, aligned in time: what was said, and what was heard. int16, 24 kHz."""
        start = self.microphone.start
        heard = self.player.recording(start, min(self.player.end, _now()))
        said = self.microphone.recording()
        length = max(len(said), len(heard))
        return _padded(said, length), _padded(heard, length)

    def _prepare(self, event: ServerEvent) -> None:
        if isinstance(event, RealtimeErrorEvent):
            raise CallError(f"The server refused the session: {event.error.message}")
        if isinstance(event, SessionUpdatedEvent):
            self._configured.set()

    def _doing(self, turn: Turn, now: float) -> str:
        if self.player.playing(now):
            return "listening"
        return "speaking" if now < turn.clip_end else "waiting"

    def _patience(self, turn: Turn) -> float:
        """The time from which a caller waits: nothing is being said on either side."""
        return max(turn.clip_end, self.player.end)


@asynccontextmanager
async def call_up(
    url: str, session: dict[str, Any], api_key: str | None = None, model: str | None = None
) -> AsyncIterator[Caller]:
    """Call a server, set the session up, and listen for as long as the context lasts.

    Raises CallError where the call cannot be made, is refused, or breaks.
    """
    async with connect(url, api_key, model) as call:
        caller = Caller(call)
        try:
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(caller.listen())
                await caller.configure(session)
                yield caller
                listening.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None


def _padded(samples: NDArray[np.int16], length: int) -> NDArray[np.int16]:
    return np.pad(samples, (0, length - len(samples)))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _stuck_at(turn: Turn) -> str:
    if turn.stages:
        return f"the last that came was {list(turn.stages)[-1]}"
    if turn.heard_speech:
        return "the server heard speech begin, but not end"
    return "the server heard no speech"
