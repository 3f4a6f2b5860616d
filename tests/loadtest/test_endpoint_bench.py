import numpy as np
import pytest

from loadtest.endpoint_bench import Policy, Score, policies, stops, table
from loadtest.paused_speech import PAUSES_MS, Opinion, Turn
from loadtest.speech import RATE
from pipelines.conversation.endpoint import WINDOW_MS
from pipelines.conversation.patience import PROFILES

LOUD, QUIET = (1.0, -20.0), (0.0, -90.0)
TOLD_AFTER = 5  # windows of silence: ahead_ms of the endpointer


def turn(pause: int, opinion: Opinion, *, whole: bool = False) -> Turn:
    """A second of speech, a pause of so many windows, another second, and then silence."""
    said = [LOUD] * 30
    windows = [*said, *[QUIET] * pause, *said, *[QUIET] * 100]
    begins = 30 * WINDOW_MS * RATE // 1000
    pauses = () if whole else (range(begins, begins + pause * WINDOW_MS * RATE // 1000),)
    made = Turn("made", np.zeros(0, np.int16), (60 + pause) * WINDOW_MS * RATE // 1000, pauses)
    made.windows = windows
    made.opinions = {30 + TOLD_AFTER - 1: opinion}
    return made


UNFINISHED = Opinion("and", words=-1.0, probability=0.0, words_ms=70)


def test_a_fixed_silence_cuts_the_pauses_that_are_longer():
    assert len(stops(turn(20, UNFINISHED), Policy("fixed", fixed_ms=500))) == 2
    assert len(stops(turn(20, UNFINISHED), Policy("fixed", fixed_ms=700))) == 1


def test_words_that_lean_on_more_hold_the_turn_open():
    pause = turn(40, UNFINISHED)
    assert len(stops(pause, Policy("known", words=True))) == 1
    assert len(stops(pause, Policy("unknown"))) == 2


def test_a_finished_turn_is_waited_for_no_longer_than_the_evidence_takes():
    finished = Opinion("yes", words=0.7, probability=1.0, words_ms=70)
    (first, _) = stops(turn(40, finished), Policy("both", words=True, sound=True))
    assert first == pytest.approx(30 * WINDOW_MS + PROFILES["normal"].floor_ms, abs=WINDOW_MS)
    late = Opinion("yes", words=1.0, probability=0.0, words_ms=10_000)
    (first, _) = stops(turn(40, late), Policy("late", words=True))
    assert first == pytest.approx(30 * WINDOW_MS + PROFILES["normal"].base_ms, abs=WINDOW_MS)


def test_the_score_counts_cuts_by_pause_and_waits_by_real_end():
    score = Score()
    pause = Turn("paused", np.zeros(0, np.int16), 0, (range(16_000, 16_000 + RATE),))
    score.add(pause, [1500, 4000])
    score.add(pause, [2100, 4000])
    whole = Turn("whole", np.zeros(0, np.int16), 2 * RATE)
    score.add(whole, [900, 2480])
    assert score.cuts == {600: [], 1000: [True, False], 1500: []}
    assert (score.early, score.waits_ms) == (1, [480.0])


def test_the_table_has_a_row_for_each_policy():
    turns = [turn(ms // WINDOW_MS, UNFINISHED) for ms in PAUSES_MS]
    for made, ms in zip(turns, PAUSES_MS, strict=True):
        begins = made.pauses[0].start
        made.pauses = (range(begins, begins + ms * RATE // 1000),)
    turns.append(turn(10, UNFINISHED, whole=True))
    compared = policies("normal", (500, 1_000))
    printed = table("made", turns, compared)
    assert "1 pauses of each length taken for the end, 1 real ends" in printed
    assert [policy.name for policy in compared if policy.name in printed] == [
        "VAD alone, 500 ms",
        "VAD alone, 1000 ms",
        "VAD + words",
        "VAD + sound",
        "VAD + words + sound",
    ]
