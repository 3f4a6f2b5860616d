"""Silero VAD v6 as plain matrix products over all calls that have a window.

The network (github.com/snakers4/silero-vad, MIT) hears 512 samples at 16 kHz behind the last
64 of the window before, and gives one probability: a Hann-windowed Fourier transform of four
frames, four convolutions over time, an LSTM cell, one output. A model runtime spends most of
a call on getting ready, and cannot put windows of different calls into one batch as they come;
products over preallocated buffers cost about 11 us a window at 64 calls and 15 at 8.

What is folded into the weights when they are loaded:

- A frame's cosine sums see only ``x[j] + x[256 - j]`` and its sine sums only the difference,
  so two products of half the length stand for the transform.
- Time is laid out along the row, so that a convolution's inputs are a slice of the row before
  it: no patches are copied, and taps that would only meet padding are left out.
- ``sigmoid(x) = (1 + tanh(x / 2)) / 2``: one tanh serves all four gates; the halves move into
  weights, and the state holds ``2 h`` in place of ``h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import threadpoolctl

from engines.models import ModelStore
from engines.ports import EngineError, FloatArray, SlotArray
from engines.vad.onnx_file import read_initializers

WEIGHTS_FILE = "silero_vad_16k_op15.onnx"
RATE = 16_000
WINDOW = 512
CONTEXT = 64
FRAME = 256
HOP = 128
FRAMES = 4
BINS = FRAME // 2 + 1
HIDDEN = 128
_HEARD = CONTEXT + WINDOW
_PADDED = _HEARD + CONTEXT

# A call's row of state, laid out so that the LSTM's input is one slice of it: room for what
# the last convolution gives, then 2 h, c, and the end of the last window.
_CONV = slice(0, HIDDEN)
_H = slice(HIDDEN, 2 * HIDDEN)
_LSTM_INPUT = slice(0, 2 * HIDDEN)
_C = slice(2 * HIDDEN, 3 * HIDDEN)
_TAIL = slice(3 * HIDDEN, 3 * HIDDEN + CONTEXT)
_ROW = 3 * HIDDEN + CONTEXT

# OpenBLAS multiplies up to a million terms without first copying the weights into its own
# order, which for the LSTM's half megabyte costs more than a small batch's product itself:
# up to this many calls the product is cut into eight that are small enough.
_SMALL_BATCH = 32
_CUTS = 8


@dataclass(frozen=True, slots=True)
class Options:
    """``model``: a name of the model store, or the path of a folder with its files."""

    model: str = "silero-vad"


def create(options: Options, models: ModelStore) -> Silero:
    """Load the weights (1.3 MB). Raises EngineError where they are missing or altered.

    Limits BLAS to one thread in the whole process: the step runs on the event loop, where a
    second thread would take the core of another engine to save a few microseconds.
    """
    path = models.path(options.model) / WEIGHTS_FILE
    raw = read_initializers(path)
    try:
        weights = Weights.fold(raw)
    except (KeyError, ValueError) as error:
        raise EngineError(
            "silero", "failed", f"{path} is not Silero VAD v6 at 16 kHz ({error}): pull it again"
        ) from error
    threadpoolctl.threadpool_limits(1, user_api="blas")
    return Silero(weights)


@dataclass(frozen=True, slots=True)
class Weights:
    """The network's weights as the step multiplies with them: inputs down, outputs across.

    ``fourier`` (2, 128, 129) cosines and sines; ``conv1`` (387, 128), ``conv2`` (384, 64),
    ``conv3`` (128, 64), ``conv4`` (64, 128), their rows by tap, then channel; ``lstm``
    (256, 512), gates in the order input, forget, output, cell; ``lstm_cut`` (8, 256, 64) the
    same cut by columns; ``out`` (128,).
    """

    fourier: FloatArray
    conv1: FloatArray
    conv1_bias: FloatArray
    conv2: FloatArray
    conv2_bias: FloatArray
    conv3: FloatArray
    conv3_bias: FloatArray
    conv4: FloatArray
    conv4_bias: FloatArray
    lstm: FloatArray
    lstm_cut: FloatArray
    lstm_bias: FloatArray
    out: FloatArray
    out_bias: np.float32

    @classmethod
    def fold(cls, raw: Mapping[str, FloatArray]) -> Weights:
        """From the tensors of the published file."""
        lstm, lstm_bias = _folded_lstm(raw)
        conv = {n: _by_tap(raw[f"model.encoder.{n}.reparam_conv.weight"]) for n in range(4)}
        bias = {n: raw[f"model.encoder.{n}.reparam_conv.bias"] for n in range(4)}
        return cls(
            fourier=_folded_fourier(raw["model.stft.forward_basis_buffer"][:, 0]),
            conv1=conv[0],
            conv1_bias=np.tile(bias[0], FRAMES),
            conv2=conv[1],
            conv2_bias=np.tile(bias[1], FRAMES // 2),
            # One frame comes out: its first tap meets the padding, and of the last
            # convolution's taps only the middle one does not.
            conv3=conv[2][len(conv[2]) // 3 :],
            conv3_bias=bias[2],
            conv4=np.array_split(conv[3], 3)[1],
            conv4_bias=bias[3],
            lstm=lstm,
            lstm_cut=np.ascontiguousarray(np.stack(np.split(lstm, _CUTS, axis=1))),
            lstm_bias=lstm_bias,
            # A quarter: half for 2 h, half for the sigmoid as a tanh.
            out=raw["model.decoder.decoder.2.weight"].ravel() / np.float32(4),
            out_bias=np.float32(raw["model.decoder.decoder.2.bias"][0] / 2),
        )


def _by_tap(weight: FloatArray) -> FloatArray:
    """(outputs, channels, taps) -> (taps * channels, outputs)."""
    outputs = weight.shape[0]
    return np.ascontiguousarray(weight.transpose(2, 1, 0).reshape(-1, outputs))


def _folded_fourier(basis: FloatArray) -> FloatArray:
    """(258, 256) cosine and sine rows -> (2, 128, 129) for sums and differences, j = 1..128."""
    cosines, sines = basis[:BINS], basis[BINS:]
    mirrored = basis[:, :0:-1]
    symmetric = np.allclose(cosines[:, 1:], mirrored[:BINS], atol=1e-6)
    antisymmetric = np.allclose(sines[:, 1:], -mirrored[BINS:], atol=1e-6)
    if not (symmetric and antisymmetric and np.allclose(basis[:, 0], 0, atol=1e-6)):
        raise ValueError("its first layer is no windowed Fourier transform")
    half = np.stack([cosines[:, 1 : HOP + 1].T, sines[:, 1 : HOP + 1].T])
    half[:, -1] /= 2  # j = 128 is its own mirror image, and so is counted twice
    return np.ascontiguousarray(half)


def _folded_lstm(raw: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    weight = np.hstack([raw["model.decoder.rnn.weight_ih"], raw["model.decoder.rnn.weight_hh"] / 2])
    bias = raw["model.decoder.rnn.bias_ih"] + raw["model.decoder.rnn.bias_hh"]
    entry, forget, cell, exit_ = range(4)
    order = [entry, forget, exit_, cell]
    halves = np.array([0.5, 0.5, 0.5, 1], np.float32)[:, None]
    weight = weight.reshape(4, HIDDEN, -1)[order] * halves[:, :, None]
    bias = bias.reshape(4, HIDDEN)[order] * halves
    return np.ascontiguousarray(weight.reshape(4 * HIDDEN, -1).T), bias.ravel()


class _Work:
    """The buffers of a step over ``n`` calls, as views of memory shared by all sizes."""

    def __init__(self, memory: _Memory, n: int) -> None:
        self.row = memory.row[:n]
        self.forward = memory.forward[:n]
        self.backward = memory.backward[:n]
        ahead = np.lib.stride_tricks.sliding_window_view(self.forward, HOP, axis=1)
        back = np.lib.stride_tricks.sliding_window_view(self.backward, HOP, axis=1)
        # Frame f starts at 128 f; its samples 1..128 run forward there, and its samples
        # 255..128 lie in the reversed row from 640 - 256 - 128 f on.
        self.ahead = ahead[:, 1 : 1 + HOP * FRAMES : HOP]
        self.back = back[:, _PADDED - FRAME :: -HOP]
        self.folded = memory.folded[: 2 * n * FRAMES].reshape(2, n, FRAMES, HOP)
        self.folded_rows = self.folded.reshape(2, n * FRAMES, HOP)
        self.spectrum = memory.spectrum[: 2 * n * FRAMES].reshape(2, n * FRAMES, BINS)
        self.power = memory.power[:n]
        self.power_rows = self.power.reshape(n * FRAMES, BINS)
        self.conv1 = memory.conv1[:n]
        self.conv2 = memory.conv2[:n]
        self.conv3 = memory.conv3[:n]
        self.gates = memory.gates[:n]
        self.gates_cut = self.gates.reshape(n, _CUTS, -1).transpose(1, 0, 2)
        self.spare = memory.spare[:n]


class _Memory:
    """What a step writes on its way, for up to ``size`` calls."""

    def __init__(self, size: int) -> None:
        def room(rows: int, width: int) -> FloatArray:
            return np.zeros((rows, width), np.float32)

        self.size = size
        self.row = room(size, _ROW)
        self.forward = room(size, _PADDED)
        self.backward = room(size, _PADDED)
        self.folded = room(2 * size * FRAMES, HOP)
        self.spectrum = room(2 * size * FRAMES, BINS)
        self.power = room(size, FRAMES * BINS)
        self.conv1 = room(size, FRAMES * HIDDEN)
        self.conv2 = room(size, FRAMES // 2 * 64)
        self.conv3 = room(size, 64)
        self.gates = room(size, 4 * HIDDEN)
        self.spare = room(size, HIDDEN)


class Silero:
    """``engines.ports.Vad``: a slot for each call, and one step for all that have a window.

    Not for use from several threads: the buffers are shared by all steps.
    """

    rate = RATE
    window_samples = WINDOW

    def __init__(self, weights: Weights, slots: int = 16) -> None:
        self._weights = weights
        self._state = np.zeros((slots, _ROW), np.float32)
        self._free = list(range(slots))[::-1]
        self._taken: set[int] = set()
        self._memory = _Memory(slots)
        self._work: dict[int, _Work] = {}

    def open(self) -> int:
        """Take a slot with fresh state."""
        if not self._free:
            slots = len(self._state)
            self._state = np.concatenate([self._state, np.zeros_like(self._state)])
            self._free = list(range(slots, 2 * slots))[::-1]
        slot = self._free.pop()
        self._state[slot] = 0
        self._taken.add(slot)
        return slot

    def close(self, slot: int) -> None:
        """Give the slot back. Raises KeyError if it is not taken."""
        self._taken.remove(slot)
        self._free.append(slot)

    def twin(self) -> Silero:
        """See ``engines.ports.Vad``."""
        return Silero(self._weights)

    def step(self, slots: SlotArray, windows: FloatArray) -> FloatArray:
        """Speech probabilities (n,) of windows (n, 512) in [-1, 1] of the calls in ``slots``."""
        n = len(slots)
        if n == 0:
            return np.zeros(0, np.float32)
        work = self._work.get(n) or self._new_work(n)
        row = work.row
        # The scatter below refuses what is no slot; to clip here spares a copy of the result.
        self._state.take(slots, axis=0, out=row, mode="clip")
        _listen(work, windows)
        _transform(work, self._weights.fourier)
        _convolve(work, self._weights)
        probabilities = _remember(work, self._weights)
        row[:, _TAIL] = windows[:, -CONTEXT:]
        self._state[slots] = row
        return probabilities

    def follow(self, slot: int, windows: FloatArray) -> FloatArray:
        """Speech probabilities (n,) of windows (n, 512) of one call, one after the other: the same
        as n steps, but only the LSTM goes from window to window. 256 at a time cost 20 us each."""
        n = len(windows)
        work = self._work.get(n) or self._new_work(n)
        state, row = self._state[slot], work.row
        row[0, _TAIL] = state[_TAIL]
        row[1:, _TAIL] = windows[:-1, -CONTEXT:]
        _listen(work, windows)
        _transform(work, self._weights.fourier)
        _convolve(work, self._weights)
        np.matmul(row[:, _CONV], self._weights.lstm[:HIDDEN], out=work.gates)
        np.add(work.gates, self._weights.lstm_bias, out=work.gates)
        _remember_each(work, self._weights, state)
        state[_TAIL] = windows[-1, -CONTEXT:]
        return _probabilities(work, self._weights)

    def _new_work(self, n: int) -> _Work:
        if n > self._memory.size:
            self._memory = _Memory(max(n, 2 * self._memory.size))
            self._work.clear()
        self._work[n] = _Work(self._memory, n)
        return self._work[n]


def _listen(work: _Work, windows: FloatArray) -> None:
    """Context, window and the window's end mirrored, in a row; and the same row reversed."""
    forward, backward = work.forward, work.backward
    forward[:, :CONTEXT] = work.row[:, _TAIL]
    forward[:, CONTEXT:_HEARD] = windows
    backward[:, CONTEXT:] = forward[:, _HEARD - 1 :: -1]
    mirrored = slice(_HEARD - 1 - CONTEXT, _HEARD - 1)
    backward[:, :CONTEXT] = forward[:, mirrored]
    forward[:, _HEARD:] = backward[:, CONTEXT + 1 : 2 * CONTEXT + 1]


