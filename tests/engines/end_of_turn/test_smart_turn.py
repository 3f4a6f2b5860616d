import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from engines.audio import Pcm
from engines.end_of_turn.smart_turn import WEIGHTS_FILE, Options, create, features
from engines.models import ModelMissing, ModelStore
from engines.ports import EngineError, TurnRequest
from loadtest.speech import Recording, recordings

RATE = 16_000


def noise(seconds: float) -> Pcm:
    rng = np.random.default_rng(5)
    return Pcm.from_floats(0.2 * rng.standard_normal(int(seconds * RATE)), RATE)


async def judge(turns, pcm: Pcm) -> float:
    async with turns.open(TurnRequest(pcm)) as judgements:
        (probability,) = [probability async for probability in judgements]
    return probability


@pytest.mark.parametrize("seconds", [0.05, 3.0, 8.0, 11.3])
def test_features_are_those_that_the_model_was_trained_on(seconds):
    transformers = pytest.importorskip("transformers")
    reference = transformers.WhisperFeatureExtractor(chunk_length=8)
    pcm = noise(seconds)
    last = pcm.floats()[-8 * RATE :]
    heard = np.pad(last, (8 * RATE - len(last), 0))
    expected = reference(heard, sampling_rate=RATE, do_normalize=True, return_tensors="np")
    made = features(pcm)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected.input_features[0], atol=2e-5)


def test_only_the_last_eight_seconds_count():
    longer = Pcm(np.concatenate([noise(1).samples[::-1], noise(8).samples]), RATE)
    np.testing.assert_array_equal(features(longer), features(noise(8)))


@pytest.mark.parametrize("milliseconds", [0, 500])
def test_silence_has_features_too(milliseconds):
    assert np.isfinite(features(Pcm.silence(milliseconds, RATE))).all()


def test_a_missing_model_is_told_with_the_command_that_fetches_it(tmp_path):
    with pytest.raises(ModelMissing, match=r"voice models pull smart-turn-v3\.2 --folder"):
        create(Options(), ModelStore(tmp_path))


async def test_a_file_that_is_no_graph_is_refused(tmp_path):
    (tmp_path / WEIGHTS_FILE).write_bytes(b"no graph at all")
    turns = create(Options(model=str(tmp_path)), ModelStore())
    with pytest.raises(EngineError, match=f"cannot load {tmp_path}.*pull the model") as refused:
        await turns.warm_up()
    assert refused.value.code == "unavailable"
    await turns.close()


async def test_before_it_is_loaded_it_judges_nothing(tmp_path):
    turns = create(Options(model=str(tmp_path)), ModelStore())
    with pytest.raises(EngineError, match="await warm_up"):
        await judge(turns, noise(1))
    await turns.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def turns():
    made = create(Options(), ModelStore())
    await made.warm_up()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def sentences() -> list[Recording]:
    """Real speech of some length: the folder that the environment names, else the store's."""
    folder = os.environ.get("ANTIPHON_SPEECH_DIR")
    clips = recordings(Path(folder) if folder else ModelStore().path("speech"))
    return [clip for clip in clips if len(clip.words.split()) >= 6]


@pytest.mark.engine
class TestRealSmartTurn:
    async def test_whole_sentences_sound_more_finished_than_halves_of_them(self, turns, sentences):
        whole = [await judge(turns, clip.pcm) for clip in sentences]
        halves = [Pcm(clip.pcm.samples[: len(clip.pcm) // 2], RATE) for clip in sentences]
        cut = [await judge(turns, half) for half in halves]
        assert all(0 <= probability <= 1 for probability in whole + cut)
        assert np.mean(whole) > np.mean(cut) + 0.3

    async def test_another_rate_is_refused_with_the_remedy(self, turns):
        with pytest.raises(EngineError, match=r"8000 samples a second.*resample") as refused:
            await judge(turns, Pcm.silence(500, 8000))
        assert refused.value.code == "bad_request"

    async def test_another_model_in_its_place_is_refused(self, tmp_path):
        silero = ModelStore().path("silero-vad") / "silero_vad.onnx"
        shutil.copy(silero, tmp_path / WEIGHTS_FILE)
        other = create(Options(model=str(tmp_path)), ModelStore())
        with pytest.raises(EngineError, match=r"takes \[\('input'.*not smart-turn v3"):
            await other.warm_up()
        await other.close()

    async def test_a_failure_of_the_runtime_is_told_as_ours(self, turns, monkeypatch):
        wrong = np.zeros((80, 7), np.float32)
        monkeypatch.setattr("engines.end_of_turn.smart_turn.features", lambda _: wrong)
        with pytest.raises(EngineError, match="the model failed") as failed:
            await judge(turns, noise(1))
        assert failed.value.code == "failed"
