"""Watches how hard the house is pressed, and tells whom it concerns: its calls, the admission, the
log and the metrics. What is decided from the signs is the business of ``voice.ladder``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from engines.ports import Load, Measured
from pipelines.conversation.call import Call
from pipelines.conversation.pulse import Pulse
from pipelines.strain import Strain
from voice.config import ENGINES
from voice.house import House
from voice.ladder import SIGNS, Ladder, Sign, Signs

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
LAG_S: Final = 0.05
"""How often the loop's lag is measured: a second has samples enough for what it says to count."""

WINDOW_S: Final = 3.0
"""Signs tell of no more than this: longer, and they come too late; shorter, and a reply's pauses
count for too much."""

STAYS: Final = 3
"""What waits in so many looks in a row is a queue; in fewer, it is a moment. So with listeners who
have nearly run dry."""

LEAST_MADE_MS: Final = 1_000.0
"""Less speech says nothing about how fast the voice is."""

PACED: Final = 0.9
"""A voice that never took less time than this for a second of audio paces itself, or was never fast
enough: how fast it is says nothing about its load."""

LEAST_LAGS: Final = 10
WORST_LEADS: Final = 0.05

_LEFT_OFF: Final = {
    Strain.NONE: "over, all is done again",
    Strain.SLOW_PARTIALS: "captions come less often",
    Strain.NO_PARTIALS: "captions come when a turn is over",
    Strain.NO_SPECULATION: "no reply is worked out ahead",
    Strain.SHORT_REPLIES: "replies are shorter",
    Strain.NO_FILES: "files wait",
    Strain.NO_CALLS: "new calls are refused",
}
_IN_WORDS: Final[dict[Sign, str]] = {
    "loop_lag_ms": "the server is late by {:.0f} ms",
    "queue_ms": "a request has waited for {:.0f} ms",
    "queued": "{:.0f} requests wait",
    "tts_load": "the voice has lost {:.0%} of its spare speed",
    "underrun_share": "callers hear nothing in {:.1%} of their replies' time",
    "lead_ms": "callers have {:.0f} ms of sound left",
}

_Counts: TypeAlias = tuple[float, float, float, int, float]
_NOTHING: Final[_Counts] = (0.0, 0.0, 0.0, 0, 0.0)


def _counts_of(pulse: Pulse) -> _Counts:
    """A tuple, since there is one for each call twice a second."""
    return pulse.made_ms, pulse.making_ms, pulse.sent_ms, pulse.underruns, pulse.underrun_ms


@dataclass(slots=True)
class _Look:
    """What was seen at a time, and what all calls have counted since the time before."""

    leads_ms: Sequence[float]
    queue_ms: float
    queued: float
    made_ms: float = 0.0
    making_ms: float = 0.0
    sent_ms: float = 0.0
    underruns: int = 0
    underrun_ms: float = 0.0

    def add(self, now: _Counts, before: _Counts) -> None:
        self.made_ms += now[0] - before[0]
        self.making_ms += now[1] - before[1]
        self.sent_ms += now[2] - before[2]
        self.underruns += now[3] - before[3]
        self.underrun_ms += now[4] - before[4]

    @property
    def lead_ms(self) -> float | None:
        return _at(WORST_LEADS, self.leads_ms)


@dataclass(slots=True)
class _Recent:
    """The last seconds, as far as they count: what was before a step says nothing about it."""

    lags_ms: deque[float] = field(default_factory=lambda: deque(maxlen=round(WINDOW_S / LAG_S)))
    looks: deque[_Look] = field(default_factory=lambda: deque(maxlen=round(WINDOW_S / LOOK_S)))
    best_rtf: float = math.inf
    """The fastest that the voice ever was; of all the time."""

    def forget(self) -> None:
        self.lags_ms.clear()
        self.looks.clear()

    def signs(self, calls: int) -> Signs:
        last = list(self.looks)[-STAYS:]
        stays = len(last) == STAYS
        leads = [look.lead_ms for look in last]
        return Signs(
            loop_lag_ms=_at(0.99, self.lags_ms) if len(self.lags_ms) >= LEAST_LAGS else None,
            queue_ms=min(look.queue_ms for look in last) if stays else None,
            queued=min(look.queued for look in last) if stays else None,
            tts_load=self.tts_load,
            underrun_share=self.underrun_share,
            lead_ms=max((lead for lead in leads if lead is not None), default=None),
            calls=calls,
        )

    @property
    def tts_rtf(self) -> float | None:
        """How long the voice took for a second of audio."""
        made_ms = sum(look.made_ms for look in self.looks)
        if made_ms < LEAST_MADE_MS:
            return None
        return sum(look.making_ms for look in self.looks) / made_ms

    @property
    def tts_load(self) -> float | None:
        rtf = self.tts_rtf
        if rtf is None:
            return None
        best = self.best_rtf = min(self.best_rtf, rtf)
        return (rtf - best) / (1.0 - best) if best < PACED else None

    @property
    def underrun_share(self) -> float | None:
        silent_ms = sum(look.underrun_ms for look in self.looks)
        sent_ms = sum(look.sent_ms for look in self.looks)
        return silent_ms / (silent_ms + sent_ms) if silent_ms else None


