"""The busy tone of phone legs, and what is said to a carrier."""

import numpy as np
import pytest

from voice.admission import Reason, Refusal
from voice.busy import busy_tone, refuse_phone


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100])
def test_it_sounds_for_half_a_second_and_is_silent_for_as_long(rate: int) -> None:
    tone = busy_tone(rate, periods=2)
    assert (tone.rate, len(tone.samples)) == (rate, 2 * 2 * round(rate / 2))
    halves = np.split(tone.floats(), 4)
    assert [bool(half.any()) for half in halves] == [True, False, True, False]
    spectrum = np.abs(np.fft.rfft(halves[0] * np.hanning(len(halves[0]))))
    assert abs(spectrum.argmax() * rate / len(halves[0]) - 425) < 2


def test_it_is_as_loud_as_networks_make_it_and_does_not_click() -> None:
    samples = busy_tone(8_000).floats()
    level = 20 * np.log10(np.sqrt(np.mean(samples[400:3_600] ** 2)) * np.sqrt(2)) + 3.14
    assert -15 < level < -5  # dBm0, by E.180
    steps = np.abs(np.diff(samples))
    assert steps.max() <= 0.22 * 2 * np.pi * 425 / 8_000 + 1e-3
    assert abs(samples[0]) == abs(samples[3_999]) == 0


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.SERVER_FULL, 486),
        (Reason.SHARE_FULL, 486),
        (Reason.TENANT_FULL, 486),
        (Reason.WAITED, 486),
        (Reason.OVERLOADED, 503),
        (Reason.CLOSING, 503),
    ],
)
def test_a_carrier_may_try_elsewhere_only_where_this_server_cannot(
    reason: Reason, status: int
) -> None:
    told = refuse_phone(Refusal(reason, 1, 5), 8_000)
    assert told.sip_status == status
    assert told.tone.rate == 8_000
    assert len(told.tone.samples) == 4 * 8_000
