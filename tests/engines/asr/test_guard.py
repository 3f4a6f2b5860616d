import numpy as np
import pytest

from engines.asr.guard import (
    EVEN_DB,
    SHORT_DB,
    Doubt,
    Heard,
    Sound,
    compression_ratio,
    contrast_db,
    doubt,
    loudness_dbfs,
    without_loop,
)


def said(
    text: str,
    seconds: float = 2.5,
    loudness: float = -20.0,
    logprob: float | None = -0.2,
    no_speech: float | None = 0.02,
    contrast: float = 25.0,
) -> Heard:
    return Heard(text, Sound(1000 * seconds, loudness, contrast), logprob, no_speech)


@pytest.mark.parametrize(
    "text",
    [
        "Go forward ten meters.",
        "No, no, no, no!",
        "Bye bye.",
        "Thank you.",
        "You",
        "And so my fellow Americans, ask not what your country can do for you, "
        "ask what you can do for your country.",
    ],
)
def test_speech_that_was_heard_well_is_believed(text):
    assert doubt(said(text)) is None


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        (said("Ask not. Ask not."), Doubt.ECHO),
        (said("I see, I see."), Doubt.ECHO),
        (said("the first is the first is the first is the first is the"), Doubt.LOOP),
        (said("ha " * 6), Doubt.LOOP),
        (said("abcdefgh" * 20), Doubt.LOOP),
        (said("I", seconds=3.0), Doubt.PACE),
        (said("a word " + "and so on it goes " * 3, seconds=2.9), Doubt.ECHO),
        (said(" ".join(f"w{i}" for i in range(18)), seconds=3.0), Doubt.PACE),
        (said("Perhaps this.", logprob=-1.2), Doubt.UNSURE),
    ],
)
def test_what_recognisers_make_up_is_doubted(heard, why):
    assert doubt(heard) is why


@pytest.mark.parametrize(
    "heard",
    [
        said("Anything at all.", loudness=-63.0),
        said("Thank you.", no_speech=0.9, logprob=-0.6),
        said("Thank you.", loudness=-50.0),
        said("Thank you.", logprob=-1.1),
        said("I'm going to put the oil on the pan.", no_speech=0.8, logprob=-1.6),
        said("You", no_speech=None),
        said("♪♪♪♪", no_speech=None),
        said("The app is available on the app", no_speech=None, logprob=-1.7),
        said("the first is " * 5, no_speech=None, logprob=-1.3),
    ],
)
def test_words_over_noise_are_silence(heard):
    assert doubt(heard) is Doubt.SILENCE


@pytest.mark.parametrize(
    "heard",
    [
        said("The Lord is the Lord.", logprob=-0.1, contrast=3.9),
        said("It's a very good idea.", logprob=-0.67, contrast=11.9),
        said("It's a very good idea.", logprob=-0.51, contrast=10.0),
        said("It's a very good idea.", logprob=-0.12, contrast=5.0),
        said("I'm sorry. I'm sorry.", contrast=9.9),
        said("I'm sorry. " * 5, contrast=9.9),
        said("Mm-Hmm.", contrast=9.9),
    ],
)
def test_words_over_sound_that_hardly_rises_and_falls_are_noise(heard):
    assert doubt(heard) is Doubt.NOISE


@pytest.mark.parametrize(
    "heard",
    [
        said("Feels like these days go on forever.", contrast=9.8),
        said("It's a very good idea.", logprob=-0.9, contrast=12.0),
        said("It's a very good idea.", logprob=-0.09, contrast=5.0),
        said("It's a very good idea.", logprob=None, contrast=9.9),
    ],
)
def test_speech_in_noise_is_believed(heard):
    assert doubt(heard) is None


def test_a_pace_is_judged_only_where_there_is_time_to_judge():
    assert doubt(said("I", seconds=2.9)) is None
    assert doubt(said("I am", seconds=3.0)) is None


def test_scripts_without_spaces_count_their_characters():
    assert said("今日は良い天気です").words == list("今日は良い天気です")
    assert said("Don't – it’s twenty-one").words == ["don't", "it’s", "twenty", "one"]
    assert doubt(said("今日は良い天気です", seconds=3.0)) is None


@pytest.mark.parametrize(
    ("loop", "once"),
    [
        ("Ask not. Ask not. Ask not. Ask not.", "Ask not."),
        ("Well, the first is the First is the first is over.", "Well, the first is over."),
        ("Nothing comes twice here", "Nothing comes twice here"),
    ],
)
def test_a_loop_is_cut_down_to_one_round(loop, once):
    assert without_loop(loop) == once


def test_compression_tells_repetition_from_speech():
    assert compression_ratio("the first is the " * 20) > 2.4
    assert compression_ratio("He was not an ill disposed young man.") < 1.2
    assert compression_ratio("") == 0


def test_loudness_is_that_of_the_loudest_moment():
    samples = np.zeros(16_000, np.float32)
    samples[8_000:9_600] = 0.1
    assert loudness_dbfs(samples, 16_000) == pytest.approx(-20, abs=0.01)
    assert loudness_dbfs(np.ones(10, np.float32), 16_000) == pytest.approx(0, abs=0.01)
    assert loudness_dbfs(np.zeros(16_000, np.float32), 16_000) == pytest.approx(-120)


def bursts(*levels_db: float) -> np.ndarray:
    """White noise, 100 ms at each of these levels."""
    noise = np.random.default_rng(3).standard_normal((len(levels_db), 1600))
    return (noise * 10 ** (np.array(levels_db)[:, None] / 20)).reshape(-1).astype(np.float32)


def test_contrast_is_what_lies_between_loud_and_soft_moments():
    assert contrast_db(bursts(*[-20, -40] * 10), 16_000) == pytest.approx(20, abs=2)
    assert contrast_db(bursts(*[-20] * 20), 16_000) < EVEN_DB


def test_the_quiet_around_a_sound_is_no_contrast_but_there_is_a_second_of_it():
    din, hush = [-20.0] * 12, [-80.0] * 12
    assert contrast_db(bursts(*hush, *din, *hush), 16_000) < EVEN_DB
    assert contrast_db(bursts(*hush, *din[:3], *hush), 16_000) > 50
    assert contrast_db(bursts(*din[:3], *hush), 16_000) > 50
    assert contrast_db(bursts(*hush, *din[:3]), 16_000) > 50


def test_of_less_than_a_second_nobody_can_say_that_it_is_even():
    assert contrast_db(bursts(*[-20] * 9), 16_000) == SHORT_DB
    assert contrast_db(bursts(-20, -40, -20, -40), 16_000) > 15


def test_a_sound_without_a_voice_is_doubted_before_a_word_is_heard():
    assert Sound.of(bursts(*[-20] * 20), 16_000).doubt is Doubt.NOISE
    assert Sound.of(bursts(*[-70] * 20), 16_000).doubt is Doubt.SILENCE
    assert Sound.of(bursts(*[-20, -40] * 10), 16_000).doubt is None
