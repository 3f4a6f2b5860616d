import json

import numpy as np
import pytest
import pytest_asyncio

from engines.asr.guard import Heard
from engines.asr.whisper import (
    MOST_PROMPT_TOKENS,
    Options,
    Whisper,
    best,
    create,
    is_settled,
    length_limit,
)
from engines.audio import Pcm
from engines.ports import EngineError
from loadtest.wer import spoken_words, wer


def heard(text: str, logprob: float = -0.2) -> Heard:
    return Heard(text, 2500, -20, logprob, 0.02)


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
    assert is_settled([Heard("you", 2000, -80, -0.7, 0.9)])


def test_the_likeliest_wins_where_all_are_doubtful_and_a_loop_only_over_loops():
    unsure, worse, loop = heard("Ask", -1.1), heard("Mask", -1.3), heard("Ask not. " * 4, -0.1)
    assert best([worse, loop, unsure]) is unsure
    assert best([unsure, worse, loop]) is unsure
    assert best([loop]) is loop


def test_a_broken_model_says_which_folder_and_what_belongs_there(tmp_path, models):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    with pytest.raises(EngineError, match=f"cannot load the model in {tmp_path}.*model.bin") as no:
        Whisper(Options(model=str(tmp_path)), models)
    assert no.value.code == "unavailable"


@pytest.mark.parametrize("prompt_tokens", [4, 40, 228])
@pytest.mark.parametrize(("seconds", "tokens"), [(1, 24), (5, 72), (28, 220)])
def test_the_text_may_be_as_long_as_the_clip_allows_behind_any_prompt(
    prompt_tokens, seconds, tokens
):
    limit = length_limit(1000.0 * seconds, prompt_tokens)
    assert limit <= 448
    assert min(limit // 2, limit - prompt_tokens) >= tokens


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asr(models):
    made = create(Options(), models)
    await made.warm_up()
    yield made
    await made.close()


@pytest.mark.engine
class TestRealWhisper:
    async def test_it_mishears_at_most_six_words_in_a_hundred(self, asr, spoken, listen):
        pairs = [(clip.words, (await listen(asr, clip.pcm)).text) for clip in spoken]
        assert wer(pairs).rate <= 0.06

    async def test_a_transcript_tells_its_language_and_its_doubts(self, asr, spoken, listen):
        clip = next(clip for clip in spoken if clip.name == "goforward.wav")
        transcript = await listen(asr, clip.pcm)
        (segment,) = transcript.segments
        assert transcript.language == "en"
        assert -1 < segment.avg_logprob < 0 < segment.no_speech_prob < 0.5
        assert 0.3 < segment.compression_ratio < 1.5

    async def test_long_sound_comes_out_whole(self, asr, spoken, listen):
        """The second half says the first again, which its prompt tempts the model to skip."""
        clips = [clip for clip in spoken if clip.name.startswith(("lv_", "go"))] * 2
        joined = Pcm(np.concatenate([clip.pcm.samples for clip in clips]), 16_000)
        transcript = await listen(asr, joined, language="en")
        assert len(transcript.segments) >= 2
        assert wer([(" ".join(clip.words for clip in clips), transcript.text)]).rate <= 0.06

    @pytest.mark.parametrize("level", [0.0, 0.003, 0.1])
    async def test_noise_is_not_speech(self, asr, listen, level):
        hiss = np.random.default_rng(1).standard_normal(32_000) * level
        transcript = await listen(asr, Pcm.from_floats(hiss, 16_000))
        assert (transcript.text, transcript.suspicion) == ("", "silence")

    async def test_what_was_said_before_steers_the_spelling(self, asr, spoken, listen):
        clip = next(clip for clip in spoken if clip.name == "lv_0870.wav")
        plain = spoken_words((await listen(asr, clip.pcm)).text)
        story = "Jon Dashwoode met his sister. Jon Dashwoode left."
        told = spoken_words((await listen(asr, clip.pcm, prompt=story)).text)
        assert "john" in plain
        assert "jon" in told

    async def test_a_language_goes_by_its_code_and_an_unknown_one_is_refused(
        self, asr, spoken, listen
    ):
        clip = spoken[0].pcm
        assert (await listen(asr, clip, language="en-GB")).language == "en"
        with pytest.raises(EngineError, match=r"<\|klingon\|>.*such as en") as refused:
            await listen(asr, clip, language="klingon")
        assert refused.value.code == "bad_request"

    def test_a_prompt_is_cut_to_its_end_and_commands_nothing(self, models):
        whisper = Whisper(Options(), models)
        long = whisper._prompt("word " * 300 + "<|endoftext|>", "en")
        plain = whisper._prompt("", "en")
        assert len(long) == 1 + MOST_PROMPT_TOKENS + len(plain)
        assert long[-len(plain) :] == plain
        assert whisper._id("<|endoftext|>") not in long
