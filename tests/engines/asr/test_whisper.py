import json

import numpy as np
import pytest
import pytest_asyncio

from engines.asr.whisper import Options, Whisper, create, length_limit
from engines.audio import Pcm
from engines.ports import EngineError, Priority
from loadtest.noises import at_level, noises
from loadtest.speech import recordings
from loadtest.wer import spoken_words, wer


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
        assert (transcript.text, transcript.suspicion) == ("", "noise" if level else "")

    async def test_what_is_left_out_is_found_in_smaller_pieces(self, asr, models, listen):
        """Of a sentence said five times the decoder writes the first and leaves out the rest."""
        clips = {clip.name: clip for clip in recordings(models.path("speech"))}
        clip = clips["cards_003.wav"]
        pcm = Pcm(np.tile(clip.pcm.samples, 5), 16_000)
        once = await listen(asr, pcm, language="en", priority=Priority.PARTIAL)
        again = await listen(asr, pcm, language="en")
        said = " ".join([clip.words] * 5)
        assert wer([(said, once.text)]).rate > 0.5
        assert wer([(said, again.text)]).rate < 0.25
        assert "pace" in once.suspicion
        assert "pace" in again.suspicion

    @pytest.mark.parametrize("seconds", [0.7, 1.2, 3.0, 10.0])
    async def test_ten_people_at_once_say_nothing(self, asr, models, listen, seconds):
        crowd = at_level(noises(30, recordings(models.path("speech")))["babble"], -25)
        for place in range(0, 400_000, 130000):
            part = Pcm(crowd.samples[place : place + int(seconds * 16_000)], 16_000)
            transcript = await listen(asr, part, language="en")
            assert (transcript.text, transcript.suspicion != "") == ("", True)

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