class Overload:
    """Of one house. ``clock`` gives seconds; it is not the loop's, which stands while callbacks
    run."""

    def __init__(self, house: House, clock: Callable[[], float] = time.monotonic) -> None:
        self._house = house
        self._clock = clock
        self._settings = house.config.overload
        self._ladder = Ladder(self._settings)
        self._recent = _Recent()
        self._counted: dict[Call, _Counts] = {}
        self._distrusted: set[str] = set()

    async def watch(self) -> None:
        """Until cancelled."""
        look_at = self._clock()
        while True:
            due = self._clock() + LAG_S
            await asyncio.sleep(LAG_S)
            late_s = max(0.0, self._clock() - due)
            self._house.metrics.loop_lag.observe(late_s)
            self._recent.lags_ms.append(late_s * 1000.0)
            if due >= look_at:
                look_at = due + LOOK_S - LAG_S / 2  # rounding must not put it off by one
                self.look()

    def look(self) -> None:
        """Gather the signs, decide, and tell; but not while models are loading, which hold the loop
        and hurt nobody."""
        house, before = self._house, self._house.strain
        if not house.ready:
            self._recent.forget()
            return
        self._recent.looks.append(self._look())
        signs = self._recent.signs(len(house.open_calls))
        self._show(signs)
        if self._settings.enabled:
            strain = self._ladder.step(signs, self._clock())
            if strain is not before:
                self._recent.forget()
                self._change(strain, signs)
            self._admit(self._ladder.bearable)
        for call in tuple(house.open_calls):
            call.bear(house.strain)

    # --- signs ------------------------------------------------------------------------------

    def _look(self) -> _Look:
        calls, counted = self._house.open_calls, self._counted
        now_ms = asyncio.get_running_loop().time() * 1000.0
        leads = (call.pulse.lead_ms(now_ms) for call in calls)
        loads = [self._load_of(kind) for kind in ENGINES]
        look = _Look(
            [lead for lead in leads if lead is not None],
            max(load.oldest_ms for load in loads),
            max(load.queued - load.speaking for load in loads),
        )
        for call, before in counted.items():  # those, too, that have ended since
            look.add(_counts_of(call.pulse), before)
        self._counted = {call: _counts_of(call.pulse) for call in calls}
        for call in calls - counted.keys():
            look.add(self._counted[call], _NOTHING)
        return look

    def _load_of(self, kind: str) -> Load:
        """Nothing where an engine does not say, or says nonsense: it may be anybody's."""
        engine = getattr(self._house.engines, kind)
        if not isinstance(engine, Measured) or kind in self._distrusted:
            return Load()
        try:
            load = engine.load()
            return Load(
                queued=int(load.queued),
                speaking=int(load.speaking),
                oldest_ms=float(load.oldest_ms),
            )
        except Exception:
            self._distrusted.add(kind)
            logger.exception("%s: its load() is broken, so its queue is no sign of strain", kind)
            return Load()

    # --- telling ----------------------------------------------------------------------------

    def _show(self, signs: Signs) -> None:
        metrics, look = self._house.metrics, self._recent.looks[-1]
        metrics.underruns.inc(look.underruns)
        metrics.underrun_seconds.inc(look.underrun_ms / 1000.0)
        metrics.tts_rtf.set(self._recent.tts_rtf or 0.0)
        for lead_ms in look.leads_ms:
            metrics.playout_lead.observe(max(0.0, lead_ms / 1000.0))
        weights = {sign: weight for sign, weight, _ in signs.weighed(self._settings)}
        for sign in SIGNS:
            metrics.signs.labels(sign).set(weights.get(sign, 0.0))

    def _change(self, strain: Strain, signs: Signs) -> None:
        house, before = self._house, self._house.strain
        house.strain = strain
        house.metrics.strain.set(strain)
        house.metrics.strain_steps.labels(_named(strain)).inc()
        told = "overload: %s (step %d of %d, after %d): %s"
        why = self._why(signs)
        logger.info(told, _LEFT_OFF[strain], strain, max(Strain), before, why)
        if strain >= Strain.NO_FILES:
            house.files_may_run.clear()
        else:
            house.files_may_run.set()
        house.reception.settle()

    def _admit(self, bearable: float) -> None:
        house, more = self._house, bearable > self._house.bearable
        house.bearable = bearable
        house.metrics.bearable.set(bearable)
        if more:
            house.reception.settle()

    def _why(self, signs: Signs) -> str:
        weighed = [each for each in signs.weighed(self._settings) if each[1] >= 1.0]
        if not weighed:
            return "there is room again" if signs.calls else "no call is open"
        sign = max(weighed, key=lambda each: each[1])[0]
        value, (_, limit) = getattr(signs, sign), self._settings.limits(sign)
        told = _IN_WORDS[sign].format(max(0.0, value))
        return f"{told}; the limit is {limit:g} (overload.{sign})"


def _named(strain: Strain) -> str:
    return strain.name.lower().replace("_", " ")


def _at(share: float, values: Sequence[float] | deque[float]) -> float | None:
    """The value below which so many lie; None where there are none."""
    if not values:
        return None
    return sorted(values)[int(share * (len(values) - 1))]
