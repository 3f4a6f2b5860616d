"""A carrier made of nothing: a codec whose messages are what they mean, and a line that notes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engines.audio import Pcm
from engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts
from engines.vad.ears import Ears
from pipelines.conversation.ports import Engines
from voice.admission import Caller as Asking
from voice.config import load
from voice.doors.phone_call import serve_leg
from voice.doors.phone_leg import Leg
from voice.house import House
from voice.wire.phone import (
    AudioCame,
    DigitPressed,
    LegEnded,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneEvent,
    PhoneWireError,
)

CALLER = Asking(phone=True)
RATE = 8_000
LOUD = 8_000
QUIET = ("phone.greeting=", "turns.echo_guard=false", "turns.partials=false")


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


class PlainCodec:
    """``take`` reads "mark NAME", "digit X", "audio MS LEVEL", "start NAME=VALUE...", "stop",
    "bad", "bug"."""

    name = "plain"
    rate = RATE
    frame_ms = 20

    def __init__(
        self,
        *,
        marks: bool = True,
        clears: bool = True,
        paced: bool = False,
        heard_rate: int = RATE,
    ) -> None:
        self.marks = marks
        self._heard_rate = heard_rate
        self.paced = paced
        self._clears = clears
        self.farewell = ["bye"]

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        assert isinstance(message, str)
        word, _, rest = message.partition(" ")
        match word:
            case "start":
                told = dict(word.split("=") for word in rest.split())
                return (LegStarted("call", self._heard_rate, told.get("from", ""), "", told),)
            case "audio":
                ms, level = map(int, rest.split())
                rate = self._heard_rate
                return (AudioCame(Pcm(np.full(rate * ms // 1000, level, np.int16), rate)),)
            case "digit":
                return (DigitPressed(rest),)
            case "mark":
                return (MarkPlayed(rest),)
            case "stop":
                return (LegEnded(rest),)
            case "bug":
                raise KeyError("a bug in a codec")
        raise PhoneWireError(f"{message} is no message")

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        assert pcm.rate == RATE
        return (pcm.to_bytes(),)

    def mark(self, name: str) -> Sequence[Message]:
        return (f"mark {name}",)

    def clear(self) -> Sequence[Message]:
        return ("clear",) if self._clears else ()

    def press(self, digits: str) -> Sequence[Message]:
        return (f"press {digits}",)

    def hang_up(self) -> Sequence[Message]:
        return self.farewell


class PlainLine:
    """Notes what is written and when; returns marks ``lag_ms`` after their audio has played."""

    def __init__(self, lag_ms: float | None = None) -> None:
        self.written: list[tuple[float, Message]] = []
        self.heard_at = 0.0
        self.is_writable = True
        self.unsent = 0
        self.aborted = False
        self.leg: Leg | None = None
        self._lag_ms = lag_ms
        self._ends_at = 0.0

    def write(self, message: Message) -> None:
        self.written.append((now_ms(), message))
        if isinstance(message, bytes):
            self._ends_at = max(self._ends_at, now_ms()) + len(message) / 16
        elif message.startswith("mark ") and self._lag_ms is not None:
            loop = asyncio.get_running_loop()
            loop.call_at((self._ends_at + self._lag_ms) / 1000, self._return, message)
        elif message == "clear":
            self._ends_at = now_ms()

    def _return(self, mark: str) -> None:
        assert self.leg is not None
        self.leg.take(mark)

    def abort(self) -> None:
        self.aborted = True
        if self.leg is not None:
            self.leg.end("aborted")

    @property
    def audio(self) -> list[tuple[float, bytes]]:
        return [(at, each) for at, each in self.written if isinstance(each, bytes)]

    @property
    def words(self) -> list[str]:
        return [each for _, each in self.written if isinstance(each, str)]

    @property
    def sent_ms(self) -> float:
        return sum(len(each) / 16 for _, each in self.audio)


class Watched:
    """An engine, and what was asked of it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.requests: list[Any] = []

    def open(self, request: Any) -> Any:
        if getattr(request, "max_tokens", None) != 0:
            self.requests.append(request)
        return self.engine.open(request)


@dataclass
class Phone:
    """A house that is called by phone; everything on one loop, without a socket."""

    vad: Any
    settings: Sequence[str] = ()
    llm: Watched = field(default_factory=lambda: Watched(ScriptedLlm()))
    asr: Watched = field(default_factory=lambda: Watched(ScriptedAsr()))
    tts: Watched = field(default_factory=lambda: Watched(ScriptedTts()))
    caller: Asking = CALLER

    def __post_init__(self) -> None:
        config = load(settings=(*QUIET, *self.settings), scripted=True)
        engines = Engines(Ears(self.vad), self.asr, self.llm, self.tts)
        self.house = House(config, engines, ready=True)

    def leg(self, codec: PlainCodec | None = None, line: PlainLine | None = None) -> Leg:
        line, codec = line or PlainLine(), codec or PlainCodec()
        leg = line.leg = Leg(
            line, lambda _first: codec, quiet_ms=self.house.config.phone.digits_quiet_ms
        )
        return leg

    @asynccontextmanager
    async def call(self, leg: Leg, start: str = "start") -> AsyncIterator["Caller"]:
        """A leg that has started and is being served."""
        leg.take(start)
        serving = asyncio.create_task(serve_leg(self.house, leg, self.caller, {}))
        await asyncio.sleep(0)
        caller = Caller(leg, serving, self.house)
        try:
            yield caller
            leg.end("the test is over")
            if not serving.done():
                await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            leg.close()


@dataclass
class Caller:
    """The caller's end."""

    leg: Leg
    serving: "asyncio.Task[None]"
    house: House

    @property
    def line(self) -> PlainLine:
        assert isinstance(self.leg.line, PlainLine)
        return self.leg.line

    @property
    def dialogue(self) -> list[Any]:
        [call] = self.house.open_calls
        return list(call.dialogue)

    async def sound(self, milliseconds: int, level: int) -> None:
        for _ in range(milliseconds // 20):
            self.leg.take(f"audio 20 {level}")
            await asyncio.sleep(0.02)

    async def take_turn(self) -> None:
        await self.sound(600, LOUD)
        await self.sound(700, 0)

    async def wait(self, milliseconds: float) -> None:
        """Silence, as a line has it."""
        await self.sound(int(milliseconds), 0)
