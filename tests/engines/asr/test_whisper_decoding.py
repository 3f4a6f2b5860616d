"""The shared part of all Whispers, with a small vocabulary of the real layout."""

import numpy as np
import pytest

from engines.asr.guard import Heard, Sound
from engines.asr.listening import Clip
from engines.asr.whisper_decoding import (
    MOST_PROMPT_TOKENS,
    Attempt,
    Decoded,
    Trial,
    Vocabulary,
    best,
    is_settled,
    most_tokens,
)
from engines.ports import EngineError
from loadtest.tiny_whisper import tiny_tokenizer


def heard(text: str, logprob: float = -0.2) -> Heard:
    return Heard(text, Sound(2500, -20), logprob, 0.02)


def test_a_believable_decoding_is_not_repeated():
    assert is_settled([heard("Ask not what your country can do.")])


def test_an_echo_is_decoded_again_and_the_better_one_wins():
    attempts = [heard("Ask not. Ask not.")]
    assert not is_settled(attempts)
    attempts.append(heard("Ask not."))
    assert is_settled(attempts)
    assert best(attempts).text == "Ask not."


def test_what_is_said_twice_under_any_padding_was_said_twice():
    attempts = [heard("Ask not. Ask not."), heard("Ask not, ask not!")]
    assert is_settled(attempts)
    assert best(attempts).text == "Ask not, ask not!"


def test_a_loop_is_never_settled():
    assert not is_settled([heard("Ask not. " * 4), heard("Ask not. " * 4)])


def test_silence_is_not_worth_another_try():
    assert is_settled([Heard("you", Sound(2000, -80), -0.7, 0.9)])
    assert is_settled([Heard("We all do.", Sound(2000, -20, 10), -0.7, 0.1)])


def test_the_likeliest_wins_where_all_are_doubtful_and_a_loop_only_over_loops():
    unsure, worse, loop = heard("Ask", -1.1), heard("Mask", -1.3), heard("Ask not. " * 4, -0.1)
    assert best([worse, loop, unsure]) is unsure
    assert best([unsure, worse, loop]) is unsure
    assert best([loop]) is loop


@pytest.mark.parametrize(("seconds", "tokens"), [(1, 24), (5, 72), (28, 224), (30, 224)])
def test_a_text_is_as_long_as_can_be_said_in_the_time(seconds, tokens):
    assert most_tokens(1000.0 * seconds) == tokens


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary("whisper", tiny_tokenizer(), multilingual=True)


def test_a_prompt_sets_the_task_behind_what_was_said(vocabulary):
    sot, en, transcribe, plain = (
        vocabulary.id(f"<|{name}|>")
        for name in ("startoftranscript", "en", "transcribe", "notimestamps")
    )
    assert vocabulary.prompt("", "en") == [sot, en, transcribe, plain]
    told = vocabulary.prompt("  hello ", "en")
    assert told[0] == vocabulary.id("<|startofprev|>")
    assert told[-4:] == [sot, en, transcribe, plain]
    assert vocabulary.text(told[1:-4]) == "hello"


def test_a_model_of_one_language_is_told_none():
    english = Vocabulary("whisper", tiny_tokenizer(), multilingual=False)
    assert english.prompt("", "en") == [
        english.id("<|startoftranscript|>"),
        english.id("<|notimestamps|>"),
    ]


def test_a_prompt_is_cut_to_its_end_and_commands_nothing(vocabulary):
    long = vocabulary.prompt("word " * 300 + "<|endoftext|>", "en")
    plain = vocabulary.prompt("", "en")
    assert len(long) == 1 + MOST_PROMPT_TOKENS + len(plain)
    assert long[-len(plain) :] == plain
    assert vocabulary.id("<|endoftext|>") not in long


def test_an_unknown_language_is_refused_with_an_example(vocabulary):
    with pytest.raises(EngineError, match=r"<\|klingon\|>.*such as en") as refused:
        vocabulary.task("klingon")
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize("name", ["translate", "endoftext", "notimestamps", "startofprev"])
def test_another_token_of_the_model_s_is_no_language(vocabulary, name):
    with pytest.raises(EngineError, match=r"but no language: .*such as en") as refused:
        vocabulary.prompt("", name)
    assert refused.value.code == "bad_request"


def test_languages_and_silence_have_their_tokens(vocabulary):
    languages = [vocabulary.language(token) for token in vocabulary.languages]
    assert languages[:3] == ["en", "zh", "de"]
    assert len(languages) == 99
    assert vocabulary.no_speech == vocabulary.id("<|nospeech|>")
    older = Vocabulary("whisper", tiny_tokenizer(silence="<|nocaptions|>"), multilingual=True)
    assert older.no_speech == older.id("<|nocaptions|>")


def run(vocabulary: Vocabulary, texts: list[str], clip: Clip, **options) -> tuple[Trial, list]:
    """The trial in which each attempt comes out as the next text, and its attempts."""
    trial = Trial(clip, vocabulary, **options)
    attempts = []
    for attempt, text in zip(trial, texts, strict=True):
        attempts.append(attempt)
        ids = vocabulary._tokens.encode(text, add_special_tokens=False).ids
        trial.add(Decoded(ids, -0.2, 0.02, attempt.language or "de"))
    return trial, attempts


def clip(prompt: str = "", language: str | None = None) -> Clip:
    voice = np.tile(np.repeat(np.float32([0.1, 0.001]), 4_000), 5)
    return Clip(voice, language, prompt)


def test_a_trial_ends_with_the_first_believable_attempt(vocabulary):
    trial, attempts = run(vocabulary, ["Ask not."], clip("Before.", "EN_us"), pad_ms=3000)
    assert attempts == [Attempt(3000, "Before.", 0.0, "en")]
    assert (trial.hearing.heard.text, trial.hearing.language) == ("Ask not.", "en")


def test_doubt_brings_more_silence_no_prompt_and_then_warmth(vocabulary):
    loop = "ask not " * 5
    trial, attempts = run(vocabulary, [loop, loop, "Ask."], clip("Before."), pad_ms=3000)
    assert attempts == [
        Attempt(3000, "Before.", 0.0, None),
        Attempt(6000, "", 0.0, "de"),
        Attempt(6000, "", 0.2, "de"),
    ]
    assert trial.hearing.heard.text == "Ask."


def test_no_attempt_would_come_out_the_same_by_its_making(vocabulary):
    loop = "ask not " * 5
    _, attempts = run(vocabulary, [loop] * 3, clip(language="en"))
    assert [attempt.temperature for attempt in attempts] == [0.0, 0.2, 0.4]


def test_the_language_of_the_clip_goes_before_that_of_the_options(vocabulary):
    for given, expected in [(None, "ja"), ("de-AT", "de")]:
        _, (attempt,) = run(vocabulary, ["Ask."], clip(language=given), language="ja")
        assert attempt.language == expected
    english = Vocabulary("whisper", tiny_tokenizer(), multilingual=False)
    _, (attempt,) = run(english, ["Ask."], clip(language="de"))
    assert attempt.language == "en"


def test_half_a_character_in_what_was_said_before_is_no_fault(vocabulary):
    assert vocabulary.history("one \ud800 two") == vocabulary.history("one ? two")
