"""The measures of the narration benchmark, on sound whose answers are known."""

import numpy as np
import pytest

from engines.models import ModelStore
from loadtest.narration_bench import (
    TEXT,
    Narrated,
    compared,
    differences,
    heard,
    narrated,
    silences,
    steps,
)
from pipelines.narration.blocks import blocks
from pipelines.narration.chapters import chapters
from pipelines.narration.pieces import Narration, Piece

RATE = 24_000


def tone(milliseconds: int) -> np.ndarray:
    time = np.arange(milliseconds * RATE // 1000) / RATE
    return np.rint(8_000 * np.sin(2 * np.pi * 400 * time)).astype(np.int16)


def made(*samples: np.ndarray, joins: list[int]) -> Narrated:
    said = [Piece("One.", 0, 0, 4), Piece("Two.", 300, 0, 8)]
    return Narrated(np.concatenate(samples), RATE, said, joins, 1.0)


def test_silences_are_measured_where_pieces_join() -> None:
    quiet = np.zeros(310 * RATE // 1000, np.int16)
    found = silences(made(tone(500), quiet, tone(500), joins=[12_000, 31_440]))
    assert (found.longest, found.longest_after, found.off) == (310.0, "One.", [10.0])


def test_a_click_at_a_join_stands_out() -> None:
    at_joins, inside, usual = steps(made(tone(500), tone(500), joins=[12_000, 24_000]))
    assert at_joins <= inside * 1.01
    clicked = made(tone(500), np.full(1, 9_000, np.int16), tone(500), joins=[12_000, 24_001])
    assert steps(clicked)[0] > 5 * inside > usual


def test_differences_are_told_with_the_word_before() -> None:
    assert differences(["a", "b", "c", "d"], ["a", "x", "c"]) == ["a [b -> x]", "c [d -> ]"]


def test_both_sides_are_compared_as_they_are_spoken() -> None:
    there = made(tone(10), joins=[240, 240])
    assert compared(there, "1, 2!")[0].errors == 0
    errors, places = compared(there, "One, too.")
    assert (errors.errors, errors.words, places) == (1, 2, ["one [two -> too]"])


def test_the_text_is_of_some_ten_minutes_and_of_chapters() -> None:
    text = TEXT.read_text("utf-8")
    assert 2_000 < len(text.split()) < 2_300
    assert len(chapters(blocks(text))) == 6


@pytest.mark.engine
async def test_a_chapter_read_aloud_is_heard_again() -> None:
    models = ModelStore()
    chapter = (
        "It was a thin letter. Inside there was a single sheet of paper.\n\nThe boat was dark."
    )
    sound = await narrated(chapter, Narration(), 4, models)
    assert np.abs(silences(sound).off).max() <= 5
    assert silences(sound).longest == 800
    at_joins, inside, _ = steps(sound)
    assert at_joins < inside / 2
    errors, places = compared(sound, await heard(sound.samples, sound.rate, models))
    assert errors.rate <= 0.06, places
