from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.audio import Pcm
from engines.models import ModelStore
from engines.ports import Transcript
from loadtest.paused_speech import (
    NUMBERS,
    PAUSES_MS,
    Ears,
    dictations,
    falls_apart,
    gaps,
    paused,
    speech_end,
    whole,
)
from loadtest.speech import RATE, Recording


def tones(*seconds: float) -> np.ndarray:
    """Tone and near silence by turns."""
    rng = np.random.default_rng(3)
    pieces = []
    for index, length in enumerate(seconds):
        time = np.arange(int(length * RATE)) / RATE
        level = 0.4 if index % 2 == 0 else 0.0
        pieces.append(
            level * np.sin(2 * np.pi * 200 * time) + 0.0005 * rng.standard_normal(len(time))
        )
    return Pcm.from_floats(np.concatenate(pieces), RATE).samples


CLIP = Recording("tones.wav", Pcm(tones(0.5, 0.1, 0.5, 0.2), RATE), "go forward")


def test_a_gap_lies_in_the_middle_of_what_is_quiet():
    assert list(gaps(CLIP.pcm.samples)) == [pytest.approx(0.55 * RATE, abs=0.011 * RATE)]


def test_speech_ends_with_its_last_sound():
    assert speech_end(CLIP.pcm.samples) == pytest.approx(1.1 * RATE, abs=0.011 * RATE)


def test_a_whole_turn_ends_where_its_speech_does():
    turn = whole(CLIP)
    assert turn.pauses == ()
    assert np.abs(turn.samples[turn.end - 400 : turn.end]).max() > 10_000
    assert np.abs(turn.samples[turn.end + 160 :]).max() < 200


@pytest.mark.parametrize("pause_ms", PAUSES_MS)
def test_a_pause_is_as_long_as_asked_and_sounds_like_the_room(pause_ms):
    turn = paused(CLIP, 8800, pause_ms)
    (pause,) = turn.pauses
    assert len(pause) == pause_ms * RATE // 1000
    room = turn.samples[pause.start : pause.stop].astype(float)
    assert 5 < room.std() < 40
    assert turn.end == whole(CLIP).end + len(pause)


def test_turns_are_alike_up_to_their_pause():
    short, long = (paused(CLIP, 8800, ms) for ms in (600, 1_500))
    until = short.pauses[0].stop
    np.testing.assert_array_equal(short.samples[:until], long.samples[:until])


@pytest.mark.parametrize(
    ("first", "rest", "apart"),
    [
        ("Go.", "Forward.", True),
        ("Gone", "Forward", False),
        ("Go", "Four word", False),
        ("", "Go forward", False),
    ],
)
def test_a_cut_is_between_words_only_if_both_parts_are_whole(first, rest, apart):
    assert falls_apart(first, rest, "go forward") == apart


class Answering:
    """An engine that gives the same answer and counts what it was asked."""

    def __init__(self, answer) -> None:
        self.answer, self.asked = answer, []

    @asynccontextmanager
    async def open(self, request):
        self.asked.append(request)

        async def answers():
            yield self.answer

        yield answers()


async def test_each_pause_is_judged_once_however_long(vad):
    asr, turns = Answering(Transcript("go and")), Answering(0.25)
    ears = Ears(asr, turns, vad)
    heard = [await ears.hear(paused(CLIP, 8800, ms), "normal") for ms in (600, 1_500)]
    for turn in heard:
        opinions = list(turn.opinions.values())
        assert len(opinions) == 2  # in the pause and at the end
        assert (opinions[0].text, opinions[0].words, opinions[0].probability) == (
            "go and",
            -1,
            0.25,
        )
        assert len(turn.windows) == len(turn.samples) // 512
    assert len(asr.asked) == len(turns.asked) == 3
    assert not vad.slots


async def test_a_gap_counts_only_where_the_recogniser_confirms_it(vad):
    ears = Ears(Answering(Transcript("forward")), Answering(0.5), vad)
    assert await ears.word_gaps(CLIP) == []


@pytest.mark.engine
async def test_the_real_models_hear_a_pause_for_what_it_is(tmp_path):
    async with Ears.open(ModelStore()) as ears:
        turns = await dictations()
        first = await ears.hear(turns[0], "digits")
    assert len(turns) == len(NUMBERS) * (len(PAUSES_MS) + 1)
    opinions = list(first.opinions.values())
    assert opinions[0].words < 0 < opinions[-1].words
