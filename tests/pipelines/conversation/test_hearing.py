"""The audio of the open turn: where it begins, where it ends and how much of it there may be."""

import numpy as np

from pipelines.conversation.hearing import Hearing


def hear(hearing: Hearing, *levels: int) -> None:
    for level in levels:
        hearing.add(np.full(512, level, np.int16))


def heard(hearing: Hearing) -> list[int]:
    """The level of each window that is kept."""
    pcm = hearing.audio()
    assert pcm.rate == 16_000
    assert len(pcm) == 512 * (hearing.duration_ms // 32)
    return pcm.samples[::512].tolist()


def test_between_turns_only_the_preroll_is_kept() -> None:
    hearing = Hearing(preroll_ms=70, most_ms=10_000)
    hear(hearing, *range(10))
    assert heard(hearing) == [7, 8, 9]  # three windows of 32 ms hold 70 ms


def test_a_turn_begins_with_its_preroll_and_loses_nothing() -> None:
    hearing = Hearing(preroll_ms=64, most_ms=10_000)
    hear(hearing, 1, 2, 3)
    hearing.open()
    hear(hearing, *range(4, 50))
    assert heard(hearing) == list(range(2, 50))


def test_nothing_of_a_turn_belongs_to_the_next() -> None:
    hearing = Hearing(preroll_ms=64, most_ms=10_000)
    hearing.open()
    hear(hearing, 1, 2, 3)
    hearing.close()
    assert heard(hearing) == []
    hear(hearing, 4, 5, 6)
    assert heard(hearing) == [5, 6]


def test_the_silence_after_a_turn_may_be_the_preroll_of_the_next() -> None:
    hearing = Hearing(preroll_ms=64, most_ms=10_000)
    hearing.open()
    hear(hearing, 1, 2, 3, 4, 5)
    hearing.close(quiet_ms=32)
    assert heard(hearing) == [5]
    hearing.open()
    hear(hearing, 6, 7, 8)
    hearing.close(quiet_ms=96)
    assert heard(hearing) == [7, 8], "no more than a pre-roll"


def test_a_turn_beyond_its_bound_keeps_its_beginning_and_says_so() -> None:
    hearing = Hearing(preroll_ms=0, most_ms=96)
    hearing.open()
    hear(hearing, 1, 2, 3)
    assert not hearing.overflowed
    hear(hearing, 4)
    assert hearing.overflowed
    assert heard(hearing) == [1, 2, 3]
    hearing.close()
    assert not hearing.overflowed


def test_where_nobody_detects_turns_all_is_kept_from_one_to_the_next() -> None:
    hearing = Hearing(preroll_ms=32, most_ms=10_000)
    hearing.configure(32, 10_000, keep_all=True)
    hear(hearing, 1, 2, 3)
    assert heard(hearing) == [1, 2, 3]
    hearing.close()
    hear(hearing, 4, 5, 6)
    assert heard(hearing) == [4, 5, 6]
    hearing.configure(32, 10_000, keep_all=False)
    hear(hearing, 7)
    assert heard(hearing) == [7]
