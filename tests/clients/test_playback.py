"""The virtual playback buffer: what was heard, when, and what an interruption cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.playback import RATE, Gap, Player
from voice.wire.realtime_client import ConversationItemTruncateEvent
from voice.wire.realtime_server import ResponseAudioDeltaEvent


def delta(ms: int, item: str = "a", value: int = 1, part: int = 0) -> ResponseAudioDeltaEvent:
    samples = np.full(RATE * ms // 1000, value, "<i2")
    return ResponseAudioDeltaEvent("resp", item, 0, part, samples.tobytes())


def test_nothing_plays_at_first() -> None:
    player = Player()
    assert not player.playing(0.0)
    assert player.interrupt(0.0) is None
    assert player.heard_ms("a", 9.0) == 0


def test_audio_that_comes_fast_is_heard_in_real_time() -> None:
    player = Player()
    player.put(delta(100), 1.0)
    player.put(delta(100), 1.01)
    assert player.heard_ms("a", 1.05) == 50
    assert player.heard_ms("a", 1.15) == 150
    assert player.playing(1.19)
    assert not player.playing(1.21)
    assert player.heard_ms("a", 5.0) == 200
    assert player.gaps == []


def test_late_audio_leaves_a_gap() -> None:
    player = Player()
    player.put(delta(100), 1.0)
    player.put(delta(100), 1.3)
    assert player.gaps == [Gap(pytest.approx(1.1), pytest.approx(0.2))]
    assert player.heard_ms("a", 1.35) == 150


def test_silence_between_replies_is_no_gap() -> None:
    player = Player()
    player.put(delta(100, "a"), 1.0)
    player.put(delta(100, "b"), 3.0)
    assert player.gaps == []


def test_an_interruption_names_what_was_heard() -> None:
    player = Player()
    player.put(delta(100), 1.0)
    player.put(delta(400), 1.0)
    assert player.interrupt(1.3) == ConversationItemTruncateEvent("a", 0, 300)
    assert not player.playing(1.3)
    assert player.heard_ms("a", 9.0) == 300


def test_an_interruption_cuts_the_part_that_is_playing() -> None:
    player = Player()
    player.put(delta(100, "a"), 1.0)
    player.put(delta(100, "b", part=1), 1.0)
    player.put(delta(100, "c"), 1.0)
    assert player.interrupt(1.15) == ConversationItemTruncateEvent("b", 1, 50)
    assert player.heard_ms("a", 9.0) == 100
    assert player.heard_ms("c", 9.0) == 0


def test_a_reply_after_an_interruption_plays_at_once() -> None:
    player = Player()
    player.put(delta(1000, "a"), 1.0)
    player.interrupt(1.5)
    player.put(delta(100, "b"), 2.0)
    assert player.heard_ms("b", 2.05) == 50


def test_a_recording_holds_what_was_heard_and_when() -> None:
    player = Player()
    player.put(delta(100, "a", 1), 1.0)
    player.put(delta(300, "b", 2), 1.2)
    player.interrupt(1.3)
    track = player.recording(0.9, 1.5)
    assert len(track) == RATE * 6 // 10
    tenths = [set(piece.tolist()) for piece in track.reshape(6, -1)]
    assert tenths == [{0}, {1}, {0}, {2}, {0}, {0}]


def test_a_recording_is_cut_at_its_ends() -> None:
    player = Player()
    player.put(delta(1000), 1.0)
    assert len(player.recording(1.2, 1.4)) == RATE // 5
    assert player.recording(1.2, 1.4).all()
    assert not player.recording(5.0, 5.1).any()


def test_what_is_forgotten_still_plays_to_its_end() -> None:
    player = Player()
    player.put(delta(100), 1.0)
    player.forget()
    assert player.playing(1.05)
    assert not player.recording(1.0, 1.1).any()


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=20),
    st.integers(0, 4000),
)
def test_nobody_hears_more_than_was_sent_or_than_time_allows(
    arrivals: list[tuple[int, int]], stop_ms: int
) -> None:
    player = Player()
    now = 0
    queued = 0
    for wait_ms, length_ms in arrivals:
        now += wait_ms
        player.put(delta(length_ms), now / 1000)
        queued += length_ms
    stop = max(now, stop_ms)
    event = player.interrupt(stop / 1000)
    heard = player.heard_ms("a", 1e6)
    assert heard <= min(queued, stop) + 1
    assert event is None or event.audio_end_ms == heard
    if event is None:
        assert heard == queued
