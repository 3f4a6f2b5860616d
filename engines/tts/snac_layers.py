"""SNAC's decoder, one frame at a time, with what each layer must remember kept outside.

Offline, each convolution pads its input with zeros on both sides. Here it gets the last inputs
of its stream instead, and so answers late, by its padding; a residual branch waits as long. A
layer's output before the stream's start and past its end is set to zero before the next
convolution reads it, as the padding there is. So each sample is the offline one, given out as
soon as the last latent that it depends on is there.

Time runs along the second axis and channels along the last: every layer is then one matrix
product over all rows and times, and the upsampling ones give their samples in order by a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name all of PyTorch has for it
from torch import Tensor, nn

from engines.tts.snac_noise import gaussian_noise

if TYPE_CHECKING:
    import snac

LATENTS: Final = 4
"""Latents of one frame: the finest codebook gives one each, the others last for 2 and 4."""
LEVELS: Final = 3
SOURCE, TARGET, FRAME, END, SEED, CODES = 0, 1, 2, 3, 4, 6
"""Columns of a row's instruction: where its state is read and written, which frame of its stream
this is, after how many the stream ends, two for the seed's halves, and the codes by latent."""
COLUMNS: Final = CODES + LATENTS * LEVELS
NO_END: Final = 1 << 40


class Timeline:
    """Which samples the rows of a step are at, in a layer of any rate and delay.

    Where every row is ``steady`` (past its head and before its end), nothing is masked.
    """

    def __init__(self, frames: Tensor, ends: Tensor, *, steady: bool) -> None:
        self._frames, self._ends, self._steady = frames[:, None], ends[:, None], steady

    def positions(self, samples: int, delay: int) -> Tensor:
        """(rows, samples): the place of each sample in its stream; below 0 before its start."""
        along = torch.arange(samples, device=self._frames.device)
        return self._frames * samples + (along - delay)

    def inside(self, x: Tensor, delay: int) -> Tensor:
        """``x`` (rows, samples, channels), zero before the start and past the end."""
        if self._steady:
            return x
        samples = x.shape[1]
        at = self.positions(samples, delay)
        return x * ((at >= 0) & (at < self._ends * samples)).to(x.dtype).unsqueeze(-1)


class Past:
    """The state of the rows of one step, handed from layer to layer."""

    def __init__(self, rows: Tensor, sizes: list[int]) -> None:
        self._old = torch.split(rows, sizes, dim=1)
        self._new: list[Tensor] = []

    def before(self, x: Tensor, length: int) -> Tensor:
        """``x`` with the ``length`` samples that came before it in front."""
        old = self._old[len(self._new)].reshape(len(x), length, -1)
        joined = torch.cat([old, x], dim=1)
        self._new.append(joined[:, x.shape[1] :].flatten(1))
        return joined

    def late(self, x: Tensor, delay: int) -> Tensor:
        """What came ``delay`` samples before ``x``, as many samples as that."""
        old = self._old[len(self._new)].reshape(len(x), delay, -1)
        now, later = torch.split(x, [x.shape[1] - delay, delay], dim=1)
        self._new.append(later.flatten(1))
        return torch.cat([old, now], dim=1)

    def now(self) -> Tensor:
        """The state after the step."""
        return torch.cat(self._new, dim=1)


