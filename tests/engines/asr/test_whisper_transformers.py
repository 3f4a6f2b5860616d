"""The reference against transformers' own generate, and against CTranslate2 on real weights."""

import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor

from engines.asr import whisper
from engines.asr.listening import Clip
from engines.asr.logmel import log_mel
from engines.asr.whisper_checkpoint import read
from engines.asr.whisper_decoding import Attempt
from engines.asr.whisper_transformers import NAME, Options, TorchWhisper, create, drawn
from engines.models import ModelStore
from engines.ports import EngineError

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]


@pytest.fixture(scope="module")
def tiny(tiny_folder) -> TorchWhisper:
    return TorchWhisper(Options(), read(NAME, str(tiny_folder), ModelStore()))


@pytest.mark.parametrize("mels", [80, 128])
def test_our_features_are_those_of_transformers(mels, babble):
    theirs = WhisperFeatureExtractor(feature_size=mels)(babble.floats(), sampling_rate=16_000)
    ours = log_mel(babble.floats(), 3000, mels)
    np.testing.assert_allclose(ours, theirs.input_features[0], atol=2e-5)


@pytest.mark.parametrize(("language", "before"), [("en", ""), ("de", "Was vorher war.")])
def test_greedy_tokens_are_those_of_generate(tiny, babble, language, before):
    model, vocabulary = tiny.model, tiny._vocabulary
    with torch.inference_mode():
        encoded = tiny.encode(babble.floats())
        ours = tiny._decode(encoded, Attempt(0, before, 0.0, language), 60)
    history = vocabulary.history(before)
    mel = torch.from_numpy(log_mel(babble.floats(), 3000))[None]
    prompt = {"prompt_ids": torch.tensor(history)} if history else {}
    theirs = model.generate(mel, language=language, max_new_tokens=60, do_sample=False, **prompt)
    written = theirs[0].tolist()
    assert len(ours.ids) == 60
    assert any(written[start : start + 60] == ours.ids for start in range(len(written) - 59))
    assert len(set(ours.ids)) > 3  # or the test would compare nothing


def test_probabilities_are_those_of_one_pass_over_the_whole_text(tiny, babble):
    vocabulary = tiny._vocabulary
    with torch.inference_mode():
        encoded = tiny.encode(babble.floats())
        decoded = tiny._decode(encoded, Attempt(0, "Before.", 0.0, "en"), 20)
        prompt = vocabulary.prompt("Before.", "en")
        every = torch.tensor([[*prompt, *decoded.ids]])
        states = tiny.model.model.decoder(input_ids=every, encoder_hidden_states=encoded)
        logits = tiny.model.proj_out(states.last_hidden_state[0])
    logits = logits.clone()
    start = prompt.index(vocabulary.id("<|startoftranscript|>"))
    no_speech = logits[start].softmax(-1)[vocabulary.no_speech]
    assert decoded.no_speech_prob == pytest.approx(float(no_speech), rel=1e-4)
    logits[:, list(tiny._checkpoint.never)] = -torch.inf
    logits[len(prompt) - 1, list(tiny._checkpoint.never_first)] = -torch.inf
    text = logits[len(prompt) - 1 : -1].log_softmax(-1)
    expected = text.gather(1, torch.tensor(decoded.ids)[:, None]).mean()
    assert decoded.avg_logprob == pytest.approx(float(expected), rel=1e-4)


def test_warmth_draws_lots_and_the_same_ones_each_time(tiny, babble):
    with torch.inference_mode():
        encoded = tiny.encode(babble.floats())
        cold, warm, again = (
            tiny._decode(encoded, Attempt(0, "", temperature, "en"), 30).ids
            for temperature in (0.0, 1.0, 1.0)
        )
    assert warm == again != cold


def test_a_token_is_drawn_by_its_probability():
    logits = torch.tensor([1.0, 3.0, 2.0])
    chance = torch.Generator().manual_seed(1)
    assert drawn(logits, 0.0, chance) == 1
    counts = np.bincount([drawn(logits, 0.5, chance) for _ in range(2000)], minlength=3)
    np.testing.assert_allclose(counts / 2000, (logits / 0.5).softmax(-1), atol=0.03)


def test_the_text_ends_where_the_decoder_has_no_more_places(tiny, babble):
    with torch.inference_mode():
        encoded = tiny.encode(babble.floats())
        decoded = tiny._decode(encoded, Attempt(0, "word " * 300, 0.0, "en"), 400)
    assert len(decoded.ids) == 448 - 224 - 4


async def test_it_serves_as_an_engine(tiny_folder, babble, listen):
    asr = create(Options(model=str(tiny_folder), dtype="bfloat16", retries=0), ModelStore())
    await asr.warm_up()
    transcript = await listen(asr, babble)
    assert asr.load().slots == 1
    await asr.close()
    assert len(transcript.language) in (2, 3)


async def test_an_unknown_language_is_refused(tiny, babble):
    with pytest.raises(EngineError, match=r"<\|klingon\|>") as refused:
        tiny.hear(Clip(babble.floats(), "klingon", ""))
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (torch.OutOfMemoryError("no room"), "unavailable", "smaller model"),
        (RuntimeError("a kernel is missing"), "failed", "a kernel is missing"),
    ],
)
def test_what_torch_throws_is_told_in_our_words(tiny, babble, monkeypatch, error, code, remedy):
    def fail(samples):
        raise error

    monkeypatch.setattr(tiny, "encode", fail)
    with pytest.raises(EngineError, match=remedy) as told:
        tiny.hear(Clip(babble.floats(), "en", ""))
    assert told.value.code == code


def test_weights_that_cannot_be_loaded_say_where_and_how(tiny_folder, tmp_path):
    checkpoint = read(NAME, str(tiny_folder), ModelStore())
    for options, hint in [(Options(dtype="float7"), "float7"), (Options(device="moon"), "moon")]:
        with pytest.raises(EngineError, match=hint) as told:
            TorchWhisper(options, checkpoint)
        assert told.value.code == "unavailable"


@pytest.mark.engine
def test_real_weights_hear_the_same_words_here_and_in_ctranslate2(models, spoken, real_whisper):
    """Both pad to 30 s here; what is left is another order of summation."""
    options = whisper.Options(compute_type="float32", pad_ms=30_000, shortest_ms=30_000)
    ct2 = whisper.Whisper(options, models)
    for recording in spoken[::3]:
        clip = Clip(recording.pcm.floats(), None, "")
        ours, theirs = real_whisper.hear(clip), ct2.hear(clip)
        assert (ours.heard.text, ours.language) == (theirs.heard.text, theirs.language)
        assert ours.heard.avg_logprob == pytest.approx(theirs.heard.avg_logprob, abs=1e-3)
        assert ours.heard.no_speech_prob == pytest.approx(theirs.heard.no_speech_prob, abs=1e-4)