def _transform(work: _Work, fourier: FloatArray) -> None:
    """Magnitudes (n, 4 * 129) of the four frames."""
    np.add(work.ahead, work.back, out=work.folded[0])
    np.subtract(work.ahead, work.back, out=work.folded[1])
    np.matmul(work.folded_rows, fourier, out=work.spectrum)
    np.square(work.spectrum, out=work.spectrum)
    np.add(work.spectrum[0], work.spectrum[1], out=work.power_rows)
    np.sqrt(work.power, out=work.power)


def _convolve(work: _Work, weights: Weights) -> None:
    """Four convolutions of three taps, padded by one frame; the middle two with stride 2."""
    frames, one, two = work.power, work.conv1, work.conv2
    width = BINS
    taps = weights.conv1
    np.matmul(frames[:, : 2 * width], taps[width:], out=one[:, :HIDDEN])
    np.matmul(frames[:, : 3 * width], taps, out=one[:, HIDDEN : 2 * HIDDEN])
    np.matmul(frames[:, width:], taps, out=one[:, 2 * HIDDEN : 3 * HIDDEN])
    np.matmul(frames[:, 2 * width :], taps[: 2 * width], out=one[:, 3 * HIDDEN :])
    _bias_and_clip(one, weights.conv1_bias)

    np.matmul(one[:, : 2 * HIDDEN], weights.conv2[HIDDEN:], out=two[:, :64])
    np.matmul(one[:, HIDDEN:], weights.conv2, out=two[:, 64:])
    _bias_and_clip(two, weights.conv2_bias)

    np.matmul(two, weights.conv3, out=work.conv3)
    _bias_and_clip(work.conv3, weights.conv3_bias)

    last = work.row[:, _CONV]
    np.matmul(work.conv3, weights.conv4, out=last)
    _bias_and_clip(last, weights.conv4_bias)


