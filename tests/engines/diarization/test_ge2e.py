"""The speaker encoder: shapes, masks, and that it tells voices apart."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from engines.diarization.ge2e import DIMENSION, Ge2e
from engines.models import ModelStore

pytestmark = [pytest.mark.engine, pytest.mark.torch]
SPEECH = Path(ModelStore().root) / "speech"


@pytest.fixture(scope="module")
def encoder(one_torch_thread):
    return Ge2e(ModelStore().path("resemblyzer") / "pretrained.pt").eval()


def sound(*names: str, seconds: float = 3.0) -> torch.Tensor:
    clips = [soundfile.read(SPEECH / name, dtype="float32")[0] for name in names]
    rows = [np.resize(clip, int(seconds * 16_000)) for clip in clips]
    return torch.from_numpy(np.stack(rows))[:, None]


def voices(encoder, waveforms, weights=None):
    with torch.inference_mode():
        return encoder(waveforms, weights)


def test_a_voice_has_length_one(encoder):
    found = voices(encoder, sound("lv_0870.wav", "cards_005.wav"))
    assert found.shape == (2, DIMENSION) == (2, encoder.dimension)
    assert torch.allclose(found.norm(dim=1), torch.ones(2), atol=1e-5)


def test_voices_of_one_speaker_are_more_alike_than_those_of_two(encoder):
    names = ["lv_0870.wav", "lv_0920.wav", "forever_2.wav", "forever_4.wav"]
    found = voices(encoder, sound(*names))
    alike = found @ found.T
    same, other = (alike[0, 1], alike[2, 3]), alike[:2, 2:]
    assert min(same) > 0.7 > 0.65 > other.max()


def test_what_is_masked_is_not_heard(encoder):
    """One speaker, then another: with the second half masked, it is the first one's voice."""
    first, second = sound("lv_0870.wav", "forever_4.wav")
    both = torch.cat([first, second], dim=1)[None]
    mask = torch.zeros(1, 600)
    mask[:, :300] = 1
    masked = voices(encoder, both, mask)[0]
    assert masked @ voices(encoder, first[None])[0] > 0.97
    assert masked @ voices(encoder, second[None])[0] < 0.7


def test_nothing_to_hear_is_no_voice_and_leaves_the_others_what_they_are(encoder):
    waveforms = sound("lv_0870.wav", "lv_0870.wav")
    mask = torch.stack([torch.zeros(100), torch.ones(100)])
    found = voices(encoder, waveforms, mask)
    assert found[0].isnan().all()
    assert torch.allclose(found[1], voices(encoder, waveforms[1:])[0], atol=1e-5)
    assert voices(encoder, waveforms, torch.zeros(2, 100)).isnan().all()


def test_quiet_speech_has_the_same_voice(encoder):
    waveforms = sound("lv_0870.wav")
    assert voices(encoder, waveforms * 0.02)[0] @ voices(encoder, waveforms * 0.1)[0] > 0.999


@pytest.mark.parametrize("samples", [1, 200, 4000])
def test_the_shortest_sound_has_some_voice(encoder, samples):
    found = voices(encoder, sound("lv_0870.wav")[:, :, :samples])
    assert found.shape == (1, DIMENSION)
