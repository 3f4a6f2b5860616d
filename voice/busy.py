"""What a phone is told that cannot be put through: a status, or a tone where it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.audio import Pcm
from voice.admission import Reason, Refusal

HERTZ: Final = 425.0
ON_S: Final = 0.5
"""ITU-T E.180: one tone of 425 Hz, as long on as off, is the busy tone of most countries."""

_LEVEL: Final = 0.22
"""-10 dBm0, where a full-scale sine is +3.14: the middle of what E.180 allows."""
_EDGE_S: Final = 0.005
"""Rises and falls, so that nothing clicks."""

BUSY_HERE: Final = 486
SERVICE_UNAVAILABLE: Final = 503


@dataclass(frozen=True, slots=True)
class PhoneRefusal:
    """``sip_status``: where the call is not answered yet, as SIP has it (RFC 3261); 486 is a
    carrier's "busy", 503 lets it try another server at once. ``tone``: where it is answered
    already, to be played before hanging up."""

    sip_status: int
    tone: Pcm


def refuse_phone(refusal: Refusal, rate: int) -> PhoneRefusal:
    """What to do with a phone call that admission has refused; the tone at ``rate`` Hz."""
    elsewhere = refusal.reason in (Reason.CLOSING, Reason.OVERLOADED)
    return PhoneRefusal(SERVICE_UNAVAILABLE if elsewhere else BUSY_HERE, busy_tone(rate))


def busy_tone(rate: int, periods: int = 4) -> Pcm:
    """So many seconds of the busy tone at ``rate`` Hz, silent in each second half."""
    on = np.arange(round(ON_S * rate))
    edge = np.minimum(1.0, np.minimum(on, on[::-1]) / (_EDGE_S * rate))
    sound = _LEVEL * edge * np.sin(2 * np.pi * HERTZ / rate * on)
    period = np.concatenate([sound, np.zeros(len(on))])
    return Pcm.from_floats(np.tile(period, periods), rate)
