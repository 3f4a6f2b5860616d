"""Orpheus's token arithmetic, and frames out of tokens that come in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tts.orpheus_tokens import (
    CODES,
    FIRST_AUDIO,
    GRAMMAR,
    STOP,
    TOKENS_PER_S,
    VOCABULARY,
    FrameParser,
    ids_of,
    prompt_ids,
    seed_of,
)

frames_of_codes = st.lists(st.tuples(*[st.integers(0, CODES - 1)] * 7), max_size=12)


def tokens_of(frames):
    return [token for frame in frames for token in ids_of(frame)]


def read(tokens):
    parser = FrameParser()
    frames = parser.feed(tokens)
    parser.finish()
    return parser, frames


def test_the_prompt_is_the_text_between_orpheus_s_own_marks():
    text = (128_000, 83, 5169, 25)
    marks = (128_009, 128_260, 128_261, 128_257)
    assert prompt_ids(text) == (128_259, *text, *marks)


def test_an_id_is_a_place_and_a_code():
    assert ids_of((0, 1, 2, 3, 4, 5, 4095)) == (
        128_266,
        132_363,
        136_460,
        140_557,
        144_654,
        148_751,
        156_937,
    )
    assert ids_of((4095,) * 7)[-1] < VOCABULARY
    assert pytest.approx(82.03, abs=0.01) == TOKENS_PER_S


def test_the_grammar_says_what_the_parser_reads():
    for made in range(14):
        allowed, may_stop = GRAMMAR.allowed(made)
        assert (allowed.start, len(allowed)) == (FIRST_AUDIO + made % 7 * CODES, CODES)
        assert may_stop is (made % 7 == 0)
    assert GRAMMAR.stop == STOP


@given(frames_of_codes, st.data())
def test_any_cutting_into_chunks_gives_the_same_frames(frames, data):
    tokens = tokens_of(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=20)))
    parser, got = FrameParser(), []
    for start, end in pairwise([0, *cuts, len(tokens)]):
        got += parser.feed(tokens[start:end])
    parser.finish()
    assert got == frames
    assert (parser.broken, parser.misplaced, parser.foreign) == (0, 0, 0)


def test_code_0_is_a_code_and_4096_is_the_next_place_s():
    assert read(tokens_of([(0,) * 7]))[1] == [(0,) * 7]
    parser, frames = read([*ids_of((1,) * 7)[:6], FIRST_AUDIO + 7 * CODES])
    assert frames == []
    assert (parser.broken, parser.foreign) == (1, 1)


@given(frames_of_codes, st.data())
def test_a_lost_token_costs_its_own_frame_and_no_other(frames, data):
    tokens = tokens_of(frames)
    if not tokens:
        return
    lost = data.draw(st.integers(0, len(tokens) - 1))
    parser, got = read(tokens[:lost] + tokens[lost + 1 :])
    assert got == frames[: lost // 7] + frames[lost // 7 + 1 :]
    assert parser.broken <= 1
    assert parser.broken + parser.misplaced > 0


aliens = st.integers(0, VOCABULARY - 1) | st.integers(FIRST_AUDIO, FIRST_AUDIO + 7 * CODES - 1)


@given(frames_of_codes, aliens, st.data())
def test_an_alien_token_costs_at_most_the_frame_it_fell_into(frames, alien, data):
    tokens = tokens_of(frames)
    place = data.draw(st.integers(0, len(tokens)))
    parser, got = read([*tokens[:place], alien, *tokens[place:]])
    struck = place // 7
    assert got[:struck] == frames[:struck]
    after = len(frames) - struck - 1
    assert after <= 0 or got[-after:] == frames[-after:]
    assert len(frames) - 1 <= len(got) <= len(frames)
    if place % 7 == 0:
        assert got == frames
    if not FIRST_AUDIO <= alien < FIRST_AUDIO + 7 * CODES:
        assert got == frames
        assert parser.foreign == 1


@given(st.lists(st.integers(0, VOCABULARY - 1), max_size=200))
def test_noise_gives_only_frames_that_stand_in_it(tokens):
    parser, frames = read(tokens)
    audio = [token for token in tokens if FIRST_AUDIO <= token < FIRST_AUDIO + 7 * CODES]
    windows = {tuple(audio[start : start + 7]) for start in range(len(audio))}
    assert all(ids_of(frame) in windows for frame in frames)
    assert parser.foreign == len(tokens) - len(audio)


def test_a_seed_follows_from_all_its_parts():
    assert seed_of("tara", "Hello.", 0, 0) == seed_of("tara", "Hello.", 0, 0)
    seeds = {seed_of(voice, "Hello.", n) for voice in ("tara", "leo") for n in range(50)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of("a", "b") != seed_of("ab", "")
    seed_of("\ud800")
