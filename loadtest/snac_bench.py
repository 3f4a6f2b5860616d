"""What SNAC costs and how exact it is: streaming against the usual window of 28 tokens.

    python -m loadtest.snac_bench

The real 24 kHz shape with random weights, one thread and its CPU time. The variants run in turn, so
that their ratios hold on a busy machine; each figure is the shortest of its runs.
"""

from __future__ import annotations

import argparse
import copy
import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils import parametrize

from engines.tts.snac import EARLY_FRAMES, EARLY_SAMPLES, SnacDecoder
from engines.tts.snac_weights import random_snac

if TYPE_CHECKING:
    import snac

Floats = NDArray[np.floating[Any]]
Frames = NDArray[np.int64]

FRAME_MS: Final = 1000 * SnacDecoder.frame_samples / SnacDecoder.sample_rate
WINDOW_FRAMES: Final = 4
BATCHES: Final = (1, 2, 8)
OPENINGS: Final = ((1, 512), (1, 1387), (2, 1387), (2, 2048), (2, 2730), (3, 2048), (3, 3435))
LOOKAHEADS: Final = (0, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 4757)


# --- the offline decoder --------------------------------------------------------------------


def without_noise(model: snac.SNAC) -> snac.SNAC:
    """A copy whose decoder adds no noise."""
    model = copy.deepcopy(model)
    for block in model.decoder.model:
        for place, layer in enumerate(getattr(block, "block", [])):
            if hasattr(layer, "linear"):
                block.block[place] = torch.nn.Identity()
    return model


def remove_weight_norm(model: snac.SNAC) -> snac.SNAC:
    """The model with plain tensors for weights. Copies of it, and what it is a copy of, share
    the classes that this changes: give it one of its own."""
    for layer in model.modules():
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight")
    return model


@torch.inference_mode()
def decode_offline(model: snac.SNAC, frames: Frames) -> Floats:
    """``SNAC.decode`` of frames (voices, n, 7): samples (voices, n * 2048)."""
    places = ([0], [1, 4], [2, 3, 5, 6])
    codes = [torch.from_numpy(frames[..., place]).flatten(1) for place in places]
    samples: Floats = model.decode(codes)[:, 0].numpy()
    return samples


def random_frames(voices: int, count: int, seed: int = 0) -> Frames:
    """Codes (voices, count, 7)."""
    return np.random.default_rng(seed).integers(0, 4096, (voices, count, 7))


# --- streaming ------------------------------------------------------------------------------


def stream(decoder: SnacDecoder, frames: Frames) -> list[list[Floats]]:
    """The chunks of each voice, all in the same steps; a voice's seed is its place."""
    slots = [decoder.open(seed) for seed in range(len(frames))]
    chunks: list[list[Floats]] = [[] for _ in slots]
    columns: list[Sequence[Any]] = [*frames.swapaxes(0, 1)]
    columns += [[None] * len(slots)] * decoder.tail_steps
    for column in columns:
        for voice, chunk in zip(chunks, decoder.step(slots, column), strict=True):
            voice.append(chunk)
    for slot in slots:
        decoder.close(slot)
    return chunks


def whole(chunks: list[list[Floats]]) -> Floats:
    """The voices (voices, samples) of ``stream``."""
    return np.stack([np.concatenate(voice) for voice in chunks])


def steady_step(decoder: SnacDecoder, voices: int) -> Callable[[], object]:
    """One step of so many voices that are past their head."""
    slots = [decoder.open(seed) for seed in range(voices)]
    for column in random_frames(voices, 4).swapaxes(0, 1):
        decoder.step(slots, [*column])
    frames = [*random_frames(voices, 1)[:, 0]]
    return functools.partial(decoder.step, slots, frames)


# --- measuring ------------------------------------------------------------------------------


def decibels(error: Floats, signal: Floats) -> float:
    """The error's power against the signal's."""
    power = float(np.square(error, dtype=np.float64).mean())
    return 10 * float(np.log10(max(power, 1e-30) / np.square(signal, dtype=np.float64).mean()))


