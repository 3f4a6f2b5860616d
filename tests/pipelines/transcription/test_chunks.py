"""Where long sound is cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm
from pipelines.transcription.chunks import Chunk, Chunker, ChunkSettings

WINDOW = 512
MS = 32


def hear(levels: list[float], settings: ChunkSettings | None = None) -> list[Chunk]:
    """Windows of these levels in dB: from −40 on they are speech. Each holds its own number."""
    chunker, chunks = Chunker(settings), []
    for number, level in enumerate(levels):
        window = np.full(WINDOW, number % 30_000, np.int16)
        chunks.append(chunker.hear(window, 0.9 if level > -40 else 0.05, level))
    assert chunker.position_ms == len(levels) * MS
    return [chunk for chunk in [*chunks, chunker.finish()] if chunk is not None]


def speech(seconds: float) -> list[float]:
    return [-20.0] * round(seconds * 1000 / MS)


def silence(seconds: float) -> list[float]:
    return [-70.0] * round(seconds * 1000 / MS)


def test_silence_is_no_chunk() -> None:
    assert hear([]) == hear(silence(5)) == []


def test_one_chunk_has_its_pre_roll_and_no_more_silence_than_that() -> None:
    [chunk] = hear(silence(2) + speech(3) + silence(2))
    assert chunk.start_ms == pytest.approx(2_000 - 300, abs=2 * MS)
    assert chunk.pcm.duration_ms == pytest.approx(300 + 3_000 + 200, abs=4 * MS)
    assert chunk.speech_start_ms == pytest.approx(2_000, abs=2 * MS)
    assert chunk.speech_end_ms == pytest.approx(5_000, abs=2 * MS)
    assert chunk.pcm.samples[0] == chunk.start_ms // MS


def test_a_file_that_begins_and_ends_in_speech() -> None:
    [chunk] = hear(speech(2))
    assert (chunk.start_ms, chunk.pcm.duration_ms) == (0, len(speech(2)) * MS)


def test_a_pause_for_breath_is_no_cut_and_a_long_one_is() -> None:
    levels = speech(2) + silence(0.4) + speech(2) + silence(1) + speech(2)
    assert len(hear(levels)) == 2
    assert len(hear(levels, ChunkSettings(silence_ms=300))) == 3


def test_what_follows_a_chunk_has_nothing_of_it() -> None:
    first, second = hear(speech(2) + silence(0.7) + speech(2))
    assert second.start_ms >= first.speech_end_ms
    assert second.start_ms >= first.start_ms + first.pcm.duration_ms - 200


def test_the_longer_a_chunk_is_the_shorter_a_pause_ends_it() -> None:
    levels = speech(5) + silence(0.4) + speech(8) + silence(0.4) + speech(8)
    first, second = hear(levels)
    assert first.speech_end_ms == pytest.approx(13_400, abs=4 * MS)
    assert second.speech_start_ms == pytest.approx(13_800, abs=4 * MS)
    [whole] = hear(levels, ChunkSettings(good_ms=28_000))
    assert whole.pcm.duration_ms == len(levels) * MS


def numbers(chunk: Chunk) -> list[int]:
    return [int(number) for number in chunk.pcm.samples[::WINDOW]]


def test_speech_without_pauses_is_cut_between_two_words() -> None:
    levels = speech(60)
    for at_s in (20, 40):
        dip = round(at_s * 1_000 / MS)
        levels[dip : dip + 6] = [-42.0] * 6
    chunks = hear(levels, ChunkSettings(most_ms=25_000))
    assert [chunk.shared_ms for chunk in chunks] == [0, 0, 0]
    assert chunks[0].pcm.duration_ms == pytest.approx(20_000, abs=8 * MS)
    assert [number for chunk in chunks for number in numbers(chunk)] == list(range(len(levels)))


def test_where_no_place_is_quiet_both_chunks_have_the_second_around_it() -> None:
    chunks = hear(speech(100))
    assert [chunk.shared_ms for chunk in chunks] == [1_024] * (len(chunks) - 1) + [0]
    for chunk, after in pairwise(chunks):
        assert numbers(chunk)[-32:] == numbers(after)[:32]
        assert chunk.pcm.duration_ms <= 28_000
    assert {number for chunk in chunks for number in numbers(chunk)} == set(range(len(speech(100))))


def test_times_within_a_chunk_become_the_files_and_stay_in_its_speech() -> None:
    chunk = Chunk(Pcm.silence(3_000, 16_000), 10_000, 10_300, 12_800)
    assert chunk.span(500, 900) == (10_500, 10_900)
    assert chunk.span(0, 3_000) == (10_300, 12_800)
    assert chunk.span(2_900, 2_950) == (12_799, 12_800)
    assert chunk.span(700, 700) == (10_700, 10_701)
    assert chunk.span(2_900, 2_950, 0) == (12_800, 12_800)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 900)), max_size=12))
def test_chunks_are_in_order_short_and_hold_all_speech(runs: list[tuple[bool, int]]) -> None:
    levels = [-20.0 if loud else -70.0 for loud, count in runs for _ in range(count)]
    chunks = hear(levels)
    covered: set[int] = set()
    shared_ms = 0
    for chunk in chunks:
        own = numbers(chunk)
        assert own == list(range(chunk.start_ms // MS, chunk.start_ms // MS + len(own)))
        assert len(covered.intersection(own)) == shared_ms // MS
        shared_ms = chunk.shared_ms
        assert chunk.start_ms <= chunk.speech_start_ms < chunk.speech_end_ms
        assert 0 < chunk.pcm.duration_ms <= 28_000
        covered.update(own)
    place = 0
    for loud, count in runs:
        if loud and count > 2:  # less is no speech
            assert covered.issuperset(range(place, place + count))
        place += count
