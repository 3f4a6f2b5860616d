"""What a loudspeaker plays, as spectra on the clock's grid."""

import numpy as np
import pytest

from engines.audio import Pcm
from pipelines.conversation.played import BANDS, BINS, HOP_MS, REACH, Played, powers, spectra_of

RATES = [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000]


def tone(rate: int, milliseconds: float, hertz: float = 1_000.0, level: float = 0.5) -> Pcm:
    times = np.arange(round(rate * milliseconds / 1000)) / rate
    return Pcm.from_floats(level * np.sin(2 * np.pi * hertz * times), rate)


def at(played: Played, hop: int) -> np.ndarray:
    """The powers of the bands of the frame that ends at ``hop``."""
    return powers(played.frames(np.array([hop])))[0]


def heard(*pieces: tuple[Pcm, float], until_ms: float) -> Played:
    played = Played()
    for pcm, at_ms in pieces:
        played.add(pcm, at_ms)
    played.advance(int(until_ms) // HOP_MS)
    return played


@pytest.mark.parametrize("rate", RATES)
def test_a_tone_is_as_loud_in_the_same_bin_at_every_rate(rate: int) -> None:
    frame = heard((tone(rate, 200), 1_000.0), until_ms=1_160).frames(np.array([145]))[0]
    nearest = int(np.abs(frame).argmax())
    assert 250 + 62.5 * nearest == pytest.approx(1_000, abs=32)
    assert np.abs(frame[nearest]) == pytest.approx(0.125, rel=0.03)


def test_frames_end_at_their_hop_and_no_sample_later() -> None:
    played = heard((tone(24_000, 100), 1_000.0), until_ms=1_200)
    assert at(played, 1_000 // HOP_MS).max() == 0
    assert at(played, 1_008 // HOP_MS).max() > 0
    assert at(played, 1_128 // HOP_MS).max() > 0
    assert at(played, 1_136 // HOP_MS).max() == 0


def test_pieces_on_end_are_as_good_as_one_and_overlaps_are_put_off() -> None:
    whole = tone(24_000, 200)
    halves = [Pcm(half, 24_000) for half in np.array_split(whole.samples, 2)]
    one = heard((whole, 1_000.0), until_ms=1_200)
    two = heard((halves[0], 1_000.0), (halves[1], 1_050.0), until_ms=1_200)
    hops = np.arange(125, 151)
    np.testing.assert_allclose(two.frames(hops), one.frames(hops), atol=1e-6)


def test_a_change_of_rate_within_a_frame_keeps_both_sides() -> None:
    played = heard(
        (tone(24_000, 56), 1_000.0), (tone(8_000, 100, hertz=2_000.0), 1_056.0), until_ms=1_120
    )
    frame = at(played, 1_072 // HOP_MS)
    assert (np.sort(frame)[-2:] > 1e-4).all()


def test_step_by_step_is_the_same_as_all_at_once() -> None:
    pieces = (tone(24_000, 300), 1_000.0), (tone(24_000, 200, hertz=500.0), 1_400.0)
    at_once, in_steps = heard(*pieces, until_ms=1_600), heard(*pieces, until_ms=1_000)
    for hop in range(126, 201, 3):
        in_steps.advance(hop)
    in_steps.advance(200)
    in_steps.advance(190)  # known already
    hops = np.arange(126, 200)
    np.testing.assert_array_equal(in_steps.frames(hops), at_once.frames(hops))
    np.testing.assert_allclose(in_steps.bands(hops), at_once.bands(hops), rtol=1e-3, atol=1e-9)


def test_what_lies_within_reach_is_there_after_any_pause() -> None:
    played = heard((tone(24_000, 100), 1_000.0), until_ms=1_100)
    played.add(tone(24_000, 2_000), 5_000.0)
    played.advance(7_000 // HOP_MS)
    hops = 7_000 // HOP_MS - np.arange(REACH)
    assert (np.abs(played.frames(hops)).max(axis=1) > 0.1).all()


def test_bands_die_away_as_in_a_room() -> None:
    played = heard((tone(24_000, 100), 1_000.0), until_ms=1_400)
    band = int(at(played, 1_080 // HOP_MS).argmax())
    levels = 10 * np.log10(played.bands(np.arange(1_136, 1_200, HOP_MS) // HOP_MS)[:, band])
    np.testing.assert_allclose(np.diff(levels), -10 * 0.34 * np.log10(np.e), atol=0.05)


def test_what_was_flushed_is_never_heard() -> None:
    played = Played()
    played.add(tone(24_000, 200), 1_000.0)
    played.add(tone(24_000, 200), 1_200.0)
    played.cut(1_100.0)
    assert played.within(1_150.0, 500)
    played.advance(1_300 // HOP_MS)
    assert at(played, 1_096 // HOP_MS).max() > 0
    assert at(played, 1_136 // HOP_MS).max() == 0
    assert not played.within(1_700.0, 500)


def test_a_flush_before_anything_was_heard_leaves_nothing_and_new_audio_comes_at_once() -> None:
    played = Played()
    played.cut(900.0)
    played.add(tone(24_000, 200), 1_000.0)
    played.add(tone(24_000, 200), 1_200.0)
    played.cut(1_000.0)
    assert not played.within(1_100.0, 500)
    played.add(tone(24_000, 100), 1_050.0)
    assert played.within(1_060.0, 500)


def test_a_flush_in_a_gap_takes_only_what_comes_after_it() -> None:
    played = Played()
    played.add(tone(24_000, 100), 1_000.0)
    played.add(tone(24_000, 100), 1_300.0)
    played.cut(1_200.0)
    assert played.within(1_250.0, 500)
    played.advance(1_400 // HOP_MS)
    assert at(played, 1_352 // HOP_MS).max() == 0


def test_within_knows_before_during_and_after() -> None:
    played = Played()
    assert not played.within(0.0, 500)
    played.add(tone(24_000, 100), 1_000.0)
    played.add(tone(24_000, 100), 1_100.0)
    assert not played.within(999.0, 500)
    assert played.within(1_000.0, 500)
    assert played.within(1_700.0, 500)
    assert not played.within(1_701.0, 500)
    assert not played.within(9_000.0, 500)


def test_nothing_and_what_has_no_voice_band_are_left_out() -> None:
    played = Played()
    played.add(Pcm.silence(0, 24_000), 1_000.0)
    played.add(tone(6_000, 100), 1_000.0)
    assert not played.within(1_050.0, 500)


def test_two_minutes_are_kept_at_most() -> None:
    played = Played()
    for _ in range(1_300):
        played.add(Pcm.silence(100, 8_000), 0.0)
    assert sum(pcm.duration_ms for _, pcm in played._pieces) == 120_000
    played.add(Pcm.silence(130_000, 8_000), 0.0)
    assert len(played._pieces) == 1


def test_spectra_have_the_promised_shapes() -> None:
    spectra = spectra_of(np.ones(1_024, np.float32), np.array([0, 256, 512]), 512)
    assert spectra.shape == (3, BINS)
    assert powers(spectra).shape == (3, BANDS)
    assert spectra.dtype == np.complex64