def best_ms(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest run of each. They take turns of three runs: the first one finds the caches
    full of what the others left."""
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for name, run in variants.items():
            for _ in range(3):
                began = time.thread_time()
                run()
                best[name] = min(best[name], 1000 * (time.thread_time() - began))
    return best


def print_cost(model: snac.SNAC, rounds: int) -> None:
    """Milliseconds for each frame that is given out, by the number of voices in a batch."""
    plain = remove_weight_norm(random_snac())
    print(f"\nms per frame ({FRAME_MS:.1f} ms of audio), one thread, best of {3 * rounds}")
    print("voices  window  no weight norm  streaming   window/ours  plain/ours  voices per core")
    for voices in BATCHES:
        window = random_frames(voices, WINDOW_FRAMES)
        decoder = SnacDecoder(model, slots=voices)
        took = best_ms(
            {
                "window": functools.partial(decode_offline, model, window),
                "plain": functools.partial(decode_offline, plain, window),
                "ours": steady_step(decoder, voices),
            },
            rounds,
        )
        window_ms, plain_ms, ours_ms = (took[name] / voices for name in ("window", "plain", "ours"))
        print(
            f"{voices:6d} {window_ms:7.1f} {plain_ms:15.1f} {ours_ms:10.1f} "
            f"{window_ms / ours_ms:13.1f} {plain_ms / ours_ms:11.1f} {FRAME_MS / ours_ms:16.1f}",
            flush=True,
        )


def print_exactness(model: snac.SNAC, quiet: snac.SNAC) -> None:
    """Against the offline decoder, and of a voice alone against itself in a batch of 32."""
    frames = random_frames(4, 9)
    offline = decode_offline(quiet, frames)
    streamed = whole(stream(SnacDecoder(model, slots=4, noise=False), frames))
    error = streamed - offline
    print(f"streaming against SNAC.decode, noise off, {frames.shape[1]} frames: max error ", end="")
    print(f"{np.abs(error).max():.1e} ({decibels(error, offline):.0f} dB)", flush=True)
    frames = random_frames(32, 4)
    decoder = SnacDecoder(model, slots=32)
    together, alone = whole(stream(decoder, frames)), whole(stream(decoder, frames[:1]))
    print("one voice alone against the same among 32, noise on: max difference ", end="")
    print(f"{np.abs(together[:1] - alone).max():.1e}", flush=True)
    window = decode_offline(quiet, random_frames(4, 9)[:, 3:7])[:, 2048:4096]
    exact = offline[:, 4 * 2048 : 5 * 2048]
    print(f"a window of 28 tokens against SNAC.decode: {decibels(window - exact, exact):.0f} dB")


def print_openings(model: snac.SNAC, quiet: snac.SNAC) -> None:
    """What audio costs in exactness where it leaves before what follows is known."""
    frames = random_frames(8, 6)
    exact = decode_offline(quiet, frames)
    cut = {n: decode_offline(quiet, frames[:, :n]) for n in range(1, 4)}
    print("\nfirst audio after   samples      ms   error   needs tokens at")
    for count, samples in OPENINGS:
        error = cut[count][:, :samples] - exact[:, :samples]
        print_opening(count, samples, decibels(error, exact[:, :samples]), "")
    print_opening(3, 1387, decibels(error_of(model, exact, frames, early=False), exact), "exact")
    early = error_of(model, exact, frames, early=True)
    opening = decibels(early[:, :EARLY_SAMPLES], exact[:, :EARLY_SAMPLES])
    print_opening(EARLY_FRAMES, EARLY_SAMPLES, opening, "early=True, as decoded; then ", end="")
    print(f"{decibels(early[:, EARLY_SAMPLES:], exact[:, EARLY_SAMPLES:]):.0f} dB")
    print("\nknown ahead of a sample: error of the 256 samples before it")
    for ahead in LOOKAHEADS:
        end = 3 * 2048 - ahead
        span = slice(end - 256, end)
        error = cut[3][:, span] - exact[:, span]
        print(f"{ahead:6d} samples {decibels(error, exact[:, span]):7.0f} dB", flush=True)


def error_of(model: snac.SNAC, exact: Floats, frames: Frames, *, early: bool) -> Floats:
    """What a decoder's samples are off by."""
    decoder = SnacDecoder(model, slots=len(frames), noise=False, early=early)
    return whole(stream(decoder, frames)) - exact


def print_opening(
    frames: int, samples: int, error_db: float, remark: str, end: str | None = None
) -> None:
    """One line. The next exact samples come with the frame that reaches beyond ``samples``."""
    next_at = -(-(samples + 1 + SnacDecoder.delay_samples) // SnacDecoder.frame_samples)
    speed = (next_at - frames) * SnacDecoder.frame_samples / samples
    after = f"{frames} frames ({7 * frames:2d} tokens) {samples:7d} {samples / 24:7.0f}"
    print(f"{after} {error_db:7.0f} dB   {speed:.1f} x speech   {remark}", end=end, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="turns of three runs")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    model = random_snac()
    quiet = without_noise(model)
    print_exactness(model, quiet)
    print_cost(model, rounds)
    print_openings(model, quiet)


if __name__ == "__main__":
    main()
