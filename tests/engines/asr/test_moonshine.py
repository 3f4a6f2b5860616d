import numpy as np
import pytest
import pytest_asyncio

from engines.asr.listening import Clip
from engines.asr.moonshine import (
    BEGIN,
    END,
    Moonshine,
    Options,
    create,
    likeliest,
    read_pieces,
    text_of,
)
from engines.audio import Pcm
from engines.ports import EngineError, Priority
from loadtest.noises import at_level, noises
from loadtest.speech import recordings
from loadtest.wer import wer


def test_a_vocabulary_is_read_piece_by_piece():
    long = b"x" * 300
    data = b"\x05<unk>" + b"\x01\x00" + b"\x00" + b"\xac\x02" + long + "\x04▁a".encode()
    assert read_pieces(data) == [b"<unk>", b"\x00", b"", long, "▁a".encode()]


@pytest.mark.parametrize("data", [b"\x05<un", b"\x01a\xac", b"\x80\x01" + b"x" * 127])
def test_a_vocabulary_that_ends_inside_a_piece_is_refused(data):
    with pytest.raises(ValueError, match="cut short inside its token"):
        read_pieces(data)


def test_tokens_become_text_without_marks_and_with_letters_put_together():
    pieces = [b"<unk>", b"<s>", b"</s>", "▁Caf".encode(), b"\xc3", b"\xa9", "▁open".encode()]
    assert text_of([1, 3, 4, 5, 6, 0, 2], pieces) == "Café open"


def test_the_likeliest_token_comes_with_its_log_probability():
    logits = np.log(np.array([0.1, 0.7, 0.2], np.float32)) + 80
    token, logprob = likeliest(logits)
    assert token == 1
    assert logprob == pytest.approx(np.log(0.7), abs=1e-4)


def test_a_folder_without_a_model_is_named(tmp_path, models):
    with pytest.raises(EngineError, match=f"cannot load the model in {tmp_path}") as refused:
        Moonshine(Options(model=str(tmp_path)), models)
    assert refused.value.code == "unavailable"


def test_a_file_that_is_no_graph_is_refused(tmp_path, models):
    (tmp_path / "tokenizer.bin").write_bytes(b"\x01a")
    (tmp_path / "encoder_model.ort").write_bytes(b"no graph at all")
    with pytest.raises(EngineError, match="cannot load"):
        Moonshine(Options(model=str(tmp_path)), models)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asr(models):
    made = create(Options(), models)
    await made.warm_up()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def moonshine(models):
    return Moonshine(Options(), models)


@pytest.mark.engine
class TestRealMoonshine:
    async def test_it_mishears_at_most_six_words_in_a_hundred(self, asr, spoken, listen):
        pairs = [(clip.words, (await listen(asr, clip.pcm)).text) for clip in spoken]
        assert wer(pairs).rate <= 0.06

    async def test_a_transcript_has_a_log_probability(self, asr, spoken, listen):
        clip = next(clip for clip in spoken if clip.name == "goforward.wav")
        (segment,) = (await listen(asr, clip.pcm)).segments
        assert -0.6 < segment.avg_logprob < 0
        assert segment.no_speech_prob is None

    async def test_long_sound_comes_out_whole(self, asr, spoken, listen):
        clips = [clip for clip in spoken if clip.name.startswith(("lv_", "go"))] * 2
        joined = Pcm(np.concatenate([clip.pcm.samples for clip in clips]), 16_000)
        transcript = await listen(asr, joined)
        assert len(transcript.segments) >= 2
        assert wer([(" ".join(clip.words for clip in clips), transcript.text)]).rate <= 0.06

    @pytest.mark.parametrize("level", [0.0, 0.0003, 0.03, 0.1])
    async def test_noise_is_not_speech(self, asr, listen, level):
        hiss = np.random.default_rng(1).standard_normal(32_000) * level
        transcript = await listen(asr, Pcm.from_floats(hiss, 16_000))
        assert (transcript.text, transcript.suspicion) == ("", "noise" if level > 0.0003 else "")

    async def test_a_loop_is_resolved_by_hearing_smaller_pieces(self, asr, models, listen):
        """A sentence said three times is a loop to the guard."""
        clips = {clip.name: clip for clip in recordings(models.path("speech"))}
        clip = clips["something.wav"]
        pcm = Pcm(np.tile(clip.pcm.samples, 3), 16_000)
        once = await listen(asr, pcm, language="en", priority=Priority.PARTIAL)
        again = await listen(asr, pcm, language="en")
        said = " ".join([clip.words] * 3)
        assert wer([(said, once.text)]).rate > 0.5
        assert wer([(said, again.text)]).rate < 0.2
        assert (once.suspicion, again.suspicion) == ("loop", "loop")

    @pytest.mark.parametrize("seconds", [0.7, 1.2, 3.0, 10.0])
    async def test_ten_people_at_once_say_nothing(self, asr, models, listen, seconds):
        crowd = at_level(noises(30, recordings(models.path("speech")))["babble"], -25)
        for place in range(0, 400_000, 60000):
            part = Pcm(crowd.samples[place : place + int(seconds * 16_000)], 16_000)
            transcript = await listen(asr, part, language="en")
            assert (transcript.text, transcript.suspicion != "") == ("", True)

    async def test_another_language_is_refused_with_the_remedy(self, asr, spoken, listen):
        with pytest.raises(EngineError, match=r"English only, not 'de'.*whisper") as refused:
            await listen(asr, spoken[0].pcm, language="de")
        assert refused.value.code == "bad_request"
        assert (await listen(asr, spoken[0].pcm, language="en-US")).text

    def test_cached_decoding_says_what_decoding_without_a_cache_would(self, moonshine, spoken):
        """Feed the whole text at once to the branch without a cache: it must foretell itself."""
        samples = spoken[0].pcm.floats()
        ids, logprobs = moonshine._decode(samples, 200)
        sounding = np.ones((1, len(samples)), np.int64)
        states = moonshine._encoder.run(
            ["last_hidden_state"], {"input_values": samples[None], "attention_mask": sounding}
        )[0]
        (logits,) = moonshine._decoder.run(
            ["logits"],
            {
                "input_ids": np.array([[BEGIN, *ids]], np.int64),
                "encoder_hidden_states": states,
                "encoder_attention_mask": sounding,
                "use_cache_branch": np.array([False]),
                **moonshine._empty,
            },
        )
        foretold = [likeliest(row) for row in logits[0]]
        assert [token for token, _ in foretold] == [*ids, END]
        np.testing.assert_allclose([logprob for _, logprob in foretold], logprobs, atol=0.1)

    def test_a_decoder_in_a_loop_is_stopped_by_the_length_of_the_clip(self, moonshine, spoken):
        ids, _ = moonshine._decode(spoken[0].pcm.floats(), 4)
        assert len(ids) == 4

    def test_a_failure_of_the_runtime_is_told_as_ours(self, moonshine):
        with pytest.raises(EngineError, match="decoding failed") as failed:
            moonshine._pad = 0
            moonshine.hear(Clip(np.zeros(10, np.float32), None, ""))
        assert failed.value.code == "failed"
