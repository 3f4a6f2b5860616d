"""The pipeline put together from the store's checkpoints."""

import collections
import pickle
import warnings
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import soundfile
import torch

from engines.diarization import assembly
from engines.diarization.assembly import Recipe, apply, assemble, is_too_short
from engines.models import ModelStore

pytestmark = [pytest.mark.engine, pytest.mark.torch]


def recipe(**changes) -> Recipe:
    store = ModelStore()
    usual = Recipe(
        pipeline="",
        segmentation=str(store.path("pyannote-segmentation") / "pytorch_model.bin"),
        embedding=str(store.path("resemblyzer") / "pretrained.pt"),
        device="cpu",
        threads=0,
        step=0.25,
        segmentation_batch=4,
        embedding_batch=5,
        compile=True,
        onset=0.5,
        likeness=0.26,
    )
    return replace(usual, **changes)


@pytest.fixture(scope="module")
def pipeline(one_torch_thread):
    return assemble(recipe())


@pytest.fixture(scope="module")
def conversation() -> np.ndarray:
    """Ten seconds of pyannote's sample, in which two speak: int16 at 16 kHz."""
    sample = resources.files("pyannote.audio") / "sample" / "sample.wav"
    with resources.as_file(sample) as path:
        samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 16_000
    return samples[10 * rate : 20 * rate]


def turns(annotation) -> list[tuple[float, float, str]]:
    return [(s.start, s.end, name) for s, _, name in annotation.itertracks(yield_label=True)]


def test_settings_reach_the_pipeline(pipeline):
    assert pipeline.segmentation_batch_size == 4
    assert pipeline.embedding_batch_size == 5
    assert pipeline._segmentation.step == pytest.approx(1.25)
    assert pipeline.clustering.threshold == 0.26


def test_as_many_speakers_are_found_as_are_asked_for(pipeline, conversation):
    for count in (1, 2):
        found, _ = apply(pipeline, conversation, count, count)
        assert len(found.labels()) == count


def test_one_at_a_time_speaks_in_the_exclusive_one(pipeline, conversation):
    both, exclusive = apply(pipeline, conversation, 2, 2)
    assert len(both.get_overlap()) > 0
    assert len(exclusive.get_overlap()) == 0


def test_int16_is_heard_as_the_floats_that_it_stands_for(pipeline, conversation):
    found, _ = apply(pipeline, conversation, 2, 2)
    floats = torch.from_numpy(conversation.astype(np.float32) / 32768)[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pipeline({"waveform": floats, "sample_rate": 16_000}, num_speakers=2)
    assert turns(found) == turns(theirs.speaker_diarization)


def test_of_many_voices_only_some_are_compared_and_all_have_a_speaker(
    pipeline, conversation, monkeypatch
):
    usual, _ = apply(pipeline, conversation, 2, 2)
    monkeypatch.setattr(assembly, "_MOST_VOICES", 4)
    fewer, _ = apply(pipeline, conversation, 2, 2)
    assert len(fewer.labels()) == 2
    assert fewer.get_timeline().duration() == pytest.approx(
        usual.get_timeline().duration(), rel=0.1
    )


def test_silence_has_no_turns(pipeline):
    found, exclusive = apply(pipeline, np.zeros(48_000, np.int16), 1, None)
    assert turns(found) == turns(exclusive) == []


def test_what_is_too_short_is_told():
    assert is_too_short(np.zeros(1_599, np.int16))
    assert not is_too_short(np.zeros(1_600, np.int16))


class Evil:
    def __reduce__(self):
        return print, ("this must not run",)


def test_a_checkpoint_that_holds_a_program_is_not_run(tmp_path, capsys):
    bad = tmp_path / "pytorch_model.bin"
    torch.save({"state_dict": collections.OrderedDict(), "evil": Evil()}, bad)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        assemble(recipe(segmentation=str(bad)))
    assert "must not run" not in capsys.readouterr().out


def test_a_folder_without_a_pipeline_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        assemble(recipe(pipeline=str(tmp_path)))


def test_a_pipeline_of_ones_own_is_taken_from_its_folder(tmp_path, conversation, monkeypatch):
    """A config.yaml as pyannote's are, whose parts lie where it says."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    own = recipe()
    segmentation = assembly._segmentation(own.segmentation)
    seen = []

    def from_pretrained(name):
        seen.append(name)
        return assembly._put_together(own)

    import pyannote.audio

    monkeypatch.setattr(pyannote.audio.Pipeline, "from_pretrained", from_pretrained)
    made = assemble(recipe(pipeline="somebody/pipeline", segmentation="", embedding="", step=0.5))
    assert seen == ["somebody/pipeline"]
    assert made._segmentation.step == pytest.approx(2.5)
    assert made._segmentation.model.specifications == segmentation.specifications
