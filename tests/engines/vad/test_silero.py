"""Parity with the published ONNX file on real speech, and what a slot promises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import soundfile
from numpy.typing import NDArray

from engines.models import ModelMissing, ModelStore
from engines.ports import EngineError, Vad
from engines.vad import silero

FloatArray = NDArray[np.float32]
CALLS = 6


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore()


@pytest.fixture
def vad(models: ModelStore) -> Vad:
    return silero.create(silero.Options(), models)


@pytest.fixture(scope="module")
def speech(models: ModelStore) -> FloatArray:
    """Real speech of six calls, (calls, windows, 512): different clips, cut and repeated."""
    folder = models.path("speech")
    clips = [
        soundfile.read(folder / name, dtype="float32")[0]
        for name in sorted(json.loads((folder / "transcripts.json").read_bytes()))
    ]
    samples = np.concatenate(clips)
    windows = len(samples) // 512 // CALLS
    return samples[: CALLS * windows * 512].reshape(CALLS, windows, 512)


def reference(models: ModelStore, windows: FloatArray) -> FloatArray:
    """One call's probabilities from the ONNX file, window by window."""
    session = onnxruntime.InferenceSession(
        models.path("silero-vad") / "silero_vad.onnx", providers=["CPUExecutionProvider"]
    )
    state = np.zeros((2, 1, 128), np.float32)
    tail = np.zeros(64, np.float32)
    rate = np.array(16_000, np.int64)
    probabilities = []
    for window in windows:
        heard = np.concatenate([tail, window])[None]
        probability, state = session.run(None, {"input": heard, "state": state, "sr": rate})
        probabilities.append(probability[0, 0])
        tail = window[-64:]
    return np.array(probabilities, np.float32)


@pytest.mark.engine
def test_interleaved_calls_agree_with_the_onnx_file(
    vad: Vad, models: ModelStore, speech: FloatArray
) -> None:
    """Calls of odd number rest in every third step, so that batches and their rows vary."""
    slots = [vad.open() for _ in range(CALLS)]
    heard: list[list[np.float32]] = [[] for _ in range(CALLS)]
    for tick in range(speech.shape[1] * 3):
        ready = [
            call
            for call in range(CALLS)
            if len(heard[call]) < speech.shape[1] and (call % 2 == 0 or tick % 3)
        ]
        ready = ready[tick % CALLS :] + ready[: tick % CALLS]
        windows = np.array([speech[call, len(heard[call])] for call in ready], np.float32)
        rows = np.array([slots[call] for call in ready], np.intp)
        for call, probability in zip(ready, vad.step(rows, windows.reshape(-1, 512)), strict=True):
            heard[call].append(probability)

    assert speech.shape[0] * speech.shape[1] >= 200
    expected = np.array([reference(models, windows) for windows in speech])
    assert expected.max() > 0.9
    assert expected.min() < 0.1
    np.testing.assert_allclose(np.array(heard), expected, rtol=0, atol=1e-5)


@pytest.mark.engine
@pytest.mark.parametrize("calls", [1, 32, 33, 100])
def test_a_window_sounds_alike_in_a_batch_of_any_size(
    vad: Vad, speech: FloatArray, calls: int
) -> None:
    alone, among = vad.open(), np.array([vad.open() for _ in range(calls)], np.intp)
    for window in speech[0, :40]:
        single = vad.step(np.array([alone]), window[None])
        many = vad.step(among, np.repeat(window[None], calls, axis=0))
        np.testing.assert_allclose(many, np.repeat(single, calls), rtol=0, atol=1e-5)


@pytest.mark.engine
@pytest.mark.parametrize("counts", [(1, 2, 40), (256,), (7, 256, 1)])
def test_windows_that_follow_each_other_sound_as_in_as_many_steps(
    vad: Vad, speech: FloatArray, counts: tuple[int, ...]
) -> None:
    windows = np.concatenate(list(speech))
    stepped, followed = vad.open(), vad.twin().open()
    other, start = vad.twin(), 0
    assert other.open() == followed
    for count in counts:
        some = windows[start : start + count]
        expected = np.concatenate([vad.step(np.array([stepped]), each[None]) for each in some])
        assert np.abs(other.follow(followed, some) - expected).max() < 1e-5
        start += count
    after = windows[None, start]
    one, same = (
        of.step(np.array([slot]), after) for of, slot in ((vad, stepped), (other, followed))
    )
    assert abs(one[0] - same[0]) < 1e-5


@pytest.mark.engine
def test_a_slot_given_back_forgets_its_call(vad: Vad, speech: FloatArray) -> None:
    slot = vad.open()
    first = [vad.step(np.array([slot]), window[None])[0] for window in speech[0, :20]]
    vad.close(slot)
    again = vad.open()
    assert again == slot
    second = [vad.step(np.array([again]), window[None])[0] for window in speech[0, :20]]
    assert first == second


@pytest.mark.engine
def test_calls_keep_their_state_while_slots_grow(vad: Vad, speech: FloatArray) -> None:
    slot, other = vad.open(), vad.open()
    for window in speech[1, :10]:
        vad.step(np.array([slot]), window[None])
        vad.step(np.array([other]), window[None])
    slots = {vad.open() for _ in range(200)}
    assert len(slots | {slot, other}) == 202
    window = speech[1, 10][None]
    np.testing.assert_array_equal(
        vad.step(np.array([slot]), window), vad.step(np.array([other]), window)
    )


@pytest.mark.engine
def test_silence_is_no_speech_and_no_calls_no_answer(vad: Vad) -> None:
    slot = vad.open()
    silence = np.zeros((1, 512), np.float32)
    assert vad.step(np.array([slot]), silence)[0] < 0.1
    assert vad.step(np.zeros(0, np.intp), np.zeros((0, 512), np.float32)).shape == (0,)


@pytest.mark.engine
def test_a_slot_is_given_back_once_and_used_while_held(vad: Vad) -> None:
    slot = vad.open()
    vad.close(slot)
    with pytest.raises(KeyError):
        vad.close(slot)
    with pytest.raises(IndexError):
        vad.step(np.array([10_000]), np.zeros((1, 512), np.float32))


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="voice models pull silero-vad"):
        silero.create(silero.Options(), ModelStore(tmp_path))


@pytest.mark.engine
def test_a_network_of_another_shape_is_refused_by_name(tmp_path: Path, models: ModelStore) -> None:
    """The file of both sample rates keeps its weights elsewhere, and is a likely mistake."""
    both_rates = (models.path("silero-vad") / "silero_vad.onnx").read_bytes()
    (tmp_path / silero.WEIGHTS_FILE).write_bytes(both_rates)
    with pytest.raises(EngineError, match=r"silero_vad_16k_op15\.onnx is not Silero VAD v6"):
        silero.create(silero.Options(str(tmp_path)), models)


def test_a_first_layer_that_is_no_fourier_transform_is_refused() -> None:
    basis = np.ones((258, 1, 256), np.float32)
    with pytest.raises(ValueError, match="no windowed Fourier transform"):
        silero._folded_fourier(basis[:, 0])
