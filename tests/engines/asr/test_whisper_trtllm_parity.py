"""The adapter's logic on a real model: a pretended TensorRT-LLM whose tokens PyTorch writes.

Prompt, forcing, no-speech, language and probabilities come out as those of the reference.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import torch

from engines.asr import whisper_transformers
from engines.asr.listening import Clip
from engines.asr.whisper_checkpoint import read
from engines.asr.whisper_decoding import Attempt, Trial
from engines.asr.whisper_transformers import Steps, TorchWhisper, drawn
from engines.asr.whisper_trtllm import NAME, Options, TrtWhisper, create
from engines.models import ModelStore
from engines.ports import Priority

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]


def modelled(engine, reference: TorchWhisper):
    """A script by which the engine writes what the reference's model would: it runs on the sound
    that it was given, under the sampling and the processor that it was given, and follows the
    rules of the folder that it was given, after the processor, which leaves that no way out."""

    def script(prompt, params):
        llm = engine.engines[-1]
        rules = json.loads((Path(llm.args.model) / "generation_config.json").read_text())
        return written(llm.input_processor.waveforms[-1], rules, prompt, params)

    def written(samples, rules, prompt, params):
        with torch.no_grad():
            steps = Steps(reference.model, reference.encode(samples))
        chance, tokens, fed = torch.Generator(), [], prompt
        while True:
            with torch.no_grad():
                row = steps(fed)
            if params.logits_processor:
                known = [[*prompt, *tokens]]
                params.logits_processor(0, row.view(1, 1, -1), known, None, None)
            row[rules.get("suppress_tokens", [])] = -torch.inf
            row[[] if tokens else rules.get("begin_suppress_tokens", [])] = -torch.inf
            token = drawn(row, params.temperature, chance)
            if row.isfinite().sum() <= 2:  # forced: that was no lot
                chance.manual_seed(params.seed)
            best = row.log_softmax(-1).topk(4)
            told = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            told = {each: value for each, value in told.items() if value > -1e9}
            yield engine.Step(token, {token: float(row.log_softmax(-1)[token]), **told})
            tokens.append(token)
            fed = [token]

    return script


@pytest.fixture(scope="module")
def reference(tiny_folder) -> TorchWhisper:
    checkpoint = read("reference", str(tiny_folder), ModelStore())
    return TorchWhisper(whisper_transformers.Options(retries=0), checkpoint)


@pytest.mark.parametrize(
    ("attempt", "options"),
    [
        (Attempt(0, "", 0.0, "en"), {}),
        (Attempt(0, "", 0.0, None), {}),
        (Attempt(0, "Earlier words.", 0.0, "ja"), {}),
        (Attempt(0, "", 0.7, "en"), {}),
        (Attempt(0, "Earlier words.", 0.0, "en"), {"no_speech": False, "language": "en"}),
    ],
)
async def test_a_tiny_model_says_the_same_through_the_adapter(
    engine, reference, tiny_folder, babble, attempt, options
):
    engine.script = modelled(engine, reference)
    checkpoint = read(NAME, str(tiny_folder), ModelStore())
    whisper = TrtWhisper(Options(model=str(tiny_folder), **options), checkpoint)
    await whisper.warm_up()
    clip = Clip(babble.floats(), None, "")
    ours = await whisper._decode(clip, attempt, Trial(clip, checkpoint.vocabulary))
    await whisper.close()
    with torch.inference_mode():
        theirs = reference._decode(reference.encode(clip.samples), attempt, 36)
    assert list(ours.ids) == list(theirs.ids)
    assert len(set(ours.ids)) > 3  # or the test would compare nothing
    assert ours.language == theirs.language
    assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)
    if options:
        assert ours.no_speech_prob is None
    else:
        assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, rel=1e-3)


@pytest.mark.engine
async def test_real_weights_say_the_same_through_the_adapter(
    engine, models, spoken, real_whisper, tmp_path
):
    """Whisper base on speech: one clip after the other by itself, and all of them in flight."""
    rules = {
        "suppress_tokens": real_whisper._checkpoint.never,
        "begin_suppress_tokens": real_whisper._checkpoint.never_first,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(rules))
    shutil.copy(models.path("whisper-base") / "tokenizer.json", tmp_path)
    engine.vocabulary = real_whisper.model.config.vocab_size
    engine.whisper = engine.Whisper(encode=lambda text: [])
    engine.script = modelled(engine, real_whisper)
    asr = create(Options(model=str(tmp_path), slots=4), models)
    await asr.warm_up()
    clips = [Clip(recording.pcm.floats(), None, "") for recording in spoken[1::4]]
    ours = await asyncio.gather(*(asr._recogniser.hear(clip, Priority.FINAL) for clip in clips))
    await asr.close()
    for heard, theirs in zip(ours, map(real_whisper.hear, clips), strict=True):
        assert (heard.heard.text, heard.language) == (theirs.heard.text, theirs.language)
        assert heard.heard.avg_logprob == pytest.approx(theirs.heard.avg_logprob, abs=1e-3)
        expected = theirs.heard.no_speech_prob
        assert heard.heard.no_speech_prob == pytest.approx(expected, abs=1e-3)