def _bias_and_clip(outputs: FloatArray, bias: FloatArray) -> None:
    np.add(outputs, bias, out=outputs)
    np.maximum(outputs, 0, out=outputs)


def _remember(work: _Work, weights: Weights) -> FloatArray:
    """The LSTM cell, which renews the rows' state, and the probability from what it gives."""
    row, gates, spare = work.row, work.gates, work.spare
    if len(row) <= _SMALL_BATCH:
        np.matmul(row[:, _LSTM_INPUT], weights.lstm_cut, out=work.gates_cut)
    else:
        np.matmul(row[:, _LSTM_INPUT], weights.lstm, out=gates)
    np.add(gates, weights.lstm_bias, out=gates)
    np.tanh(gates, out=gates)
    twice_sigmoid = gates[:, : 3 * HIDDEN]
    np.add(twice_sigmoid, 1, out=twice_sigmoid)
    entry, forget, exit_, cell = (gates[:, i : i + HIDDEN] for i in range(0, 4 * HIDDEN, HIDDEN))

    memory, hidden = row[:, _C], row[:, _H]
    np.multiply(memory, forget, out=memory)
    np.multiply(entry, cell, out=spare)
    np.add(memory, spare, out=memory)
    np.multiply(memory, 0.5, out=memory)
    np.tanh(memory, out=spare)
    np.multiply(spare, exit_, out=hidden)
    return _probabilities(work, weights)