class Gain(nn.Module):
    """What a snake does to its input: times a, once the biases that were left out are made up
    for. The rest of a snake, x + sin(ax)**2 / a, is ``_snake`` and a division by a, and that is
    folded into the weights that follow."""

    gain: Tensor
    offset: Tensor

    def __init__(self, snake: Any, left_out: Tensor | None = None) -> None:
        super().__init__()
        gain = _alpha(snake)
        self.register_buffer("gain", gain)
        self.register_buffer("offset", gain * (0 if left_out is None else left_out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.offset, x, self.gain)


def _alpha(snake: Any) -> Tensor:
    """A snake's a (channels,). For zero, which is no snake at all, what comes closest."""
    alpha: Tensor = snake.alpha.detach().flatten()
    return torch.where(alpha == 0, 1e-9, alpha)


def _snake(x: Tensor) -> Tensor:
    """x + sin(x)**2, in place."""
    sine = x.sin()
    return x.addcmul_(sine, sine)


class Depthwise(nn.Module):
    """A convolution of each channel by itself, over samples that its past is in front of.

    ``scale`` (channels,) is folded into its weights, and ``gain`` into all that it gives.
    """

    def __init__(
        self, offline: Any, *, scale: Tensor | float = 1.0, gain: Tensor | float = 1.0
    ) -> None:
        super().__init__()
        if offline.groups != offline.in_channels:
            raise ValueError("this SNAC has no depthwise convolutions: only such can be streamed")
        self.dilation: int = offline.dilation[0]
        self.taps: int = offline.kernel_size[0]
        self.past = (self.taps - 1) * self.dilation
        kernel = (offline.weight.detach()[:, 0].t() * (scale * gain)).t()
        kernel = kernel[:, None, None, :]  # an image of one line
        self.register_buffer("kernel", kernel.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", offline.bias.detach() * gain)

    kernel: Tensor
    bias: Tensor

    def forward(self, joined: Tensor) -> Tensor:
        """(rows, past + samples, channels) to (rows, samples, channels)."""
        if joined.device.type == "cpu" and joined.dtype == torch.float32:
            image = joined.transpose(1, 2).unsqueeze(2)  # oneDNN reads this layout as it lies
            dilation = (1, self.dilation)
            out = F.conv2d(image, self.kernel, self.bias, dilation=dilation, groups=len(self.bias))
            return out.squeeze(2).transpose(1, 2)
        return self.by_taps(joined)

    def by_taps(self, joined: Tensor) -> Tensor:
        """The same, as sums that a compiler makes one kernel of, the snakes around included."""
        samples = joined.shape[1] - self.past
        out = self.bias
        for tap in range(self.taps):
            at = tap * self.dilation
            out = torch.addcmul(out, joined[:, at : at + samples], self.kernel[:, 0, 0, tap])
        return out


class Linear(nn.Module):
    """A matrix for all channels at each time. ``weight`` (out, in), ``bias`` (out,)."""

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight.contiguous())
        self.register_buffer("bias", bias[:, None].clone())

    def forward(self, x: Tensor) -> Tensor:
        # This way round, a large matrix for a few samples is read at the speed of the memory;
        # the other way round it takes a CPU 1.6 times as long.
        out = torch.addmm(self.bias, self.weight, x.flatten(0, 1).t())
        return out.t().contiguous().view(len(x), x.shape[1], -1)


def _pointwise(offline: Any) -> Linear:
    """A convolution of length 1."""
    return Linear(offline.weight.detach()[:, :, 0], offline.bias.detach())


class Residual(nn.Module):
    """A residual unit: snake, dilated depthwise convolution, snake, pointwise convolution.

    ``left_out`` (channels,) are the biases that its input is short of, since the products before
    it add to what is there; its output is short of ``self.left_out``.
    """

    weight: Tensor

    def __init__(self, offline: Any, delay: int, left_out: Tensor) -> None:
        super().__init__()
        first, spread, second, mix = offline.block
        self.first = Gain(first, left_out)
        after = _alpha(second)
        self.spread = Depthwise(spread, scale=_alpha(first).reciprocal(), gain=after)
        self.register_buffer("weight", (mix.weight.detach()[:, :, 0] / after).t().contiguous())
        self.left_out = left_out + mix.bias.detach()
        self.delay_in = delay
        self.pad = self.spread.past // 2
        self.delay = delay + self.pad
        self.state_sizes = [self.spread.past * len(after), self.pad * len(after)]

    def forward(self, x: Tensor, timeline: Timeline, past: Past) -> Tensor:
        active = _snake(timeline.inside(self.first(x), self.delay_in))
        active = _snake(self.spread(past.before(active, self.spread.past)))
        out = past.late(x, self.pad)
        out.view(-1, out.shape[2]).addmm_(active.flatten(0, 1), self.weight)
        return out


class Upsample(nn.Module):
    """A snake and a transposed convolution of twice its stride.

    Each of its outputs depends on two inputs, so it is a matrix product over pairs of them.
    """

    def __init__(self, snake: Any, offline: Any, delay: int, left_out: Tensor | None) -> None:
        super().__init__()
        self.first = Gain(snake, left_out)
        self.stride: int = offline.stride[0]
        self.delay_in = delay
        self.delay = delay * self.stride + offline.padding[0]
        self.state_sizes = [offline.in_channels]
        kernel = offline.weight.detach() / _alpha(snake)[:, None, None]  # (in, out, 2 * stride)
        newer, older = kernel.split(self.stride, dim=2)
        pairs = torch.cat([older, newer])  # (2 * in, out, stride)
        weight = pairs.permute(2, 1, 0).flatten(0, 1)
        self.mix = Linear(weight, offline.bias.detach().repeat(self.stride))

    def forward(self, x: Tensor, timeline: Timeline, past: Past) -> Tensor:
        joined = past.before(_snake(timeline.inside(self.first(x), self.delay_in)), 1)
        pairs = torch.cat([joined[:, :-1], joined[:, 1:]], dim=2)
        out: Tensor = self.mix(pairs)
        return out.view(len(x), self.stride * x.shape[1], -1)


class Block(nn.Module):
    """One stage of the decoder: upsampling, noise, three residual units."""

    noise_gain: Tensor | None

    def __init__(self, offline: Any, delay: int, samples_in: int, left_out: Tensor | None) -> None:
        super().__init__()
        snake, upsample, *rest = offline.block
        self.upsample = Upsample(snake, upsample, delay, left_out)
        self.samples = samples_in * self.upsample.stride
        delay = self.upsample.delay
        noise = rest.pop(0).linear if hasattr(rest[0], "linear") else None
        gain = None if noise is None else noise.weight.detach()[:, :, 0].t().contiguous()
        self.register_buffer("noise_gain", gain)
        self.noise_delay = delay
        self.state_sizes = [*self.upsample.state_sizes]
        self.left_out = torch.zeros_like(upsample.bias)
        units = []
        for offline_unit in rest:
            units.append(unit := Residual(offline_unit, delay, self.left_out))
            self.state_sizes += unit.state_sizes
            delay, self.left_out = unit.delay, unit.left_out
        self.units = nn.ModuleList(units)
        self.delay = delay

    def forward(self, x: Tensor, noise: Tensor | None, timeline: Timeline, past: Past) -> Tensor:
        x = self.upsample(x, timeline, past)
        if noise is not None and self.noise_gain is not None:
            x = torch.addcmul(x, noise.unsqueeze(2), x @ self.noise_gain)
        for unit in self.units:
            x = unit(x, timeline, past)
        return x


class Voicing(nn.Module):
    """The last layers: a snake, a convolution to one channel, tanh."""

    taps: Tensor
    bias: Tensor

    def __init__(self, snake: Any, offline: Any, delay: int, left_out: Tensor | None) -> None:
        super().__init__()
        self.first = Gain(snake, left_out)
        self.delay_in = delay
        self.delay = delay + offline.padding[0]
        self.past: int = offline.kernel_size[0] - 1
        self.state_sizes = [self.past * offline.in_channels]
        self.register_buffer("taps", (offline.weight.detach()[0].t() / _alpha(snake)).contiguous())
        self.register_buffer("bias", offline.bias.detach().clone())

    def forward(self, x: Tensor, timeline: Timeline, past: Past) -> Tensor:
        samples = x.shape[1]
        x = _snake(timeline.inside(self.first(x), self.delay_in))
        by_tap = F.linear(past.before(x, self.past), self.taps)
        out = self.bias
        for tap in range(self.past + 1):
            out = out + by_tap[:, tap : tap + samples, tap]
        return out.tanh()


class StreamingSnac(nn.Module):
    """The decoder of a ``snac.SNAC`` as one step over any rows, which takes all state with it.

    Raises ValueError where the model is not built like the one for 24 kHz.
    """

    latents: Tensor
    noise_layers: Tensor

    def __init__(self, offline: snac.SNAC, *, noise: bool) -> None:
        super().__init__()
        if offline.attn_window_size or list(offline.vq_strides) != [4, 2, 1]:
            raise ValueError(
                "only a SNAC without attention and with three codebooks (strides 4, 2, 1) can be "
                "streamed: take hubertsiuzdak/snac_24khz"
            )
        spread, mix, *blocks, snake, voicing, _ = offline.decoder.model
        self.spread, self.mix = Depthwise(spread), _pointwise(mix)
        self.state_sizes = [self.spread.past * spread.in_channels]
        delay, samples = self.spread.past // 2, LATENTS
        left_out, stages = None, []
        for offline_block in blocks:
            stages.append(stage := Block(offline_block, delay, samples, left_out))
            self.state_sizes += stage.state_sizes
            delay, samples, left_out = stage.delay, stage.samples, stage.left_out
        self.blocks = nn.ModuleList(stages)
        self.voicing = Voicing(snake, voicing, delay, left_out)
        self.state_sizes += self.voicing.state_sizes
        self.delay_samples = self.voicing.delay
        self.frame_samples = samples
        self.codebook_size: int = offline.codebook_size
        self.noisy = noise and all(stage.noise_gain is not None for stage in stages)
        self.noise_places = [(stage.samples, stage.noise_delay) for stage in stages]
        layers = [torch.full((stage.samples,), place) for place, stage in enumerate(stages)]
        self.register_buffer("noise_layers", torch.cat(layers))
        self.register_buffer("latents", _latents(offline))

    def forward(self, states: Tensor, rows: Tensor, steady: bool) -> Tensor:
        """Decode one frame of each row: float (rows, frame_samples), ``delay_samples`` late.

        ``states`` (any, sum of state_sizes) is changed in place. ``rows`` (rows, COLUMNS) int64
        says for each what it is. Only where every row is past its head and before its end may
        ``steady`` be true: it saves the masks.
        """
        old = states.index_select(0, rows[:, SOURCE])
        if not steady:
            old = torch.where(rows[:, FRAME, None] == 0, 0.0, old)
        timeline = Timeline(rows[:, FRAME], rows[:, END], steady=steady)
        past = Past(old, self.state_sizes)
        levels = rows[:, CODES:].reshape(-1, LATENTS, LEVELS)
        x = F.embedding(levels, self.latents).sum(2)
        x = self.mix(self.spread(past.before(timeline.inside(x, 0), self.spread.past)))
        for block, noise in zip(self.blocks, self._noise(rows, timeline, x.dtype), strict=True):
            x = block(x, noise, timeline, past)
        audio: Tensor = self.voicing(x, timeline, past)
        states.index_copy_(0, rows[:, TARGET], past.now())
        return audio

    def _noise(
        self, rows: Tensor, timeline: Timeline, dtype: torch.dtype
    ) -> Sequence[Tensor | None]:
        """What each block adds, (rows, samples of the block), hashed in one go."""
        if not self.noisy:
            return [None] * len(self.blocks)
        places = [timeline.positions(*place) for place in self.noise_places]
        noise = gaussian_noise(
            rows[:, SEED:CODES], self.noise_layers, torch.cat(places, dim=1), dtype
        )
        return torch.split(noise, [samples for samples, _ in self.noise_places], dim=1)


def _latents(offline: Any) -> Tensor:
    """(LEVELS * codebook size, latent): each code through its codebook's output projection."""
    tables = [
        F.linear(
            level.codebook.weight.detach(),
            level.out_proj.weight.detach().squeeze(2),
            level.out_proj.bias.detach(),
        )
        for level in offline.quantizer.quantizers
    ]
    return torch.cat(tables)
