"""The step without its slots: state in, state out, and masks only where they matter."""

import pytest
import torch

from engines.tts.snac_layers import (
    CODES,
    COLUMNS,
    END,
    FRAME,
    NO_END,
    SOURCE,
    TARGET,
    StreamingSnac,
)
from engines.tts.snac_weights import TINY, random_snac

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def core() -> StreamingSnac:
    return StreamingSnac(random_snac(**TINY), noise=True).eval()


def row(frame: int, source: int, target: int, seed: int = 1) -> torch.Tensor:
    made = torch.zeros(1, COLUMNS, dtype=torch.int64)
    made[0, [SOURCE, TARGET, FRAME, END]] = torch.tensor([source, target, frame, NO_END])
    made[0, CODES:] = torch.randint(0, 4096, (COLUMNS - CODES,), generator=torch.manual_seed(seed))
    return made


@torch.inference_mode()
def test_a_steady_row_needs_no_masks(core: StreamingSnac) -> None:
    width = sum(core.state_sizes)
    masked, steady = (torch.randn(2, width, generator=torch.manual_seed(3)) for _ in range(2))
    assert torch.equal(core(masked, row(10, 0, 0), False), core(steady, row(10, 0, 0), True))
    assert torch.equal(masked, steady)


@torch.inference_mode()
def test_state_is_read_from_one_row_and_written_to_another(core: StreamingSnac) -> None:
    states = torch.randn(3, sum(core.state_sizes), generator=torch.manual_seed(3))
    before = states.clone()
    core(states, row(10, 0, 2), True)
    assert torch.equal(states[:2], before[:2])
    assert not torch.equal(states[2], before[2])


@torch.inference_mode()
def test_a_first_frame_forgets_what_was_there(core: StreamingSnac) -> None:
    width = sum(core.state_sizes)
    dirty, clean = torch.full((1, width), 9.0), torch.zeros(1, width)
    assert torch.equal(core(dirty, row(0, 0, 0), False), core(clean, row(0, 0, 0), False))


def test_what_is_known_of_the_24_khz_model_holds(core: StreamingSnac) -> None:
    assert (core.frame_samples, core.delay_samples) == (2048, 4757)
    real = StreamingSnac(random_snac(), noise=False)
    assert sum(real.state_sizes) == 119_232