def _remember_each(work: _Work, weights: Weights, state: FloatArray) -> None:
    """The cell over the windows of one call, whose ``gates`` lack what it remembers: renews
    ``state`` and leaves 2 h in each row."""
    memory, hidden, spare = state[_C], state[_H], work.spare[0]
    recurrent, from_hidden = weights.lstm[HIDDEN:], np.empty(4 * HIDDEN, np.float32)
    for gates, row in zip(work.gates, work.row, strict=True):
        np.dot(hidden, recurrent, out=from_hidden)
        gates += from_hidden
        np.tanh(gates, out=gates)
        gates[: 3 * HIDDEN] += 1
        entry, forget, exit_, cell = gates.reshape(4, HIDDEN)
        memory *= forget
        np.multiply(entry, cell, out=spare)
        memory += spare
        memory *= 0.5
        np.tanh(memory, out=spare)
        np.multiply(spare, exit_, out=hidden)
        row[_H] = hidden


def _probabilities(work: _Work, weights: Weights) -> FloatArray:
    """From the rows' 2 h."""
    spare = work.spare
    np.maximum(work.row[:, _H], 0, out=spare)
    logits: FloatArray = spare @ weights.out
    logits += weights.out_bias
    np.tanh(logits, out=logits)
    logits += 1
    logits *= 0.5
    return logits
