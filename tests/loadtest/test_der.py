"""The diarization error rate, by hand and against pyannote.metrics."""

import random

import pytest

from engines.diarization.turns import SpeakerTurn
from loadtest.der import Der, diarization_error, turns_of_rttm


def test_no_error_whatever_the_speakers_are_called():
    truth = [SpeakerTurn("ann", 0, 1000), SpeakerTurn("bob", 1000, 3000)]
    found = [SpeakerTurn("2", 0, 1000), SpeakerTurn("1", 1000, 3000)]
    assert diarization_error(truth, found) == Der(0, 0, 0, 3000)


def test_each_kind_of_error_is_counted_in_time():
    truth = [SpeakerTurn("ann", 0, 1000), SpeakerTurn("bob", 1000, 2000)]
    found = [
        SpeakerTurn("1", 200, 1000),  # 200 ms missed
        SpeakerTurn("2", 1000, 1500),
        SpeakerTurn("1", 1500, 2000),  # 500 ms confused
        SpeakerTurn("2", 2000, 2300),  # 300 ms of nobody
    ]
    error = diarization_error(truth, found)
    assert error == Der(missed=200, false_alarm=300, confused=500, speech=2000)
    assert error.rate == 0.5


def test_where_two_speak_both_count():
    truth = [SpeakerTurn("ann", 0, 1000), SpeakerTurn("bob", 500, 1000)]
    assert diarization_error(truth, [SpeakerTurn("1", 0, 1000)]) == Der(500, 0, 0, 1500)


def test_a_collar_leaves_out_what_is_near_a_border_of_the_truth():
    truth = [SpeakerTurn("ann", 1000, 2000)]
    found = [SpeakerTurn("1", 900, 2100)]
    assert diarization_error(truth, found).false_alarm == 200
    assert diarization_error(truth, found, collar_ms=100) == Der(0, 0, 0, 800)


@pytest.mark.parametrize("found", [[], [SpeakerTurn("1", 0, 10)]])
def test_silence_has_a_rate_too(found):
    assert diarization_error([], found).rate == (10 if found else 0)


def test_more_speakers_than_there_are_are_matched_as_well_as_can_be():
    truth = [SpeakerTurn("ann", 0, 1000)]
    found = [SpeakerTurn("1", 0, 300), SpeakerTurn("2", 300, 1000)]
    assert diarization_error(truth, found) == Der(0, 0, 300, 1000)
    assert diarization_error(found, truth) == Der(0, 0, 300, 1000)


def test_rttm_is_read_in_ms_and_other_lines_are_let_be():
    lines = ["SPEAKER x 1 6.690 0.430 <NA> <NA> ann <NA> <NA>", "NON-SPEECH x 1 0 1 <NA>", ""]
    assert turns_of_rttm(lines) == [SpeakerTurn("ann", 6690, 7120)]


def made_up(chance: random.Random, speakers: int) -> list[SpeakerTurn]:
    """Turns whose borders are whole hundredths of seconds, each speaker's apart from each other."""
    turns = []
    for speaker in range(speakers):
        at = 0
        for _ in range(chance.randrange(1, 6)):
            start = at + 10 * chance.randrange(1, 200)
            at = start + 10 * chance.randrange(1, 300)
            turns.append(SpeakerTurn(str(speaker), start, at))
    return turns


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_pyannote_metrics_counts(seed):
    core = pytest.importorskip("pyannote.core")
    metrics = pytest.importorskip("pyannote.metrics.diarization")
    chance = random.Random(seed)
    truth, found = made_up(chance, chance.randrange(1, 5)), made_up(chance, chance.randrange(1, 5))

    def annotation(turns):
        made = core.Annotation()
        for number, turn in enumerate(turns):
            made[core.Segment(turn.start_ms / 1000, turn.end_ms / 1000), number] = turn.speaker
        return made

    extent = core.Timeline([core.Segment(0, 30)])
    theirs = metrics.DiarizationErrorRate()(annotation(truth), annotation(found), uem=extent)
    assert diarization_error(truth, found).rate == pytest.approx(theirs, abs=1e-6)
