"""Each carrier's own simulator at the other end of a leg: without a socket, on the test's clock."""

import asyncio
from typing import Any

import numpy as np

from clients.phone import CARRIERS, Telephone
from voice.doors.phone_leg import Leg
from voice.doors.phone_pacer import STEADY
from voice.wire.phone_audiosocket import AudioSocketCodec
from voice.wire.phone_wires import WIRES

LOUD = 8_000


def now_s() -> float:
    return asyncio.get_running_loop().time()


class CarrierLine:
    """Carries messages to a simulated telephone, and its answers back, ``late_s`` each way."""

    def __init__(self, name: str, late_s: float = 0.03) -> None:
        self.telephone = Telephone(CARRIERS[name]())
        self.name = name
        self.is_writable = True
        self.unsent = 0
        self.heard_at = 0.0
        self.sent_at: list[float] = []
        self.leg: Leg | None = None
        self._late_s = late_s
        self._last = 0.0

    def leg_of(self, house: Any) -> Leg:
        make = AudioSocketCodec if self.name == "audiosocket" else WIRES[self.name]
        self.leg = Leg(
            self,
            lambda _first: make(),
            quiet_ms=house.config.phone.digits_quiet_ms,
            lead=STEADY if self.name == "audiosocket" else None,
        )
        return self.leg

    def write(self, message: Any) -> None:
        self.sent_at.append(now_s())
        self._later(self._arrive, message)

    def abort(self) -> None:
        assert self.leg is not None
        self.leg.end("aborted")

    def _arrive(self, message: Any) -> None:
        self._answer(self.telephone.take(message, now_s()))
        self._tick_in_time()

    def _tick_in_time(self) -> None:
        if (due := self.telephone.deadline) is not None:
            asyncio.get_running_loop().call_at(due, self._tick)

    def _tick(self) -> None:
        self._answer(self.telephone.tick(now_s()))
        self._tick_in_time()

    def _answer(self, messages: list[Any]) -> None:
        for message in messages:
            self._later(self._take, message)

    def _take(self, message: Any) -> None:
        assert self.leg is not None
        self.leg.take(message)

    def _later(self, do: Any, message: Any) -> None:
        """In order: a loop's timers of one time have none."""
        self._last = max(self._last + 1e-6, now_s() + self._late_s)
        asyncio.get_running_loop().call_at(self._last, do, message)


class CarrierCaller:
    """Speaks by the carrier's frames."""

    def __init__(self, line: CarrierLine) -> None:
        self.line = line
        self.telephone = line.telephone
        self.began = now_s()
        self._size = self.telephone.words.rate * self.telephone.words.frame_ms // 1000

    def hello(self) -> None:
        for message in self.telephone.hello():
            self.line._take(message)

    async def sound(self, milliseconds: int, level: int = 0) -> None:
        frame_ms = self.telephone.words.frame_ms
        for _ in range(milliseconds // frame_ms):
            self.line._answer(self.telephone.say(np.full(self._size, level, np.int16)))
            await asyncio.sleep(frame_ms / 1000)

    def press(self, digits: str) -> None:
        self.line._answer(self.telephone.press(digits))

    @property
    def heard_ms(self) -> float:
        return self.telephone.playout.heard_s(now_s()) * 1000

    def gaps_ms(self) -> list[float]:
        """How long it was silent between runs of sound, in order."""
        rate, runs = self.telephone.words.rate, self.telephone.playout.runs
        ends = [run.start + len(run.samples) / rate for run in runs]
        return [(run.start - end) * 1000 for run, end in zip(runs[1:], ends, strict=False)]
