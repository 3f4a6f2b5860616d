"""The file that is heard, and what is told of it."""

import numpy as np

from engines.audio import Pcm
from loadtest.speech import Recording
from loadtest.transcription_bench import Run, _row, joined

CLIPS = [
    Recording(name, Pcm(np.full(16_000, level, np.int16), 16_000), words)
    for name, level, words in (("a", 1_000, "one"), ("b", 2_000, "two three"))
]


def test_clips_are_joined_with_silences_to_at_least_so_long() -> None:
    samples, said = joined(CLIPS, 30, seed=1)
    again, _ = joined(CLIPS, 30, seed=1)
    assert np.array_equal(samples, again)
    assert 30 <= len(samples) / 16_000 < 35
    spoken = (samples == 1_000).sum() + 2 * (samples == 2_000).sum()
    assert spoken // 16_000 == len(said.split())
    assert np.abs(samples[np.abs(samples) < 900]).mean() < 60


def test_a_row_tells_the_speed_the_errors_and_the_memory() -> None:
    row = _row(
        "antiphon", 5, Run(10.0, 18.0, 350.2, "one two", (200.0, 220.0, 400.0)), 600.0, "one"
    )
    assert row.split() == ["antiphon", "5", "10.0", "60.0x", "18.0", "100.00", "350", "220/382/400"]
    assert _row("a", 1, Run(1.0, 1.0, 1.0, "one"), 6.0, "one").split()[-2:] == ["0.00", "1"]
