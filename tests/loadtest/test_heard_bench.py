"""The measure of what was heard, on speech whose words end where the test says."""

from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.audio import Mark, Pcm
from engines.ports import Transcript
from loadtest import heard_bench as bench

TEXT = "One, two three."
MARKS = (Mark(3, 100), Mark(8, 700), Mark(14, 900))
SPOKEN = bench.Spoken(TEXT, Pcm(np.zeros(24_000, np.int16), 24_000, MARKS))


class Listener:
    """Understands a word as soon as it has ended, and mistakes the last."""

    def __init__(self):
        self.heard_ms = []

    @asynccontextmanager
    async def open(self, request):
        self.heard_ms.append(request.pcm.duration_ms - bench.TAIL_MS)
        yield self.hear(self.heard_ms[-1])

    async def hear(self, at_ms):
        words = ["One", "Two", "tree"]
        ended = sum(mark.at_ms <= at_ms for mark in MARKS)
        yield Transcript(" ".join(words[:ended]))


def test_marks_are_taken_at_their_word():
    assert bench.ends_ms(SPOKEN, bench.by_marks) == [100, 700, 900]


def test_letters_know_nothing_of_pauses():
    letters = bench.ends_ms(SPOKEN, bench.by_letters)
    pauses = bench.ends_ms(SPOKEN, bench.by_pauses)
    assert letters == sorted(letters)
    assert letters[-1] == 1_000
    assert letters[0] > 2 * pauses[0]


async def test_a_listener_understands_a_word_with_those_before_it():
    listener = Listener()
    assert await bench.understood_ms(listener, SPOKEN, 50) == [100, 700, None]
    assert listener.heard_ms == [*range(50, 1_001, 50)]


@pytest.mark.engine
async def test_the_voices_own_marks_are_nearest(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SENTENCES", bench.SENTENCES[3:4])
    await bench.main(150)
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows] == list(bench.WAYS)
    beside = [float(row.partition("beside that")[2].split()[0]) for row in rows]
    assert beside[2] < beside[0]
