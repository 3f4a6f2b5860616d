"""The decoder on a GPU gives what it gives on a CPU, whatever the batch is padded to."""

import numpy as np
import pytest
import torch

from engines.tts.snac import SnacDecoder
from engines.tts.snac_weights import TINY, random_snac

pytestmark = [
    pytest.mark.torch,
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("voices", [1, 3, 9])
def test_it_is_that_of_the_cpu(voices: int, graphs: bool) -> None:
    model = random_snac(**TINY)
    frames = np.random.default_rng(0).integers(0, 4096, (6, voices, 7))
    heard = []
    for device in ("cpu", "cuda"):
        decoder = SnacDecoder(model, slots=9, device=device, graphs=graphs)
        slots = [decoder.open(seed) for seed in range(voices)]
        steps = [decoder.step(slots, list(step)) for step in frames]
        heard.append(np.concatenate([np.stack(step) for step in steps], axis=1))
    assert np.abs(heard[0] - heard[1]).max() <= 1e-3
