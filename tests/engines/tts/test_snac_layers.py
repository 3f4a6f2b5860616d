"""What the layers are made of: sizes, masks, and two ways to the same convolution."""

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
    Depthwise,
    Gain,
    StreamingSnac,
    Timeline,
)
from engines.tts.snac_weights import TINY, random_snac

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_torch_thread")]


@pytest.fixture(scope="module")
def core():
    return StreamingSnac(random_snac(**TINY), noise=True).eval()


def rows_of(*rows):
    """Of (source, target, frame): rows of voices without end."""
    made = torch.zeros(len(rows), COLUMNS, dtype=torch.int64)
    made[:, [SOURCE, TARGET, FRAME]] = torch.tensor(rows)
    made[:, END], made[:, CODES:] = NO_END, 5
    return made


def test_a_stream_of_the_real_shape_keeps_119232_floats():
    core = StreamingSnac(random_snac(), noise=True)
    assert sum(core.state_sizes) == 119_232
    assert (core.delay_samples, core.frame_samples) == (4757, 2048)


@torch.inference_mode()
def test_without_masks_a_step_in_the_middle_is_the_same(core):
    states = torch.rand(2, sum(core.state_sizes))
    rows = rows_of((0, 0, 3), (1, 1, 100))
    masked, unmasked = states.clone(), states.clone()
    assert torch.equal(core(masked, rows, False), core(unmasked, rows, True))
    assert torch.equal(masked, unmasked)
    assert not torch.equal(masked, states)


@torch.inference_mode()
def test_state_is_read_from_one_row_and_written_to_another(core):
    states = torch.rand(3, sum(core.state_sizes))
    before = states.clone()
    core(states, rows_of((0, 2, 10)), True)
    assert torch.equal(states[:2], before[:2])
    assert not torch.equal(states[2], before[2])


@torch.inference_mode()
def test_a_first_frame_forgets_what_was_there(core):
    width = sum(core.state_sizes)
    dirty, clean = torch.full((1, width), torch.nan), torch.zeros(1, width)
    first = rows_of((0, 0, 0))
    assert torch.equal(core(dirty, first, False), core(clean, first, False))
    assert torch.equal(dirty, clean)


def test_masks_cut_at_both_ends():
    timeline = Timeline(torch.tensor([0, 5, 5]), torch.tensor([1 << 40, 6, 5]), steady=False)
    ones = torch.ones(3, 4, 1)
    assert timeline.inside(ones, 3)[:, :, 0].tolist() == [[0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 0]]


@torch.inference_mode()
@pytest.mark.parametrize("dilation", [1, 3, 9])
def test_taps_and_convolution_agree(dilation):
    torch.manual_seed(0)
    offline = torch.nn.Conv1d(16, 16, 7, dilation=dilation, groups=16)
    scale, gain = torch.rand(16) + 0.5, torch.rand(16) + 0.5
    layer = Depthwise(offline, scale=scale, gain=gain)
    x = torch.randn(3, 100, 16)
    expected = offline((x * scale).transpose(1, 2)).transpose(1, 2) * gain
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer.by_taps(x), expected)


def test_a_snake_without_a_is_no_snake():
    model = random_snac(**TINY)
    snake = model.decoder.model[2].block[0]
    snake.alpha.data.zero_()
    gain = Gain(snake)
    x = torch.randn(1, 5, snake.alpha.shape[1])
    torch.testing.assert_close(gain(x) / gain.gain, x)
    assert torch.isfinite(gain.gain.reciprocal()).all()
