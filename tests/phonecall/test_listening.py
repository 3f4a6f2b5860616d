"""What a recording of a call is judged by: sound, gaps, and pieces of speech found again."""

import numpy as np
import pytest

from engines.audio import Pcm
from tests.phonecall.listening import cut, pieces, spells

RATE = 8_000


def noise(ms: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, ms * RATE // 1000)


def silence(ms: int) -> np.ndarray:
    return np.zeros(ms * RATE // 1000)


def recorded(*parts: np.ndarray) -> Pcm:
    return Pcm.from_floats(np.concatenate(parts), RATE)


def test_a_gap_within_a_spell_is_told() -> None:
    told = spells(recorded(silence(500), noise(1000), silence(70), noise(500), silence(900)))
    assert [(spell.start_ms, spell.end_ms, spell.gap_ms) for spell in told] == [(500, 2070, 70)]


def test_a_longer_silence_makes_two_spells() -> None:
    sound = recorded(noise(300), silence(500), noise(200))
    assert [spell.length_ms for spell in spells(sound)] == [300, 200]
    assert len(cut(sound, spells(sound)[1])) == 200 * RATE // 1000


def test_there_are_no_spells_in_silence() -> None:
    assert spells(recorded(silence(1000))) == []


def test_speech_is_found_in_its_place() -> None:
    said = noise(1500)
    sound = recorded(silence(400), said, silence(300))
    found = pieces(sound, recorded(said), 400, 1900)
    assert [piece.late_ms for piece in found] == [0] * 5
    assert min(piece.likeness for piece in found) > 0.99


@pytest.mark.parametrize("skipped_ms", [-80, 80])
def test_what_is_lost_or_doubled_shifts_the_rest(skipped_ms: int) -> None:
    said = noise(1500)
    at = 600 * RATE // 1000
    sound = recorded(silence(400), said[:at], said[at + skipped_ms * RATE // 1000 :], silence(300))
    found = pieces(sound, recorded(said), 400, 2000)
    assert [piece.late_ms for piece in found[:2]] == [0, 0]
    assert [piece.late_ms for piece in found[3:]] == [-skipped_ms] * 2


def test_other_speech_is_unlike() -> None:
    found = pieces(recorded(silence(400), noise(900)), recorded(noise(900, seed=1)), 400, 1300)
    assert max(piece.likeness for piece in found) < 0.4


def test_pieces_behind_the_end_and_without_sound_are_left_out() -> None:
    said = np.concatenate([noise(300), silence(300), noise(600)])
    assert len(pieces(recorded(said), recorded(said), 0, 900)) == 2
