from collections import Counter

import msgspec
import pytest

from loadtest.habits import Character, Habits, Network, is_silent


def test_the_same_seed_makes_the_same_caller():
    habits = Habits(barge_ins=0.3, hang_ups=0.2, pauses=0.5)
    one, other = (Character(habits, 5, "7 3") for _ in range(2))
    assert [one.next() for _ in range(20)] == [other.next() for _ in range(20)]
    assert one.redial_s() == other.redial_s()


def test_shares_are_kept():
    habits = Habits(barge_ins=0.2, backchannels=0.3, hang_ups=0.1, pauses=0.4)
    character = Character(habits, 5, "1")
    intents = [character.next() for _ in range(4_000)]
    kinds = Counter(intent.then for intent in intents)
    assert kinds["barge_in"] / 4_000 == pytest.approx(0.2, abs=0.03)
    assert kinds["backchannel"] / 4_000 == pytest.approx(0.3, abs=0.03)
    assert sum(i.hang_up is not None for i in intents) / 4_000 == pytest.approx(0.1, abs=0.03)
    pauses = [i.pause_ms for i in intents if i.pause_ms]
    assert len(pauses) / 4_000 == pytest.approx(0.4, abs=0.03)
    assert habits.pause_ms[0] <= min(pauses) <= max(pauses) <= habits.pause_ms[1]


def test_every_recording_has_its_turn():
    character = Character(Habits(), 5, "1")
    assert sorted(character.next().clip for _ in range(5)) == [0, 1, 2, 3, 4]


def test_a_perfect_line_delays_nothing():
    network = Network(Habits(), "1")
    assert network.perfect
    assert network.arrival(3.0) == 3.0


def test_jitter_keeps_frames_in_order():
    network = Network(Habits(jitter_ms=100.0), "1")
    sent = [index * 0.02 for index in range(500)]
    arrivals = [network.arrival(at) for at in sent]
    assert arrivals == sorted(arrivals)
    delays = [arrival - at for arrival, at in zip(arrivals, sent, strict=True)]
    assert 0.05 < max(delays) <= 0.1
    assert min(delays) >= 0


def test_frames_are_lost_as_often_as_was_asked():
    network = Network(Habits(loss=0.1), "1")
    lost = sum(network.arrival(index * 0.02) is None for index in range(2_000))
    assert lost / 2_000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(("share", "silent"), [(0.0, 0), (0.25, 16), (0.5, 32), (1.0, 64)])
def test_silent_callers_are_spread_evenly(share, silent):
    assert sum(is_silent(number, share) for number in range(64)) == silent
    halves = [sum(is_silent(n, share) for n in part) for part in (range(32), range(32, 64))]
    assert halves[0] == halves[1]


@pytest.mark.parametrize("wrong", [{"barge_ins": 1.1}, {"loss": -0.1}, {"patience_s": 0}])
def test_a_plan_with_impossible_habits_is_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(wrong), type=Habits)
