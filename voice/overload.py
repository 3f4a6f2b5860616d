"""Watches how hard the house is pressed, and tells whom it concerns: its calls, the admission, the
log and the metrics. What is decided from the signs is the business of ``voice.ladder``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engines.ports import Load, Measured
from pipelines.conversation.call import Call
from pipelines.strain import Strain
from voice.config import ENGINES
from voice.house import House
from voice.ladder import SIGNS, Ladder, Signs

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
LAG_S: Final = 0.05
"""How often the loop's lag is measured: a second has samples enough for what it says to count."""

WINDOW_S: Final = 5.0
"""Signs tell of no more than this. A reply is as long, and has a pause or two."""

LEAST_MADE_MS: Final = 1_000.0
"""Less speech says nothing about how fast the voice is."""

LEAST_LAGS: Final = 10
WORST_LEADS: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Look:
    """What has happened since the one before, all calls together."""

    made_ms: float
    making_ms: float
    underrun_ms: float
    leads_ms: tuple[float, ...]


@dataclass(slots=True)
class _Recent:
    """The last seconds, as far as they count: what was before a step says nothing about it."""

    lags_ms: deque[float] = field(default_factory=lambda: deque(maxlen=round(WINDOW_S / LAG_S)))
    looks: deque[_Look] = field(default_factory=lambda: deque(maxlen=round(WINDOW_S / LOOK_S)))

    def forget(self) -> None:
        self.lags_ms.clear()
        self.looks.clear()

    @property
    def lag_ms(self) -> float | None:
        return _at(0.99, self.lags_ms) if len(self.lags_ms) >= LEAST_LAGS else None

    @property
    def lead_ms(self) -> float | None:
        return _at(WORST_LEADS, [lead for look in self.looks for lead in look.leads_ms])

    @property
    def tts_rtf(self) -> float | None:
        made_ms = sum(look.made_ms for look in self.looks)
        if made_ms < LEAST_MADE_MS:
            return None
        return sum(look.making_ms for look in self.looks) / made_ms

    @property
    def underrun_share(self) -> float | None:
        silent_ms = sum(look.underrun_ms for look in self.looks)
        made_ms = sum(look.made_ms for look in self.looks)
        return silent_ms / (silent_ms + made_ms) if silent_ms else None


class Overload:
    """Of one house. ``clock`` gives seconds; it is not the loop's, which stands while callbacks
    run."""

    def __init__(self, house: House, clock: Callable[[], float] = time.monotonic) -> None:
        self._house = house
        self._clock = clock
        self._settings = house.config.overload
        self._ladder = Ladder(self._settings)
        self._recent = _Recent()
        self._counted: dict[Call, tuple[float, float, int, float]] = {}
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
        """Gather the signs, decide, and tell."""
        self._recent.looks.append(self._read_calls())
        signs = self._signs()
        self._show(signs)
        before = self._house.strain
        if self._settings.enabled:
            strain = self._ladder.step(signs, self._clock())
            if strain is not before:
                self._recent.forget()
                self._change(before, strain, signs)
        for call in tuple(self._house.open_calls):  # those, too, that came since
            call.bear(self._house.strain)

    # --- signs ------------------------------------------------------------------------------

    def _signs(self) -> Signs:
        recent = self._recent
        loads = [self._load_of(kind) for kind in ENGINES]
        return Signs(
            loop_lag_ms=recent.lag_ms,
            queue_ms=max(load.oldest_ms for load in loads),
            queued=max(load.queued - load.speaking for load in loads),
            tts_rtf=recent.tts_rtf,
            underrun_share=recent.underrun_share,
            lead_ms=recent.lead_ms,
            calls=len(self._house.open_calls),
        )

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

    def _read_calls(self) -> _Look:
        """What the calls have counted since; also those that have ended since."""
        calls, total = self._house.open_calls, [0.0, 0.0, 0.0, 0.0]
        for call in {*self._counted, *calls}:
            pulse = call.pulse
            counts = (pulse.made_ms, pulse.making_ms, pulse.underruns, pulse.underrun_ms)
            known = self._counted.get(call, (0.0, 0.0, 0, 0.0))
            total = [t + now - then for t, now, then in zip(total, counts, known, strict=True)]
            self._counted[call] = counts
        for call in self._counted.keys() - calls:
            del self._counted[call]
        made_ms, making_ms, underruns, underrun_ms = total
        self._house.metrics.underruns.inc(underruns)
        self._house.metrics.underrun_seconds.inc(underrun_ms / 1000.0)
        now_ms = asyncio.get_running_loop().time() * 1000.0
        leads = (call.pulse.lead_ms(now_ms) for call in calls)
        return _Look(
            made_ms, making_ms, underrun_ms, tuple(lead for lead in leads if lead is not None)
        )

    # --- telling ----------------------------------------------------------------------------

    def _show(self, signs: Signs) -> None:
        metrics = self._house.metrics
        metrics.tts_rtf.set(signs.tts_rtf or 0.0)
        for lead_ms in self._recent.looks[-1].leads_ms:
            metrics.playout_lead.observe(max(0.0, lead_ms / 1000.0))
        weights = {sign: weight for sign, weight, _ in signs.weighed(self._settings)}
        for sign in SIGNS:
            metrics.signs.labels(sign).set(weights.get(sign, 0.0))

    def _change(self, before: Strain, strain: Strain, signs: Signs) -> None:
        house = self._house
        house.strain = strain
        house.metrics.strain.set(strain)
        house.metrics.strain_steps.labels(_named(strain)).inc()
        logger.info("strain: %s, after %s: %s", *map(_named, (strain, before)), self._why(signs))
        if strain >= Strain.NO_FILES:
            house.files_may_run.clear()
        else:
            house.files_may_run.set()
        house.reception.settle()

    def _why(self, signs: Signs) -> str:
        weighed = [each for each in signs.weighed(self._settings) if each[1] >= 1.0]
        if not weighed:
            return "all signs are calm" if signs.calls else "nobody is in"
        sign = max(weighed, key=lambda each: each[1])[0]
        value, (_, limit) = getattr(signs, sign), self._settings.limits(sign)
        return f"{sign} is {value:.3g}, and the house is strained from {limit:g} on"


def _named(strain: Strain) -> str:
    return strain.name.lower().replace("_", " ")


def _at(share: float, values: deque[float] | list[float]) -> float | None:
    """The value below which so many lie; None where there are none."""
    if not values:
        return None
    return sorted(values)[int(share * (len(values) - 1))]
