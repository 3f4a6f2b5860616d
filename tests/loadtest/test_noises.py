import numpy as np
import pytest

from engines.asr.guard import RATHER_EVEN_DB, Sound
from engines.audio import Pcm
from loadtest.noises import at_level, noises
from loadtest.speech import RATE, Recording

SECONDS = 6


@pytest.fixture(scope="module")
def clips() -> list[Recording]:
    """Bursts in place of words."""
    rng = np.random.default_rng(4)
    swell = np.repeat(rng.choice([0.0, 0.02, 0.3], 40), RATE // 10)
    return [
        Recording(f"{number}", Pcm.from_floats(swell * rng.standard_normal(4 * RATE), RATE), "")
        for number in range(4)
    ]


def test_each_noise_is_as_long_and_as_loud_as_asked(clips):
    made = noises(SECONDS, clips)
    assert list(made) == ["white noise", "hum", "music", "babble"]
    for sound in made.values():
        pcm = at_level(sound, -20)
        assert (len(pcm), pcm.rate) == (SECONDS * RATE, RATE)
        assert 20 * np.log10(np.sqrt(np.mean(pcm.floats() ** 2))) == pytest.approx(-20, abs=0.3)


def test_babble_fills_the_gaps_of_each_voice(clips):
    alone = Sound.of(clips[0].pcm.floats(), RATE)
    together = Sound.of(at_level(noises(SECONDS, clips)["babble"], -20).floats(), RATE)
    assert together.contrast_db < RATHER_EVEN_DB < alone.contrast_db


def test_hum_is_that_of_both_mains(clips):
    hum = noises(SECONDS, clips)["hum"]
    for half, hertz in zip(np.split(hum, 2), (50, 60), strict=True):
        spectrum = np.abs(np.fft.rfft(half))
        assert np.argmax(spectrum) * RATE / len(half) == pytest.approx(hertz, abs=1)
