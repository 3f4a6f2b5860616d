"""The agent's own voice come back is told from a caller's."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.audio import Pcm
from engines.models import ModelStore
from loadtest import echo_bench
from loadtest.speech import recordings
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.endpoint import WINDOW_MS

RATE = 16_000
WINDOW = 512
START_MS = 10_000.0

Signal = NDArray[np.floating]


def voice(seed: int, seconds: float, rate: int = RATE) -> Signal:
    """Like speech for our purposes: a gliding pitch, syllables, resonances that move."""
    random = np.random.default_rng(seed)
    count = int(seconds * 5) + 2
    times = np.arange(int(seconds * rate)) / rate

    def drawn(low: float, high: float) -> Signal:
        points = random.uniform(low, high, count)
        return np.interp(times * 5, np.arange(count), points)

    phase = 2 * np.pi * np.cumsum(drawn(90, 260)) / rate
    formants = [drawn(300, 900), drawn(900, 2_200), drawn(2_200, 3_200)]
    sound = np.zeros(len(times))
    for harmonic in range(1, 30):
        hertz = harmonic * np.gradient(phase) * rate / (2 * np.pi)
        shape = sum(1 / (1 + ((hertz - formant) / 120) ** 2) for formant in formants)
        sound += np.where(hertz < 3_400, shape * np.sin(harmonic * phase), 0)
    syllables = np.clip(np.sin(2 * np.pi * np.cumsum(drawn(2, 5)) / rate), 0.02, 1)
    sound = sound * syllables + 0.02 * syllables * random.normal(size=len(times))
    return 0.1 * sound / np.sqrt(np.mean(sound**2))


def delayed(sound: Signal, delay_ms: float, gain: float = 0.25) -> Signal:
    return np.concatenate([np.zeros(round(delay_ms * RATE / 1000)), gain * sound])


def added(*sounds: Signal) -> Signal:
    total = np.zeros(max(map(len, sounds)))
    for sound in sounds:
        total[: len(sound)] += sound
    return total


@dataclass
class Listener:
    """Hears a microphone window by window from START_MS on."""

    guard: EchoGuard = field(default_factory=EchoGuard)
    now: float = START_MS

    def play(self, sound: Signal, rate: int = RATE, *, at_ms: float = START_MS) -> None:
        samples = Pcm.from_floats(sound, rate).samples
        chunk = rate // 50
        for start in range(0, len(samples), chunk):
            piece = Pcm(samples[start : start + chunk], rate)
            self.guard.sounded(piece, at_ms + 1000 * start / rate)

    def hear(self, sound: Signal) -> list[float]:
        return [self.take(window) for window in windows(sound)]

    def take(self, window: NDArray[np.int16], *, suspect: bool = True) -> float:
        self.now += WINDOW_MS
        return self.guard.share(window, self.now, suspect=suspect)


def windows(sound: Signal) -> Iterator[NDArray[np.int16]]:
    noise = np.random.default_rng(0).normal(size=len(sound)) * 1e-4
    samples = Pcm.from_floats(sound + noise, RATE).samples
    for start in range(0, len(samples) - WINDOW + 1, WINDOW):
        yield samples[start : start + WINDOW]


@pytest.mark.parametrize("delay_ms", [0, 20, 57, 150, 333, 500, 600])
def test_echo_alone_is_known_for_echo_within_five_windows(delay_ms: int) -> None:
    listener = Listener()
    listener.play(voice(1, 3))
    shares = listener.hear(delayed(voice(1, 3), delay_ms))
    begins = delay_ms // WINDOW_MS
    assert min(shares[begins + 5 : 90]) > 0.5
    assert np.mean(shares[begins + 5 : 90]) > 0.95


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000, 44_100, 48_000])
def test_playback_of_any_rate_is_recognised(rate: int) -> None:
    listener = Listener()
    played = voice(2, 3, 48_000)
    listener.play(
        np.interp(np.arange(3 * rate) / rate, np.arange(len(played)) / 48_000, played), rate
    )
    shares = listener.hear(delayed(played[::3], 100))
    assert np.mean(shares[10:90]) > 0.9


@pytest.mark.parametrize("seed", range(6))
def test_a_caller_over_headphones_is_never_echo(seed: int) -> None:
    listener = Listener()
    listener.play(voice(3, 4))
    assert max(listener.hear(voice(100 + seed, 4))) < 0.5


def test_a_caller_where_nothing_plays_is_no_echo() -> None:
    assert max(Listener().hear(voice(5, 1))) == 0


@pytest.mark.parametrize("above_db", [0, 6, 12])
def test_a_caller_over_the_echo_is_heard_within_three_windows(above_db: int) -> None:
    listener = Listener()
    listener.play(voice(6, 4))
    echo = delayed(voice(6, 4), 120)
    caller = voice(7, 1.5) * 0.25 * 10 ** (above_db / 20)
    begins = 60
    shares = listener.hear(added(echo, np.concatenate([np.zeros(begins * WINDOW), caller])))
    assert min(shares[begins - 20 : begins]) > 0.5
    loud = next(i for i, w in enumerate(windows(caller)) if np.abs(w.astype(int)).max() > 300)
    assert min(shares[begins + loud : begins + loud + 3]) < 0.5
    assert sum(share < 0.5 for share in shares[begins : begins + 30]) > 20


def test_echo_is_echo_again_when_the_caller_stops() -> None:
    listener = Listener()
    listener.play(voice(8, 6))
    caller = np.concatenate([np.zeros(50 * WINDOW), voice(9, 1) * 0.5])
    shares = listener.hear(added(delayed(voice(8, 6), 90), caller))
    assert min(shares[95:180]) > 0.5


def test_the_next_reply_is_known_from_its_first_window_on() -> None:
    listener = Listener()
    listener.play(voice(10, 2))
    listener.hear(added(delayed(voice(10, 2), 100), np.zeros(3 * RATE)))
    second = listener.now
    listener.play(voice(11, 2), at_ms=second)
    shares = listener.hear(delayed(voice(11, 2), 100))
    assert min(shares[4:55]) > 0.5


@pytest.mark.parametrize("jump_ms", [-200, -30, 30, 100, 200])
def test_a_delay_that_jumps_is_found_again(jump_ms: int) -> None:
    listener = Listener()
    listener.play(voice(12, 6))
    echo = delayed(voice(12, 6), 300)
    middle = 3 * RATE
    jumped = np.concatenate([echo[:middle], echo[middle - jump_ms * RATE // 1000 :]])
    shares = listener.hear(jumped)
    at_jump = middle // WINDOW
    assert min(shares[15:at_jump]) > 0.5
    assert min(shares[at_jump + 12 : at_jump + 70]) > 0.5


def test_a_loudspeaker_turned_up_is_learned_again() -> None:
    listener = Listener()
    listener.play(voice(13, 8))
    echo = delayed(voice(13, 8), 100, gain=0.1)
    echo[4 * RATE :] *= 6
    shares = listener.hear(echo)
    assert np.mean(shares[4 * RATE // WINDOW + 20 : 240]) > 0.8


def test_windows_that_are_no_speech_are_kept_for_those_that_are() -> None:
    listener = Listener()
    listener.play(voice(14, 2))
    heard = list(windows(delayed(voice(14, 2), 60)))
    assert [listener.take(window, suspect=False) for window in heard[:8]] == [0.0] * 8
    shares = [listener.take(window) for window in heard[8:]]
    assert min(shares[3:50]) > 0.5
    for window in heard[:10]:
        listener.take(window, suspect=False)
    assert listener.take(heard[10]) <= 1


def test_windows_may_come_in_bursts() -> None:
    listener = Listener()
    listener.play(voice(15, 4))
    shares = []
    for n, window in enumerate(windows(delayed(voice(15, 4), 100))):
        at = START_MS + WINDOW_MS * 4 * (n // 4 + 1)
        shares.append(listener.guard.share(window, at))
    assert min(shares[16:120]) > 0.5


@pytest.mark.parametrize("held_up_ms", [200, 500, 900])
def test_windows_that_were_held_up_are_of_the_time_when_they_were_heard(held_up_ms: int) -> None:
    listener = Listener()
    listener.play(voice(15, 4))
    shares = []
    for n, window in enumerate(windows(delayed(voice(15, 4), 100))):
        due = START_MS + WINDOW_MS * (n + 1)
        stalls = START_MS + 2_000 <= due < START_MS + 2_000 + held_up_ms
        at = START_MS + 2_000 + held_up_ms if stalls else due
        shares.append(listener.guard.share(window, at))
    assert min(shares[16:120]) > 0.5


def test_a_gap_in_the_microphone_or_the_playback_costs_no_more_than_a_new_beginning() -> None:
    listener = Listener()
    first, second = voice(16, 2), voice(17, 3)
    listener.play(first)
    listener.play(second, at_ms=START_MS + 2_500)
    echo = added(delayed(first, 100), delayed(second, 2_600))
    heard = list(windows(echo))
    shares = []
    for n, window in enumerate(heard):
        listener.now = START_MS + WINDOW_MS * n
        if not 90 < n < 100:
            shares.append((n, listener.take(window)))
    assert min(share for n, share in shares if 108 < n < 165) > 0.5


def test_after_a_flush_what_was_not_heard_is_no_echo() -> None:
    listener = Listener()
    listener.play(voice(18, 6))
    echo = delayed(voice(18, 6), 100)
    listener.hear(echo[: 2 * RATE])
    listener.guard.flushed(listener.now)
    assert listener.guard.audible(listener.now + 400)
    assert not listener.guard.audible(listener.now + 600)
    listener.hear(np.zeros(RATE // 2))
    shares = listener.hear(echo[3 * RATE : 5 * RATE])
    assert sum(share < 0.5 for share in shares[:20]) >= 15


def test_audible_is_from_the_first_sample_to_half_a_second_after_the_last() -> None:
    guard = EchoGuard()
    assert not guard.audible(START_MS)
    guard.sounded(Pcm.silence(100, 24_000), START_MS)
    assert not guard.audible(START_MS - 1)
    assert guard.audible(START_MS)
    assert guard.audible(START_MS + 600)
    assert not guard.audible(START_MS + 601)


RATES = [6_000, 8_000, 24_000, 44_100]
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("sound"), st.sampled_from([6_000, 8_000, 24_000, 44_100]), st.integers(0, 3_000)
        ),
        st.tuples(st.just("flush"), st.integers(-200, 200), st.just(0)),
        st.tuples(st.just("hear"), st.integers(-100, 2_000), st.integers(0, 40)),
        st.tuples(st.just("wait"), st.integers(0, 5_000), st.just(0)),
    ),
    max_size=25,
)


@given(OPERATIONS)
@settings(max_examples=40)
def test_shares_are_shares_whatever_happens(operations: list[tuple[str, int, int]]) -> None:
    guard, now = EchoGuard(), START_MS
    random = np.random.default_rng(0)
    for what, one, other in operations:
        if what == "sound":
            samples = random.integers(-9_000, 9_000, other).astype(np.int16)
            guard.sounded(Pcm(samples, one), now + 40 * (other % 7) - 100)
        elif what == "flush":
            guard.flushed(now + one)
        elif what == "wait":
            now += one
        for _ in range(other if what == "hear" else 0):
            now += WINDOW_MS + one / 40
            window = random.integers(-9_000, 9_000, WINDOW).astype(np.int16)
            assert 0 <= guard.share(window, now, suspect=other % 5 != 0) <= 1
            guard.audible(now)


@pytest.mark.parametrize("sample", [0, 32_767, -32_768])
def test_digital_silence_and_full_scale_are_borne(sample: int) -> None:
    listener = Listener()
    listener.play(np.full(RATE, sample / 32_768))
    for _ in range(40):
        assert 0 <= listener.take(np.full(WINDOW, sample, np.int16)) <= 1


# --- real voices ----------------------------------------------------------------------------


@pytest.mark.engine
@pytest.mark.slow
def test_real_replies_do_not_interrupt_themselves_and_real_callers_interrupt_them() -> None:
    """A slice of ``python -m loadtest.echo_bench``, of every way, level and delay."""
    replies = asyncio.run(echo_bench.speak())
    speech = recordings(ModelStore().path("speech"))
    callers = [echo_bench.from_first_sound(recording.pcm.floats()) for recording in speech]
    some = [
        scene
        for scene in echo_bench.scenes()
        if (scene.caller is None and scene.reply == scene.seed // 14 % 8)
        or (scene.above_db >= 6 and scene.begins_ms >= 1_000)
    ]
    waits = []
    for take in echo_bench.heard(replies, callers, some):
        at = echo_bench.interrupted_at(take, replies[take.scene.reply], [])
        if take.scene.caller is None:
            assert at is None, take.scene
        else:
            assert at is not None, take.scene
            waits.append(at - take.scene.caller_ms)
    assert len(waits) == 108
    assert min(waits) > 0
    assert np.percentile(waits, 95) <= 300
