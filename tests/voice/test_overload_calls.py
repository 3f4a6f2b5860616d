"""Whole calls in a house that fills up: those that are in are not hurt by those who want to be.

The voice is a device that all calls share (``work_ms``): with one listener it is eight times as
fast as speech, with eight no faster. The clock is virtual; what a listener hears is judged from
what the door was given, by a player of its own.
"""

import asyncio
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from engines.ports import ChatRequest
from engines.scripted import (
    SENTENCES,
    LlmOptions,
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    TtsOptions,
    tokens_of,
)
from engines.vad.ears import Ears
from pipelines.conversation.brevity import BRIEFLY
from pipelines.conversation.call import open_call
from pipelines.conversation.dialogue import CallerItem
from pipelines.conversation.events import ReplyAudio
from pipelines.conversation.ports import Engines
from pipelines.strain import Strain
from voice.admission import Caller
from voice.config import load
from voice.house import House
from voice.overload import Overload
from voice.reception import RefusedError

pytestmark = pytest.mark.virtual_clock

WORK_MS = 5.0
"""For 40 ms of audio."""

RESERVE_MS = 60.0
TURNS = 3
CALLERS = 20


class Obedient(ScriptedLlm):
    """Answers in nine sentences, nine seconds; in two if it is asked to be brief."""

    def __init__(self) -> None:
        script = tokens_of("".join(SENTENCES) + " " + "".join(SENTENCES) + " " + "".join(SENTENCES))
        super().__init__(LlmOptions(script=script, item_delay_ms=15))

    def script(self, request: ChatRequest) -> Any:
        *deltas, usage = super().script(request)
        brief = BRIEFLY["en"] in request.messages[-1].content
        return (*(deltas[:24] if brief else deltas), usage)


@dataclass
class Listener:
    """A door, and who listens behind it. ``gaps_ms``: silences in the middle of a reply."""

    gaps_ms: list[float] = field(default_factory=list)
    heard_ms: float = 0.0
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    _epoch: int = 0
    _dry_at: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None

    def reply_said(self, item: Any, output: Any) -> None:
        if not isinstance(output, ReplyAudio):
            return
        now = asyncio.get_running_loop().time() * 1000
        if output.epoch != self._epoch:
            self._epoch, self._dry_at = output.epoch, now + RESERVE_MS
        elif now > self._dry_at + 0.01:
            self.gaps_ms.append(now - self._dry_at)
            self._dry_at = now
        self._dry_at += output.pcm.duration_ms
        self.heard_ms += output.pcm.duration_ms

    def reply_finished(self, *_: Any) -> None:
        self.finished.set()


class Line:
    @property
    def heard_at(self) -> float:
        return asyncio.get_running_loop().time()

    def abort(self) -> None: ...


class Street:
    """A house, and callers who come to it one after the other."""

    def __init__(self, vad: Any, *settings: str) -> None:
        tts = ScriptedTts(TtsOptions(work_ms=WORK_MS))
        engines = Engines(Ears(vad), ScriptedAsr(), Obedient(), tts)
        self.house = House(load(settings=settings, scripted=True), engines, ready=True)
        self.overload = Overload(self.house, asyncio.get_running_loop().time)
        self.listeners: list[Listener] = []
        self.refused: list[str] = []
        self.strains: list[Strain] = []

    async def calls(self) -> None:
        listener, ids = Listener(), itertools.count(1)
        try:
            async with self.house.reception.admit(Caller(), Line(), asyncio.Event().wait):
                self.listeners.append(listener)
                async with open_call(
                    self.house.engines,
                    self.house.call_settings,
                    listener,
                    rate=16_000,
                    new_id=lambda: f"item_{next(ids)}",
                ) as call:
                    with self.house.knows(call):
                        for turn in range(TURNS):
                            await asyncio.sleep(2)
                            call.dialogue.append(CallerItem(f"turn_{turn}", text="go on"))
                            listener.finished.clear()
                            call.request_reply()
                            await listener.finished.wait()
                            await asyncio.sleep(2)
        except RefusedError as error:
            self.refused.append(error.refusal.reason.value)

    async def fills(self, every_s: float) -> None:
        """Callers come so fast, until all have gone again."""
        watching = asyncio.create_task(self.watch())
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(self.calls())
                await asyncio.sleep(every_s)
        await asyncio.sleep(1)
        watching.cancel()

    async def watch(self) -> None:
        while True:
            self.overload.look()
            if self.strains[-1:] != [self.house.strain]:
                self.strains.append(self.house.strain)
            await asyncio.sleep(0.5)

    @property
    def gaps_ms(self) -> list[float]:
        return [gap for listener in self.listeners for gap in listener.gaps_ms]

    def figure(self, name: str) -> float | None:
        return self.house.metrics.registry.get_sample_value(f"antiphon_{name}")


async def test_left_alone_the_house_takes_all_and_all_of_them_are_hurt(vad: Any) -> None:
    """What the other tests prevent does happen."""
    street = Street(vad, "overload.enabled=false")
    await street.fills(2.0)
    assert len(street.listeners) == CALLERS
    assert all(listener.gaps_ms for listener in street.listeners)
    assert street.figure("underruns_total") == len(street.gaps_ms) > 1_000
    assert street.figure("underrun_seconds_total") == pytest.approx(sum(street.gaps_ms) / 1000)


@pytest.mark.parametrize("every_s", [3.0, 1.0])
async def test_no_call_that_is_in_is_hurt_by_one_that_wants_in(vad: Any, every_s: float) -> None:
    street = Street(vad)
    await street.fills(every_s)
    assert street.gaps_ms == []
    assert street.figure("underruns_total") == 0
    assert set(street.refused) <= {"settling", "overloaded"}
    assert len(street.refused) + len(street.listeners) == CALLERS
    assert len(street.listeners) >= 8, "it takes as many as it can bear"
    assert street.house.strain is Strain.NONE, "and is as before once they have gone"
    assert street.house.bearable == math.inf
    assert street.house.files_may_run.is_set()
    assert all(listener.heard_ms >= TURNS * 2_000 for listener in street.listeners)


async def test_under_strain_replies_are_short_before_anybody_is_refused_for_good(vad: Any) -> None:
    """Signs that stay strained (here: by their limits) take the house up the ladder, and back."""
    street = Street(vad, "overload.tts_load=0.05,0.1", "overload.fall_s=1")
    await street.fills(2.0)
    climbed = [later for sooner, later in itertools.pairwise(street.strains) if later > sooner]
    assert max(climbed) >= Strain.SHORT_REPLIES
    assert min(listener.heard_ms for listener in street.listeners) < TURNS * 9_000
    assert street.gaps_ms == []
    assert street.house.strain is Strain.NONE
